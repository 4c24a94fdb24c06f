"""What every system that is measured looks like to the process that runs it.

In: a job and the handler of its records. Out: records handled, and the time of the last commit. It
imports nothing of this library.
"""

from __future__ import annotations

from typing import Protocol

from benchmarks.handler import Handler
from benchmarks.job import Job


class System(Protocol):
    """A consumer of a topic: this library, or a peer."""

    def start(self) -> None:
        """Join the group; return at once."""

    def stop(self) -> None:
        """Finish what runs, commit it and leave; return when that is done."""

    @property
    def handled(self) -> int:
        """How many records were handled so far."""
        ...

    @property
    def joined(self) -> bool:
        """Whether the group has let it in."""
        ...

    @property
    def committed_ns(self) -> int:
        """When the last commit was acknowledged, by the monotonic clock; 0: never."""
        ...

    @property
    def commits(self) -> tuple[int | None, int | None]:
        """How many commits there were, and of how many bytes; None: unknown."""
        ...


class MakeSystem(Protocol):
    """Makes a system; nothing of it runs yet."""

    def __call__(self, job: Job, handler: Handler) -> System:
        """The system of this job, around this handler."""
        ...
