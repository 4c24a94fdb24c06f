"""How the rows of a table are made: short words for what many rows have in common. Pure."""

from __future__ import annotations

from collections.abc import Callable

from coop_consumer.ops.metric import Metric, MetricKind, MetricSection

FINE = "Never by itself."
STRANGER = (
    "Upgrade members of an older version. If there are none, see who else may write to the "
    "progress topic: `kafka-acls.sh --bootstrap-server HOST:PORT --list --topic PROGRESS_TOPIC`."
)
LOOK = "Nothing; it helps to read the others."

Row = Callable[[str, str, str, str, str, str], Metric]
"""Makes a row of: name, unit, labels between blanks, meaning, when it is bad, what to do."""


def rows_of(section: MetricSection) -> tuple[Row, Row, Row]:
    """Three makers of rows of a section: counters, gauges, histograms. All are by group."""

    def maker(kind: MetricKind) -> Row:
        def make(*words: str) -> Metric:
            name, unit, labels, meaning, bad, remedy = words
            return Metric(
                name=f"coop_{name}",
                kind=kind,
                unit=unit,
                labels=("group", *labels.split()),
                meaning=meaning,
                bad=bad,
                remedy=remedy,
                section=section,
            )

        return make

    return maker(MetricKind.COUNTER), maker(MetricKind.GAUGE), maker(MetricKind.HISTOGRAM)
