"""Figures of a member as samples of the table: a name, labels, a value. Pure.

In: `MemberMetrics`. Out: samples, whatever exporter shows them. A sample names a row of the table,
and has a value for each of its labels. What is not known has no sample; no value is NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer import __version__
from coop_consumer.core.histogram import Durations
from coop_consumer.core.metrics import MemberPhase
from coop_consumer.core.tally import FailureReason, FetchBound, SkipReason
from offsets import UnreadableReason

if TYPE_CHECKING:
    from coop_consumer.core.metrics import (
        KeyedStateMetrics,
        MemberMetrics,
        TopicMetrics,
        TransactionMetrics,
    )


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample.

    Attributes:
        name: Of a row of the table.
        labels: The values of its labels, in their order.
        value: A number; of a histogram, the histogram.
    """

    name: str
    labels: tuple[str, ...]
    value: float | Durations


def member_samples(metrics: MemberMetrics) -> Iterator[Sample]:
    """All samples of a member. O(topics)."""
    group = metrics.group
    for name, labels, value in _member(metrics):
        yield Sample(f"coop_{name}", (group, *labels), value)


_MemberRow = tuple[str, tuple[str, ...], float | Durations]


def _member(it: MemberMetrics) -> Iterator[_MemberRow]:
    yield "member_info", (it.member, __version__), 1
    for phase in MemberPhase:
        yield "member_state", (phase.value,), it.phase is phase
    for topic, metrics in it.topics.items():
        yield from _topic(topic, metrics)
    yield "workers", (), it.workers
    yield "workers_busy", (), it.workers_busy
    yield "lane_records", (), it.lane_records
    yield "lane_bytes", (), it.lane_bytes
    yield "lane_keys", (), it.lane_keys
    yield "keys_backing_off", (), it.keys_backing_off
    yield "keys_parked", (), it.keys_parked
    yield "keys_overdue", (), it.keys_overdue
    for bound in FetchBound:
        is_reached = it.walled > 0 if bound is FetchBound.GAP_RANGES else it.bound == bound
        yield "bound_reached", (bound.value,), is_reached
    yield "fetch_held_seconds_total", (), it.fetch_held_s
    yield "child_restarts_total", (), it.child_restarts
    yield "commits_total", (), it.commits
    yield "commit_bytes_total", (), it.commit_bytes
    yield "commit_seconds", (), it.commit
    yield "commit_age_seconds", (), it.commit_age_s
    yield "flush_seconds", (), it.flush
    yield "rebalances_total", (), it.rebalances
    yield "handover_seconds", (), it.handover
    yield "ranges_waiting", (), it.ranges_waiting
    yield "forced_releases_total", (), it.forced_releases
    yield "client_renewals_total", (), it.client_renewals
    yield from _by("log_unreadable_total", (), it.log_unreadable, UnreadableReason)
    yield "outputs_waiting", (), it.outputs_waiting
    yield "output_bytes_waiting", (), it.output_bytes_waiting
    yield "undecided_seconds", ("input",), it.undecided_input_s
    yield "undecided_seconds", ("log",), it.undecided_log_s
    if it.transactions is not None:
        yield from _transactions(it.transactions)
    if it.keyed_state is not None:
        yield from _keyed_state(it.keyed_state)
    for client, figures in sorted(it.clients.items()):
        for name, value in figures.items():
            yield f"client_{name}", (client,), value


def _topic(topic: str, it: TopicMetrics) -> Iterator[_MemberRow]:
    yield "records_fetched_total", (topic,), it.fetched
    yield "records_finished_total", (topic,), it.finished
    yield from _by("records_failed_total", (topic,), it.failed, FailureReason)
    yield "records_retried_total", (topic,), it.retried
    yield from _by("records_skipped_total", (topic,), it.skipped, SkipReason)
    yield "records_dead_lettered_total", (topic,), it.dead_lettered
    yield "records_expired_total", (topic,), it.expired
    yield "handler_seconds", (topic,), it.handler
    yield "record_age_seconds", (topic,), it.age
    yield "queue_seconds", (topic,), it.queue
    yield "range_share", (topic,), it.range_share
    yield "lost_to_retention_total", (topic,), it.lost_to_retention


def _transactions(it: TransactionMetrics) -> Iterator[_MemberRow]:
    yield "transactions_total", ("committed",), it.committed
    yield "transactions_total", ("refused",), it.refused
    yield "transactions_total", ("aborted",), it.aborted
    yield "transactions_total", ("in_doubt",), it.in_doubt
    yield from _by("transaction_seconds_total", (), it.steps_s)
    yield "transaction_outputs_total", (), it.outputs
    yield "fences_total", (), it.fences


def _keyed_state(it: KeyedStateMetrics) -> Iterator[_MemberRow]:
    yield "state_bytes", (), it.bytes
    yield "state_restore_seconds", (), it.restore
    yield "state_restored_records_total", (), it.records_read


def _by(
    name: str, labels: tuple[str, ...], values: Mapping[str, float], known: Iterable[str] = ()
) -> Iterator[_MemberRow]:
    """One sample for each value of the last label; 0 for those that are known and have none.

    A counter that is first seen with 1 has not grown for Prometheus: it must be there before.
    """
    for last, value in ({str(it): 0.0 for it in known} | dict(values)).items():
        yield name, (*labels, last), value
