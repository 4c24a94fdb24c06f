"""A script for workers in other processes, which ask over a socket what to do.

In: a script of the test's. Out: workers that can be pickled. A thread for each connection puts
their questions to the script.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, Self, cast

from coop_consumer import BatchFailure, Context, Record, Worker
from coop_consumer.worker import BatchResult
from tests.support.crew import WAIT_S, Script, changed, send_place


class NamelessError(BatchFailure):
    """An error that does not call the constructor of its base."""

    def __init__(self) -> None: ...


@dataclass(eq=False)
class Asked:
    """What the desk knows of a record."""

    key: bytes | None
    offset: int
    tenure: object = None


class Desk:
    """Answers for a script."""

    def __init__(self) -> None:
        self._listener = Listener(family="AF_UNIX")
        self._script = Script()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def serving(self, script: Script) -> str:
        """Answer for this script; returns the address."""
        self._script = script
        return cast("str", self._listener.address)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # wakes the one that accepts
            Client(self._listener.address).close()
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            connection = self._listener.accept()
            try:
                greeting = connection.recv()
            except EOFError:
                return
            assert greeting == "child"
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        with suppress(EOFError, OSError):
            while True:
                asked = connection.recv()
                if isinstance(asked, list):
                    connection.send((self._script.changes, *self._batch(asked)))
                else:
                    connection.send(self._one(*asked))

    def _one(self, key: bytes | None, offset: int) -> BaseException | None:
        record = cast("Record", Asked(key, offset))
        gate = self._script.begin(record)
        try:
            if gate is not None:
                gate.result(WAIT_S)
        finally:
            error = None
            try:
                self._script.end(record)
            except BaseException as raised:  # noqa: BLE001 - whatever the script says
                error = raised
        return error

    def _batch(self, asked: list[tuple[bytes | None, int]]) -> tuple[str, Any]:
        """How a batch ends, and with what; records by their number."""
        records = [cast("Record", Asked(*it)) for it in asked]
        for gate in self._script.begin_batch(records):
            gate.result(WAIT_S)
        try:
            return "returns", self._script.end_batch(records)
        except NamelessError:
            return "nameless", None
        except BatchFailure as failure:
            numbers = {record: number for number, record in enumerate(records)}
            named = {numbers.get(record, -1): e for record, e in failure.failed.items()}
            is_same = any(error is failure for error in named.values())
            return "names", (str(failure), None if is_same else named, list(named))
        except BaseException as error:  # noqa: BLE001 - whatever the script says
            return "raises", error


class RemoteWorker(Worker):
    """Asks a desk what to do with each record."""

    def __init__(self, address: str) -> None:
        self._address = address

    def setup(self, context: Context) -> None:
        assert context.member
        self._context = context
        self._desk = Client(self._address)
        self._desk.send("child")

    def process(self, record: Record) -> None:
        send_place(self._context, record)
        self._desk.send((record.key, record.offset))
        error = self._desk.recv()
        if error is not None:
            raise error


class RemoteBatchWorker(Worker):
    """Asks a desk what to do with each batch."""

    def __init__(self, address: str) -> None:
        self._address = address

    def setup(self, context: Context) -> None:
        assert context.member
        self._context = context
        self._desk = Client(self._address)
        self._desk.send("child")

    def process_batch(self, records: Sequence[Record]) -> BatchResult:
        for record in records:
            send_place(self._context, record)
        self._desk.send([(record.key, record.offset) for record in records])
        changes, how, what = self._desk.recv()
        asked, gone_through = list(records), changed(records, changes)
        if how == "raises":
            raise what
        if how == "nameless":
            raise NamelessError
        if how == "names":
            reason, errors, numbers = what
            if numbers == [-1]:
                last = asked[-1]
                raise BatchFailure([Record(last.tenure, 9, b"x", 0, last._message)])
            if errors is None:
                raise BatchFailure([asked[number] for number in numbers], reason)
            raise BatchFailure({asked[number]: error for number, error in errors.items()}, reason)
        if changes and isinstance(what, list):
            results = dict(zip(asked, what, strict=True))
            return [results[record] for record in gone_through]
        return cast("BatchResult", what)
