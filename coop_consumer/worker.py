"""The base class of users' workers: `Worker`, and its `Context`. No Kafka in here.

In: records, as many at a time as the pool has workers; never two of one key at once. Out: the
effects of `process`. An exception means: not done, try again.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, cast

from coop_consumer.core.outputs import NO_HEADERS, Outputs, SentHeaders, Text
from coop_consumer.core.record import Record
from coop_consumer.errors import MisuseError

if TYPE_CHECKING:
    from assignors import KeyRange, TopicPartition
    from coop_consumer.config import Config
    from coop_consumer.state.keyed import KeyedState

__all__ = ["BatchFailure", "Context", "Record", "Worker"]

Done = Awaitable[None] | None
"""The result of a worker's method: nothing, or an awaitable for an `async def`."""


BatchResult = Sequence[BaseException | None] | None
"""The result of `process_batch`: None, all are done; or None or an exception for each record."""


class BatchFailure(Exception):  # noqa: N818 - it is a result as much as an error
    """Raise it in `process_batch`: these records have failed, the others are done.

    Args:
        failed: The records, one at least; as a mapping, with the error of each.
        reason: Why, where it is the same for all.

    Attributes:
        failed: Error by record.
    """

    def __init__(
        self, failed: Mapping[Record, BaseException] | Iterable[Record], reason: str = ""
    ) -> None:
        super().__init__(reason)
        self.failed: Mapping[Record, BaseException] = (
            failed if isinstance(failed, Mapping) else dict.fromkeys(failed, self)
        )


