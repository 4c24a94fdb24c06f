"""The last 30 minutes of a group, or of a member, in figures to be drawn. Pure.

In: looks at a group, or a member's figures, as often as they come. Out: series of points, at most
one in ten seconds. A figure that is not known is a hole in its line. Memory is bounded: 180 points
of a dozen numbers each, however often somebody looks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.ops.group_metrics import FirstSeen, blocked_s

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.core.metrics import MemberMetrics
    from coop_consumer.ops.group_metrics import GroupLook
    from coop_consumer.status.model import GroupStatus

SPAN_MS = 30 * 60_000
STEP_MS = 10_000
POINTS_MAX = SPAN_MS // STEP_MS

Figures = Mapping[str, float]
"""What is known at a moment, by names of series."""


@dataclass(frozen=True, slots=True)
class SeriesName:
    """A series without its points.

    Attributes:
        name: Its name.
        title: The same for people.
        unit: What a value counts: "", "/s", "s", or "share" (0.0 to 1.0).
    """

    name: str
    title: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """A figure over time.

    Attributes:
        name, title, unit: As those of `SeriesName`.
        points: Moments, Unix time in ms, ascending, and the values then; None: not known.
    """

    name: str
    title: str
    unit: str
    points: tuple[tuple[int, float | None], ...]


GROUP_SERIES = (
    SeriesName("left", "records left"),
    SeriesName("lag", "lag, as stock tools see it"),
    SeriesName("arrivals", "records that arrive", "/s"),
    SeriesName("finished", "records done", "/s"),
    SeriesName("members", "members"),
    SeriesName("wanted", "members wanted"),
    SeriesName("busy", "how busy workers are", "share"),
    SeriesName("parked", "parked records"),
    SeriesName("failing", "failing records"),
    SeriesName("blocked_s", "how long a record has held a stable offset", "s"),
)
MEMBER_SERIES = (
    SeriesName("finished", "records done", "/s"),
    SeriesName("failed", "attempts that failed", "/s"),
    SeriesName("busy", "how busy workers are", "share"),
    SeriesName("lane_records", "records taken in and not done"),
    SeriesName("commit_age_s", "how long finished records wait for their commit", "s"),
)


class _Points:
    """The points of all series: the last look of each step counts.

    One thread writes, any thread reads: what a reader gets is never changed.
    """

    def __init__(self, names: tuple[SeriesName, ...]) -> None:
        self._names = names
        self._points: tuple[tuple[int, Figures], ...] = ()

    def note(self, at_ms: int, figures: Figures) -> None:
        # A clock that is set back: what lies ahead of it would never go.
        kept = [it for it in self._points if at_ms - SPAN_MS < it[0] <= at_ms]
        if kept and kept[-1][0] // STEP_MS == at_ms // STEP_MS:
            kept.pop()
        self._points = (*kept[-(POINTS_MAX - 1) :], (at_ms, figures))

    def series(self) -> tuple[Series, ...]:
        points = self._points
        return tuple(
            Series(
                it.name, it.title, it.unit, tuple((at, found.get(it.name)) for at, found in points)
            )
            for it in self._names
        )


class GroupHistory:
    """The last 30 minutes of a group. One thread writes, any thread reads."""

    def __init__(self) -> None:
        self._points = _Points(GROUP_SERIES)
        self._seen = FirstSeen()
        self._before: _Counts | None = None  # of a step before, if no look has failed since
        self._last: _Counts | None = None

    def note(self, look: GroupLook, at_ms: int) -> None:
        """Take a look. A failed one leaves a hole. O(partitions + members).

        Args:
            look: The look.
            at_ms: When, Unix time.
        """
        status, advice = look.status, look.advice
        if status is None:
            self._before = self._last = None
            self._points.note(at_ms, {})
            return
        self._seen.note(look)
        found = _of_group(status, self._seen)
        counts = _Counts(at_ms, {it.tp: (it.end, it.remaining.records) for it in status.partitions})
        if self._last is not None and self._last.at_ms // STEP_MS != at_ms // STEP_MS:
            self._before = self._last
        self._last = counts
        if self._before is not None and (rate := counts.done_since(self._before)) is not None:
            found["finished"] = rate
        if advice is not None:
            found |= {"arrivals": advice.arrivals, "wanted": float(advice.wanted)}
        self._points.note(at_ms, found)

    def series(self) -> tuple[Series, ...]:
        """All series. O(points)."""
        return self._points.series()


class MemberHistory:
    """The last 30 minutes of a member. One thread writes, any thread reads."""

    def __init__(self) -> None:
        self._points = _Points(MEMBER_SERIES)
        self._before: MemberMetrics | None = None

    def note(self, metrics: MemberMetrics) -> None:
        """Take the figures of now."""
        found = {
            "busy": metrics.workers_busy / metrics.workers if metrics.workers else 0.0,
            "lane_records": float(metrics.lane_records),
            "commit_age_s": metrics.commit_age_s,
        }
        before, self._before = self._before, metrics
        if before is not None and metrics.at_ms > before.at_ms:
            seconds = (metrics.at_ms - before.at_ms) / 1_000
            for name, count in (("finished", _finished), ("failed", _failed)):
                found[name] = max(count(metrics) - count(before), 0) / seconds
        self._points.note(metrics.at_ms, found)

    def series(self) -> tuple[Series, ...]:
        """All series. O(points)."""
        return self._points.series()


@dataclass(frozen=True, slots=True)
class _Counts:
    """Where a group's partitions end, and what is left of each, at a moment."""

    at_ms: int
    partitions: Mapping[TopicPartition, tuple[int, int]]

    def done_since(self, before: _Counts) -> float | None:
        """Records done a second since then; None: it cannot be told.

        What is left is partly an estimate, which may rise by itself: so it is cut at 0.
        """
        seconds = (self.at_ms - before.at_ms) / 1_000
        both = [tp for tp in self.partitions if tp in before.partitions]
        if seconds <= 0 or not both:
            return None
        done = 0
        for tp in both:
            (end, left), (end_before, left_before) = self.partitions[tp], before.partitions[tp]
            if end < end_before:  # another topic of that name
                return None
            done += end - end_before + left_before - left
        return max(done, 0) / seconds


def _of_group(status: GroupStatus, seen: FirstSeen) -> dict[str, float]:
    partitions = status.partitions
    lags = [it.lag for it in partitions if it.lag is not None]
    parked = sum(len(it.parked) for it in partitions)
    found: dict[str, float] = {
        "left": sum(it.remaining.records for it in partitions),
        "members": len(status.members),
        "parked": parked,
        "failing": sum(len(it.failed) for it in partitions) - parked,
    }
    blocked = [blocked_s(it, status.at_ms, seen) for it in partitions]
    if known := [it for it in blocked if it is not None]:
        found["blocked_s"] = max(known)
    if lags:
        found["lag"] = sum(lags)
    workers = sum(it.workers for it in status.load.works)
    if workers:
        found["busy"] = sum(it.busy * it.workers for it in status.load.works) / workers
    return {name: float(value) for name, value in found.items()}


def _finished(metrics: MemberMetrics) -> int:
    return sum(it.finished for it in metrics.topics.values())


def _failed(metrics: MemberMetrics) -> int:
    return sum(sum(it.failed.values()) for it in metrics.topics.values())
