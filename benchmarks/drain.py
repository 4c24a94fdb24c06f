"""What the end of a member costs: by SIGTERM under full load, and twelve members rolled one by one.

`python -m benchmarks drain`. Printed are

    end       from SIGTERM to the end of `coop-consumer run`, all of whose workers are at work
    running   handlers that ran when the signal came
    roll      twelve members, each ended by SIGTERM and started again under its name, one after the
              other: from the signal to the end of its process; once dynamic, once static
    back      from the start of the next process until the group has given it its share
    repeated  records that came again; there must be none

Both are what Kubernetes does: it ends a pod, and rolls a Deployment or a StatefulSet.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event
from uuid import uuid4

from benchmarks.group import LOAD, RATE, SIZE, Finding, at_work, promises, show
from benchmarks.handler import Journal
from benchmarks.machine import conditions
from benchmarks.row_files import RowFiles
from benchmarks.topics import PARTITIONS, VALUE, ends, produced
from coop_consumer import Record, Worker
from tests.support.journal import Place, Row, lost, out_of_order, repeated

WORKERS, WORK_S = 64, 0.005
RECORDS, KEYS = 120_000, 10_000
ROWS_BYTES = 1_000_000
"""The signal comes once the rows of some 20,000 records are written."""
SESSION_MS = 60_000
"""Of static members: longer than a process takes to come back, as deploy/kubernetes has it."""
_FOLDER = "BENCH_DRAIN_ROWS"
_LOOK_S = 0.02
_NS_PER_S = 1_000_000_000


class Sleeping(Worker):
    """Waits as for a remote call, and writes each record's row before it returns."""

    def __init__(self) -> None:
        self._journal = Journal(os.environ[_FOLDER], at_once=True)

    def process(self, record: Record) -> None:
        """Stand for a remote call."""
        begun_ns = time.monotonic_ns()
        time.sleep(WORK_S)
        ended_ns, key = time.monotonic_ns(), record.key or b""
        self._journal.note(record.partition, record.offset, begun_ns, ended_ns, key)


@dataclass(frozen=True, slots=True)
class End:
    """One member that was ended under full load, and the next one, which did the rest.

    Attributes:
        took_s: From the signal to the end of the process.
        running: How many handlers ran when the signal came.
        exit_code: Of the process.
    """

    took_s: float
    running: int
    exit_code: int
    lost: int
    out_of_order: int
    repeated: int

    @property
    def is_clean(self) -> bool:
        """Whether nothing was lost, out of order or repeated, and it ended well."""
        return not (self.exit_code or self.lost or self.out_of_order or self.repeated)

    def __str__(self) -> str:
        return (
            f"ended in {self.took_s:.2f} s with code {self.exit_code}, {self.running} running; "
            f"{self.lost} lost, {self.out_of_order} out of order, {self.repeated} repeated"
        )


@dataclass(frozen=True, slots=True)
class Roll:
    """Twelve members that were ended and started again, one after the other."""

    ended_s: list[float]
    back_s: list[float]
    finding: Finding

    @property
    def is_clean(self) -> bool:
        """Whether nothing was lost, out of order or repeated, and no other member ended."""
        return self.finding.is_clean and not self.finding.repeated

    def __str__(self) -> str:
        return (
            f"each ended in {median(self.ended_s):.2f} s ({max(self.ended_s):.2f} at most), "
            f"back after {median(self.back_s):.2f} s; {self.finding}"
        )


