"""The next epoch has a number that no tenure in the log has, whoever begins it.

The story: the log lost its beginning. A tenure of epoch 2 is left, its base is not. A reset
numbered its epoch 1, the next reset 2, and the facts of that tenure counted again: records were
skipped.
"""

from __future__ import annotations

from assignors import WHOLE
from coop_consumer.admin.amend import Reset, _reset
from coop_consumer.core import actions
from coop_consumer.status.history import history_of
from coop_consumer.status.model import group_status
from coop_consumer.status.seen import PartitionSeen
from offsets import (
    BaseKey,
    BaseRecord,
    Committed,
    MemoryLog,
    RangeProgress,
    TenureId,
    TenureKey,
    TenureRecord,
    encode_key,
    encode_value,
)
from tests.support.written_log import OLD, WrittenLog, facts
from tests.support.written_log import seen as group_seen
from tests.unit.core_member import GROUP, T0, TOPIC_ID, TableMember, store_of

END = 100


def log_without_its_beginning() -> MemoryLog:
    """All that is left: a tenure of epoch 2 has done everything below 60."""
    log, tenure = MemoryLog(), TenureId("dead", 9, 1)
    record = TenureRecord(2, -1, (RangeProgress(WHOLE, 60),), released=(WHOLE,))
    log.append(encode_key(TenureKey(GROUP, TOPIC_ID, 0, tenure)), encode_value(record))
    return log


def seen(log: MemoryLog, committed: Committed | None) -> PartitionSeen:
    return PartitionSeen(T0, TOPIC_ID, 0, END, committed, store_of(log))


def base(log: MemoryLog, epoch: int, offset: int, writer: str) -> None:
    key = BaseKey(GROUP, TOPIC_ID, 0, epoch, writer)
    log.append(encode_key(key), encode_value(BaseRecord(epoch, offset)))


def carry_out(reset: Reset, log: MemoryLog) -> Committed:
    """Write the epoch of a reset; the committed offset that goes with it."""
    base(log, reset.new_epoch, reset.offset, f"reset to {reset.offset}")
    return Committed.mirror(reset.offset, reset.new_epoch, TOPIC_ID)


def test_two_resets_after_a_log_lost_its_beginning_skip_nothing() -> None:
    log = log_without_its_beginning()
    first = _reset(seen(log, Committed(40, "")), 0)
    committed = carry_out(first, log)
    second = _reset(seen(log, committed), 5)
    committed = carry_out(second, log)
    assert (first.new_epoch, second.new_epoch) == (3, 4)
    member = TableMember(log=log, committed=committed)
    member.assign(WHOLE)
    assert [start.offset for start in member.told(actions.StartStream)] == [5]
    assert member.committed == Committed.mirror(5, 4, TOPIC_ID)


def test_a_plan_after_a_log_lost_its_beginning_begins_a_later_epoch() -> None:
    history = history_of(seen(log_without_its_beginning(), Committed(40, "")), 0)
    assert (history.epoch, history.base) == (3, 40)


def test_status_announces_the_number_that_the_next_member_gives() -> None:
    log = WrittenLog().tenure(OLD, TenureRecord(2, -1, (facts(WHOLE, 60),)))
    status = group_status(group_seen(log, committed=Committed(40, "")))
    assert "takes it over as epoch 3" in status.warnings[0]


def test_the_epoch_after_a_cut_off_is_later_than_all_that_the_log_tells_of() -> None:
    """An earlier release had begun epoch 1 beside the facts of epoch 2."""
    log = log_without_its_beginning()
    base(log, 1, 5, "an earlier release")
    member = TableMember(log=log, committed=Committed.mirror(5, 1, TOPIC_ID))
    member.assign(WHOLE)
    member.cut_off(3)
    member.after(200)
    assert member.store.epoch == 3
    assert member.told(actions.StartStream)[-1].offset == 3
