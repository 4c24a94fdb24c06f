"""A partition cut off below our progress: what lies beyond the cut is dropped, and said."""

from __future__ import annotations

import pytest

from assignors import WHOLE, Wait, decode_subscription, key_hash
from coop_consumer.core import actions, events
from offsets import AnnounceKey, AnnounceRecord, BaseKey, decode_key, encode_key, encode_value
from tests.simulation.data_log import SimMessage
from tests.unit.core_member import GROUP, HIGH, LOW, T0, TO_LOG, TableMember, tag


class YoungerMessage(SimMessage):
    """Written by a later leader than the others."""

    def leader_epoch(self) -> int | None:
        return 1


def crashed_with_gaps() -> TableMember:
    """A member that finished all but offset 0 of six, committed, and is heard of no more."""
    first = TableMember()
    first.assign(WHOLE)
    first.produce(b"a", b"b", b"c", b"d", b"e", b"f")
    first.start()
    for offset in range(1, 6):
        first.finish(offset)
    first.after(1_000)
    return first


def test_facts_beyond_a_cut_are_dropped_and_what_was_written_there_is_processed() -> None:
    first = crashed_with_gaps()
    second = TableMember("m2", log=first.log, committed=first.committed)
    second.messages = first.messages[:3] + [YoungerMessage(0, n, b"%d" % n) for n in range(3, 8)]
    second.assign(WHOLE)
    second.fetch()
    assert second.store.epoch == 2
    assert "[3-5]" in " ".join(report.text for report in second.told(actions.LogLine))
    second.after(200)
    second.fetch()
    assert set(second.finish_all()) >= {0, 3, 4, 5, 6, 7}


def test_a_new_leader_alone_is_no_cut() -> None:
    first = crashed_with_gaps()
    second = TableMember("m2", log=first.log, committed=first.committed)
    second.messages = [*first.messages, YoungerMessage(0, 6, b"new")]
    second.assign(WHOLE)
    second.fetch()
    assert second.store.epoch == 1
    assert second.finish_all() == [0, 6]


def test_a_position_beyond_the_end_begins_an_epoch_at_the_end() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c")
    member.finish_all()
    member.cut_off(1)
    assert (member.store.epoch, member.store.base_offset) == (2, 1)
    member.after(200)
    assert member.told(actions.StartStream)[-1].offset == 1


def test_data_loss_stops_the_member_where_the_policy_says_so() -> None:
    member = TableMember(on_data_loss="stop")
    member.assign(WHOLE)
    stream = member.core.state.partitions[T0].streams[actions.MAIN]
    assert stream is not None
    member.tell(events.OutOfRange(T0, stream.number, low=5, high=9))
    member.after(200)
    (left,) = member.told(actions.Leave)
    assert "offsets [0-4]" in str(left.error)


def test_what_retention_removed_is_counted_and_the_rest_goes_on() -> None:
    member = TableMember()
    member.assign(WHOLE)
    stream = member.core.state.partitions[T0].streams[actions.MAIN]
    assert stream is not None
    member.tell(events.OutOfRange(T0, stream.number, low=5, high=9))
    assert member.core.state.counters.lost_to_retention == 5
    assert member.told(actions.StartStream)[-1].offset == 5


def test_a_key_that_still_runs_elsewhere_stays_held_when_the_partition_begins_anew() -> None:
    first = TableMember()
    first.assign(WHOLE)
    first.produce(b"a")
    first.start()
    first.assign()
    (claim,) = decode_subscription(first.core.subscription()).claims
    wait = Wait("m1", 1, claim.number, T0, claim.ranges)
    second = TableMember("m2", log=first.log, committed=first.committed)
    second.messages = list(first.messages)
    second.assign(WHOLE, waits=(wait,))
    second.produce(b"b")
    assert second.start() == [1]
    second.cut_off(1)
    second.after(200)
    second.fetch()
    assert 0 not in second.start(), "I4: it runs at m1"
    first.finish(0)
    second.hear_log()
    assert second.core.state.partitions[T0].tenures[0].blocked.hashes == {key_hash(b"b")}


def test_the_epoch_after_a_cut_begins_where_all_together_are_not_where_we_last_looked() -> None:
    cut = TableMember()
    cut.assign(LOW)
    other = TableMember("m2", log=cut.log, committed=cut.committed)
    other.assign(HIGH, lead="m1")
    other.produce(*(b"k%d" % number for number in range(9)))
    cut.messages = list(other.messages)
    cut.fetch()
    for member in (other, cut):
        member.finish_all()
        member.after(1_000)
    cut.cut_off(4)
    assert (cut.store.epoch, cut.store.base_offset) == (2, 4)


@pytest.mark.parametrize(("exactly_once", "base"), [(False, 3), (True, 1)])
def test_the_epoch_after_a_cut_rests_on_what_the_log_tells_with_exactly_once(
    exactly_once: bool, base: int
) -> None:
    """Its beginning is told outside of transactions, and that of our own facts may be aborted."""
    member = TableMember(exactly_once=exactly_once)
    member.assign(WHOLE)
    member.produce(b"a")
    member.finish_all()
    member.after(1_000)
    member.hear_log()
    member.kept_back = {actions.Commit}
    member.produce(b"b", b"c", b"d")
    member.finish_all()
    member.kept_back -= set() if exactly_once else {actions.Commit}
    member.cut_off(3)
    assert (member.store.epoch, member.store.base_offset) == (2, base)


def test_of_two_that_notice_a_cut_the_second_one_follows_the_first() -> None:
    first = TableMember()
    first.assign(LOW)
    second = TableMember("m2", log=first.log, committed=first.committed)
    second.assign(HIGH, lead="m1")
    for member in (first, second):
        member.cut_off(4, position=9)
    keys = [decode_key(record.key) for record in first.log.read(0, 1_000).records]
    assert [key.epoch for key in keys if isinstance(key, BaseKey)] == [1, 2]


