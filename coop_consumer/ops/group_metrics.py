"""A group's status as samples of the table. Pure.

In: a `GroupStatus`, how many members it wants, when it was looked at. Out: samples. What is not
known has no sample: a partition without a committed offset has no lag, for one. Times come from
several clocks, so none is below 0. What stands in a group without members has nobody who says since
when: `FirstSeen` remembers it from look to look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignors import WHOLE, TopicPartition
from coop_consumer.ops.samples import Sample

if TYPE_CHECKING:
    from coop_consumer.errors import CoopConsumerError
    from coop_consumer.status.model import (
        GroupStatus,
        PartitionStatus,
        PendingHandover,
        RecordStatus,
    )
    from coop_consumer.status.open_transaction import OpenTransaction
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


class FirstSeen:
    """Since when a watch sees what stands in a group. One thread writes, any thread reads."""

    def __init__(self) -> None:
        self._since_ms: Mapping[Hashable, int] = {}

    def note(self, look: GroupLook) -> None:
        """Take the next look; one that failed changes nothing. O(what stands)."""
        if (status := look.status) is not None:
            known = self._since_ms
            self._since_ms = {it: known.get(it, status.at_ms) for it in _standing(status)}

    def seconds(self, standing: Hashable, at_ms: int, *told_ms: int) -> float | None:
        """How long something stands, in seconds; None: nobody knows.

        Args:
            standing: What it is.
            at_ms: The time of the look, Unix time.
            told_ms: Since when, as others say, Unix time; 0: they do not know. The earliest counts.
        """
        known_ms = [it for it in (*told_ms, self._since_ms.get(standing, 0)) if it > 0]
        return max(at_ms - min(known_ms), 0) / 1_000 if known_ms else None


def _standing(status: GroupStatus) -> Iterator[Hashable]:
    for partition in status.partitions:
        if partition.holder is not None:
            yield _held(partition, partition.holder)
        yield from (_handover(partition.tp, it) for it in partition.handovers)
    yield from map(_transaction, status.open_transactions)


def _held(partition: PartitionStatus, holder: RecordStatus) -> Hashable:
    # After a reset a record begins to stand anew.
    return partition.tp, partition.epoch, holder.offset


def _handover(tp: TopicPartition, handover: PendingHandover) -> Hashable:
    return tp, handover.waiting, handover.tenure


def _transaction(it: OpenTransaction) -> Hashable:
    return it.tp, "transaction", it.offset


def group_samples(look: GroupLook, now_s: float, seen: FirstSeen) -> Iterator[Sample]:
    """All samples of a group. O(partitions + members).

    Args:
        look: The last look at it.
        now_s: The time, by the clock of `GroupLook.at_s`.
        seen: Has taken all looks at it.
    """
    for name, labels, value in _group(look, now_s, seen):
        yield Sample(f"coop_group_{name}", (look.group, *labels), value)


_GroupRow = tuple[str, tuple[str, ...], float]


def _group(look: GroupLook, now_s: float, seen: FirstSeen) -> Iterator[_GroupRow]:
    status, advice = look.status, look.advice
    yield "up", (), float(status is not None)
    yield "look_seconds", (), look.took_s
    yield "look_age_seconds", (), max(now_s - look.at_s, 0.0)
    if status is None:
        return
    for partition in status.partitions:
        yield from _partition(partition, status.at_ms, seen)
    yield from _whole(status, seen)
    if advice is not None:
        yield "wanted_members", (), advice.wanted
        if advice.useful is not None:
            yield "useful_members", (), advice.useful


def _partition(partition: PartitionStatus, at_ms: int, seen: FirstSeen) -> Iterator[_GroupRow]:
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
        "blocked_seconds": blocked_s(partition, at_ms, seen),
        "holder_parked": float(partition.holder is not None and partition.holder.is_parked),
        "oldest_record_seconds": _oldest_s(partition, at_ms),
        "parked_records": parked,
        "failing_records": len(partition.failed) - parked,
    }
    for name, value in found.items():
        if value is not None:
            yield name, place, value


def blocked_s(partition: PartitionStatus, at_ms: int, seen: FirstSeen) -> float | None:
    """How long a record has held the stable offset; 0.0: nothing is left; None: it is not known.

    A record that fails again and again changes its state at each attempt: its first failure counts.
    """
    holder = partition.holder
    if holder is None:
        return None if partition.remaining.records else 0.0
    told_ms = holder.standing_since_ms, holder.since_ms
    return seen.seconds(_held(partition, holder), at_ms, *told_ms)


def _oldest_s(partition: PartitionStatus, at_ms: int) -> float | None:
    """The age of the first record that is not done; None: its timestamp is not known."""
    if not partition.remaining.records:
        return 0.0
    holder = partition.holder
    if holder is None or holder.timestamp_ms < 0:
        return None
    return max(at_ms - holder.timestamp_ms, 0) / 1_000


def _longest_s(known_s: Iterable[float | None]) -> float | None:
    """The longest of those that are known; 0.0: there are none; None: none is known."""
    all_s = list(known_s)
    return max((it for it in all_s if it is not None), default=None if all_s else 0.0)


def _whole(status: GroupStatus, seen: FirstSeen) -> Iterator[_GroupRow]:
    handovers = [(it.tp, handover) for it in status.partitions for handover in it.handovers]
    waited_s = _longest_s(
        seen.seconds(_handover(tp, it), status.at_ms, it.since_ms) for tp, it in handovers
    )
    if waited_s is not None:
        yield "handover_seconds", (), waited_s
    waiting = {it.waiting for _, it in handovers}
    # While a group rebalances, its coordinator shows of no member what it is.
    is_settled = status.state == _SETTLED
    states = Counter(
        state_of(member, waiting) if is_settled else "joining" for member in status.members
    )
    for state in _MEMBER_STATES:
        yield "members", (state,), states[state]
    yield from _topics(status, seen, is_assigned=is_settled or not status.members)
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


def _topics(status: GroupStatus, seen: FirstSeen, *, is_assigned: bool) -> Iterator[_GroupRow]:
    """The rows of topics; without `is_assigned` nobody knows who has which ranges."""
    partitions = Counter(it.tp.topic for it in status.partitions)
    unowned: Counter[str] = Counter()
    for partition in status.partitions:
        unowned[partition.tp.topic] += sum(it.size for it in partition.unowned)
    heaviest = dict.fromkeys(partitions, 0.0)
    for key in status.load.keys:
        topic = key.tp.topic
        heaviest[topic] = max(heaviest.get(topic, 0.0), key.share)
    undecided: dict[str, list[float | None]] = {topic: [] for topic in partitions}
    for it in status.open_transactions:
        waited_s = seen.seconds(_transaction(it), status.at_ms, it.since_ms)
        undecided.setdefault(it.tp.topic, []).append(waited_s)
    for topic, count in sorted(partitions.items()):
        if is_assigned:
            yield "unowned_share", (topic,), unowned[topic] / (WHOLE.size * count)
        yield "top_key_share", (topic,), heaviest[topic]
    for topic, all_s in sorted(undecided.items()):
        if (longest_s := _longest_s(all_s)) is not None:
            yield "undecided_seconds", (topic,), longest_s
