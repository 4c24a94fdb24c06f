"""The broker's jars, pinned: where each lies in a Maven repository, and its SHA-256.

Room: `coop_consumer.broker`. In: the list beside this module, in the format of `sha256sum`. Out:
`PinnedJar`s. Touches nothing but that file. The list has what Maven takes for `kafka_2.13`, and
`slf4j-simple`: Kafka leaves the choice of a logging back end to its packager, and prints nothing
without one. CONTRIBUTING says how the list of another version is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

KAFKA_VERSION = "4.3.1"
"""The Apache Kafka that the embedded broker runs."""


@dataclass(frozen=True, slots=True)
class PinnedJar:
    """One jar: its path in a Maven repository, and the SHA-256 that it must have, in hex."""

    path: str
    sha256: str

    @property
    def name(self) -> str:
        """The name of its file.

        >>> PinnedJar("org/slf4j/slf4j-api/1.7.36/slf4j-api-1.7.36.jar", "").name
        'slf4j-api-1.7.36.jar'
        """
        return self.path.rpartition("/")[2]


def pinned_jars() -> tuple[PinnedJar, ...]:
    """The jars of `KAFKA_VERSION`: some 46, 44 MB in all."""
    listed = resources.files("coop_consumer.broker").joinpath(f"kafka-{KAFKA_VERSION}.sha256")
    lines = (line.split() for line in listed.read_text(encoding="ascii").splitlines())
    return tuple(PinnedJar(path, sha256) for sha256, path in lines)
