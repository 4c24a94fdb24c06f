"""The child's side of a worker process: handlers run here, one record or batch after the other.

In: chunks of records over a pipe, calls of the worker's other methods over another. Out: what
became of each record. The main thread runs handlers; a thread of its own makes the calls, as in a
process without children, and ends the process when the parent is gone. Nothing of Kafka is here.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

from coop_consumer.core.failures import describe
from coop_consumer.core.record import Contents, Record, copy_of
from coop_consumer.executors.batches import errors_by, errors_of
from coop_consumer.executors.results import refuse_unfinished

if TYPE_CHECKING:
    from ctypes import c_longlong

    from coop_consumer.worker import Worker


_LAST_PART = 4  # so a chunk of fewer records has none: these take long
_LOG_FORMAT = "%(asctime)s %(levelname)s %(processName)s %(name)s: %(message)s"


class Parcel(NamedTuple):
    """A record on its way to a child.

    Attributes:
        lane: The number of its lane in the chunk: after a failure the rest of it is left out.
    """

    lane: int
    contents: Contents


class Soon(NamedTuple):
    """A chunk is worked off but for its last quarter: the next one may come.

    So the child need not wait for it, and little lies behind a record that turns out to be slow.
    """


class End(NamedTuple):
    """A chunk is worked off.

    Attributes:
        failures: Of a batch: why some records have failed, by their number; None: something has,
            nobody knows what.
    """

    failures: dict[int, str] | None


def parcel(lane: int, record: Record) -> Parcel:
    """What a child has to know of a record."""
    return Parcel(lane, record.contents())


def main(
    worker: bytes, work: Connection, calls: Connection, progress: c_longlong, log_level: int
) -> None:
    """Run until the parent closes its end.

    Args:
        worker: The worker, pickled.
        work: Brings chunks, takes results.
        calls: Brings calls, takes what became of them.
        progress: How many records of the chunk are done; -1: there is none.
        log_level: What the root logger writes to stderr; 0: it has no handler in the parent.
    """
    if log_level:
        logging.basicConfig(level=log_level, format=_LOG_FORMAT)
    # Meant for the parent, which ends us in order, or reads its settings again.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    it: Worker = pickle.loads(worker)  # noqa: S301 - our parent's own bytes
    threading.Thread(target=_serve_calls, args=(it, calls), daemon=True).start()
    try:
        while True:
            chunk = work.recv()
            progress.value = 0
            if isinstance(chunk, tuple):
                end = End(_in_batch(it, chunk))
            else:
                _one_by_one(it, chunk, work, progress)
                end = End({})
            progress.value = -1
            work.send(end)
    except (EOFError, OSError):
        os._exit(0)  # the parent closed it, or is gone; what threads of the user's do is over


def _one_by_one(it: Worker, chunk: list[Parcel], work: Connection, progress: c_longlong) -> None:
    """Process records; those that fail are told at once, by their number in the chunk."""
    failed = set[int]()
    process, count = it.process, len(chunk)
    soon = count - count // _LAST_PART
    for number, parcelled in enumerate(chunk):
        progress.value = number
        if number == soon:
            work.send(Soon())
        if parcelled.lane in failed:
            continue
        try:
            result = process(copy_of(parcelled.contents))
            if result is not None:
                refuse_unfinished(result)
        except BaseException as error:  # noqa: BLE001 - as on threads: its key waits
            failed.add(parcelled.lane)
            work.send((number, describe(error)))


def _in_batch(it: Worker, chunk: tuple[Parcel, ...]) -> dict[int, str] | None:
    """Process a batch; why some have failed, or None: something has, nobody knows what."""
    records = [copy_of(parcelled.contents) for parcelled in chunk]
    given = list(records)
    try:
        errors = errors_of(records, given, it.process_batch(given))
    except BaseException as error:  # noqa: BLE001 - as on threads
        errors = errors_by(records, error)
    if errors is None:
        return None
    return {n: describe(errors[record]) for n, record in enumerate(records) if record in errors}


def _serve_calls(it: Worker, calls: Connection) -> None:
    main_thread = threading.main_thread().ident or 0
    while True:
        try:
            number, name, arguments = calls.recv()
        except (EOFError, OSError):
            os._exit(0)
        error: str | None = None
        answer: Any = None
        try:
            if name == "stack":
                frame = sys._current_frames().get(main_thread)
                answer = "".join(traceback.format_stack(frame)) if frame else ""
            elif name != "ready":
                getattr(it, name)(*arguments)
        except BaseException as raised:  # noqa: BLE001 - the parent decides
            error = describe(raised)
        calls.send((number, error, answer))
