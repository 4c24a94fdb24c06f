"""How fast records arrive in partitions, from their ends as seen again and again. Pure.

In: the ends of partitions at moments. Out: records a second for each partition. The mean of the
last minute counts; of up to five minutes, if too few records came in one, as chance would make most
of that. A rise counts sooner: as soon as two looks in a row show it and chance does not explain it.
So a burst of some seconds passes as part of the mean.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import sqrt
from typing import NamedTuple

from assignors import TopicPartition

SPAN_S = 60.0
"""The least length of the mean."""

_SPAN_MAX_S = 300.0
_COUNT_MIN = 400
"""So many records make a mean that chance changes by 5 %."""

_APART_S = 1.0
"""Looks that are closer to each other are not all kept."""

_STEP_S = 5.0
"""The least time between two looks that show a rise."""

_SIGMAS = 2.0
"""So many standard deviations of a random stream are chance."""


class _Ends(NamedTuple):
    at_s: float
    ends: Mapping[TopicPartition, int]


class Arrivals:
    """The ends of a group's partitions over the last minutes. One thread."""

    def __init__(self) -> None:
        self._seen: deque[_Ends] = deque()

    def note(self, at_s: float, ends: Mapping[TopicPartition, int]) -> None:
        """Take a look. If an end has fallen, the topic was made again: then all begins anew.

        Args:
            at_s: When, by a clock that only goes forward.
            ends: The offset that the next record of each partition gets.
        """
        if self._seen and any(ends.get(tp, 0) < end for tp, end in self._seen[-1].ends.items()):
            self._seen.clear()
        if len(self._seen) > 1 and self._seen[-1].at_s < self._seen[-2].at_s + _APART_S:
            self._seen.pop()
        self._seen.append(_Ends(at_s, dict(ends)))
        # The newest of those that are older than the span stays: the mean is of a whole span.
        while len(self._seen) > 2 and self._seen[1].at_s <= at_s - _SPAN_MAX_S:
            self._seen.popleft()

    @property
    def span_s(self) -> float:
        """The time between the first look and the last, in seconds."""
        return self._seen[-1].at_s - self._seen[0].at_s if self._seen else 0.0

    def rates(self) -> dict[TopicPartition, float]:
        """Records a second of each partition in the last look; 0.0 after one look only.

        A partition that the first look did not have counts from the first one that had it.
        """
        if not self._seen:
            return {}
        return {tp: self._rate(tp) for tp in self._seen[-1].ends}

    def _rate(self, tp: TopicPartition) -> float:
        last = self._seen[-1]
        known = [it for it in self._seen if tp in it.ends]
        mean = _between(_since(known, last, tp), last, tp)
        before = _newest(known, last.at_s - _STEP_S)
        first = None if before is None else _newest(known, before.at_s - _STEP_S)
        if before is None or first is None:
            return mean
        return max(mean, min(_surely(first, before, tp), _surely(before, last, tp)))


def _since(seen: list[_Ends], last: _Ends, tp: TopicPartition) -> _Ends:
    """The newest look that is a minute and enough records ago; if there is none, the oldest."""
    for it in reversed(seen):
        if it.at_s <= last.at_s - SPAN_S and last.ends[tp] - it.ends[tp] >= _COUNT_MIN:
            return it
    return seen[0]


def _newest(seen: list[_Ends], until_s: float) -> _Ends | None:
    return next((it for it in reversed(seen) if it.at_s <= until_s), None)


def _between(first: _Ends, last: _Ends, tp: TopicPartition) -> float:
    span_s = last.at_s - first.at_s
    return (last.ends[tp] - first.ends[tp]) / span_s if span_s > 0 else 0.0


def _surely(first: _Ends, last: _Ends, tp: TopicPartition) -> float:
    """The rate, less what may be chance."""
    count = last.ends[tp] - first.ends[tp]
    return max(count - _SIGMAS * sqrt(count), 0.0) / (last.at_s - first.at_s)
