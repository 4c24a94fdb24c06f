"""Where a cheap record's time goes: each stage of its way, alone, on one thread.

`python -m benchmarks.stages` takes 200,000 records of 100 bytes and 100,000 keys, Zipf-spread,
through the pure core in batches of 1,500, and prints CPU time a record, the best of seven runs. The
member's thread runs them itself, as it does with handlers as quick as this one. No broker, no
commit and no second thread take part: what `noop` takes beyond the sum is these, and what threads
cost each other (the interpreter's lock, cold caches).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from confluent_kafka import Message

from assignors import WHOLE
from benchmarks.keys import zipf_keys
from coop_consumer.core import events
from coop_consumer.core.actions import MAIN
from coop_consumer.core.record import Record
from coop_consumer.executors import ThreadExecutor, Workplace
from tests.unit.core_member import T0, TableMember

RECORDS, KEYS, BATCH, RUNS = 200_000, 100_000, 1_500, 7
TRIES = 5
"""So many runs are made at most for each that is wanted."""
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


class Stages:
    """All records once, on a thread that is the member's.

    If a handler keeps that thread, or something else does, another one goes on with the member, and
    the first is a worker. Then nothing is measured: what runs ends, no more.

    Args:
        keys: Of the records.
        handler: What is done with each.

    Attributes:
        watch: CPU time by stage.
        is_measured: Whether all of it was on one thread.
        handed_over: Set when it was not.
    """

    def __init__(self, keys: list[bytes], handler: Callable[[Record], object] = nothing) -> None:
        self.watch = Stopwatch()
        self.is_measured = False
        self.handed_over = threading.Event()
        self._keys = keys
        condition = threading.Condition()
        self._member = TableMember(lock=condition)
        self._member.assign(WHOLE)
        lanes = self._member.core.lanes
        # By CPU time a thread that waits for a core is not late.
        clock = time.process_time
        place = Workplace(lanes, condition, 1, lambda: None, len(keys), "stages", clock)
        self._executor = ThreadExecutor(place, handler)

    def run(self) -> None:
        """Run them; returns when that is over."""
        thread = threading.Thread(target=self._lead, name="stages")
        thread.start()
        thread.join()

    def _lead(self) -> None:
        watch, core, executor = self.watch, self._member.core, self._executor
        now_ms, stream = core.state.now_ms, core.state.partitions[T0].streams[MAIN]
        executor.start()
        for first in range(0, len(self._keys), BATCH):
            some = list(enumerate(self._keys[first : first + BATCH], first))
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
                    if not executor.help(self._hand_over, lambda: None):
                        return
                    executor.offered()  # the first ones: nobody knows how quick they are
            messages.clear()
            with watch.at("counted as done"):
                core.handle(events.Tick(), now_ms)
        executor.stop()
        core.handle(events.Tick(), now_ms)
        done = core.state.counters.finished
        assert done == len(self._keys), f"{done} of {len(self._keys)} records are done"
        self.is_measured = True

    def _hand_over(self) -> None:
        """Another thread goes on with the member: it ends the executor, and so the first one."""
        self.handed_over.set()
        threading.Thread(target=self._executor.stop, name="stages-end").start()


class BusyError(Exception):
    """The machine is too busy for a measurement."""


def measured(keys: list[bytes], runs: int) -> list[dict[str, int]]:
    """CPU ns by stage, of so many runs.

    Raises:
        BusyError: In most tries something kept the member's thread.
    """
    found: list[dict[str, int]] = []
    for _ in range(TRIES * runs):
        stages = Stages(keys)
        stages.run()
        if stages.is_measured:
            found.append(stages.watch.ns)
        if len(found) == runs:
            return found
    raise BusyError(
        f"{len(found)} of {TRIES * runs} runs were on one thread, and {runs} are wanted. "
        "Measure again once the machine is idle."
    )


def main() -> None:
    """Print the table."""
    keys = [key.encode() for key in islice(zipf_keys(RECORDS, KEYS), RECORDS)]
    try:
        runs = measured(keys, RUNS)
    except BusyError as error:
        sys.exit(str(error))
    best = {stage: min(it[stage] for it in runs) / RECORDS / 1_000 for stage in runs[0]}
    for stage, us in best.items():
        print(f"{stage:45} {us:5.2f} µs")
    print(f"{'together':45} {sum(best.values()):5.2f} µs")


if __name__ == "__main__":
    main()
