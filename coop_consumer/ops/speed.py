"""How fast a group goes: records done and arrived a second, and how long the rest takes. Pure.

In: the group's status, look by look. Out: a `Speed`. It is the mean of the last minute, so that it
stands still enough to be read. What is left is partly estimated, and an estimate may jump. So a
rate is cut at 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignors import TopicPartition

if TYPE_CHECKING:
    from coop_consumer.status.model import GroupStatus

_SPAN_MS = 60_000
_APART_MS = 4_000
"""Looks that are closer to each other are not all kept: so a minute is some 15 looks."""
_SPAN_MIN_MS = 1_500
"""A shorter time shows no rate."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Of a partition, or of all.

    Attributes:
        done: Records done a second.
        arrived: Records that arrived a second.
    """

    done: float
    arrived: float


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast it goes.

    Attributes:
        total: Of the whole group; None: not known yet.
        rates: By partition, as far as they are known.
    """

    total: Rate | None = None
    rates: Mapping[TopicPartition, Rate] = field(default_factory=dict)


NO_SPEED = Speed()

_EndsAndLeft = Mapping[TopicPartition, tuple[int, int]]


class GroupSpeed:
    """Of one group; one thread."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, _EndsAndLeft]] = deque()

    def note(self, status: GroupStatus) -> Speed:
        """Take a look in; returns the speed now. O(partitions)."""
        at_ms = status.at_ms
        counts = {it.tp: (it.end, it.remaining.records) for it in status.partitions}
        seen = self._seen
        if seen and (at_ms < seen[-1][0] or _began_anew(seen[-1][1], counts)):
            seen.clear()
        if len(seen) > 1 and seen[-1][0] < seen[-2][0] + _APART_MS:
            seen.pop()
        seen.append((at_ms, counts))
        while len(seen) > 2 and seen[1][0] <= at_ms - _SPAN_MS:
            seen.popleft()
        return _between(seen[0], seen[-1])


def _began_anew(before: _EndsAndLeft, now: _EndsAndLeft) -> bool:
    """Whether a topic was made again: no end falls otherwise."""
    return any(tp in now and now[tp][0] < end for tp, (end, _) in before.items())


def _between(first: tuple[int, _EndsAndLeft], last: tuple[int, _EndsAndLeft]) -> Speed:
    (first_ms, before), (last_ms, now) = first, last
    span_s = (last_ms - first_ms) / 1_000
    common = [tp for tp in now if tp in before]
    if span_s * 1_000 < _SPAN_MIN_MS or not common:
        return NO_SPEED
    rates = {tp: _rate(before[tp], now[tp], span_s) for tp in common}
    shrunk = sum(before[tp][1] - now[tp][1] for tp in common)
    arrived = sum(rate.arrived for rate in rates.values())
    total = Rate(max(arrived + shrunk / span_s, 0.0), arrived)
    return Speed(total, rates)


def _rate(before: tuple[int, int], now: tuple[int, int], span_s: float) -> Rate:
    arrived = max(now[0] - before[0], 0) / span_s
    return Rate(max(arrived + (before[1] - now[1]) / span_s, 0.0), arrived)
