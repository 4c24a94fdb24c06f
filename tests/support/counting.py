"""A worker that counts the records of each key in its state, also in a process to be killed.

In: a job. Out: counts, as the changelog has them. `python -m tests.support.counting` is a member
that is to be killed (see `tests.support.killed`). It hangs once its changelog and its store's
checkpoint have as many counts as the test wants.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from assignors import KeyRange, TopicPartition
from coop_consumer import Context, Record, Worker, WorkerPool
from coop_consumer.state import filing
from coop_consumer.state.entry import decode
from coop_consumer.state.keyed import StateCounters
from coop_consumer.state.shard import Shard
from tests.support import stock
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.killed import say_there

Handler = Callable[[Record], None]


def at_once(_: Record) -> None:
    """The handler that does nothing."""


class Counts(Worker):
    """Counts each record once, then runs `after`.

    Attributes:
        done: How many records were counted, including those that were counted before.
    """

    keyed_state = True

    def __init__(self, before: Handler = at_once, after: Handler = at_once) -> None:
        self._before, self._after = before, after
        self.news = threading.Condition()
        self.done = 0
        self.held: dict[TopicPartition, set[KeyRange]] = {}
        self.context: Context

    def setup(self, context: Context) -> None:
        self.context = context

    @property
    def counters(self) -> StateCounters:
        return self.context.state.counters

    def process(self, record: Record) -> None:
        self._before(record)
        self._count(record)
        self._after(record)
        with self.news:
            self.done += 1
            self.news.notify_all()

    def _count(self, record: Record) -> None:
        state = self.context.state
        changed_by = state.changed_by(record)
        if changed_by is None or changed_by < record.offset:
            state.put(record, b"%d" % (int(state.get(record) or 0) + 1))

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        with self.news:
            self.held.setdefault(tp, set()).update(ranges)
            self.news.notify_all()

    def wait(self, count: int) -> None:
        """Wait until so many records are counted."""
        with self.news:
            assert self.news.wait_for(lambda: self.done >= count, WAIT_S), f"only {self.done}"

    def wait_for_ranges(self) -> None:
        """Wait until there is a range here."""
        with self.news:
            assert self.news.wait_for(lambda: self.held, WAIT_S), "got no range"

    def wait_for_restores(self, count: int) -> None:
        """Wait until ranges came here so many times, the first time included."""
        stock.eventually(lambda: self.counters.restores, lambda restores: restores >= count)


@contextmanager
def counting(orders: Job, worker: Worker, **own: object) -> Iterator[WorkerPool]:
    """Run a member with this worker for the length of a block."""
    with WorkerPool(worker, {**orders.settings, **own}, [orders.topic], workers=4) as pool:
        yield pool


def count_all(orders: Job, worker: Worker, **own: object) -> None:
    """Let a member with this worker do what the group has left to do."""
    settings = {**orders.settings, **own}
    pool = WorkerPool(worker, settings, [orders.topic], workers=4, until_caught_up=True)
    pool.start()
    assert pool.wait(WAIT_S), f"not caught up: {pool.counters}"
    orders.wait_until_empty()


def changelog_of(orders: Job) -> str:
    """The name of the changelog."""
    return f"{orders.group}-{orders.topic}-state"


def written(orders: Job) -> list[tuple[int, bytes, bytes | None]]:
    """All records of the changelog, as (partition, key, value)."""
    return [
        (number, message.key() or b"", message.value())
        for number in range(orders.partitions)
        for message in stock.records_of(orders.client, changelog_of(orders), number)
    ]


def counts(records: Sequence[tuple[int, bytes, bytes | None]]) -> dict[str, int]:
    """Key → count, as the last record of each key says."""
    last = {key.decode(): value for _, key, value in records}
    return {key: int(decode(value).now.value) for key, value in last.items() if value is not None}


def main() -> None:
    plan = json.loads(sys.argv[1])
    never = threading.Event()

    def stop_there(_: Record) -> None:
        if worker.done >= plan["count"]:
            never.wait()

    def checkpoint(shard: Shard) -> None:
        shard._store.flush(wait=True)
        checkpoints.release()

    checkpoints = threading.Semaphore(0)
    Shard.checkpoint = checkpoint  # type: ignore[method-assign]
    filing._CHECKPOINT_S = 0.1
    worker = Counts(before=stop_there)
    pool = WorkerPool(worker, plan["settings"], [plan["topic"]], workers=4)
    pool.start()
    worker.wait(plan["count"])
    stock.eventually(lambda: pool.counters.committed, lambda count: count >= plan["count"])
    while checkpoints.acquire(blocking=False):
        pass
    for _ in range(2):  # the first may have been asked for before
        assert checkpoints.acquire(timeout=WAIT_S)
    say_there()
    pool.wait()


if __name__ == "__main__":
    main()
