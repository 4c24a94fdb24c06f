"""The child's side of a worker process: handlers run here, one record or batch after the other.

In: chunks of records over one pipe, calls of the worker's other methods over another. Out: what
became of each record. The main thread runs handlers. Another thread makes the calls, as in a
process without children, and ends the process when the parent is gone. There is no Kafka in here.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from multiprocessing.connection import Connection
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from coop_consumer import forks
from coop_consumer.core.effects import Effect
from coop_consumer.core.failure import Failure, describe, failure_of
from coop_consumer.core.outputs import OpenRecords
from coop_consumer.core.record import Contents, Record, copy_of
from coop_consumer.executors.batches import errors_by, errors_of
from coop_consumer.executors.results import refuse_unfinished
from coop_consumer.signals import TakenSignals

if TYPE_CHECKING:
    from ctypes import c_longlong

    from coop_consumer.ops.carriers import Carried
    from coop_consumer.ops.child_traces import ChildTraces
    from coop_consumer.worker import Worker


_LAST_PART = 4  # a chunk of fewer records has no last quarter: its records take long
_LOG_FORMAT = "%(asctime)s %(levelname)s %(processName)s %(name)s: %(message)s"


class Parcel(NamedTuple):
    """A record on its way to a child.

    Attributes:
        lane: The number of its lane in the chunk. After a failure the child leaves out the rest.
    """

    lane: int
    contents: Contents


class Sent(NamedTuple):
    """What the handler of a record has sent; it comes before the record counts as done.

    Attributes:
        number: Of the record in its chunk.
        outputs: What it has sent.
        times: When its handler began and ended, if its span records that; Unix time in ns.
    """

    number: int
    outputs: Sequence[Effect]
    times: tuple[int, int] | None = None


class Traced(NamedTuple):
    """A chunk or a batch whose records have spans in the parent.

    Attributes:
        chunk: The chunk.
        carried: The trace context of each record; of a batch that of the batch.
    """

    chunk: list[Parcel] | tuple[Parcel, ...]
    carried: Sequence[Carried]


class Soon(NamedTuple):
    """A chunk has ended, except for its last quarter: the next one may come.

    So the child need not wait for it, and few records lie behind one that turns out to be slow.
    """


class End(NamedTuple):
    """A chunk has ended.

    Attributes:
        failures: Of a batch: why some records failed, by their number; None: something failed, and
            nobody knows what.
    """

    failures: dict[int, Failure] | None


def parcel(lane: int, record: Record) -> Parcel:
    """A record as it is sent to a child."""
    return Parcel(lane, record.contents())


class Home(NamedTuple):
    """The settings that a child takes from its parent, besides those of multiprocessing.

    Attributes:
        log_level: What the root logger writes to stderr; 0: it has no handler in the parent.
        formatter: The formatter of the parent's log, pickled; b"": this one's own.
        folder: The current directory; multiprocessing would use the one of the parent's start.
    """

    log_level: int
    formatter: bytes
    folder: str


def main(
    worker: bytes, work: Connection, calls: Connection, progress: c_longlong, home: Home
) -> None:
    """Run until the parent closes its end; then end as any program does.

    Args:
        worker: The worker, pickled.
        work: Brings chunks, takes results.
        calls: Brings calls, takes what became of them.
        progress: How many records of the chunk are done; -1: there is none.
        home: The settings of the parent.
    """
    # These signals are for the parent, which ends us in order, or reads its settings again. They
    # are not ignored: programs that handlers start would inherit that, and survive a SIGTERM.
    TakenSignals((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), _left_to_the_parent)
    multiprocessing.current_process().daemon = False  # handlers may have children of their own
    if home.log_level:
        logging.basicConfig(level=home.log_level, handlers=[_handler(home.formatter)])
    with suppress(OSError):
        os.chdir(home.folder)
    it: Worker = pickle.loads(worker)  # noqa: S301 - our parent's own bytes
    _ChildsSide(it, work, calls, progress).run()
    forks.end_soon(0)  # the user's threads may never end


def _handler(formatter: bytes) -> logging.Handler:
    """What writes the log of this process to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_LOG_FORMAT))
    if formatter:
        # It is a stranger's, perhaps of the parent's main module, which children may not have.
        with suppress(Exception):
            handler.setFormatter(pickle.loads(formatter))  # noqa: S301 - our parent's own bytes
    return handler


def _left_to_the_parent(_: int, __: FrameType | None) -> None:
    pass


