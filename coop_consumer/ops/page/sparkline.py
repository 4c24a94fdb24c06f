"""A figure over the last half hour, as the points of a line. Pure.

In: a `HistoryLine`. Out: a `Sparkline`: polylines in a box of 300 by 48, one for each stretch in
which the figure is known, its last value and its highest. The line begins at 0, so that two lines
of one unit can be compared by eye.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.status.words import span

if TYPE_CHECKING:
    from coop_consumer.ops.feed import HistoryLine

WIDTH, HEIGHT = 300, 48
SPAN_MS = 30 * 60_000
_PAD = 3
_POINTS_MAX = 90
"""More could not be told apart, and make the page heavier."""


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A line.

    Attributes:
        name: Of the figure.
        title: The same for people.
        lines: The points of each stretch, as SVG wants them.
        last: The newest value; "?": it is not known.
        highest: The highest one; "?": none is known.
        words: All of it in words.
        dot: Where the newest point lies; None: it is not known.
    """

    name: str
    title: str
    lines: tuple[str, ...]
    last: str
    highest: str
    words: str
    dot: tuple[float, float] | None


def sparkline(series: HistoryLine, now_ms: int) -> Sparkline:
    """The line of a series. O(points)."""
    known = [value for _, value in series.points if value is not None]
    top = max(known, default=0.0)
    scale = top if top > 0 else 1.0

    def placed(at_ms: int, value: float) -> tuple[float, float]:
        x = WIDTH * (1 - min(max(now_ms - at_ms, 0) / SPAN_MS, 1.0))
        y = HEIGHT - _PAD - (HEIGHT - 2 * _PAD) * max(value, 0.0) / scale
        return round(x, 1), round(y, 1)

    stretches = [
        [placed(at_ms, value) for at_ms, value in stretch] for stretch in _stretches(series.points)
    ]
    is_now = bool(series.points) and series.points[-1][1] is not None
    last = _figure(known[-1], series.unit) if known and is_now else "?"
    highest = _figure(top, series.unit) if known else "?"
    covered = span(now_ms - series.points[0][0]) if series.points else "0 s"
    words = f"{series.title}: {last} now, {highest} at most in the last {covered}"
    return Sparkline(
        series.name,
        series.title,
        tuple(" ".join(f"{x:g},{y:g}" for x, y in points) for points in stretches),
        last,
        highest,
        words,
        stretches[-1][-1] if is_now else None,
    )


def _stretches(
    points: Sequence[tuple[int, float | None]],
) -> Iterator[list[tuple[int, float]]]:
    """The points between holes; of very many only the highest of neighbours."""
    step = max(-(-len(points) // _POINTS_MAX), 1)
    stretch: list[tuple[int, float]] = []
    for first in range(0, len(points), step):
        some = points[first : first + step]
        known = [(value, at_ms) for at_ms, value in some if value is not None]
        if known:
            value, at_ms = max(known)
            is_last = first + step >= len(points)
            stretch.append(
                (some[-1][0], some[-1][1] or 0.0)
                if is_last and some[-1][1] is not None
                else (at_ms, value)
            )
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _figure(value: float, unit: str) -> str:
    """A value for people.

    >>> _figure(0.62, "share"), _figure(1234.6, "/s"), _figure(75.0, "s"), _figure(3.0, "")
    ('62%', '1,235/s', '1 min 15 s', '3')
    """
    if unit == "share":
        return f"{value:.0%}"
    if unit == "s":
        return span(round(value * 1_000)) if value >= 1 else f"{value:.1f} s"
    number = f"{value:.1f}" if 0 < value < 10 and value != int(value) else f"{value:,.0f}"
    return f"{number}{unit}"
