"""How fast processes are, from their reports. Pure.

In: reports. Out: a `Pace`, the sum of them at a moment, and what was done between two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coop_consumer.demo.report import ChildReport


@dataclass(frozen=True, slots=True)
class Stretch:
    """Work done in a stretch of time.

    >>> print(Stretch(handled=3_000, seconds=2.0))
    3,000 flights, 1,500/s
    """

    handled: int
    seconds: float

    @property
    def a_second(self) -> float:
        """Flights handled in a second; 0.0 if no time has passed."""
        return self.handled / self.seconds if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        return f"{self.handled:,} flights, {self.a_second:,.0f}/s" if self.handled else "joining"


@dataclass(frozen=True, slots=True)
class Pace:
    """All processes of a run at a moment.

    Attributes:
        handled: Flights that they have handled.
        first_s: Unix time at which the first flight began; 0.0: none has.
        now_s: Unix time of the latest report.
    """

    handled: int = 0
    first_s: float = 0.0
    now_s: float = 0.0

    @classmethod
    def of(cls, reports: Sequence[ChildReport]) -> Pace:
        """The sum of the latest reports."""
        return cls(
            handled=sum(report.handled for report in reports),
            first_s=min((r.first_s for r in reports if r.first_s), default=0.0),
            now_s=max((report.now_s for report in reports), default=0.0),
        )

    def since(self, begin: Pace) -> Stretch:
        """The work since then; if nothing had been handled then, since the first flight began.

        >>> Pace(300, 10.0, 14.0).since(Pace(100, 10.0, 12.0))
        Stretch(handled=200, seconds=2.0)
        >>> Pace(300, 10.0, 14.0).since(Pace())
        Stretch(handled=300, seconds=4.0)
        """
        if not self.first_s:
            return Stretch(0, 0.0)
        begin_s = begin.now_s if begin.handled else self.first_s
        return Stretch(self.handled - begin.handled, max(self.now_s - begin_s, 0.0))
