"""Workers and writers for executors, which note each record at once in a file of their process.

In: a folder that all executors share. Out: rows, also of processes that were killed.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coop_consumer import Context, Record, Worker
from coop_consumer.core import loads
from tests.support.journal import Row


class Noting(Worker):
    """Takes `seconds` for a record, and notes it."""

    def __init__(self, folder: Path, seconds: float = 0.0) -> None:
        self.folder = folder
        self.seconds = seconds

    def setup(self, context: Context) -> None:
        self.member = context.member
        self.path = self.folder / f"{os.getpid()}.rows"

    def process(self, record: Record) -> None:
        began_ns = time.monotonic_ns()
        time.sleep(self.seconds)
        row = Row(
            record.partition,
            record.offset,
            (record.key or b"").decode(),
            began_ns,
            time.monotonic_ns(),
            self.member,
            os.getpid(),
            record.attempt,
        )
        note(self.path, row)


class NotingAndSending(Noting):
    """Also sends the place of the record to the first of `output.topics`."""

    def setup(self, context: Context) -> None:
        super().setup(context)
        self.context = context
        (self.topic,) = sorted(context.config.output_names)

    def process(self, record: Record) -> None:
        super().process(record)
        place = f"{record.partition}/{record.offset}"
        self.context.send(record, self.topic, record.key, place)


class ReportingOften(Noting):
    """Its member reports its load each second. An executor's Python may serve other tasks later."""

    def setup(self, context: Context) -> None:
        super().setup(context)
        self.usual = loads.REPORT_MS, loads.LOOK_MS
        loads.REPORT_MS, loads.LOOK_MS = 1_000, 500

    def teardown(self) -> None:
        loads.REPORT_MS, loads.LOOK_MS = self.usual


class NotingWriter:
    """For `writeStream.foreach`: the same for rows of a stream; a row's `run` is its batch."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder = folder
        self.seconds = seconds

    def open(self, task: int, batch: int) -> bool:
        self.task, self.batch = task, batch
        return True

    def process(self, record: Any) -> None:
        began_ns = time.monotonic_ns()
        time.sleep(self.seconds)
        row = Row(
            record.partition,
            record.offset,
            record.key.decode(),
            began_ns,
            time.monotonic_ns(),
            f"task {self.task}",
            self.batch,
        )
        note(self.folder / f"{os.getpid()}.rows", row)


def note(path: Path, row: Row) -> None:
    """Append the row, so that it stays even if the process is killed at once."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, json.dumps(asdict(row)).encode() + b"\n")
    os.close(descriptor)


class Tallying(Noting):
    """Also counts the records of each key in its state."""

    keyed_state = True

    def setup(self, context: Context) -> None:
        super().setup(context)
        self.state = context.state

    def process(self, record: Record) -> None:
        super().process(record)
        changed_by = self.state.changed_by(record)
        if changed_by is None or changed_by < record.offset:
            self.state.put(record, b"%d" % (int(self.state.get(record) or 0) + 1))


class Refusing(Worker):
    """Raises at each record of one key."""

    def process(self, record: Record) -> None:
        if record.key == b"key-0":
            raise ValueError("not this one")


def parent_of(pid: int) -> int:
    """The parent of a process, by /proc; the name in front may have blanks."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def jvm_of(pid: int) -> int:
    """The executor of a Python: its parent is Spark's daemon, which forks workers off."""
    return parent_of(parent_of(pid))


def is_ours(pid: int) -> bool:
    """Whether a process descends from this one. Other sessions of Spark may be on this machine."""
    while pid > 1 and pid != os.getpid():
        pid = parent_of(pid)
    return pid > 1


def noted(folder: Path) -> list[Row]:
    """All rows that are written, in the order in which they began.

    A row without an end of line is being written, or its process was killed meanwhile.
    """
    lines = [line for path in folder.glob("*.rows") for line in path.read_text().split("\n")[:-1]]
    return sorted((Row(**json.loads(line)) for line in lines), key=lambda row: row.started_ns)