def test_who_noticed_no_cut_is_told_of_the_new_epoch_by_the_next_assignment() -> None:
    cut = TableMember()
    cut.assign(LOW)
    settled = TableMember("m2", log=cut.log, committed=cut.committed)
    settled.assign(HIGH, lead="m1")
    settled.produce(*(b"k%d" % number for number in range(9)))
    settled.finish_all()
    cut.cut_off(4, position=9)
    assert cut.store.epoch == 2
    cut.after(200)
    (rejoin,) = cut.told(actions.Rejoin)
    assert "epoch 2" in rejoin.reason
    assert {claim.epoch for claim in decode_subscription(cut.core.subscription()).claims} == {2}
    settled.committed = cut.committed
    streams = len(settled.told(actions.StartStream))
    settled.assign(HIGH, lead="m1", epoch=2)
    settled.hear_log()
    (begun,) = settled.told(actions.StartStream)[streams:]
    assert begun.offset == 0
    assert [t for t in cut.store.tenures() if t.id.member == "m2" and t.record.epoch == 2]


def test_what_a_handler_finished_before_the_cut_says_nothing_of_the_new_epoch() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"a", b"a")
    member.start()
    member.cut_off(0)
    member.messages.clear()
    member.after(200)
    member.finish(0)
    member.produce(b"a", b"b")
    assert member.finish_all() == [0, 1]


def test_a_lead_that_holds_nothing_tags_the_epoch_that_an_owner_began() -> None:
    lead = TableMember()
    lead.assign(LOW)
    owner = TableMember("m2", log=lead.log, committed=lead.committed)
    owner.assign(HIGH, lead="m1")
    lead.assign()
    owner.cut_off(4, position=9)
    assert (lead.store.epoch, lead.committed) == (2, (0, tag(1)))
    lead.hear_log()
    assert lead.committed == (0, tag(2))


def test_whoever_begins_first_in_a_new_epoch_tells_of_it() -> None:
    cut = TableMember()
    cut.assign(LOW)
    settled = TableMember("m2", log=cut.log, committed=cut.committed)
    settled.assign(HIGH, lead="m1")
    cut.kept_back = {actions.FetchCommitted}
    cut.cut_off(4, position=9)
    cut.assign()  # before it has begun in the new epoch
    cut.let_go()
    cut.after(200)
    assert not cut.told(actions.Rejoin)
    heir = TableMember("m3", log=cut.log, committed=cut.committed)
    heir.assign(LOW, lead="m3")
    heir.after(200)
    (rejoin,) = heir.told(actions.Rejoin)
    assert "epoch 2, and not all know" in rejoin.reason


def test_who_begins_again_waits_for_whom_it_had_overtaken() -> None:
    """Evicted while its handler ran, and back since: in the new epoch its record comes again."""
    zombie = TableMember()
    zombie.assign(WHOLE)
    zombie.produce(b"a")
    zombie.start()
    owner = TableMember("m2", log=zombie.log, committed=zombie.committed)
    owner.assign(WHOLE)
    zombie.tell(events.Lost("evicted"))
    [claim] = decode_subscription(zombie.core.subscription()).claims
    owner.assign(WHOLE, waits=(Wait("m1", 1, claim.number, T0, claim.ranges),))
    owner.produce(b"a")
    assert owner.finish_all() == [0], "its tenure is older than the claim"
    owner.cut_off(0)
    owner.messages.clear()
    owner.after(200)
    owner.produce(b"a")
    assert owner.start() == []
    zombie.finish(0)
    owner.hear_log()
    owner.fetch()
    assert owner.start() == [0]


def test_nothing_begins_in_the_old_epoch_while_the_new_one_is_on_its_way_to_the_log() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c")
    member.finish_all()
    member.kept_back = set(TO_LOG)
    member.cut_off(1)
    member.after(500)
    member.let_go()
    member.after(500)
    assert {tenure.epoch for tenure in member.core.state.partitions[T0].tenures} == {2}


def test_a_lead_gives_up_what_it_holds_of_an_epoch_that_another_has_ended() -> None:
    lead = TableMember()
    lead.assign(LOW)
    owner = TableMember("m2", log=lead.log, committed=lead.committed)
    owner.assign(HIGH, lead="m1")
    owner.cut_off(4, position=9)
    lead.hear_log()
    lead.after(200)
    lead.hear_log()
    assert {tenure.epoch for tenure in lead.core.state.partitions[T0].tenures} == {2}


def test_who_waits_begins_in_no_epoch_that_the_log_knows_to_be_over() -> None:
    gone = TableMember("m9", incarnation=9)
    gone.assign(LOW)
    owner = TableMember(log=gone.log, committed=gone.committed)
    owner.assign(HIGH)
    waiting = TableMember("m2", log=owner.log, committed=owner.committed)
    waiting.assign(LOW, lead="m1", waits=(Wait("m9", 9, 1, T0, (LOW,)),))
    owner.kept_back = {actions.CommitOffsets}
    owner.cut_off(4, position=9)
    again = AnnounceKey(GROUP, "m9"), AnnounceRecord(10, owner.log.end_offset, "", "table")
    owner.log.append(encode_key(again[0]), encode_value(again[1]))
    waiting.hear_log()
    assert waiting.core.state.partitions[T0].tenures == []
    owner.let_go()
    owner.after(200)
    assert owner.committed == (0, tag(2))
    waiting.committed = owner.committed
    waiting.after(200)
    assert [tenure.epoch for tenure in waiting.core.state.partitions[T0].tenures] == [2]
