"""What a user subclasses: `Worker`, and the `Context` it is given. No Kafka in here.

In: records, one at a time, from as many threads as the pool has workers; never two of one key at
once. Out: whatever `process` does. An exception means: not done, try again.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.core.record import Record
from coop_consumer.errors import MisuseError

if TYPE_CHECKING:
    from assignors import KeyRange, TopicPartition
    from coop_consumer.config import Config

__all__ = ["Context", "Record", "Worker"]


@dataclass(frozen=True, slots=True)
class Context:
    """What a worker may know about where it runs.

    Attributes:
        config: The member's configuration.
        member: Its name in the group.
        workers: How many records are processed at a time.
    """

    config: Config
    member: str
    workers: int


class Worker:
    """Processes the records of the ranges that its member owns. Subclass it.

    One instance serves a whole pool: `process` is called from many threads at a time, but for any
    key by one at a time and in the order of its offsets. State that belongs to a key therefore
    needs no lock; state that is shared among keys does.
    """

    def setup(self, context: Context) -> None:
        """Called once, before the first record."""

    def process(self, record: Record) -> None:
        """Process one record. To return is to say: done; to raise: not done, try it again."""
        raise NotImplementedError(f"{type(self).__name__} has no process(record)")

    def teardown(self) -> None:
        """Called once, after the last record has ended and its progress is committed."""

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """These ranges begin here; called before their first record. Load what they need.

        No handler of another member is at them any more, and what those did is done: what is
        loaded is the last word. A key whose handler elsewhere still runs when its range moves is
        therefore told apart, as a range of its own, once that has ended.

        No record of any range of this member is *taken in* while it runs: keep it short.
        """

    def on_ranges_revoked(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """These ranges move to another member; handlers that run still end, nothing new starts."""

    def on_ranges_lost(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """The group has given these ranges away already (we were silent for too long)."""
        self.on_ranges_revoked(tp, ranges)


def checked_worker(worker: object) -> Worker:
    """The worker, if its `process` can be called for a record and is through when it returns.

    Raises:
        MisuseError: It is no `Worker`, has no `process` of its own, or one whose call only makes a
            coroutine or generator: its records would count as done before anything was done.
    """
    call = f"WorkerPool({type(worker).__name__})"
    remedy = "Define process(self, record) with def; it has to return when the record is done"
    if not isinstance(worker, Worker):
        raise MisuseError(call, "it does not derive from coop_consumer.Worker", "Let it")
    if type(worker).process is Worker.process:
        raise MisuseError(call, "it has no process(self, record)", remedy)
    if inspect.iscoroutinefunction(worker.process) or inspect.isasyncgenfunction(worker.process):
        raise MisuseError(call, "its process is async, and nobody would await it", remedy)
    if inspect.isgeneratorfunction(worker.process):
        raise MisuseError(call, "its process yields, and nobody would go on with it", remedy)
    return worker
