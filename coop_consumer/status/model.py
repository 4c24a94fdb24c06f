"""What was seen of a group, and what it means: who owns what, what is done, what holds it up. Pure.

In: a `GroupSeen`. Out: a `GroupStatus`, plain values for a picture, JSON or a test. Progress is
judged by the rules of a starting member (`offsets.history`): the log counts if the committed offset
has the tag of its epoch; otherwise the committed offset itself counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

from assignors import WHOLE, KeyRange, TopicPartition, subtract, union
from coop_consumer.config import Guarantee
from coop_consumer.core.policies import Policies
from coop_consumer.plain_text import command, counted
from coop_consumer.status.load import GroupLoad, KeyWork, hot_shares, load_of, with_hot
from coop_consumer.status.open_transaction import OpenTransaction
from coop_consumer.status.remaining import Remaining, common_gaps, remaining
from coop_consumer.status.seen import GroupSeen, MemberSeen, PartitionSeen
from coop_consumer.status.standing import (
    RecordState,
    TenureNotes,
    how_it_stands,
    is_overdue,
    told_of,
)
from offsets import (
    Attempt,
    Committed,
    Meaning,
    OffsetRange,
    PartitionProgress,
    PartitionStore,
    RangeProgress,
    Tag,
    TenureId,
    newest_epoch,
)

SETTLED = "Stable"
"""The coordinator's word for a group whose members all have their assignment."""


@dataclass(frozen=True, slots=True)
class RangeOwner:
    """The owner of a key range of a partition, and the range's progress."""

    range: KeyRange
    member: str
    host: str
    stable: int | None
    remaining: Remaining


@dataclass(frozen=True, slots=True)
class PendingHandover:
    """Key ranges that one member waits for until another releases them.

    Attributes:
        ranges: The ranges that are not released yet.
        waiting: The member that they were assigned to.
        holder: The member that still holds them.
        tenure: The holder's tenure.
        since_ms: When they were assigned, Unix time; 0 if that is not known.
    """

    ranges: tuple[KeyRange, ...]
    waiting: str
    holder: str
    tenure: TenureId
    since_ms: int


