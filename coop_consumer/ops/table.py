"""The table: every metric of this library, with its meaning, when it is bad, and what to do. Pure.

Exporters show what is here and nothing else. docs/metrics.md is made from it (`reference`), and the
dashboard and the alerts of `deploy/` may name nothing else; tests compare.
"""

from __future__ import annotations

from coop_consumer.ops.metric import Metric, MetricSection
from coop_consumer.ops.tables import clients, group, member, outcome

TABLE: dict[str, Metric] = {
    row.name: row for row in (*member.ROWS, *outcome.ROWS, *clients.ROWS, *group.ROWS)
}
"""By name, in the order of the documentation."""


def rows_in(section: MetricSection) -> list[Metric]:
    """The rows of one section."""
    return [row for row in TABLE.values() if row.section is section]
