"""The figures of a member that has done everything that can be counted."""

from __future__ import annotations

from dataclasses import replace

from coop_consumer.core.counters import Counters
from coop_consumer.core.histogram import STEP_S, Histogram
from coop_consumer.core.metrics import (
    KeyedStateMetrics,
    MemberMetrics,
    MemberPhase,
    metrics_at_rest,
)
from coop_consumer.core.tally import FailureReason, SkipReason, Tally
from coop_consumer.ops.metric import MetricSection
from coop_consumer.ops.table import rows_in


def full_metrics(*topics: str) -> MemberMetrics:
    """All of it, of these topics, or of one."""
    tally = Tally()
    for topic in topics or ("orders",):
        it = tally.of(topic)
        it.fetched, it.finished, it.retried, it.dead_lettered = 100, 90, 5, 1
        it.expired, it.lost_to_retention = 1, 3
        it.failed.update({FailureReason.RAISED: 4, FailureReason.OUTAGE: 2})
        it.skipped.update({SkipReason.POLICY: 1})
        it.handler.observe(0.004, 90)
        it.age.observe(3.0, 90)
        it.queue.observe(0.2, 90)
    tally.rebalances, tally.held_ms, tally.child_restarts = 2, 1_500, 1
    tally.unreadable.update({"corrupt value": 1})
    for durations in (tally.commit, tally.flush, tally.handover):
        durations.observe(0.02)
    clients = [row.name.removeprefix("coop_client_") for row in rows_in(MetricSection.CLIENTS)]
    tally.clients["fetch"] = dict.fromkeys(clients, 7.0)
    found = metrics_at_rest(
        "billing",
        "m1",
        MemberPhase.WORKING,
        Counters(transactions=3, effects_ms=12.0, commits=4, forced=1),
        tally,
        now_ms=1_000,
        exactly_once=True,
    )
    restore = Histogram(STEP_S)
    restore.observe(0.3)
    state = KeyedStateMetrics(restores=1, restore=restore.now(), records_read=10, bytes=4_096)
    return replace(found, keyed_state=state, workers=4, workers_busy=2, lane_records=10)