@dataclass(frozen=True, slots=True)
class RecordStatus:
    """A record that is not done, and what is known of it.

    Attributes:
        offset: Its offset.
        key: Its key; None if it has none, or if the record could not be read (`is_read`).
        is_read: Whether the record was read from its topic.
        key_hash: Where it lies in the hash space.
        timestamp_ms: When it was produced, Unix time; -1 if that is not known.
        attempts: How often it has failed; 0: it waits or runs for the first time.
        is_parked: Whether it waits for a decision.
        error: Its last failure, or "".
        since_ms: When it first failed, Unix time; 0 if it has not.
        member: The owner of its key range, or "".
        host: The host of that member, or "".
        standing: Its state.
        standing_since_ms: Since when, Unix time; 0 if that is not known.
        behind: The member that still holds its range, while it waits for that; else "".
    """

    offset: int
    key: bytes | None
    is_read: bool
    key_hash: int
    timestamp_ms: int
    attempts: int
    is_parked: bool
    error: str
    since_ms: int
    member: str
    host: str
    standing: RecordState = RecordState.UNTOLD
    standing_since_ms: int = 0
    behind: str = ""

    @property
    def is_overdue(self) -> bool:
        """Whether its handler runs for too long (`max.processing.ms`), be it at `behind`."""
        waits = self.standing is RecordState.WAITING and self.behind != ""
        return (waits or self.standing is RecordState.RUNNING) and is_overdue(self.error)


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition of the group.

    Attributes:
        tp: The partition.
        epoch: The number of its progress history; 0 if it has none.
        next_epoch: The number of the next one.
        meaning: What committed offset and log say about the newest one.
        begin: The offset of its first record.
        end: The offset its next record will get.
        floor: Where its history begins: records below were done before, or are gone.
        stable: The first offset that is not done; None if nothing is known of it.
        committed: The offset in Kafka's own store, as stock tools see it; None without one.
        metadata: What was committed with it.
        lag: End minus committed, as stock tools see it; None without a committed offset.
        hidden: How many offsets below `end` lie above the last stable offset: members cannot read
            them yet, and they are no part of `remaining`.
        remaining: The records that are really left.
        gaps: The gap ranges: above the stable offset, done for every key.
        progress: What is done, range by range, over the whole hash space.
        owners: The owner of each range.
        unowned: The ranges without an owner.
        handovers: Which member waits for which.
        holder: The record that holds the stable offset, if it could be found.
        failed: All records that failed and are not done, by offset.
        walled: Members at the wall, and how many unfinished records each holds of the partition.
        is_forgotten: Whether its committed offset is gone, although the log had one.
    """

    tp: TopicPartition
    epoch: int
    next_epoch: int
    meaning: Meaning
    begin: int
    end: int
    floor: int
    stable: int | None
    committed: int | None
    metadata: str
    lag: int | None
    remaining: Remaining
    gaps: tuple[OffsetRange, ...]
    progress: tuple[RangeProgress, ...]
    owners: tuple[RangeOwner, ...]
    unowned: tuple[KeyRange, ...]
    handovers: tuple[PendingHandover, ...]
    holder: RecordStatus | None
    failed: tuple[RecordStatus, ...]
    walled: tuple[tuple[str, int], ...] = ()
    is_forgotten: bool = False
    hidden: int = 0

    @property
    def parked(self) -> tuple[RecordStatus, ...]:
        """The failed records that wait for a decision."""
        return tuple(record for record in self.failed if record.is_parked)


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group at a moment; see `GroupSeen` for what comes from there unchanged.

    Attributes:
        group: The group id.
        state: The coordinator's word for its state.
        protocol: The assignment protocol its members agreed on, or "".
        at_ms: When it was seen, Unix time.
        members: Its members, by name.
        partitions: Its partitions, in order.
        unreadable: How many records of the progress log could not be read, by reason.
        warnings: One sentence for each problem.
        policies: What operators forbid it, for its topics.
        guarantee: By which it works: the value of `processing.guarantee`.
        open_transactions: What holds up readers of committed records, in its log, its topics, and
            what it writes to.
        options: Words that other commands need to find the group.
        load: How busy its members are, and with which keys, as they report it.
    """

    group: str
    state: str
    protocol: str
    at_ms: int
    members: tuple[MemberSeen, ...]
    partitions: tuple[PartitionStatus, ...]
    unreadable: Mapping[str, int]
    warnings: tuple[str, ...]
    policies: Policies = field(default_factory=Policies)
    options: tuple[str, ...] = ()
    guarantee: str = Guarantee.AT_LEAST_ONCE
    open_transactions: tuple[OpenTransaction, ...] = ()
    load: GroupLoad = field(default_factory=GroupLoad)

    @property
    def patterns(self) -> tuple[str, ...]:
        """By which its members subscribe, besides names of topics."""
        return tuple(sorted({pattern for member in self.members for pattern in member.patterns}))

    def _repr_html_(self) -> str | None:
        """The picture for notebooks; None without rich (the extra `cli`): they show `repr` then."""
        if find_spec("rich") is None:
            return None
        from coop_consumer.status.notebook import html  # noqa: PLC0415 - rich may be missing

        return html(self)


def group_status(seen: GroupSeen, options: Sequence[str] = ()) -> GroupStatus:
    """The meaning of what was seen. O(members x ranges + tenures x gap ranges).

    Args:
        seen: What was seen.
        options: Words that other commands need to find the group.
    """
    partitions = sorted(seen.partitions, key=lambda partition: partition.tp)
    load = load_of(
        seen.loads,
        (member.name for member in seen.members),
        {partition.tp: partition.topic_id for partition in partitions},
    )
    shown = tuple(_partition(it, seen.members, load.shares(it.tp)) for it in partitions)
    load = with_hot(load, (key for partition in shown for key in _hot_keys(partition)))
    return GroupStatus(
        group=seen.group,
        state=seen.state,
        protocol=seen.protocol,
        at_ms=seen.at_ms,
        members=tuple(sorted(seen.members, key=lambda member: member.name)),
        partitions=shown,
        unreadable=dict(seen.unreadable),
        warnings=tuple(_warnings(seen, shown, options)),
        policies=seen.policies.of_topics({partition.tp.topic for partition in partitions}),
        options=tuple(options),
        guarantee=seen.guarantee,
        open_transactions=seen.open_transactions,
        load=load,
    )


def progress_of(seen: PartitionSeen) -> PartitionProgress | None:
    """The partition's progress for a member that starts now; None: unknown.

    The log counts if the committed offset carries its epoch, or an earlier one (a reset, or a lead
    that died before it tagged). If somebody else committed the offset, or the log does not know its
    epoch, the committed offset itself counts.
    """
    newest = newest_epoch(seen.store, seen.committed)
    if newest.is_begun:
        return seen.store.progress()
    return None if newest.base is None else PartitionProgress(max(newest.base, 0))


def holders_at_work(
    seen: GroupSeen, handovers: Iterable[PendingHandover]
) -> tuple[MemberSeen, ...]:
    """The members, still in the group, whose tenures others wait for; by name."""
    runs = {(it.tenure.member, it.tenure.incarnation) for it in handovers}
    found = [it for it in seen.members if (it.name, it.incarnation) in runs]
    return tuple(sorted(found, key=lambda member: member.name))


