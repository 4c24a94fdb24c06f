"""A scrape of `/metrics` as a test reads it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from tests.support.journal import WAIT_S


@dataclass(frozen=True, slots=True)
class Samples:
    """What a scrape found.

    Attributes:
        found: Names and labels, with values.
        bytes: Of the answer.
    """

    found: list[tuple[str, dict[str, str], float]]
    bytes: int

    def of(self, name: str, **labels: str) -> list[float]:
        """The values of all samples of this name that have these labels."""
        return [
            value for own, its, value in self.found if own == name and labels.items() <= its.items()
        ]

    def total(self, name: str, **labels: str) -> float:
        """Their sum."""
        return sum(self.of(name, **labels))

    @property
    def places(self) -> list[str]:
        """Names and labels as text."""
        return [f"{name}{labels}" for name, labels, _ in self.found]


def scrape(address: str) -> Samples:
    """Scrape once."""
    with urlopen(f"http://{address}/metrics", timeout=WAIT_S) as answer:
        text = answer.read()
    found = [
        (it.name, it.labels, it.value)
        for family in text_string_to_metric_families(text.decode())
        for it in family.samples
    ]
    return Samples(found, len(text))
