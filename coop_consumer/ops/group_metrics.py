"""A group's status as samples of the table. Pure.

In: a `GroupStatus`, how many members it wants, when it was looked at. Out: samples. What is not
known has no sample: a partition without a committed offset has no lag, for one. Times come from
several clocks, so none is below 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignors import WHOLE
from coop_consumer.ops.samples import Sample

if TYPE_CHECKING:
    from coop_consumer.errors import CoopConsumerError
    from coop_consumer.status.model import GroupStatus, PartitionStatus, RecordStatus
    from coop_consumer.status.scale import ScaleAdvice
    from coop_consumer.status.seen import MemberSeen

_SETTLED = "Stable"
"""The coordinator's word for a group whose members all have their assignment."""
_MEMBER_STATES = ("working", "waiting", "idle", "joining", "plain", "unreadable")


@dataclass(frozen=True, slots=True)
class GroupLook:
    """A look at a group.

    Attributes:
        group: The group's id.
        took_s: How long the look took, in seconds.
        at_s: When it ended, by a clock that only goes forward.
        status: What was seen; None: the look failed.
        advice: How many members it wants; None where `status` is.
        error: Why the look failed; None: it did not, or the log has a defect of ours.
    """

    group: str
    took_s: float
    at_s: float
    status: GroupStatus | None = None
    advice: ScaleAdvice | None = None
    error: CoopConsumerError | None = None


def group_samples(look: GroupLook, now_s: float) -> Iterator[Sample]:
    """All samples of a group. O(partitions + members).

    Args:
        look: The last look at it.
        now_s: The time, by the clock of `GroupLook.at_s`.
    """
    for name, labels, value in _group(look, now_s):
        yield Sample(f"coop_group_{name}", (look.group, *labels), value)


_GroupRow = tuple[str, tuple[str, ...], float]


def _group(look: GroupLook, now_s: float) -> Iterator[_GroupRow]:
    status, advice = look.status, look.advice
    yield "up", (), float(status is not None)
    yield "look_seconds", (), look.took_s
    yield "look_age_seconds", (), max(now_s - look.at_s, 0.0)
    if status is None:
        return
    for partition in status.partitions:
        yield from _partition(partition, status.at_ms)
    yield from _whole(status)
    if advice is not None:
        yield "wanted_members", (), advice.wanted
        if advice.useful is not None:
            yield "useful_members", (), advice.useful


def _partition(partition: PartitionStatus, at_ms: int) -> Iterator[_GroupRow]:
    place = partition.tp.topic, str(partition.tp.partition)
    parked = len(partition.parked)
    found = {
        "stable_offset": partition.stable,
        "end_offset": partition.end,
        "readable_offset": partition.end - partition.hidden,
        "committed_offset": partition.committed,
        "lag": partition.lag,
        "records_left": partition.remaining.records,
        "gap_ranges": len(partition.gaps),
        "blocked_seconds": _blocked_s(partition.holder, at_ms),
        "holder_parked": float(partition.holder is not None and partition.holder.is_parked),
        "oldest_record_seconds": _oldest_s(partition, at_ms),
        "parked_records": parked,
        "failing_records": len(partition.failed) - parked,
    }
    for name, value in found.items():
        if value is not None:
            yield name, place, value


def _blocked_s(holder: RecordStatus | None, at_ms: int) -> float:
    """How long the record that holds the stable offset has; 0.0: nobody says since when.

    A record that fails again and again changes its state at each attempt: its first failure counts.
    """
    if holder is None:
        return 0.0
    known_ms = [it for it in (holder.standing_since_ms, holder.since_ms) if it > 0]
    return _since_s(min(known_ms, default=0), at_ms)


def _oldest_s(partition: PartitionStatus, at_ms: int) -> float | None:
    """The age of the first record that is not done; None: its timestamp is not known."""
    if not partition.remaining.records:
        return 0.0
    holder = partition.holder
    if holder is None or holder.timestamp_ms < 0:
        return None
    return _since_s(holder.timestamp_ms, at_ms)


def _since_s(since_ms: int, at_ms: int) -> float:
    return max(at_ms - since_ms, 0) / 1_000 if since_ms > 0 else 0.0


def _whole(status: GroupStatus) -> Iterator[_GroupRow]:
    handovers = [it for partition in status.partitions for it in partition.handovers]
    waited_s = [_since_s(it.since_ms, status.at_ms) for it in handovers]
    yield "handover_seconds", (), max(waited_s, default=0.0)
    waiting = {it.waiting for it in handovers}
    # While a group rebalances, its coordinator shows of no member what it is.
    is_settled = status.state == _SETTLED
    states = Counter(
        state_of(member, waiting) if is_settled else "joining" for member in status.members
    )
    for state in _MEMBER_STATES:
        yield "members", (state,), states[state]
    yield from _topics(status, is_assigned=is_settled or not status.members)
    for reason, count in sorted(status.unreadable.items()):
        yield "log_unreadable", (reason,), count


def state_of(member: MemberSeen, waiting: Collection[str]) -> str:
    """What a member of a settled group does: one of the values of the label `state`.

    Args:
        member: The member.
        waiting: The names of those that wait for ranges.
    """
    if member.note and not member.capacity:
        return "unreadable"
    if not member.capacity:
        return "plain"
    if member.name in waiting:
        return "waiting"
    return "working" if any(member.ranges.values()) else "idle"


def _topics(status: GroupStatus, *, is_assigned: bool) -> Iterator[_GroupRow]:
    """The rows of topics; without `is_assigned` nobody knows who has which ranges."""
    partitions = Counter(it.tp.topic for it in status.partitions)
    unowned: Counter[str] = Counter()
    for partition in status.partitions:
        unowned[partition.tp.topic] += sum(it.size for it in partition.unowned)
    heaviest = dict.fromkeys(partitions, 0.0)
    for key in status.load.keys:
        topic = key.tp.topic
        heaviest[topic] = max(heaviest.get(topic, 0.0), key.share)
    undecided = dict.fromkeys(partitions, 0.0)
    for it in status.open_transactions:
        topic = it.tp.topic
        undecided[topic] = max(undecided.get(topic, 0.0), _since_s(it.since_ms, status.at_ms))
    for topic, count in sorted(partitions.items()):
        if is_assigned:
            yield "unowned_share", (topic,), unowned[topic] / (WHOLE.size * count)
        yield "top_key_share", (topic,), heaviest[topic]
    for topic, waited_s in sorted(undecided.items()):
        yield "undecided_seconds", (topic,), waited_s