def _partition(
    seen: PartitionSeen, members: Iterable[MemberSeen], shares: Mapping[int, float]
) -> PartitionStatus:
    progress = progress_of(seen)
    pieces = (progress or PartitionProgress(seen.begin)).clip(WHOLE)
    shares = {**hot_shares(pieces), **shares}
    owners = tuple(_owners(seen, progress, members, shares))
    about = _About(seen, owners, tuple(_handovers(seen, members)), told_of(seen.store))
    failed = tuple(
        about.record(offset, attempt)
        for offset, attempt in sorted(seen.store.attempts().items())
        if progress is not None and not progress.is_done(attempt.key_hash, offset)
    )
    committed, metadata = seen.committed or (None, "")
    return PartitionStatus(
        tp=seen.tp,
        epoch=seen.store.epoch or 0,
        next_epoch=seen.store.next_epoch(seen.store.tagged_epoch(seen.committed)),
        meaning=newest_epoch(seen.store, seen.committed).meaning,
        begin=seen.begin,
        end=seen.end,
        floor=max(seen.begin, seen.store.base_offset),
        stable=None if progress is None else progress.stable,
        committed=committed,
        metadata=metadata,
        lag=None if committed is None else max(seen.end - committed, 0),
        remaining=remaining(pieces, seen.readable, shares),
        gaps=common_gaps(pieces),
        progress=pieces,
        owners=owners,
        unowned=subtract((WHOLE,), union(owner.range for owner in owners)),
        handovers=about.handovers,
        holder=_holder(about, progress, failed),
        failed=failed,
        walled=tuple(
            (tenure.id.member, tenure.record.walled)
            for tenure in seen.store.tenures()
            if tenure.record.walled and seen.store.unreleased(tenure.id, tenure.ranges)
        ),
        # An epoch with a tenure had its tag: nobody begins before.
        is_forgotten=seen.committed is None
        and any(tenure.record.epoch == seen.store.epoch for tenure in seen.store.tenures()),
        hidden=seen.hidden,
    )


def _hot_keys(partition: PartitionStatus) -> Iterator[KeyWork]:
    """The keys that are fetched by themselves, as far as their progress shows their share."""
    for key_hash, share in hot_shares(partition.progress).items():
        owners = (owner.member for owner in partition.owners if key_hash in owner.range)
        yield KeyWork(partition.tp, key_hash, None, share, next(owners, ""))


def _owners(
    seen: PartitionSeen,
    progress: PartitionProgress | None,
    members: Iterable[MemberSeen],
    shares: Mapping[int, float],
) -> list[RangeOwner]:
    found = []
    for member in members:
        for key_range in member.ranges.get(seen.tp, ()):
            pieces = (progress or PartitionProgress(seen.begin)).clip(key_range)
            stable = None if progress is None else min(piece.stable for piece in pieces)
            left = remaining(pieces, seen.readable, shares)
            found.append(RangeOwner(key_range, member.name, member.host, stable, left))
    return sorted(found, key=lambda owner: (owner.range, owner.member))


def _handovers(seen: PartitionSeen, members: Iterable[MemberSeen]) -> list[PendingHandover]:
    found = []
    for member in sorted(members, key=lambda member: member.name):
        for wait in member.waits:
            if wait.partition != seen.tp:
                continue
            tenure = TenureId(wait.member, wait.incarnation, wait.number)
            if held := _held(seen.store, tenure, wait.ranges):
                since_ms = member.assigned_at_ms
                found.append(PendingHandover(held, member.name, wait.member, tenure, since_ms))
    return found


def _held(
    store: PartitionStore, tenure: TenureId, ranges: tuple[KeyRange, ...]
) -> tuple[KeyRange, ...]:
    """The part of `ranges` that the tenure has not released.

    A tenure unknown to the log has not begun, or is over and was cleared. It is cleared only after
    later tenures cover its ranges.
    """
    held = store.unreleased(tenure, ranges)
    if held and not any(known.id == tenure for known in store.tenures()):
        later = union(key_range for known in store.tenures() for key_range in known.ranges)
        held = subtract(held, later)
    return held


def _holder(
    about: _About, progress: PartitionProgress | None, failed: tuple[RecordStatus, ...]
) -> RecordStatus | None:
    """The first record that is not done: among those read, and those known to have failed."""
    seen = about.seen
    if progress is None or progress.stable >= seen.readable:
        return None
    undone = [
        record.offset
        for record in seen.records.values()
        if not progress.is_done(record.key_hash, record.offset)
    ]
    first = min([*undone, *(record.offset for record in failed)], default=None)
    if first is None:
        return None
    known = next((record for record in failed if record.offset == first), None)
    return known or about.record(first, None)


