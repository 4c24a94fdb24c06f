"""Histograms of durations, in buckets that are fixed from the beginning. Pure.

In: durations in seconds, each for one or many observations. Out: `Durations`, a histogram as it is
at one moment. An observation costs a search among some ten bounds, however many it stands for. So
the parts of a member observe once a chunk, a batch or a commit, and never once a record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

HANDLER_S = (0.00001, 0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 300.0)
"""Bounds for handlers: from a function that returns at once to one that waits for a person."""

WAIT_S = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0, 3_600.0)
"""Bounds for how long a record waits in a member."""

AGE_S = (0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 21_600.0, 86_400.0)
"""Bounds for the age of a record: a day behind is no rarity after an outage."""

STEP_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 120.0)
"""Bounds for what brokers or the user's code do once a commit or a handover."""


@dataclass(frozen=True, slots=True)
class Durations:
    """A histogram at one moment.

    Attributes:
        bounds_s: The upper bounds of the buckets, in seconds, ascending.
        counts: How many observations lie in each bucket: above the bound before, and up to its own.
            One number more than there are bounds: the last one counts what lies above all.
        sum_s: The sum of all observations, in seconds.
    """

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    sum_s: float

    @property
    def count(self) -> int:
        """How many observations there are."""
        return sum(self.counts)

    def since(self, before: Durations | None) -> Durations:
        """The observations that came after an earlier moment; None: all. O(bounds)."""
        if before is None:
            return self
        counts = (now - then for now, then in zip(self.counts, before.counts, strict=True))
        return Durations(self.bounds_s, tuple(counts), self.sum_s - before.sum_s)

    def quantile(self, share: float) -> float:
        """The duration, in seconds, that this share of the observations does not exceed. O(bounds).

        It is as exact as the buckets are: within one it is interpolated. Of what lies above all
        bounds, only the highest bound is known. Without observations it is 0.0.

        >>> Durations((0.01, 0.1, 1.0), (0, 90, 10, 0), 9.0).quantile(0.5)
        0.06
        """
        rank, below = share * self.count, 0
        if not self.count:
            return 0.0
        lowers = (0.0, *self.bounds_s)
        for lower, upper, count in zip(lowers, self.bounds_s, self.counts, strict=False):
            if count and below + count >= rank:
                return round(lower + (upper - lower) * max(rank - below, 0.0) / count, 9)
            below += count
        return self.bounds_s[-1]


def added_up(histograms: Iterable[Durations]) -> Durations | None:
    """All observations of histograms of the same bounds; None: there are no histograms."""
    found = list(histograms)
    if not found:
        return None
    counts = (sum(column) for column in zip(*(it.counts for it in found), strict=True))
    return Durations(found[0].bounds_s, tuple(counts), sum(it.sum_s for it in found))


class Histogram:
    """Observations so far. One thread observes; `now` may be called by any.

    Args:
        bounds_s: See `Durations`.
    """

    __slots__ = ("_bounds_s", "_counts", "_sum_s")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self._bounds_s = bounds_s
        self._counts = [0] * (len(bounds_s) + 1)
        self._sum_s = 0.0

    def observe(self, seconds: float, count: int = 1) -> None:
        """Count `count` observations of this duration; a negative one counts as 0. O(log bounds).

        Durations may come from two clocks, so they may be negative.
        """
        seconds = max(seconds, 0.0)
        self._counts[bisect_left(self._bounds_s, seconds)] += count
        self._sum_s += seconds * count

    def now(self) -> Durations:
        """The histogram as it is now. O(bounds)."""
        return Durations(self._bounds_s, tuple(self._counts), self._sum_s)
