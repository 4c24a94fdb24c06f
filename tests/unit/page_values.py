"""Groups as a page may have to show them: troubled, large, plain, hostile. Values, no Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from assignors import WHOLE, KeyRange, TopicPartition, key_hash
from coop_consumer.core.policies import Policies
from coop_consumer.ops.feed import FeedState
from coop_consumer.ops.group_metrics import GroupLook
from coop_consumer.status.load import GroupLoad, KeyWork, MemberWork
from coop_consumer.status.model import (
    GroupStatus,
    PartitionStatus,
    PendingHandover,
    RangeOwner,
    RecordStatus,
)
from coop_consumer.status.remaining import Remaining
from coop_consumer.status.scale import ScaleAdvice
from coop_consumer.status.seen import MemberSeen
from coop_consumer.status.standing import RecordState
from offsets import Meaning, OffsetRange, RangeProgress, TenureId

NOW_MS = 1_700_000_000_000
OPTIONS = ("--bootstrap", "kafka:9092")
HOSTILE = b"<img src=x onerror=alert(1)>"
NOT_TEXT = b"\xff\xfe\x00"


def record(offset: int, key: bytes | None = b"N14228", **changed: object) -> RecordStatus:
    """A record that is parked, unless something else is said."""
    found = RecordStatus(
        offset=offset,
        key=key,
        is_read=True,
        key_hash=key_hash(key or b""),
        timestamp_ms=NOW_MS - 7_500_000,
        attempts=5,
        is_parked=True,
        error="ValueError: no such plane",
        since_ms=NOW_MS - 61_000,
        member="m-00",
        host="host-0",
        standing=RecordState.PARKED,
        standing_since_ms=NOW_MS - 61_000,
    )
    return replace(found, **changed)  # type: ignore[arg-type]


def failing(offset: int, key: bytes | None = b"N725MQ") -> RecordStatus:
    return record(
        offset,
        key,
        is_parked=False,
        attempts=3,
        standing=RecordState.BACKING_OFF,
        error="ConnectionError: db-7 refused the connection",
    )


def overdue(offset: int, key: bytes | None = b"N3CXAA") -> RecordStatus:
    return record(
        offset,
        key,
        is_parked=False,
        attempts=1,
        standing=RecordState.RUNNING,
        standing_since_ms=NOW_MS - 400_000,
        error="HandlerOverdueError: its handler runs for 300 s",
    )


def hung_elsewhere(offset: int, key: bytes | None = b"N3CXAA", **changed: object) -> RecordStatus:
    """Its key is m-01's, and its handler hangs at m-00."""
    found = replace(
        overdue(offset, key),
        member="m-01",
        host="host-1",
        standing=RecordState.WAITING,
        standing_since_ms=NOW_MS - 40_000,
        behind="m-00",
    )
    return replace(found, **changed)  # type: ignore[arg-type]