@dataclass(frozen=True, slots=True)
class Context:
    """Facts that a worker may use about its surroundings.

    Attributes:
        config: The member's configuration.
        member: Its name in the group.
        workers: How many records are processed at a time, to begin with: `WorkerPool.resize`
            changes it.
    """

    config: Config
    member: str
    workers: int
    keyed: KeyedState | None = field(default=None, repr=False)
    outputs: Outputs = field(default_factory=lambda: Outputs({}, 0), repr=False)

    def send(
        self,
        record: Record,
        topic: str,
        key: Text,
        value: Text,
        headers: SentHeaders = NO_HEADERS,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Send an output of a record; it waits for the record to be finished.

        Outputs of a record go to Kafka before its progress does, in the order in which they were
        sent, those of a key in the order of its records. Outputs of an attempt that failed, or was
        given up on, are dropped. The call takes about a microsecond and asks no broker. Any thread
        of the handler may call it.

        Args:
            record: The record that it is an output of.
            topic: Where to; declared by `Worker.outputs` or the setting `output.topics`.
            key: Its key; text is encoded as UTF-8, as everywhere here.
            value: Its value; None: a tombstone.
            headers: Name and value of each.
            partition: Of the topic; None: the key chooses, as with Java's producers (murmur2).
            timestamp_ms: Unix time in milliseconds; None: when it is produced.

        Raises:
            MisuseError: The topic is not declared, or has no such partition, or needs a key; or
                the record is finished, or another member's, or this attempt at it has failed.
            RecordTooLargeError: The topic takes no record of this size.
        """
        self.outputs.send(record, topic, key, value, headers, partition, timestamp_ms)

    @property
    def state(self) -> KeyedState:
        """The state of keys, of a worker with `keyed_state = True`.

        Raises:
            MisuseError: Of any other.
        """
        if self.keyed is None:
            raise MisuseError(
                "context.state", "this worker did not ask for state", "Set keyed_state = True on it"
            )
        return self.keyed


class Worker:
    """Processes the records of the ranges that its member owns. Subclass it.

    One instance serves a whole pool: `process` is called for many keys at a time, but for any key
    once at a time and in the order of its offsets. State that belongs to a key therefore needs no
    lock; state that is shared among keys does.

    With `def process` the calls run on threads. With `async def process` they are tasks of one
    event loop (uvloop's, if it is installed), thousands at a time if the pool has so many workers.
    Other methods may be `async def` as well, and then run on that loop. A call that blocks the loop
    blocks all of them.

    Attributes:
        keyed_state: Whether the worker uses `context.state`: a key's records find the state that
            earlier records of the key put, in any process. It needs `coop-consumer[state]`.
        outputs: The topics that it sends to with `context.send`, as in `outputs = ("totals",)`;
            besides those of the setting `output.topics`. An instance may have its own.
    """

    keyed_state: ClassVar[bool] = False
    outputs: Collection[str] = ()

    def setup(self, context: Context) -> Done:
        """Called once, before the first record."""

    def process(self, record: Record) -> Done:
        """Process one record. To return is to say: done; to raise: not done, try it again."""
        raise NotImplementedError(f"{type(self).__name__} has no process(record)")

    def process_batch(self, records: Sequence[Record]) -> BatchResult | Awaitable[BatchResult]:
        """Process records together, in place of `process`: no two of them are of one key.

        At most `batch.max.records`; as many as are ready, none is waited for. To return None is to
        say: all are done. Some failed? Return a list with None or an exception for each record, or
        raise `BatchFailure`. After any other exception each record is tried by itself: so a record
        that always fails takes no other with it. The first try then counts for none of them.

        The list is the handler's own: it may sort or empty it. Then it has to name failed records
        by `BatchFailure`. If it returns a list instead, the places are not known any more, so each
        record is tried by itself.
        """
        raise NotImplementedError(f"{type(self).__name__} has no process_batch(records)")

    def flush(self) -> Done:
        """Make durable what `process` has buffered. Needed only if it buffers; else leave it out.

        A `process` may hand its output to a buffer (a producer, a batch, a file) and return at
        once. It is then as fast as the buffer, and loses nothing: records are committed, and ranges
        are handed over, only after a flush that began when their calls had returned. So when this
        method returns, the output of all calls that had returned *before it was called* must be
        durable, also of calls that raised. Other calls run meanwhile, and may buffer more. If a
        flush also waits for these, as confluent-kafka's `Producer.flush` does, it may take long
        under load. So hold output in a list, and hand it to the producer here, as
        `coop_consumer/demo/worker.py` does: it also saves librdkafka much of its work.

        It is called on a thread of its own, one flush at a time: for every commit (about ten a
        second), before `on_ranges_assigned` if the ranges were here a moment ago, and a last time
        before `teardown`. A slow flush delays only commits, so more records repeat after a crash.

        If it raises, the member ends. Records finished since the last successful flush are not
        committed; the next owners of its ranges repeat them. There is no second try, because most
        buffers report a loss once, and their next flush succeeds. So retry in here what can be
        retried, and forget no error that came between two flushes.
        """

    def teardown(self) -> Done:
        """Called once, after the last record has ended and its progress is committed."""

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> Done:
        """These ranges begin here; called before their first record. Load what they need.

        No handler of another member runs for these ranges, and its work is done, so loaded data is
        final. If a key's handler elsewhere still runs when its range moves, the key is assigned
        later, as a range of its own.

        During the call, records of these ranges wait, and so do later ranges; ranges in work
        continue.
        """

    def on_ranges_revoked(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> Done:
        """These ranges move to another member; handlers that run still end, nothing new starts."""

    def on_ranges_lost(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> Done:
        """The group has given these ranges away already (we were silent for too long)."""
        return self.on_ranges_revoked(tp, ranges)


def checked_outputs(worker: Worker) -> frozenset[str]:
    """The topics that a worker declares.

    Raises:
        MisuseError: They are no names.
    """
    names: object = worker.outputs
    is_named = isinstance(names, Collection) and not isinstance(names, str | bytes)
    if not (
        is_named and all(isinstance(it, str) and it for it in cast("Collection[object]", names))
    ):
        raise MisuseError(
            f"WorkerPool({type(worker).__name__})",
            f"its outputs are {names!r:.80}, and should be names of topics",
            'Give a tuple of names, of one topic, too: outputs = ("totals",)',
            "Nothing was started",
        )
    return frozenset(worker.outputs)


def takes_batches(worker: Worker) -> bool:
    """Whether it processes batches."""
    return type(worker).process_batch is not Worker.process_batch


def is_async(worker: Worker) -> bool:
    """Whether its records are processed on an event loop."""
    handler = worker.process_batch if takes_batches(worker) else worker.process
    return inspect.iscoroutinefunction(handler)


def worker_of(worker: object) -> Worker:
    """An instance of a worker's class, or the instance itself; see `checked_worker`.

    Raises:
        MisuseError: It cannot process records.
    """
    if isinstance(worker, type):
        if not issubclass(worker, Worker):
            raise _no_worker(f"WorkerPool({worker.__name__})")
        worker = worker()
    return checked_worker(worker)


def _no_worker(call: str) -> MisuseError:
    problem = "it does not derive from coop_consumer.Worker"
    return _refused(call, problem, "Define it as a subclass: class Billing(Worker)")


def checked_worker(worker: object) -> Worker:
    """The worker, if its handler can be called for a record, and its call ends with its work.

    Raises:
        MisuseError: It is not a `Worker`. It has neither `process` nor `process_batch`, or both. A
            method's call only makes a generator or a coroutine that nobody awaits, so records would
            count as done too early. Or a method does not take its arguments.
    """
    call = f"WorkerPool({type(worker).__name__})"
    if not isinstance(worker, Worker):
        raise _no_worker(call)
    has_process = type(worker).process is not Worker.process
    if not (has_process or takes_batches(worker)):
        remedy = (
            "Define process(self, record) or process_batch(self, records), with or without async"
        )
        raise _refused(call, "it has no process(self, record)", remedy)
    if has_process and takes_batches(worker):
        problem = "it has both process and process_batch, and a record needs only one of them"
        raise _refused(call, problem, "Leave out process, or process_batch")
    for name in _METHODS:
        method = getattr(worker, name)
        remedy = f"Define {name} with def; it has to return when everything is done"
        if inspect.isasyncgenfunction(method) or inspect.isgeneratorfunction(method):
            raise _refused(call, f"its {name} yields, and nobody would go on with it", remedy)
        if inspect.iscoroutinefunction(method) and not is_async(worker):
            raise _refused(call, f"its {name} is async, and its handler is not", remedy)
        _check_arguments(call, name, method)
    return worker


def _check_arguments(call: str, name: str, method: Callable[..., object]) -> None:
    _, *expected = inspect.signature(getattr(Worker, name)).parameters
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):  # some C functions have no signature to read
        return
    try:
        signature.bind(*expected)
    except TypeError as error:
        told = ", ".join(expected)
        problem = f"its {name}{signature} cannot be called as {name}({told}): {error}"
        remedy = f"Define {name}({', '.join(('self', *expected))})"
        raise _refused(call, problem, remedy) from None


def _refused(call: str, problem: str, remedy: str) -> MisuseError:
    return MisuseError(call, problem, remedy, "Nothing was started")


_METHODS = tuple(
    name for name in vars(Worker) if callable(getattr(Worker, name)) and name[0] != "_"
)
