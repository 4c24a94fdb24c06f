"""Where a cheap record's time goes: each stage of its way, alone, on one thread.

`python -m benchmarks.stages` takes 200,000 records of 100 bytes and 100,000 keys, Zipf-spread,
through the pure core in batches of 1,500, and prints CPU time a record, the best of seven runs. The
member's thread runs them itself, as it does with handlers as quick as this one. No broker, no
commit and no second thread take part: what `noop` takes beyond the sum is these, and what threads
cost each other (the interpreter's lock, cold caches).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from confluent_kafka import Message

from assignors import WHOLE
from benchmarks.keys import zipf_keys
from coop_consumer.core import events
from coop_consumer.core.record import Record
from coop_consumer.executors import ThreadExecutor, Workplace
from tests.unit.core_member import T0, TableMember

RECORDS, KEYS, BATCH, RUNS = 200_000, 100_000, 1_500, 7
VALUE = b"x" * 100


class Stopwatch:
    """CPU time by stage.

    Attributes:
        ns: In the order in which stages came first.
    """

    def __init__(self) -> None:
        self.ns: dict[str, int] = {}

    @contextmanager
    def at(self, stage: str) -> Iterator[None]:
        """Add what the block takes."""
        begun = time.process_time_ns()
        yield
        self.ns[stage] = self.ns.get(stage, 0) + time.process_time_ns() - begun


def nothing(_: Record) -> None:
    """The handler."""


def run(keys: list[bytes]) -> dict[str, int]:
    """All records once; CPU ns by stage."""
    watch, condition = Stopwatch(), threading.Condition()
    member = TableMember(lock=condition)
    member.assign(WHOLE)
    core, now_ms = member.core, member.core.state.now_ms
    stream = core.state.partitions[T0].main
    assert stream is not None, "what is assigned is fetched"
    place = Workplace(core.lanes, condition, 1, lambda: None, len(keys), "stages")
    executor = ThreadExecutor(place, nothing)
    executor.start()
    for first in range(0, len(keys), BATCH):
        some = list(enumerate(keys[first : first + BATCH], first))
        with watch.at("made by the client's Python part"):
            messages: list[Any] = [
                Message(topic="t", partition=0, offset=offset, key=key, value=VALUE)
                for offset, key in some
            ]
        end = first + len(some)
        with watch.at("taken in: hash, range, tracker"):
            core.handle(events.Fetched(T0, stream.number, first, end, messages, False), now_ms)
        with watch.at("run: a handler that does nothing"):
            while core.lanes.startable:
                executor.help(lambda: None)
                executor.offered()  # the first ones: nobody knows how quick they are
        messages.clear()
        with watch.at("counted as done"):
            core.handle(events.Tick(), now_ms)
    executor.stop()
    core.handle(events.Tick(), now_ms)
    done = core.state.counters.finished
    assert done == len(keys), f"{done} of {len(keys)} records are done"
    return watch.ns


def main() -> None:
    """Print the table."""
    keys = [key.encode() for key in islice(zipf_keys(RECORDS, KEYS), RECORDS)]
    runs = [run(keys) for _ in range(RUNS)]
    best = {stage: min(it[stage] for it in runs) / RECORDS / 1_000 for stage in runs[0]}
    for stage, us in best.items():
        print(f"{stage:45} {us:5.2f} µs")
    print(f"{'together':45} {sum(best.values()):5.2f} µs")


if __name__ == "__main__":
    main()