def partition(
    tp: TopicPartition,
    owners: Sequence[tuple[KeyRange, str]],
    *,
    left: int = 0,
    failed: Iterable[RecordStatus] = (),
    end: int = 10_000,
    stable: int | None = None,
    **changed: object,
) -> PartitionStatus:
    """A partition that these members own, with so much left of it."""
    failed = tuple(failed)
    stable = stable if stable is not None else (failed[0].offset if failed else end - left)
    gap = (OffsetRange(stable + 2, stable + 2 + max(end - stable - 10, 0)),) if left else ()
    found = PartitionStatus(
        tp=tp,
        epoch=2,
        next_epoch=3,
        meaning=Meaning.AGREED,
        begin=0,
        end=end,
        floor=0,
        stable=stable,
        committed=stable,
        metadata="coop:2",
        lag=end - stable,
        remaining=Remaining(left // 2, left - left // 2),
        gaps=gap if failed else (),
        progress=tuple(
            RangeProgress(r, stable, gap) if i == 0 and left else RangeProgress(r, end)
            for i, (r, _) in enumerate(owners)
        )
        or (RangeProgress(WHOLE, stable),),
        owners=tuple(
            RangeOwner(r, member, f"host-{member[-1]}", stable, Remaining(0, left))
            for r, member in owners
        ),
        unowned=(),
        handovers=(),
        holder=failed[0] if failed else None,
        failed=failed,
    )
    return replace(found, **changed)  # type: ignore[arg-type]


def group(members: int, partitions: int, topic: str = "orders", named: str = "m") -> GroupStatus:
    """A group at work that shares its partitions evenly, with nothing up."""
    names = [f"{named}-{i:02}" for i in range(members)]
    seen: dict[str, dict[TopicPartition, tuple[KeyRange, ...]]] = {name: {} for name in names}
    shown = []
    pieces = max(members, partitions)
    for number in range(partitions):
        tp = TopicPartition(topic, number)
        mine = [i for i in range(pieces) if i * partitions // pieces == number]
        ranges = WHOLE.parts(len(mine))
        owners = [(r, names[i % members]) for r, i in zip(ranges, mine, strict=True)]
        for key_range, name in owners:
            seen[name][tp] = (*seen[name].get(tp, ()), key_range)
        shown.append(partition(tp, owners, left=number % 3 * 400))
    return GroupStatus(
        group="billing",
        state="Stable",
        protocol="keyrange",
        at_ms=NOW_MS,
        members=tuple(
            MemberSeen(
                name, f"host-{i}", 16, seen[name], leads=i == 0, assigned_at_ms=NOW_MS - 90_000
            )
            for i, name in enumerate(names)
        ),
        partitions=tuple(shown),
        unreadable={},
        warnings=(),
        options=OPTIONS,
        load=GroupLoad(
            tuple(
                MemberWork(
                    name, NOW_MS, 16, 0.4 + 0.05 * i, 4_980, 210 + i, 3_900, 48_000, 70 << 20
                )
                for i, name in enumerate(names)
            ),
            keys=(
                KeyWork(TopicPartition(topic, 0), 7, b"N14228", 0.61, names[0]),
                KeyWork(TopicPartition(topic, 0), 9, None, 0.12, names[0]),
            )
            if names
            else (),
        ),
    )


def troubled() -> GroupStatus:
    """A group with one trouble of nearly each kind; keys and errors are of strangers."""
    status = group(4, 3)
    first, second, third = status.partitions
    waits = (
        PendingHandover(
            first.owners[1].range and (first.owners[1].range,),
            "m-01",
            "m-00",
            TenureId("m-00", 1, 1),
            NOW_MS - 45_000,
        )
        if len(first.owners) > 1
        else PendingHandover((WHOLE,), "m-01", "m-00", TenureId("m-00", 1, 1), NOW_MS - 45_000)
    )
    parked = (
        record(43, HOSTILE, error="<script>alert(2)</script>: \x1b[31mred"),
        failing(57, NOT_TEXT),
    )
    return replace(
        status,
        partitions=(
            replace(
                partition(
                    first.tp,
                    [(it.range, it.member) for it in first.owners],
                    left=1_200,
                    failed=parked,
                ),
                handovers=(waits,),
            ),
            partition(
                second.tp,
                [(it.range, it.member) for it in second.owners],
                left=300,
                failed=(overdue(9_000),),
                walled=(("m-02", 10_000),),
            ),
            third,
        ),
        warnings=("member m-07 cannot be read: version 9",),
        policies=Policies(frozenset({"orders"}), group=True),
    )


def advice(status: GroupStatus, wanted: int = 6) -> ScaleAdvice:
    return ScaleAdvice(
        members=len(status.members),
        wanted=wanted,
        useful=8,
        reason="1,200 left at 210/s: 6 members",
        left=1_200,
        arrivals=210.0,
        busy_workers=40.0,
        workers=16.0,
        handler_us=5_000,
        is_assumed=False,
    )


def seen(status: GroupStatus, version: int = 1, **changed: object) -> FeedState:
    """A feed that has just seen this."""
    look = GroupLook(status.group, 0.1, 0.0, status, advice(status))
    found = FeedState(status.group, version, look, seen_at_ms=NOW_MS)
    return replace(found, **changed)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Line:
    """A figure over time, as a history has it."""

    name: str
    title: str
    unit: str
    points: tuple[tuple[int, float | None], ...]
