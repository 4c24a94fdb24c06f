"""When the lead asks for a plan by newer loads: seldom, and only if it helps. Pure.

In: what members report of their load, every 30 s. Out: why the group should join again, or nothing.
A rebalance makes keys pause, so it has to be worth it: some member is busy, the busiest one could
be relieved by more than 15 % of the mean, and that was so in two rounds of reports. Between two of
these rebalances lie three minutes, and twice as many after each one that has not helped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

ROUND_MS = 30_000
PAUSE_MS, PAUSE_MAX_MS = 180_000, 3_600_000
_SETTLE_MS = 60_000  # after an assignment: what members have measured by then counts half at least
_RELIEF_PER_MILLE = 150  # of the mean
_BUSY_PER_MILLE = 600
_HELPED_PERCENT = 95  # a rebalance has helped if less than this of the relief is left to get
_ROUNDS = 2


class MemberReport(NamedTuple):
    """What a member reports of its load.

    Attributes:
        capacity: Its weight in plans.
        busy: Per mille of its workers' time that handlers take.
        load: Picoseconds of work a second that its ranges bring.
        heavy: The same of each of its heaviest hashes.
    """

    capacity: int
    busy: int
    load: int
    heavy: tuple[int, ...] = ()


class Spread(NamedTuple):
    """The load of a unit of capacity.

    Attributes:
        most: Of the member with the most of it.
        mean: Of all.
        most_after: About what the most is after a plan by these loads: the mean, but that a hash
            is not divided.
    """

    most: int
    mean: int
    most_after: int

    @property
    def relief(self) -> int:
        """By how much a plan would relieve the member with the most."""
        return self.most - self.most_after


def spread_of(reports: Collection[MemberReport]) -> Spread:
    """How even the load is, and could be. O(heavy hashes).

    >>> spread_of([MemberReport(1, 0, 90), MemberReport(1, 0, 30)])
    Spread(most=90, mean=60, most_after=60)
    >>> spread_of([MemberReport(1, 0, 90, heavy=(80,)), MemberReport(1, 0, 30)])
    Spread(most=90, mean=60, most_after=80)
    """
    load, capacity = sum(it.load for it in reports), sum(it.capacity for it in reports)
    heavy = sorted(
        ((it, report.capacity) for report in reports for it in report.heavy), reverse=True
    )
    mean = level = load // capacity
    most_after = level
    # A hash that fills a worker leaves the rest to the other workers.
    for one, of_holder in heavy:
        if one <= level or capacity <= 1:
            break
        load, capacity = load - one, capacity - 1
        level = max(0, load) // capacity
        most_after = max(most_after, ((of_holder - 1) * level + one) // of_holder)
    return Spread(max(it.load // it.capacity for it in reports), mean, most_after)


@dataclass(slots=True, eq=False)
class Rebalancing:
    """Remembers what was decided, and how that went."""

    _round_due_ms: int = 0
    _rounds: int = 0
    _asked_ms: int = -PAUSE_MAX_MS
    _pause_ms: int = PAUSE_MS
    _hoped: int = 0  # the relief that a rebalance is to bring, per mille of the mean, until it has

    def assigned(self, now_ms: int) -> None:
        """A plan has come: what was reported was of the one before."""
        self._rounds = 0
        self._round_due_ms = now_ms + _SETTLE_MS

    def is_due(self, now_ms: int) -> bool:
        """Whether the next round has come."""
        return now_ms >= self._round_due_ms

    def why(self, reports: Mapping[str, MemberReport], now_ms: int) -> str:
        """Why to join again now; "" if there is no reason.

        Args:
            reports: The newest of each live member that has reported one.
            now_ms: The time.
        """
        if not self.is_due(now_ms):
            return ""
        self._round_due_ms = now_ms + ROUND_MS
        spread = spread_of(reports.values()) if reports else Spread(0, 0, 0)
        if not spread.mean:
            self._rounds = 0
            return ""
        relief = spread.relief * 1_000 // spread.mean
        self._learn(relief)
        busiest = max(
            reports, key=lambda name: (reports[name].load // reports[name].capacity, name)
        )
        is_busy = max(report.busy for report in reports.values()) > _BUSY_PER_MILLE
        if not is_busy or relief <= _RELIEF_PER_MILLE:
            self._rounds = 0
            return ""
        self._rounds += 1
        if self._rounds < _ROUNDS or now_ms < self._asked_ms + self._pause_ms:
            return ""
        self._asked_ms, self._rounds, self._hoped = now_ms, 0, relief
        return (
            f"{busiest} has {_times(spread.most, spread.mean)} the load that members have on "
            f"average; {_times(spread.most_after, spread.mean)} is possible"
        )

    def _learn(self, relief: int) -> None:
        """See what the last rebalance of ours has brought, in the first round after it."""
        if self._hoped:
            helped = relief * 100 < self._hoped * _HELPED_PERCENT
            self._pause_ms = PAUSE_MS if helped else min(2 * self._pause_ms, PAUSE_MAX_MS)
            self._hoped = 0


def _times(load: int, mean: int) -> str:
    """A ratio with two decimals."""
    hundredths = load * 100 // mean
    return f"{hundredths // 100}.{hundredths % 100:02} x"
