"""A Consumer that hands out nothing though the broker has more is replaced, and nothing is lost."""

from __future__ import annotations

import pytest

from assignors import WHOLE, TopicPartition
from coop_consumer.core import actions, events
from coop_consumer.core.blocked_read import Blockage
from tests.simulation.data_log import SimMessage
from tests.unit.core_member import T0, TableMember


@pytest.fixture
def member() -> TableMember:
    """Has finished three records; its stream is at offset 3."""
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c")
    member.finish_all()
    return member


def wait(member: TableMember, seconds: int, *, end: int | None = 3, log: bool = True) -> None:
    """Seconds pass; the broker tells that t-0 ends there, if it answers at all."""
    asked = len(member.told(actions.AskEnds))
    for _ in range(seconds):
        member.after(1_000)
        for ask in member.told(actions.AskEnds)[asked:]:
            asked += 1
            ends = {} if end is None else dict.fromkeys(ask.partitions, end)
            log_ends = dict.fromkeys(ask.log_partitions, member.log.end_offset) if log else {}
            member.tell(events.EndsTold(ends, log_ends))


def test_an_idle_partition_is_left_alone(member: TableMember) -> None:
    wait(member, 300)
    assert member.told(actions.AskEnds)
    assert not member.told(actions.RenewFetch)


def test_one_that_has_more_gets_a_new_stream_on_a_new_client_where_the_last_one_ended(
    member: TableMember,
) -> None:
    streams = len(member.told(actions.StartStream))
    wait(member, 50, end=5)
    (renew,) = member.told(actions.RenewFetch)
    assert renew.consumer == actions.MAIN
    (begun,) = member.told(actions.StartStream)[streams:]
    assert begun.offset == 3
    member.messages += [SimMessage(0, 3, b"a"), SimMessage(0, 4, b"b")]
    member.fetch()
    assert member.finish_all() == [3, 4]
    assert member.core.state.counters.renewed == 1


def test_a_client_that_dies_at_the_end_does_not_hide_that_all_is_done() -> None:
    """It tells of no end, so nobody who waits until all is done would ever be through."""
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c")
    member.finish_all()
    member.after(1_000)
    heir = TableMember("m2", log=member.log, committed=member.committed)
    heir.assign(WHOLE)
    assert not heir.core.caught_up
    wait(heir, 50)
    assert heir.core.caught_up


def test_what_the_dead_one_brings_when_it_wakes_up_is_ignored(member: TableMember) -> None:
    old = member.core.state.partitions[T0].streams[actions.MAIN]
    assert old is not None
    wait(member, 50, end=5)
    member.tell(events.Fetched(T0, old.number, 3, 4, [SimMessage(0, 3, b"a")], at_end=False))
    assert member.start() == []


def test_a_broker_that_does_not_answer_replaces_nobody(member: TableMember) -> None:
    wait(member, 300, end=None)
    assert not member.told(actions.RenewFetch)


def test_a_stream_that_gets_on_slowly_is_left_alone(member: TableMember) -> None:
    for offset in range(3, 30):
        wait(member, 10, end=1_000)
        member.messages.append(SimMessage(0, offset, b"a"))
        member.fetch()
    assert not member.told(actions.RenewFetch)


def test_a_fetch_that_is_held_is_left_alone() -> None:
    member = TableMember(max_records_in_lanes=3)
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c", b"d")
    assert member.told(actions.HoldFetch)[-1].hold
    wait(member, 300, end=1_000)
    assert not member.told(actions.RenewFetch)


def test_a_dead_reader_is_replaced_while_the_fetch_is_held_too() -> None:
    member = TableMember(max_records_in_lanes=3)
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c", b"d")
    assert member.told(actions.HoldFetch)[-1].hold
    member.kept_back = {actions.ReadLog}
    member.assign(WHOLE, epoch=7)  # whatever makes it read the log once more
    wait(member, 50)
    assert member.told(actions.RenewLogReader)


def test_a_log_that_is_not_read_gets_a_new_reader_if_the_broker_answers() -> None:
    member = TableMember()
    member.kept_back = {actions.ReadLog}
    member.assign(WHOLE)
    wait(member, 120, log=False)
    assert not member.told(actions.RenewLogReader)
    wait(member, 35)
    assert len(member.told(actions.RenewLogReader)) == 1
    member.kept_back = set()
    read = member.told(actions.ReadLog)[-1]
    member.tell(member.read(0, read.read))
    assert member.told(actions.RangesAssigned)


def test_a_log_reader_that_waits_for_a_transaction_is_left_alone_while_it_says_so() -> None:
    """A new client would wait as well, and count its wait from the beginning."""
    member = TableMember(exactly_once=True, kept_back={actions.ReadLog})
    member.assign(WHOLE)
    for waited_s in range(120):
        member.tell(events.ReadBlocked(Blockage(0, 17, waited_s * 1_000, [])))
        wait(member, 1)
    assert not member.told(actions.RenewLogReader)
    wait(member, 60)  # it says nothing any more
    assert len(member.told(actions.RenewLogReader)) == 1


def test_since_when_a_transaction_holds_up_the_input_is_counted_and_told_after_a_minute(
    member: TableMember,
) -> None:
    other, counters = TopicPartition("t", 1), member.core.state.counters
    member.after(120_000)
    member.tell(events.FetchBlocked({T0: 59_000, other: 2_000}))
    assert counters.input_undecided_since_ms == member.now_ms - 59_000
    assert "no record can be read" not in lines(member)
    for waited_ms in (60_000, 61_000):
        member.tell(events.FetchBlocked({T0: waited_ms}))
    assert lines(member).count("t-0: no record can be read for 60 s") == 1
    assert "`coop-consumer status billing --bootstrap table:9092` says whose" in lines(member)
    member.tell(events.FetchBlocked({}))
    assert counters.input_undecided_since_ms == 0


def lines(member: TableMember) -> str:
    return "\n".join(it.text for it in member.told(actions.LogLine))
