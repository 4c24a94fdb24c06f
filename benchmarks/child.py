"""`python -m benchmarks.child JOB`: one process of a system that is measured.

In: a job on the command line; "go" and "stop" on standard input. Out: lines in the words of
`benchmarks.job`, and the journal of what was handled. It ends with its parent. A system is loaded
by name, so that a peer's environment needs what that peer needs and nothing else.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from importlib import import_module
from pathlib import Path

from benchmarks.handler import Handler
from benchmarks.job import GO, HANDLED, JOINED, READY, REPORT, STOP, Job, Report
from benchmarks.processes import resident_mb
from benchmarks.system import MakeSystem
from benchmarks.watched import WatchedConsumer

MODULES = {
    "ours": "benchmarks.ours",
    "ours-one-core": "benchmarks.ours",
    "ours-watched": "benchmarks.ours",
    "ours-unsampled": "benchmarks.ours",
    "ours-sampled": "benchmarks.ours",
    "at-least-once": "benchmarks.ours",
    "exactly-once": "benchmarks.ours",
    "raw": "benchmarks.peers.raw",
    "plain": "benchmarks.peers.plain",
    "lanes": "benchmarks.peers.lanes",
    "pyrallel-consumer": "benchmarks.peers.pyrallel",
}
"""Where each system's `make` is."""

_LOOK_S = 0.01
_SAID_MAX = 1_024
_IN_WRITE = threading.Lock()


def say(word: str, rest: str = "") -> None:
    """Tell the parent, in one piece."""
    with _IN_WRITE:
        os.write(1, f"{word} {rest}".rstrip().encode() + b"\n")


def obey(go: threading.Event, stop: threading.Event) -> None:
    """Take what the parent says; without a parent there is nobody to work for.

    Not by `sys.stdin`: a thread that waits there holds its lock, and a process that a peer forks
    off meanwhile would wait for that lock for ever.
    """
    heard = b""
    while said := os.read(0, _SAID_MAX):
        *words, heard = (heard + said).split(b"\n")
        for word in words:
            {GO: go, STOP: stop}[word.decode()].set()
    os.killpg(os.getpgrp(), signal.SIGKILL)  # some peers' own children would live on


def cpu_s() -> float:
    """CPU seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(it.ru_utime + it.ru_stime for it in used)


def fetched() -> int | None:
    """How many records brokers have sent, as of librdkafka's last word; None: unknown."""
    made = WatchedConsumer.made
    return sum(it.fetched for it in made) if made else None


class Family:
    """The memory of this process and its children, which are gone when it is told."""

    def __init__(self) -> None:
        self._peaks: dict[int, float] = {}

    def look(self) -> None:
        """See the children that there are now."""
        for listed in Path("/proc/self/task").glob("*/children"):
            try:
                pids = listed.read_text().split()
            except OSError:
                continue
            for pid in map(int, pids):
                self._peaks[pid] = max(resident_mb(pid), self._peaks.get(pid, 0.0))

    @property
    def resident_mb(self) -> float:
        """All of it, each at its worst."""
        return resident_mb() + sum(self._peaks.values())


def main() -> None:
    """Run a job."""
    job = Job.parsed(sys.argv[1])
    if job.instance:  # it may be killed, and what it has not told by then is not counted
        WatchedConsumer.every_ms = 20
    make: MakeSystem = import_module(MODULES[job.system]).make
    handler = Handler(job)
    go, stop, family = threading.Event(), threading.Event(), Family()
    threading.Thread(target=obey, args=(go, stop), daemon=True).start()
    say(READY)
    go.wait()
    before_s = cpu_s()
    system = make(job, handler)  # what one does when it is made, another does when it starts
    system.start()
    told, has_joined, looks = 0, False, 0
    while not stop.wait(_LOOK_S):
        looks += 1
        if looks % 50 == 0 and job.work == "burn":
            family.look()
        if not has_joined and system.joined:
            has_joined = True
            say(JOINED)
        handled = system.handled
        if handled != told and looks % 5 == 0:
            told = handled
            known = fetched()
            say(HANDLED, str(handled) if known is None else f"{handled} {known}")
        if job.ends_at and handled >= job.ends_at:
            break
    system.stop()
    handler.close()
    commits, commit_bytes = system.commits
    report = Report(
        handled=system.handled,
        first_ns=handler.first_ns,
        committed_ns=system.committed_ns,
        cpu_s=cpu_s() - before_s,
        resident_mb=family.resident_mb,
        fetched=fetched(),
        commits=commits,
        commit_bytes=commit_bytes,
        steps_ms=getattr(system, "steps_ms", None),
    )
    say(REPORT, report.line())
    os._exit(0)  # some peers leave threads behind that would keep the process


if __name__ == "__main__":
    main()