class _ChildsSide:
    """The worker in this process, and its pipes to the parent."""

    def __init__(
        self, worker: Worker, work: Connection, calls: Connection, progress: c_longlong
    ) -> None:
        self._worker = worker
        self._work = work
        self._calls = calls
        self._progress = progress
        self._name = multiprocessing.current_process().name
        self._at_work = threading.Lock()
        self._open = OpenRecords()
        self._traces: ChildTraces | None = None  # of the chunk, if it is traced
        self._is_over = False  # the parent has closed its end, or is gone
        self._is_fork = False
        forks.watch(self)

    def shut_in_fork(self) -> None:
        """A handler has forked: nothing that the fork does counts, and it closes the pipes."""
        self._is_fork = True
        self._work.close()
        self._calls.close()

    def _end_fork(self, error: BaseException | None) -> None:
        if self._is_fork:
            forks.end(self._name, error)

    def run(self) -> None:
        """Take chunks until the parent has closed its end."""
        threading.Thread(target=self._serve_calls, daemon=True).start()
        try:
            while True:
                chunk = self._work.recv()
                with self._at_work:
                    if self._is_over:
                        return
                    self._work_off(chunk)
        except (EOFError, OSError):
            return

    def _work_off(self, sent: list[Parcel] | tuple[Parcel, ...] | Traced) -> None:
        self._progress.value = 0
        chunk = self._untraced(sent) if isinstance(sent, Traced) else sent
        end = End(self._in_batch(chunk)) if isinstance(chunk, tuple) else self._one_by_one(chunk)
        forks.flush_streams()  # this process may be killed for the next record
        self._progress.value = -1
        try:
            self._work.send(end)
        except OSError:  # a handler closed the pipe: one record must fail, or all would repeat
            self._progress.value = len(chunk) - 1
            raise

    def _untraced(self, sent: Traced) -> list[Parcel] | tuple[Parcel, ...]:
        """The chunk itself; handlers are called in the contexts that it came with."""
        # Loaded when it is needed.
        from coop_consumer.ops.child_traces import ChildTraces  # noqa: PLC0415

        self._traces = ChildTraces(sent.carried)
        return sent.chunk

    def _one_by_one(self, chunk: list[Parcel]) -> End:
        """Process records; report those that fail at once, by their number in the chunk."""
        failed = set[int]()
        progress, count = self._progress, len(chunk)
        process: Callable[[Record], object] = self._worker.process
        if self._traces is not None:
            process = self._traces.one_by_one(process, lambda: progress.value)
        soon = count - count // _LAST_PART
        for number, parcelled in enumerate(chunk):
            progress.value = number
            if number == soon:
                self._work.send(Soon())
            if parcelled.lane in failed:
                continue
            record = copy_of(parcelled.contents)
            self._open.begin((record,))
            try:
                result = Context().run(process, record)
                if result is not None:
                    refuse_unfinished(result)
            except BaseException as error:  # noqa: BLE001 - as on threads: its key waits
                self._end_fork(error)
                failed.add(parcelled.lane)
                self._open.end(record)
                self._work.send((number, failure_of(error)))
            else:
                self._tell_sent(number, record)
            if self._is_fork:
                self._end_fork(None)
        return End({})

    def _in_batch(self, chunk: tuple[Parcel, ...]) -> dict[int, Failure] | None:
        """Process a batch; returns why some failed, or None: something did, nobody knows what."""
        records = [copy_of(parcelled.contents) for parcelled in chunk]
        given = list(records)
        process: Callable[[list[Record]], object] = self._worker.process_batch
        if self._traces is not None:
            process = self._traces.together(process)
        self._open.begin(records)
        try:
            result = Context().run(process, given)
            errors = errors_of(records, given, result)
        except BaseException as error:  # noqa: BLE001 - as on threads
            self._end_fork(error)
            errors = errors_by(records, error)
        self._end_fork(None)
        for number, record in enumerate(records):
            self._tell_sent(number, record)
        if errors is None:
            return None
        return {n: errors[record] for n, record in enumerate(records) if record in errors}

    def _tell_sent(self, number: int, record: Record) -> None:
        """Tell the parent what a record's handler has sent; what has failed there is dropped."""
        outputs = self._open.end(record)
        times = None if self._traces is None else self._traces.times
        if outputs or times is not None:
            self._work.send(Sent(number, list(outputs), times))

    def _serve_calls(self) -> None:
        main_thread = threading.main_thread().ident or 0
        while True:
            try:
                number, name, arguments = self._calls.recv()
            except (EOFError, OSError):
                self._end()
                return
            error: str | None = None
            answer: Any = None
            try:
                if name == "stack":
                    frame = sys._current_frames().get(main_thread)
                    answer = "".join(traceback.format_stack(frame)) if frame else ""
                elif name != "ready":
                    if name == "setup":
                        self._open = arguments[0].outputs.open
                    getattr(self._worker, name)(*arguments)
            except BaseException as raised:  # noqa: BLE001 - the parent decides
                self._end_fork(raised)
                error = describe(raised)
            self._end_fork(None)
            forks.flush_streams()
            self._calls.send((number, error, answer))

    def _end(self) -> None:
        """The parent has closed its end, or is gone: end, without waiting for a handler."""
        if not self._at_work.acquire(blocking=False):
            forks.exit_now(0)
        self._is_over = True
        self._at_work.release()
