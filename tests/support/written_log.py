"""A progress log that a test writes by hand, and the group as a visitor sees it.

In: keys and values of the log, members, offsets. Out: the log as a `ProgressStore`, a `GroupSeen`
with one partition, `orders-0`.
"""

from __future__ import annotations

from assignors import KeyRange, TopicPartition
from coop_consumer.status.seen import GroupSeen, MemberSeen, PartitionSeen, RecordSeen
from offsets import (
    BaseKey,
    BaseRecord,
    Committed,
    Key,
    LogRecord,
    OffsetRange,
    ProgressStore,
    RangeProgress,
    TenureId,
    TenureKey,
    TenureRecord,
    Value,
    encode_key,
    encode_value,
)

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = b"0123456789abcdef"
OLD = TenureId("old", 1, 1)
NOW_MS = 1_700_000_000_000


class WrittenLog:
    """The progress log of group g, written by hand."""

    def __init__(self) -> None:
        self.store = ProgressStore("g")

    def put(self, key: Key, value: Value | None) -> WrittenLog:
        record = None if value is None else encode_value(value)
        self.store.apply(LogRecord(self.store.next_offset, encode_key(key), record))
        return self

    def base(self, epoch: int, offset: int) -> WrittenLog:
        return self.put(BaseKey("g", TOPIC_ID, 0, epoch, "w"), BaseRecord(epoch, offset))

    def tenure(self, tenure: TenureId, record: TenureRecord | None) -> WrittenLog:
        return self.put(TenureKey("g", TOPIC_ID, 0, tenure), record)

    def garbage(self) -> WrittenLog:
        self.store.apply(LogRecord(self.store.next_offset, b"\x01\xff", b"?"))
        return self


def seen(
    log: WrittenLog,
    *members: MemberSeen,
    end: int = 60,
    begin: int = 0,
    committed: Committed | None = None,
    records: tuple[RecordSeen, ...] = (),
) -> GroupSeen:
    partition = PartitionSeen(
        ORDERS,
        TOPIC_ID,
        begin,
        end,
        committed,
        log.store.partition(TOPIC_ID, 0),
        {record.offset: record for record in records},
    )
    state, unreadable = "Stable" if members else "Empty", log.store.unreadable
    return GroupSeen("g", state, "keyrange", members, (partition,), unreadable, NOW_MS)


def facts(key_range: KeyRange, stable: int, *gaps: tuple[int, int]) -> RangeProgress:
    return RangeProgress(key_range, stable, tuple(OffsetRange(*gap) for gap in gaps))