@dataclass(frozen=True, slots=True)
class _About:
    """The values that decide how the records of a partition stand."""

    seen: PartitionSeen
    owners: tuple[RangeOwner, ...]
    handovers: tuple[PendingHandover, ...]
    told: TenureNotes

    def record(self, offset: int, attempt: Attempt | None) -> RecordStatus:
        """A record that was read, or failed, or both."""
        tp, read = self.seen.tp, self.seen.records.get(offset)
        assert read is not None or attempt is not None, f"{tp}@{offset} is neither read nor failed"
        key_hash = attempt.key_hash if attempt is not None else read.key_hash if read else 0
        owner = next((owner for owner in self.owners if key_hash in owner.range), None)
        said = self.told.of(owner.member, offset, key_hash) if owner else None
        stands = how_it_stands(key_hash, attempt, owner, self.handovers, said)
        return RecordStatus(
            offset=offset,
            key=read.key if read else None,
            is_read=read is not None,
            key_hash=key_hash,
            timestamp_ms=read.timestamp_ms if read else -1,
            attempts=attempt.attempts if attempt else 0,
            is_parked=attempt.parked if attempt else False,
            error=attempt.error if attempt else "",
            since_ms=attempt.since_ms if attempt else 0,
            member=owner.member if owner else "",
            host=owner.host if owner else "",
            standing=stands.standing,
            standing_since_ms=stands.since_ms,
            behind=stands.behind,
        )


def _warnings(
    seen: GroupSeen, shown: tuple[PartitionStatus, ...], options: Sequence[str]
) -> list[str]:
    found = [f"member {member.name} {member.note}" for member in seen.members if member.note]
    found += [
        f"progress log: could not read {counted(count, 'record')} ({reason}); "
        f"{'its' if count == 1 else 'their'} progress may be done again"
        for reason, count in sorted(seen.unreadable.items())
    ]
    for partition in shown:
        found += _partition_warnings(partition, is_settled=seen.state == SETTLED)
        if partition.is_forgotten:
            place = "--to", "earliest", "--partition", partition.tp
            reset = command("reset", seen.group, *place, options=options)
            found.append(
                f"{partition.tp}: its committed offset was deleted, or has expired. The progress "
                "log still has its progress, and the next member continues from there. To begin "
                f"again instead, run: {reset}"
            )
        found += [walled_warning(partition.tp, *walled) for walled in partition.walled]
    return found


def decided_warning(partition: PartitionStatus) -> str:
    """The warning about an offset that is somebody's decision (`Meaning.DECIDED`)."""
    known = Committed(0, partition.metadata)
    tag, _ = known.tagged
    who = "someone else" if tag is None else "the group, when it had another guarantee,"
    who = "`coop-consumer gc`" if known.retirement else who
    return (
        f"{partition.tp}: {who} committed offset {partition.committed}; the next member that "
        f"starts takes it over as epoch {partition.next_epoch}"
    )


def walled_warning(tp: TopicPartition, member: str, unfinished: int) -> str:
    """The warning about a member at the wall."""
    return (
        f"{tp}: {member} holds {counted(unfinished, 'unfinished record')}, as many as it may "
        "(max.num.ranges.held, 92), and takes no further ones until a tenth of them is done"
    )


def unowned_warning(tp: TopicPartition, unowned: Sequence[KeyRange]) -> str:
    """The warning about ranges that a settled group has assigned to nobody."""
    ranges = ", ".join(map(str, unowned[:3]))
    return f"{tp}: assigned to nobody: {ranges}"


def _partition_warnings(partition: PartitionStatus, *, is_settled: bool) -> list[str]:
    found = []
    tp, stable = partition.tp, partition.stable
    if partition.meaning is Meaning.DECIDED:
        found.append(decided_warning(partition))
    elif partition.meaning is Meaning.LOST:
        tag, lost = Committed(0, partition.metadata).tagged
        following = f"continues at the committed offset {partition.committed}"
        if tag is Tag.EXACTLY_ONCE:
            following = "ends, until `coop-consumer reset` says where the group goes on"
        found.append(
            f"{tp}: epoch {lost} is not in the progress log (was its topic lost?); the next member "
            f"that starts {following}"
        )
    if stable is not None and stable < partition.begin:
        found.append(f"{tp}: offsets [{stable}-{partition.begin - 1}] are gone from the topic")
    if is_settled and partition.unowned:
        found.append(unowned_warning(tp, partition.unowned))
    return found
