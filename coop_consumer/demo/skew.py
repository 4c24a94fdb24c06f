"""`python -m coop_consumer.demo.skew`: skewed keys, even ranges beside ranges cut by load.

In: options (`--help` lists them). Out: what members measured of their keys, how long two groups
took for the same heap of flights, and one line of JSON at the end. Flights are keyed by their
destination (105 keys, lumpy), and then by their carrier (16 keys, of which one has a sixth of all).
A warm-up goes before the heap, in which members measure and report their load. At its end the
last member of each group joins, so ranges are planned anew.
"""

from __future__ import annotations

import argparse
import json
import logging
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rich.console import Console

from coop_consumer.broker import EmbeddedBroker
from coop_consumer.demo.flights import Flight, read_flights
from coop_consumer.demo.kafka import DemoBroker
from coop_consumer.demo.skew_round import RoundResult, SkewRound, SkewSizes
from coop_consumer.errors import CoopConsumerError, ExitCode, exit_code_of
from coop_consumer.plain_text import counted, printable

SIDES: Mapping[str, Mapping[str, str]] = {
    "even": {"balance": "hash"},
    "by_load": {"balance": "load"},
}
"""The two groups, and the setting in which they differ."""

KEYS: Mapping[str, Callable[[Mapping[str, str]], str]] = {
    "destination": lambda flight: flight["to"],
    "carrier": lambda flight: flight["flight"][:2],
}
"""What flights are keyed by, in turn."""

_OF_A_HOT_KEY = "one key"
"""What the log's lines about a key have that keeps a worker busy."""


@dataclass(frozen=True, slots=True)
class SkewResult:
    """What was measured, by the kind of key and by group."""

    rounds: Mapping[str, Mapping[str, RoundResult]]

    def _sum(self, count: Callable[[RoundResult], int]) -> int:
        return sum(count(it) for sides in self.rounds.values() for it in sides.values())

    @property
    def ok(self) -> bool:
        """Whether nothing was lost, and every key kept its order."""
        return all(it.verdict.right for sides in self.rounds.values() for it in sides.values())

    def as_json(self) -> dict[str, object]:
        """The figures as the last line has them."""
        return {
            "makespan_over_bound": {
                key: {side: round(it.over_bound, 3) for side, it in sides.items()}
                for key, sides in self.rounds.items()
            },
            "lost": self._sum(lambda it: it.verdict.lost),
            "out_of_order": self._sum(lambda it: it.verdict.out_of_order),
            "repeated": self._sum(lambda it: it.verdict.repeated),
        }


def keyed(flights: Sequence[Flight], key_of: Callable[[Mapping[str, str]], str]) -> list[Flight]:
    """The same flights with another key."""
    return [replace(it, tail=key_of(json.loads(it.value)).encode()) for it in flights]


def run_skew(
    sizes: SkewSizes,
    console: Console,
    *,
    bootstrap: str | None = None,
) -> SkewResult:
    """Run both groups over flights by each key; four minutes by default.

    Args:
        sizes: How large it is.
        console: Where to show what happens.
        bootstrap: Use this broker instead of starting one.

    Raises:
        CoopConsumerError: Data, broker or Java is missing, or nothing moved any more.
    """
    flights = read_flights(sizes.warm_records + sizes.records)
    rounds = {}
    with _broker(bootstrap) as address, _hot_keys_told(console):
        broker, suffix = DemoBroker(address), secrets.token_hex(4)
        for name, key_of in KEYS.items():
            console.print(
                f"[bold]Flights by {name}[/]: {sizes.warm_s:.0f} s of {sizes.rate} flights/s, "
                f"then {sizes.records:,} at once, for {counted(sizes.members, 'member')} of one "
                "worker each"
            )
            topic = f"flights-by-{name}-{suffix}"
            rounds[name] = SkewRound(broker, console, topic, SIDES, sizes).run(
                keyed(flights, key_of)
            )
            for side, it in rounds[name].items():
                console.print(
                    f"  {side}: {it.seconds:.1f} s, [bold]{it.over_bound:.2f} times[/] the "
                    f"{it.least_s:.1f} s that it takes at least"
                )
    return SkewResult(rounds)


@contextmanager
def _broker(bootstrap: str | None) -> Iterator[str]:
    if bootstrap is not None:
        yield bootstrap
        return
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


class _HotKeyLines(logging.Handler):
    """Shows what members log about keys that keep a worker busy: the first line of each group."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Show a line, if it is one of those."""
        text = record.getMessage()
        group = text.partition(",")[0]
        if _OF_A_HOT_KEY in text and group not in self._told:
            self._told.add(group)
            self._console.print(f"  log: {printable(text)}", style="yellow", markup=False)


@contextmanager
def _hot_keys_told(console: Console) -> Iterator[None]:
    log, handler = logging.getLogger("coop_consumer"), _HotKeyLines(console)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def main() -> int:
    """Parse, run, print. Returns the exit code."""
    usual = SkewSizes()
    parser = argparse.ArgumentParser(prog="python -m coop_consumer.demo.skew")
    parser.add_argument("--records", type=int, default=usual.records, metavar="N")
    parser.add_argument("--members", type=int, default=usual.members, help="of each group")
    parser.add_argument("--latency", type=float, default=usual.latency_ms, metavar="MS")
    parser.add_argument("--warm", type=float, default=usual.warm_s, metavar="S")
    parser.add_argument("--rate", type=int, default=usual.rate, help="of the warm-up, a second")
    parser.add_argument("--bootstrap", help="use this broker instead of starting one")
    given = parser.parse_args()
    try:
        sizes = SkewSizes(
            records=given.records,
            members=given.members,
            latency_ms=given.latency,
            warm_s=given.warm,
            rate=given.rate,
        )
        result = run_skew(sizes, Console(stderr=True), bootstrap=given.bootstrap)
    except CoopConsumerError as error:
        sys.stderr.write(f"{error}\n")
        return exit_code_of(error)
    except KeyboardInterrupt as error:
        return exit_code_of(error)
    sys.stdout.write(json.dumps(result.as_json()) + "\n")
    return ExitCode.OK if result.ok else ExitCode.BROKEN


if __name__ == "__main__":
    sys.exit(main())
