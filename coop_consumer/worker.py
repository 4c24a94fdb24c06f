"""What a user subclasses: `Worker`, and the `Context` it is given. No Kafka in here.

In: records, as many at a time as the pool has workers; never two of one key at once. Out: whatever
`process` does. An exception means: not done, try again.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.core.record import Record
from coop_consumer.errors import MisuseError

if TYPE_CHECKING:
    from assignors import KeyRange, TopicPartition
    from coop_consumer.config import Config

__all__ = ["Context", "Record", "Worker"]

Done = Awaitable[None] | None
"""What a worker's methods return: nothing, or, of an `async def`, what has to be awaited."""


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

    One instance serves a whole pool: `process` is called for many keys at a time, but for any key
    once at a time and in the order of its offsets. State that belongs to a key therefore needs no
    lock; state that is shared among keys does.

    With `def process` those calls are made on threads. With `async def process` they are tasks of
    one event loop (uvloop's, if it is installed), thousands at a time if the pool is so wide; the
    other methods may be `async def` as well, and then run there, too. What blocks the loop blocks
    all of them.
    """

    def setup(self, context: Context) -> Done:
        """Called once, before the first record."""

    def process(self, record: Record) -> Done:
        """Process one record. To return is to say: done; to raise: not done, try it again."""
        raise NotImplementedError(f"{type(self).__name__} has no process(record)")

    def flush(self) -> Done:
        """Make durable what `process` has buffered. Needed only if it buffers; else leave it out.

        A `process` that hands its output to a buffer (a producer, a batch, a file) and returns at
        once is as fast as the buffer, and loses nothing: progress is committed, and ranges are
        handed over, only after a flush that began when all of it had returned. So when this
        returns, all output of calls that had returned *before it was called* must be durable, of
        calls that raised as well. Other calls go on meanwhile, and may buffer more: a flush that
        waits for that, too, as confluent-kafka's `Producer.flush` does, may take long under load.
        `coop_consumer/demo/worker.py` has one that doesn't.

        Called on a thread of its own, one flush at a time: every commit (some ten a second), also
        before `on_ranges_assigned` if the ranges were here a moment ago, and the last time before
        `teardown`. A slow one delays commits, so more comes again after a crash, and nothing else.

        To raise ends the member: what was finished since the last flush that returned is not
        committed, and whoever gets its ranges does it again. It is not tried a second time, because
        most buffers tell once of what they have lost, and their next flush ends well. So retry in
        here what can be retried, and forget no error that came between two flushes.
        """

    def teardown(self) -> Done:
        """Called once, after the last record has ended and its progress is committed."""

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> Done:
        """These ranges begin here; called before their first record. Load what they need.

        No handler of another member is at them any more, and what those did is done: what is
        loaded is the last word. A key whose handler elsewhere still runs when its range moves is
        therefore told apart, as a range of its own, once that has ended.

        No record of any range of this member is *taken in* while it runs: keep it short.
        """

    def on_ranges_revoked(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> Done:
        """These ranges move to another member; handlers that run still end, nothing new starts."""

    def on_ranges_lost(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> Done:
        """The group has given these ranges away already (we were silent for too long)."""
        return self.on_ranges_revoked(tp, ranges)


def checked_worker(worker: object) -> Worker:
    """The worker, if its `process` can be called for a record and says when it is through.

    Raises:
        MisuseError: It is no `Worker`, has no `process` of its own, or a method whose call only
            makes a generator, or a coroutine that nobody would await: its records would count as
            done before anything was done.
    """
    call = f"WorkerPool({type(worker).__name__})"
    if not isinstance(worker, Worker):
        raise MisuseError(call, "it does not derive from coop_consumer.Worker", "Let it")
    if type(worker).process is Worker.process:
        raise MisuseError(
            call, "it has no process(self, record)", "Define it with def or async def"
        )
    has_loop = inspect.iscoroutinefunction(worker.process)
    for name in _METHODS:
        method = getattr(worker, name)
        remedy = f"Define {name} with def; it has to return when everything is done"
        if inspect.isasyncgenfunction(method) or inspect.isgeneratorfunction(method):
            raise MisuseError(call, f"its {name} yields, and nobody would go on with it", remedy)
        if inspect.iscoroutinefunction(method) and not has_loop:
            raise MisuseError(call, f"its {name} is async, and its process is not", remedy)
    return worker


_METHODS = tuple(name for name in vars(Worker) if not name.startswith("_"))
