"""The figures of a member at one moment, as plain values. Pure.

In: counters, the tally, and the member's state, if a run of it is at work. Out: `MemberMetrics`.
What is counted belongs to the member and outlives its runs. What stands is 0 where no run is at
work. Exporters read this value, and nothing else of the member (`coop_consumer.ops`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from assignors import WHOLE
from coop_consumer.core.tally import TopicTally

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coop_consumer.core.counters import Counters
    from coop_consumer.core.histogram import Durations
    from coop_consumer.core.lanes import Census
    from coop_consumer.core.state import MemberState
    from coop_consumer.core.tally import FetchBound, Tally


class MemberPhase(StrEnum):
    """What a member does.

    STARTING: no run of it has begun, or the next one is about to. JOINING: it waits for an
    assignment. WAITING: some of what it was assigned has not begun (`ranges_waiting`), be it a key.
    WORKING: it processes ranges. IDLE: it is a member, and no range is its. CLOSING: it finishes
    what runs. ENDED: it has left.
    """

    STARTING = "starting"
    JOINING = "joining"
    WAITING = "waiting"
    WORKING = "working"
    IDLE = "idle"
    CLOSING = "closing"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetrics:
    """The records of one topic. Counters are of the member's life.

    Attributes:
        fetched: Records that came from brokers, also those of other members' ranges.
        finished: Records that count as done here.
        failed: Attempts that failed, by reason.
        retried: Attempts that were begun again after a failure.
        skipped: Records that count as done, unprocessed, by reason.
        dead_lettered: Records that went to a dead-letter topic.
        expired: Records whose handler ran for longer than `max.processing.ms`.
        lost_to_retention: Offsets that were deleted before they were read.
        handler: How long handlers took.
        age: From the timestamp of records to the moment at which they were done.
        queue: How long records waited in the member.
        range_share: Which part of the topic's hash space is processed here, 0.0 to 1.0.
    """

    fetched: int
    finished: int
    failed: Mapping[str, int]
    retried: int
    skipped: Mapping[str, int]
    dead_lettered: int
    expired: int
    lost_to_retention: int
    handler: Durations
    age: Durations
    queue: Durations
    range_share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetrics:
    """The transactions of a member, with exactly once. Counters are of the member's life.

    Attributes:
        committed: Transactions that are committed.
        refused: Aborted, as the group was in another generation.
        aborted: Aborted for another reason.
        in_doubt: Nobody said whether they were committed, so the log was read.
        outputs: Outputs in those that are committed.
        steps_s: Seconds that brokers took, by step.
        fences: Runs of members that were fenced.
    """

    committed: int
    refused: int
    aborted: int
    in_doubt: int
    outputs: int
    steps_s: Mapping[str, float]
    fences: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedStateMetrics:
    """The keyed state of a member's worker.

    Attributes:
        restores: How often ranges were restored.
        restore: How long a restore took.
        records_read: Records of changelogs that were read for this.
        bytes: Bytes of the stores on disk.
    """

    restores: int
    restore: Durations
    records_read: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetrics:
    """A member at one moment. Times are seconds; counters are of the member's life.

    Attributes:
        group: The group's id.
        member: The member's name in the group.
        phase: What it does.
        at_ms: When this was so, Unix time in ms by the member's clock.
        topics: By name, of each topic that it has had anything of.
        workers: How many records, or batches, it can process at a time.
        workers_busy: How many of them run a handler.
        lane_records: Records taken in and not done.
        lane_bytes: Bytes that these take.
        lane_keys: Keys that these have.
        keys_backing_off: Keys that wait for their next attempt.
        keys_parked: Keys that wait for a decision.
        keys_overdue: Keys whose handler runs for longer than `max.processing.ms`.
        bound: What holds the fetch; "" if nothing does.
        walled: Partitions that are not fetched because of their gap ranges.
        fetch_held_s: How long the fetch was held so far.
        commits: Commits that were sent.
        commit_bytes: Their bytes.
        commit: How long the log took to acknowledge a commit, flush and outputs included.
        commit_age_s: How long what is finished has waited for its commit; 0.0: nothing waits.
        flush: How long the worker's `flush` took.
        rebalances: Assignments that it got.
        handover: From an assignment to the beginning of a range that it brought.
        ranges_waiting: Ranges that were assigned, and have not begun. A key whose last owner's
            handler still runs is one, although the range around it has begun.
        forced_releases: Ranges that it began because a person released them.
        client_renewals: Clients that were replaced because they stood still.
        log_unreadable: Records of the progress log that it could not read, by reason.
        child_restarts: Child processes that were started in the place of dead ones.
        outputs_waiting: Outputs of finished records that Kafka does not have yet.
        output_bytes_waiting: Their bytes.
        undecided_input_s: How long a partition has stood at somebody's undecided transaction.
        undecided_log_s: The same, for the progress log.
        transactions: With exactly once; else None.
        keyed_state: If its worker keeps state; else None.
        clients: Figures of librdkafka's clients by role, with `statistics.interval.ms`.
        memory_bytes: What its process has in memory; 0: not known.
    """

    group: str
    member: str
    phase: MemberPhase
    at_ms: int
    topics: Mapping[str, TopicMetrics]
    workers: int = 0
    workers_busy: int = 0
    lane_records: int = 0
    lane_bytes: int = 0
    lane_keys: int = 0
    keys_backing_off: int = 0
    keys_parked: int = 0
    keys_overdue: int = 0
    bound: str = ""
    walled: int = 0
    fetch_held_s: float
    commits: int
    commit_bytes: int
    commit: Durations
    commit_age_s: float = 0.0
    flush: Durations
    rebalances: int
    handover: Durations
    ranges_waiting: int = 0
    forced_releases: int
    client_renewals: int
    log_unreadable: Mapping[str, int]
    child_restarts: int
    outputs_waiting: int = 0
    output_bytes_waiting: int = 0
    undecided_input_s: float = 0.0
    undecided_log_s: float = 0.0
    transactions: TransactionMetrics | None
    keyed_state: KeyedStateMetrics | None = None
    clients: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    memory_bytes: int = 0


def metrics_at_rest(
    group: str,
    member: str,
    phase: MemberPhase,
    counters: Counters,
    tally: Tally,
    *,
    now_ms: int,
    exactly_once: bool,
) -> MemberMetrics:
    """What was counted of a member of which no run is at work: nobody changes it meanwhile."""
    return MemberMetrics(
        group=group,
        member=member,
        phase=phase,
        at_ms=now_ms,
        topics={name: _topic(it) for name, it in tally.topics.items()},
        fetch_held_s=tally.held_ms / 1_000,
        commits=counters.commits,
        commit_bytes=counters.commit_bytes,
        commit=tally.commit.now(),
        flush=tally.flush.now(),
        rebalances=tally.rebalances,
        handover=tally.handover.now(),
        forced_releases=counters.forced,
        client_renewals=counters.renewed,
        log_unreadable=dict(tally.unreadable),
        child_restarts=tally.child_restarts,
        transactions=_transactions(counters) if exactly_once else None,
        clients=dict(tally.clients),
        memory_bytes=tally.memory_bytes,
    )


def metrics_now(
    state: MemberState,
    census: Census,
    *,
    bound: FetchBound | None,
    held_ms: int,
    backing_off: int,
    overdue: int,
    commit_age_ms: int,
    waiting: int,
) -> MemberMetrics:
    """The same of a member at work, on its thread, with what stands now.

    Args:
        state: All that the member knows.
        census: What is in its lanes.
        bound: What holds the fetch.
        held_ms: How long that lasts.
        backing_off: Keys that wait for their next attempt.
        overdue: Handlers that run for too long.
        commit_age_ms: How long what is finished has waited for its commit.
        waiting: Ranges that wait; see `Waits.count`.
    """
    counters, now_ms = state.counters, state.now_ms
    counted = metrics_at_rest(
        state.group,
        state.name,
        _phase(state, waiting),
        counters,
        state.tally,
        now_ms=now_ms,
        exactly_once=state.config.exactly_once,
    )
    workers = state.lanes.work.workers or state.membership.capacity
    return replace(
        counted,
        topics=_with_shares(counted.topics, state),
        workers=workers,
        workers_busy=min(census.running, workers),
        lane_records=state.pending(),
        lane_bytes=state.bytes_held(),
        lane_keys=census.keys,
        keys_backing_off=backing_off,
        keys_parked=_parked(state),
        keys_overdue=overdue,
        bound=bound or "",
        walled=counters.walled,
        fetch_held_s=counted.fetch_held_s + held_ms / 1_000,
        commit_age_s=commit_age_ms / 1_000,
        ranges_waiting=waiting,
        outputs_waiting=counters.outputs_waiting,
        output_bytes_waiting=counters.output_bytes_waiting,
        undecided_input_s=_since_s(counters.input_undecided_since_ms, now_ms),
        undecided_log_s=_since_s(counters.log_undecided_since_ms, now_ms),
    )


def _topic(tally: TopicTally) -> TopicMetrics:
    return TopicMetrics(
        fetched=tally.fetched,
        finished=tally.finished,
        failed={reason.value: count for reason, count in tally.failed.items()},
        retried=tally.retried,
        skipped={reason.value: count for reason, count in tally.skipped.items()},
        dead_lettered=tally.dead_lettered,
        expired=tally.expired,
        lost_to_retention=tally.lost_to_retention,
        handler=tally.handler.now(),
        age=tally.age.now(),
        queue=tally.queue.now(),
    )


def _transactions(counters: Counters) -> TransactionMetrics:
    steps_ms = {
        "effects": counters.effects_ms,
        "progress": counters.progress_ms,
        "check": counters.check_ms,
        "commit": counters.commit_ms,
    }
    return TransactionMetrics(
        committed=counters.transactions,
        refused=counters.transactions_refused,
        aborted=counters.transactions_aborted,
        in_doubt=counters.transactions_in_doubt,
        outputs=counters.outputs,
        steps_s={step: took_ms / 1_000 for step, took_ms in steps_ms.items()},
        fences=counters.fences,
    )


def _phase(state: MemberState, waiting: int) -> MemberPhase:
    membership = state.membership
    if membership.left:
        return MemberPhase.ENDED
    if membership.closing:
        return MemberPhase.CLOSING
    if not membership.is_member or membership.joining:
        return MemberPhase.JOINING
    if waiting:
        return MemberPhase.WAITING
    is_at_work = any(partition.tenures for partition in state.partitions.values())
    return MemberPhase.WORKING if is_at_work else MemberPhase.IDLE


def _with_shares(topics: Mapping[str, TopicMetrics], state: MemberState) -> dict[str, TopicMetrics]:
    """The same with the part of each topic's hash space that is processed here."""
    sizes = dict.fromkeys(topics, 0)
    for tp, partition in state.partitions.items():
        own = sum(r.size for it in partition.tenures if it.begun for r in it.ranges)
        sizes[tp.topic] = sizes.get(tp.topic, 0) + own
    found = {}
    for topic, size in sorted(sizes.items()):
        _, partitions = state.topics.get(topic, (b"", 1))
        share = size / (WHOLE.size * max(partitions, 1))
        found[topic] = replace(topics.get(topic) or _topic(TopicTally()), range_share=share)
    return found


def _parked(state: MemberState) -> int:
    """Keys whose first record waits for a decision."""
    return len(
        {
            (partition.tp, attempt.key_hash)
            for partition in state.partitions.values()
            for tenure in partition.tenures
            for attempt in tenure.attempts.values()
            if attempt.parked
        }
    )


def _since_s(since_ms: int, now_ms: int) -> float:
    return max(now_ms - since_ms, 0) / 1_000 if since_ms else 0.0
