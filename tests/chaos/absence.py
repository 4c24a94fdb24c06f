"""Runs that were away for so long that they are no live members. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tests.chaos.witness import Told
from tests.support.journal import Row


@dataclass(frozen=True, slots=True)
class Absence:
    """A run that was away for so long that others took its ranges: a zombie until it knows.

    Attributes:
        name: Whose run.
        run: The process id.
        since_ns: When it went, of the monotonic clock.
        generation: The newest that it had been told then.
    """

    name: str
    run: int
    since_ns: int
    generation: int

    def covers(self, row: Row) -> bool:
        """Whether a zombie processed this: it ended later, under a generation of before."""
        return (
            row.run == self.run
            and row.ended_ns > self.since_ns
            and row.generation <= self.generation
        )

    def told(self, said: Told) -> bool:
        """Whether a zombie told this."""
        return said.member.startswith(f"{self.name}-") and said.at_ns > self.since_ns
