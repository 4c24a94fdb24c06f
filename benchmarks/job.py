"""What a process that is measured is told, and what it reports at its end.

In: fields. Out: one argument of a command line, and back; one line of output, and back. It imports
nothing of this library: a peer lives in an environment that does not have it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

READY, JOINED, HANDLED, REPORT = "ready", "joined", "handled", "report"
"""What a process says, a line each: it is set up; it is in the group; how many records it has
handled, and if it knows how many brokers have sent it; all that a `Report` has."""
GO, STOP = "go", "stop"
"""What it is told on its standard input: begin; commit what is finished and end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One process's part in one run.

    Attributes:
        system: Who works: "ours", "ours-one-core", one of our guarantees, or a peer's name.
        work: What a handler does, as in `Case`.
        width: How many records are worked on at a time, by this process.
        ends_at: After so many records it ends by itself; 0: when it is told to.
        journal: The folder for its rows; "": none are noted.
        at_once: Each row is in its file when the record counts as handled.
        instance: Its static name in the group, where processes are killed and come back; or "".
        outputs: The topic that handlers send to: of each record its place, with its key; or "".
        interval_ms: Between two commits; 0: the default.
        held: How many unfinished records we may hold of a partition; 0: the default.
    """

    system: str
    bootstrap: str
    topic: str
    group: str
    work: str
    work_ms: float
    special_ms: float
    width: int
    ends_at: int = 0
    journal: str = ""
    at_once: bool = False
    instance: str = ""
    outputs: str = ""
    interval_ms: int = 0
    held: int = 0

    def argument(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @staticmethod
    def parsed(text: str) -> Job:
        """Back."""
        return Job(**json.loads(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a process tells at its end. Times are of the monotonic clock, in ns; 0: never.

    Attributes:
        first_ns: When the first record was begun.
        committed_ns: When the last commit that told of finished records was acknowledged.
        cpu_s: Of the process and its children, from "go" on.
        resident_mb: The most that was ever resident.
        fetched: How many records brokers sent, those that were thrown away too; None: unknown.
        commits: How many commits there were, and `commit_bytes` of them in all; None: unknown.
        steps_ms: What each step of a transaction took on average; None: there were none.
    """

    handled: int
    first_ns: int
    committed_ns: int
    cpu_s: float
    resident_mb: float
    fetched: int | None = None
    commits: int | None = None
    commit_bytes: int | None = None
    steps_ms: dict[str, float] | None = None

    def line(self) -> str:
        """As the rest of a line."""
        return json.dumps(asdict(self))

    @staticmethod
    def parsed(text: str) -> Report:
        """Back."""
        return Report(**json.loads(text))