def drain(bootstrap: str, runs: int, *, as_json: bool) -> int:
    """Measure both and print; 1 if a record was lost, out of order or repeated."""
    told = conditions()
    found: list[End] = []
    for number in range(runs):
        found.append(ended(bootstrap))
        print(f"end {number + 1}: {found[-1]}", file=sys.stderr)
    rolls = {kind: rolled(bootstrap, static=kind == "static") for kind in ("dynamic", "static")}
    for kind, roll in rolls.items():
        print(f"roll, {kind}: {roll}", file=sys.stderr)
    show(
        {
            "case": "drain",
            "runs": runs,
            **told,
            "load": f"{WORKERS} workers x {1_000 * WORK_S:.0f} ms",
            "end_s": [round(it.took_s, 2) for it in found],
            "end_median_s": round(median(it.took_s for it in found), 2),
            "running": [it.running for it in found],
            "repeated": sum(it.repeated for it in found),
            "lost": sum(it.lost for it in found),
            "out_of_order": sum(it.out_of_order for it in found),
            "rolls": {
                kind: {
                    "group": SIZE,
                    "load": LOAD,
                    "ended_median_s": round(median(it.ended_s), 2),
                    "ended_longest_s": round(max(it.ended_s), 2),
                    "back_median_s": round(median(it.back_s), 2),
                    **promises([it.finding]),
                }
                for kind, it in rolls.items()
            },
        },
        as_json=as_json,
    )
    clean = [*(it.is_clean for it in found), *(it.is_clean for it in rolls.values())]
    return int(not all(clean))


# ---- one member under full load ------------------------------------------------------------------


def ended(bootstrap: str) -> End:
    """End a member in the midst of its work, and let the next one do the rest."""
    topic = produced(bootstrap, RECORDS, KEYS, VALUE)
    group = f"bench-{uuid4().hex[:8]}"
    with TemporaryDirectory(prefix="coop-drain-") as folder:
        process = _started(bootstrap, topic, group, folder)
        try:
            while sum(it.stat().st_size for it in Path(folder).iterdir()) < ROWS_BYTES:
                assert process.poll() is None, "it ended by itself; its log is above"
                Event().wait(_LOOK_S)
            signalled_ns = time.monotonic_ns()
            process.send_signal(signal.SIGTERM)
            exit_code = process.wait()
            ended_ns = time.monotonic_ns()
        finally:
            process.kill()
            process.wait()
        rest = _started(bootstrap, topic, group, folder, "--until", "caught-up")
        assert rest.wait() == 0, "the next member failed; its log is above"
        rows = RowFiles(Path(folder))
        rows.read()
    wanted = (
        (number, offset)
        for number, end in enumerate(ends(bootstrap, topic, PARTITIONS))
        for offset in range(end)
    )
    return judged(rows.rows, wanted, signalled_ns, ended_ns, exit_code)


def judged(
    rows: list[Row], wanted: Iterable[Place], signalled_ns: int, ended_ns: int, exit_code: int
) -> End:
    """What the rows of both members say. Pure."""
    return End(
        took_s=(ended_ns - signalled_ns) / _NS_PER_S,
        running=sum(it.started_ns < signalled_ns < it.ended_ns for it in rows),
        exit_code=exit_code,
        lost=len(lost(rows, wanted)),
        out_of_order=len(out_of_order(rows)),
        repeated=repeated(rows),
    )


def _started(
    bootstrap: str, topic: str, group: str, folder: str, *options: str
) -> subprocess.Popen[bytes]:
    command = [
        *(sys.executable, "-m", "coop_consumer.cli", "run", "benchmarks.drain:Sleeping"),
        *("--bootstrap", bootstrap, "--topics", topic, "--group", group),
        *("--workers", str(WORKERS), "--log-level", "warning", *options),
    ]
    return subprocess.Popen(  # noqa: S603 - the command is ours
        command, cwd=Path(__file__).parent.parent, env={**os.environ, _FOLDER: folder}
    )


# ---- twelve members, one after the other ---------------------------------------------------------


def rolled(bootstrap: str, *, static: bool) -> Roll:
    """End and start each of twelve members."""
    own = {"session.timeout.ms": SESSION_MS} if static else {}
    ended_s, back_s = [], []
    with at_work(bootstrap, own=own, static=static) as group:
        for name in group.members:
            begun_s = time.monotonic()
            group.fleet.stop(name)
            ended_s.append(time.monotonic() - begun_s)
            begun_s = time.monotonic()
            group.start(name)
            group.fleet.wait_for_generation_of(name)
            back_s.append(time.monotonic() - begun_s)
            group.fleet.wait_for_more(RATE)  # a second's work
        finding = group.finish()
    return Roll(ended_s, back_s, finding)
