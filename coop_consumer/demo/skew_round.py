"""One round of the demo of skew: two groups side by side on the same flights, keyed in one way.

In: flights with their keys, the groups' settings. Out: a `RoundResult` for each group, and on the
console what the members have measured by the end of the warm-up. All members run in this process.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from math import isfinite

from rich.console import Console

from coop_consumer.admin.inspect import Inspector
from coop_consumer.config import Config
from coop_consumer.demo.check import Verdict
from coop_consumer.demo.flights import FLIGHTS, Flight
from coop_consumer.demo.kafka import DemoBroker
from coop_consumer.demo.makespan import HandledRecords
from coop_consumer.demo.run import DemoStalledError
from coop_consumer.errors import ConfigError
from coop_consumer.pool import WorkerPool
from coop_consumer.status.arrivals import Arrivals
from coop_consumer.status.load_picture import LoadPicture
from coop_consumer.status.model import GroupStatus, group_status
from coop_consumer.status.needs import members_of, needs_of
from coop_consumer.status.picture import COLOURS, glyphs_for
from coop_consumer.status.scale import ScaleRules, advise
from coop_consumer.status.words import LETTERS
from coop_consumer.worker import Record, Worker

_POLL_S = 0.1
_STALLED_S = 60.0
_TARGET_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewSizes:
    """How large a round is.

    Attributes:
        records: Flights of the heap.
        members: Members of each group, with one worker each.
        latency_ms: How long each flight sleeps.
        warm_s: How long the warm-up takes. Members report every 30 s. The last member of each group
            joins at its end.
        rate: Flights a second of the warm-up.

    Raises:
        ConfigError: For what cannot be run.
    """

    records: int = 18_000
    members: int = 12
    latency_ms: float = 10.0
    warm_s: float = 65.0
    rate: int = 300

    def __post_init__(self) -> None:
        for name in ("records", "members", "rate"):
            if getattr(self, name) < 1:
                raise ConfigError(name, f"={getattr(self, name)} is none at all", "Use 1 or more")
        for name, value in (("latency", self.latency_ms), ("warm", self.warm_s)):
            if not (isfinite(value) and value > 0):
                raise ConfigError(name, f"={value} is no time", "Use more than 0")
        if self.members < 2:
            raise ConfigError(
                "members", f"={self.members}: one joins later than the others", "Use 2 or more"
            )
        if self.warm_records + self.records > FLIGHTS:
            raise ConfigError(
                "warm",
                f"={self.warm_s:g} s of rate={self.rate} and records={self.records} are more "
                f"flights than there are: {FLIGHTS:,}",
                "Use less of one of them",
            )

    @property
    def warm_records(self) -> int:
        """Flights of the warm-up."""
        return round(self.warm_s * self.rate)


@dataclass(frozen=True, slots=True)
class RoundResult:
    """How a group has worked off the heap.

    Attributes:
        seconds: How long it took.
        least_s: How long it must have taken at least.
        verdict: What was lost, out of order, repeated.
    """

    seconds: float
    least_s: float
    verdict: Verdict

    @property
    def over_bound(self) -> float:
        """How many times the least time it took."""
        return self.seconds / self.least_s


class SkewRound:
    """Runs the groups on a topic of their own.

    Args:
        broker: Where.
        console: Where to show what members measure.
        topic: A new topic.
        sides: The groups by name, with the settings in which they differ.
        sizes: How large it is.
    """

    def __init__(
        self,
        broker: DemoBroker,
        console: Console,
        topic: str,
        sides: Mapping[str, Mapping[str, str]],
        sizes: SkewSizes,
    ) -> None:
        self._broker = broker
        self._console = console
        self._topic = topic
        self._sides = sides
        self._sizes = sizes

    def run(self, flights: Sequence[Flight]) -> dict[str, RoundResult]:
        """Warm up with the first flights, and measure the others; the key is each one's `tail`.

        Raises:
            DemoStalledError: Nothing moved any more.
        """
        warm = self._sizes.warm_records
        self._broker.create_flights(self._topic)
        go = threading.Event()
        handled = {side: HandledRecords(warm) for side in self._sides}
        with ExitStack() as stack:
            for side in self._sides:
                for _ in range(self._sizes.members - 1):
                    self._start(stack, side, handled[side], go)
            self._warm_up(flights[:warm])
            # The last members join: the plan for them knows what the others have measured.
            last = [self._start(stack, side, handled[side], go) for side in self._sides]
            stack.callback(go.set)  # whatever ends it: no handler waits for ever
            self._wait(lambda: min(len(pool.assignment()) for pool in last), 1)
            self._wait(lambda: min(it.count for it in handled.values()), warm)
            self._broker.produce(self._topic, flights[warm:])
            for side in self._sides:
                self._show(side)
            begun_s = time.monotonic()
            go.set()
            self._wait(lambda: min(it.count for it in handled.values()), len(flights))
        return {
            side: RoundResult(
                it.last_s - begun_s,
                it.least_s(self._sizes.members),
                it.verdict(len(flights)),
            )
            for side, it in handled.items()
        }

    # ── The groups ──

    def _group(self, side: str) -> str:
        return f"{self._topic}.{side}"

    def _config(self, side: str) -> Config:
        named = {**self._broker.clients, "group.id": self._group(side), **self._sides[side]}
        return Config.from_dict(named)

    def _start(
        self, stack: ExitStack, side: str, handled: HandledRecords, go: threading.Event
    ) -> WorkerPool:
        latency_s, heap_row = self._sizes.latency_ms / 1_000, self._sizes.warm_records
        worker = SleepingWorker(handled, latency_s, heap_row, go)
        pool = WorkerPool(worker, self._config(side), [self._topic], workers=1)
        return stack.enter_context(pool)

    def _warm_up(self, flights: Sequence[Flight]) -> None:
        """Produce them at their rate."""
        begun_s, rate = time.monotonic(), self._sizes.rate
        for first in range(0, len(flights), rate):
            self._broker.produce(self._topic, flights[first : first + rate])
            time.sleep(max(begun_s + (first + rate) / rate - time.monotonic(), 0.0))

    def _wait(self, count: Callable[[], int], until: int) -> None:
        """Wait until a count is reached.

        Raises:
            DemoStalledError: It does not grow any more.
        """
        mark, moved_s = -1, time.monotonic()
        while (now := count()) < until:
            if now != mark:
                mark, moved_s = now, time.monotonic()
            elif time.monotonic() - moved_s > _STALLED_S:
                raise DemoStalledError(self._topic, now, until)
            time.sleep(_POLL_S)

    # ── What members say ──

    def _show(self, side: str) -> None:
        """The bars, the heavy keys, and how many members would help."""
        with Inspector(self._config(side)) as inspector:
            status = group_status(inspector.see(records=False, waits=False))
        self._console.print(f"[bold]{self._group(side)}[/]")
        for line in _picture(status, self._console.encoding).lines():
            self._console.print(line)
        rules = ScaleRules(target_s=_TARGET_S, workers=1)
        needs = needs_of(status, Arrivals())
        advice = advise(needs, status.load, members_of(status, None), rules)
        self._console.print(f"  {advice.reason}", markup=False, highlight=False)


def _picture(status: GroupStatus, encoding: str) -> LoadPicture:
    names, glyphs = [member.name for member in status.members], glyphs_for(encoding)
    letters = dict(zip(names, cycle(LETTERS), strict=False))
    colours = dict(zip(names, cycle(COLOURS), strict=False))
    full, empty = glyphs.shades[-1], glyphs.shades[0]
    return LoadPicture(status.load, letters, colours, full, empty, str)


class SleepingWorker(Worker):
    """Sleeps for each flight, and notes it.

    Args:
        handled: Where to note it.
        latency_s: How long it sleeps.
        heap_row: The first flight of the heap: it and those after it wait for `go`.
        go: Set once the whole heap lies in the topic.
    """

    def __init__(
        self, handled: HandledRecords, latency_s: float, heap_row: int, go: threading.Event
    ) -> None:
        self._handled = handled
        self._latency_s = latency_s
        self._heap_row = heap_row
        self._go = go

    def process(self, record: Record) -> None:
        """Handle a flight."""
        assert record.key is not None, "each flight has a key here"
        assert record.value is not None, "a flight has a value"
        row = json.loads(record.value)["row"]
        if row >= self._heap_row:
            self._go.wait()
        began_s = time.monotonic()
        time.sleep(self._latency_s)
        self._handled.note(
            record.key,
            record.partition,
            record.offset,
            row,
            began_s=began_s,
            ended_s=time.monotonic(),
        )
