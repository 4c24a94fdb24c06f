"""Handover, hash by hash: who may begin what, and when it is let go."""

from __future__ import annotations

import pytest

from assignors import (
    WHOLE,
    AssignmentData,
    Claim,
    KeyRange,
    TopicPartition,
    Wait,
    decode_subscription,
    key_hash,
)
from coop_consumer.core import actions, events
from coop_consumer.errors import BrokerUnreachableError
from offsets import (
    AnnounceKey,
    MemoryLog,
    RangeProgress,
    ReleaseKey,
    ReleaseRecord,
    TenureId,
    TenureKey,
    TenureRecord,
    decode_key,
    encode_key,
    encode_value,
)
from tests.support.claims import AT_A, A, B, claims, wait_for
from tests.unit.core_member import HIGH, LOW, T0, TO_LOG, TOPIC_ID, TableMember, keys_in, tag

LOST = BrokerUnreachableError("table:9092", "no answer")


L = keys_in(LOW, 1)[0]


def owner(*running: bytes) -> tuple[TableMember, Claim]:
    """m1 owns everything, and a handler of each of these keys runs; with what it claims."""
    old = TableMember("m1")
    old.assign(WHOLE)
    old.produce(*running)
    old.start()
    (claim,) = claims(old)
    return old, claim


def heir(old: TableMember, claim: Claim, key_range: KeyRange) -> TableMember:
    """m2 is assigned a range that m1 has not let go."""
    new = TableMember("m2", log=old.log, committed=old.committed)
    new.assign(key_range, waits=(wait_for(claim, key_range),), lead="m1")
    return new


def test_a_range_that_stays_goes_on_without_a_pause() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(L, A)
    member.start()
    streams = len(member.told(actions.StartStream))
    member.assign(LOW)
    assert len(member.told(actions.StartStream)) == streams
    member.produce(L)
    member.finish(0)
    assert member.finish_all() == [1, 2]


@pytest.mark.parametrize("paused", [(), (2,)])
def test_partitions_that_start_tell_whether_others_are_about_to(paused: tuple[int, ...]) -> None:
    """They are fetched from one moment on; of one that is paused nobody waits for."""
    member = TableMember()
    member.tell(events.TopicsKnown({"t": (TOPIC_ID, 3)}))
    places = [TopicPartition("t", number) for number in range(3)]
    member.kept_back = {actions.RangesAssigned}
    member.tell(events.Joining())
    ranges = dict.fromkeys(places, (WHOLE,))
    data = AssignmentData(ranges, lead="m1", members=1, planned={"t": 3})
    member.tell(events.Assigned(events.GroupMetadata(1), data))
    member.tell(events.Pause(1, [places[number] for number in paused]))
    member.let_go()
    last = 1 if paused else 2
    starts = member.told(actions.StartStream)
    assert [start.tp.partition for start in starts] == list(range(last + 1))
    assert [start.others_follow for start in starts] == [True] * last + [False]


def test_a_range_is_released_except_the_hash_with_a_running_handler() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(A, B)
    member.start()
    member.finish(1)
    member.assign(LOW)
    tenure = member.store.tenures()[0]
    assert not member.store.unreleased(tenure.id, [KeyRange(key_hash(B), key_hash(B))])
    assert member.store.unreleased(tenure.id, [HIGH]) == (AT_A,)
    member.finish(0)
    assert not member.store.unreleased(tenure.id, [HIGH])


def test_what_waits_in_a_lane_is_given_up_at_once_and_not_told_as_done() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(A, A)
    member.start()
    member.assign(LOW)
    member.finish(0)
    progress = member.store.progress()
    assert progress.is_done(key_hash(A), 0)
    assert not progress.is_done(key_hash(A), 1)


def test_a_new_owner_waits_until_the_log_has_the_release() -> None:
    old, claim = owner()
    new = heir(old, claim, HIGH)
    assert not new.told(actions.RangesAssigned)
    old.assign(LOW)
    new.hear_log()
    assert [(told.tp, told.ranges) for told in new.told(actions.RangesAssigned)] == [(T0, (HIGH,))]


def test_a_hash_that_the_old_owner_drains_waits_while_its_neighbours_run() -> None:
    old, claim = owner(A, A)
    old.assign(LOW)
    new = heir(old, claim, HIGH)
    new.produce(A, A, B)
    assert new.start() == [2]
    old.finish(0)
    new.hear_log()
    assert new.start() == [1]


def test_where_partitions_keep_their_order_a_running_handler_holds_back_all_of_one() -> None:
    log = MemoryLog()
    old = TableMember("m1", log=log, ordering="partition")
    old.assign(WHOLE)
    old.produce(A, B)
    old.start()
    (claim,) = claims(old)
    old.finish(0)  # of the lane's two records, the second runs now
    old.assign()
    new = TableMember("m2", log=log, committed=old.committed, ordering="partition")
    new.assign(WHOLE, waits=(wait_for(claim, WHOLE),))
    new.produce(A, B, L)
    assert new.start() == []
    old.finish(1)
    new.hear_log()
    assert new.start() == [2]


def test_who_drains_a_hash_is_superseded_only_when_its_new_owner_has_read_the_release() -> None:
    old, claim = owner(A, A)
    old.assign()
    new = heir(old, claim, WHOLE)
    new.produce(A, A)

    def superseded() -> set[str]:
        keys = new.store.superseded({"m1", "m2"}, old.log.end_offset)
        return {key.tenure.member for key in keys if isinstance(key, TenureKey)}

    assert superseded() == set()
    old.fail(0)  # it ends without having finished anything that its new owner does not know
    assert superseded() == set(), "a lead that cleared now would leave the new owner waiting"
    new.hear_log()
    new.after(1_000)
    assert new.start() == [0]
    assert superseded() == {"m1"}


def test_who_waits_for_a_tenure_that_the_log_does_not_know_asks_for_a_new_assignment() -> None:
    old, claim = owner(A)
    old.assign()
    new = heir(old, claim, WHOLE)
    (begun,) = new.told(actions.RangesAssigned)
    assert begun
    new.hear_log()
    tenure = TenureKey("billing", TOPIC_ID, 0, TenureId("m1", 1, claim.number))
    old.log.append(encode_key(tenure), None)
    new.hear_log()
    view = new.core.state.views[0]
    for _ in range(4):  # whoever leads reads the log again and again, which tells nothing new
        view.asked += 1
        new.after(500)
        new.tell(new.read(0, view.asked))
        new.after(500)
    assert not new.told(actions.Rejoin)
    view.asked += 1
    new.after(500)
    new.tell(new.read(0, view.asked))
    new.after(500)
    (rejoin,) = new.told(actions.Rejoin)
    assert "out of date" in rejoin.reason


def test_a_release_that_was_read_counts_once_it_is_cleared_away_for_who_cannot_begin_yet() -> None:
    old, claim = owner()
    new = TableMember(
        "m2", log=old.log, committed=old.committed, kept_back={actions.FetchCommitted}
    )
    new.assign(WHOLE, waits=(wait_for(claim),), lead="m1")
    old.assign()
    new.hear_log()
    tenure = TenureKey("billing", TOPIC_ID, 0, TenureId("m1", 1, claim.number))
    old.log.append(encode_key(tenure), None)
    new.hear_log()
    new.let_go()
    new.after(100)
    assert new.told(actions.RangesAssigned)


def test_a_release_that_was_read_counts_once_it_is_cleared_away_for_who_begins_again() -> None:
    old, claim = owner()
    new = heir(old, claim, WHOLE)
    old.assign()
    new.hear_log()
    new.produce(A)
    assert new.finish_all() == [0]
    tenure = TenureKey("billing", TOPIC_ID, 0, TenureId("m1", 1, claim.number))
    old.log.append(encode_key(tenure), None)
    new.hear_log()
    new.cut_off(0)
    new.after(200)
    assert [begun.epoch for begun in new.core.state.partitions[T0].tenures] == [2]


def test_a_release_that_was_read_counts_also_once_it_is_cleared_away() -> None:
    """Simulation: a key of m3 waited for m1's handler, and then 3 s for m2, which never ran it."""
    old, claim = owner(A)
    old.assign(LOW)
    between = heir(old, claim, HIGH)
    (passed_on,) = claims(between)
    new = TableMember("m3", log=old.log, committed=old.committed)
    waits = (wait_for(claim, AT_A), wait_for(passed_on, member="m2"))
    new.assign(HIGH, waits=waits, lead="m1")
    between.assign()
    new.hear_log()
    new.produce(A, B)
    assert new.start() == [1]
    tenure = TenureKey("billing", TOPIC_ID, 0, TenureId("m2", 1, passed_on.number))
    assert tenure in new.store.superseded({"m1", "m2", "m3"}, old.log.end_offset)
    old.log.append(encode_key(tenure), None)
    new.hear_log()
    old.finish(0)
    new.hear_log()
    new.produce(A)
    assert new.start() == [2]


def test_own_commits_do_not_hold_back_a_range_that_is_free() -> None:
    log = MemoryLog()
    old = TableMember("m1", log=log)
    old.assign(HIGH)
    (claim,) = claims(old)
    new = TableMember("m2", log=log, committed=old.committed)
    new.assign(LOW, lead="m1")
    new.assign(LOW, HIGH, waits=(wait_for(claim, HIGH),), lead="m1")
    old.assign()
    released = new.read(0, new.core.state.views[0].asked)
    new.produce(L)
    new.finish_all()  # its commit lies behind what it is about to read
    new.tell(released)
    assert new.told(actions.RangesAssigned)[-1].ranges == (HIGH,)


def test_a_later_incarnation_ends_the_tenures_of_the_one_before_once_the_group_lets_it_in() -> None:
    """Simulation, seed 397: a twin's JoinGroup was lost, and whom it was to succeed went on."""
    old, claim = owner()
    new = heir(old, claim, HIGH)
    twin = TableMember("m1", log=old.log, incarnation=2, static=True)
    new.hear_log()
    assert not new.told(actions.RangesAssigned)
    twin.assign()
    new.hear_log()
    assert new.told(actions.RangesAssigned)


def test_a_newer_assignment_that_lists_a_tenure_no_more_ends_the_wait_for_it() -> None:
    old, claim = owner()
    new = heir(old, claim, HIGH)
    new.assign(HIGH, lead="m1")
    assert new.told(actions.RangesAssigned)


def test_nobody_acts_on_a_prefix_of_the_log() -> None:
    member = TableMember()
    member.kept_back = {actions.ReadLog}
    member.assign(WHOLE)
    member.tell(events.LogRead(0, [], 0, 5))
    assert not [a for a in member.to_log() if len(a.entries) > 1]
    assert not member.told(actions.RangesAssigned)


def test_nothing_begins_between_a_joingroup_and_its_assignment() -> None:
    old, claim = owner()
    new = heir(old, claim, HIGH)
    new.tell(events.Joining())
    told = claims(new)
    old.assign(LOW)
    new.hear_log()
    assert claims(new) == told == []


def test_a_first_record_whose_reply_is_lost_is_sent_again_and_nothing_runs_meanwhile() -> None:
    member = TableMember()
    member.assign(LOW)
    member.kept_back = set(TO_LOG)
    member.assign(LOW, HIGH)
    (first,) = [a for a in member.unanswered if isinstance(a, TO_LOG)]
    member.unanswered.clear()
    for key, value in first.entries:
        member.log.append(key, value)
    member.tell(events.AppendFailed(first.token, LOST))
    assert not member.unanswered, "a refusal without delay would be answered by a storm"
    member.after(250)
    assert [told.ranges for told in member.told(actions.RangesAssigned)] == [(LOW,)]
    member.let_go()
    assert [told.ranges for told in member.told(actions.RangesAssigned)] == [(LOW,), (HIGH,)]
    assert len(member.store.tenures()) == 2


def test_a_release_that_is_under_way_is_still_a_claim() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(A)
    member.finish_all()
    member.kept_back = set(TO_LOG)
    member.assign(LOW)
    kept, ending = claims(member)
    assert (kept.ranges, kept.draining) == ((LOW,), False)
    assert (ending.ranges, ending.draining) == ((HIGH,), True)
    member.let_go()
    assert [(c.ranges, c.draining) for c in claims(member)] == [((LOW,), False)]


def test_a_range_that_comes_back_while_its_handler_runs_keeps_the_order_of_its_key() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(A, A, B)
    member.start()
    member.assign(LOW)
    member.assign(WHOLE)
    member.fetch()
    assert 1 not in member.start()
    member.finish(0)
    member.fetch()
    assert 1 in member.start()


def test_an_evicted_member_drains_and_begins_anew_only_by_an_assignment() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(A, A)
    member.start()
    member.tell(events.Lost("session over"))
    assert not member.core.lanes.ready
    assert [(c.ranges, c.draining) for c in claims(member)] == [((AT_A,), True)]
    member.finish(0)
    assert member.store.progress().is_done(key_hash(A), 0)
    member.assign(WHOLE)
    member.fetch()
    assert member.finish_all() == [1]


def test_a_member_leaves_only_after_its_last_handler_and_its_last_record() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(A, B)
    member.start()
    member.finish(1)
    member.tell(events.Close())
    assert not member.told(actions.Leave)
    member.finish(0)
    assert member.told(actions.Leave) == [actions.Leave(None)]
    assert member.committed == (2, tag(1))
    assert not member.store.unreleased(TenureId("m1", 1, 1), [WHOLE])


def test_a_far_behind_range_catches_up_by_a_stream_of_its_own_and_joins_the_main_one() -> None:
    old, claim = owner()
    new = TableMember("m2", log=old.log, committed=old.committed)
    new.assign(LOW, lead="m1")
    new.produce(L, A, L)
    assert new.finish_all() == [0, 2]
    new.assign(LOW, HIGH, waits=(wait_for(claim, HIGH),), lead="m1")
    old.assign()
    new.hear_log()
    starts = [(start.offset, start.consumer) for start in new.told(actions.StartStream)]
    assert starts == [(0, actions.MAIN), (0, actions.CATCH_UP)]
    new.fetch()
    assert new.finish_all() == [1]
    assert [stop.stream for stop in new.told(actions.StopStream)] == [2]
    new.produce(A)
    assert new.finish_all() == [3]


def test_what_a_drained_hash_has_finished_is_told_and_mirrored_by_its_new_owner() -> None:
    old, claim = owner(A)
    old.assign(lead="m2")
    new = TableMember("m2", log=old.log, committed=old.committed)
    new.assign(WHOLE, waits=(wait_for(claim),))
    new.produce(A)
    old.finish(0)
    new.hear_log()
    for _ in range(3):
        new.after(5_000)
    assert new.finish_all() == []
    assert new.committed == (1, tag(1))


def test_a_range_that_comes_back_before_the_log_has_its_release_repeats_nothing() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(A, B)
    member.kept_back = set(TO_LOG)
    member.finish_all()
    member.assign(LOW)
    member.assign(WHOLE)
    member.let_go()
    member.fetch()
    assert member.finish_all() == []
    member.produce(A)
    assert member.finish_all() == [2]


def test_a_range_comes_back_only_when_we_have_read_what_we_told_ourselves() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(A)
    member.start()
    member.assign(LOW)
    other = TenureKey("billing", TOPIC_ID, 0, TenureId("m9", 9, 1))
    member.assign(LOW, HIGH, waits=(Wait("m9", 9, 1, T0, (HIGH,)),))
    release = TenureRecord(1, -1, (RangeProgress(HIGH, 0),), released=(HIGH,))
    member.log.append(encode_key(other), encode_value(release))
    member.finish(0)  # told and acknowledged behind that release
    member.hear_log(records_max=1)
    assert len(member.told(actions.RangesAssigned)) == 1
    member.hear_log()
    assert len(member.told(actions.RangesAssigned)) == 2
    member.fetch()
    assert member.finish_all() == []


def test_a_member_that_leaves_hands_on_what_it_has_while_its_last_handler_runs() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(A, B)
    member.start()
    member.finish(1)
    member.tell(events.Close())
    assert not member.told(actions.Rejoin), "most handlers end soon"
    member.after(600)
    (rejoin,) = member.told(actions.Rejoin)
    assert "1 key still runs" in rejoin.reason
    assert decode_subscription(member.core.subscription()).leaving
    assert [claim.ranges for claim in claims(member)] == [(AT_A,)]
    member.assign(lead="m2")
    assert not member.told(actions.Leave)
    member.finish(0)
    member.after(200)
    assert member.told(actions.Leave)


def test_of_two_runs_of_a_name_only_the_one_that_is_assigned_to_announces_itself_again() -> None:
    sleeper = TableMember("m1", static=True)
    sleeper.assign(WHOLE)
    TableMember("m1", log=sleeper.log, incarnation=2, static=True).assign()
    end = sleeper.log.end_offset
    sleeper.hear_log()
    assert sleeper.told(actions.Rejoin)
    sleeper.after(60_000)
    assert sleeper.log.end_offset == end
    sleeper.assign(WHOLE)
    assert sleeper.log.end_offset == end + 1


def test_a_run_that_has_read_only_its_predecessors_announcement_so_far_asks_nobody() -> None:
    log = MemoryLog()
    TableMember("m1", log=log, static=True).assign()
    again = TableMember("m1", log=log, incarnation=2, static=True, kept_back=TO_LOG)
    again.assign(WHOLE)
    again.let_go()
    assert not again.told(actions.Rejoin)


LEADS_ELSEWHERE = events.Assigned(events.GroupMetadata(1), AssignmentData(lead="m2", members=2))
"""We get nothing, and lead nothing; but an earlier run of our name may still drain something."""


def test_an_announcement_that_failed_is_made_again_where_nothing_is_held_too() -> None:
    member = TableMember("m1", static=True, kept_back=TO_LOG)
    member.tell(LEADS_ELSEWHERE)
    (sent,) = member.to_log()
    member.tell(events.AppendFailed(sent.token, LOST))
    member.after(1_000)
    _, again = member.to_log()
    assert again.entries == sent.entries
    member.tell(events.Appended(again.token, [0]))
    member.after(1_000)
    assert len(member.to_log()) == 2, "it is in the log, and not made a third time"


def test_who_cannot_be_confirmed_asks_again_where_nothing_is_held_too() -> None:
    member = TableMember("m1", static=True, kept_back=[actions.ConfirmMembership])
    member.tell(LEADS_ELSEWHERE)
    (asked,) = member.told(actions.ConfirmMembership)
    member.tell(events.MembershipConfirmed(asked.token, confirmed=False, log_ends={}))
    member.after(1_000)
    assert len(member.told(actions.ConfirmMembership)) == 2
    assert not member.to_log()


def test_a_run_that_slept_through_its_own_end_does_not_announce_itself_again() -> None:
    sleeper = TableMember("m1", static=True)
    sleeper.assign(WHOLE)
    TableMember("m1", log=sleeper.log, incarnation=2, static=True).assign(WHOLE)
    sleeper.hear_log()
    assert sleeper.told(actions.Rejoin)
    sleeper.tell(events.Joining())
    sleeper.fenced = True  # while the answer waits
    end = sleeper.log.end_offset
    sleeper.assign(WHOLE)
    sleeper.after(60_000)
    assert sleeper.log.end_offset == end


def test_a_run_that_slept_before_its_first_assignment_asks_whether_it_counts() -> None:
    for fenced in (True, False):
        sleeper = TableMember("m1", static=True)
        sleeper.fenced = fenced
        sleeper.assign(WHOLE)  # an answer of long ago
        sleeper.after(60_000)
        entries = [entry for append in sleeper.to_log() for entry in append.entries]
        announced = [key for key, _ in entries if isinstance(decode_key(key), AnnounceKey)]
        assert bool(announced) is not fenced
        assert bool(sleeper.told(actions.RangesAssigned)) is not fenced


def force(log: MemoryLog, claim: Claim, *ranges: KeyRange) -> None:
    """A person releases ranges of m1's tenure."""
    key = ReleaseKey("billing", TOPIC_ID, 0, TenureId("m1", 1, claim.number))
    log.append(encode_key(key), encode_value(ReleaseRecord(ranges, 0)))


def test_what_a_person_releases_begins_and_is_counted() -> None:
    old, claim = owner(A)
    new = heir(old, claim, HIGH)
    new.tell(events.CapacityChanged(2))
    new.produce(A, B)
    assert new.start() == []
    force(old.log, claim, HIGH)
    new.hear_log()
    new.fetch()
    assert sorted(new.start()) == [0, 1]
    assert new.core.state.counters.forced == 1
    (warning,) = [r.text for r in new.told(actions.LogLine) if "coop-consumer release" in r.text]
    assert f"keys {HIGH}: begin here, though m1/1#1 has not released them" in warning


def test_a_person_can_release_the_one_hash_that_a_handler_is_at() -> None:
    old, claim = owner(A)
    old.assign()
    new = heir(old, claim, WHOLE)
    new.produce(A)
    assert new.start() == []
    force(old.log, claim, AT_A)
    new.hear_log()
    assert new.start() == [0]
    assert new.core.state.counters.forced == 1


def test_a_person_can_release_what_hangs_in_the_waiting_process_itself() -> None:
    member = TableMember("m1")
    member.assign(WHOLE)
    member.produce(A)
    member.start()
    (claim,) = claims(member)
    member.assign()
    member.assign(WHOLE)
    member.fetch()
    assert member.start() == []
    force(member.log, claim, AT_A)
    member.hear_log()
    assert member.start() == [0]


def test_what_was_released_for_a_tenure_that_is_gone_is_cleared_away() -> None:
    log = MemoryLog()
    force(log, Claim(9, T0, (HIGH,), draining=True), HIGH)
    member = TableMember("m2", log=log)
    member.assign(WHOLE)
    keys = member.store.superseded({"m2"}, log.end_offset)
    assert [key for key in keys if isinstance(key, ReleaseKey)]


def test_what_others_finished_of_a_key_while_our_own_handler_still_ran_is_not_repeated() -> None:
    first = TableMember()
    first.assign(WHOLE)
    first.produce(b"a", b"a")
    assert first.start() == [0]
    first.tell(events.Lost("it slept"))

    second = TableMember("m2", log=first.log, committed=first.committed)
    second.assign(WHOLE)
    second.produce(b"a", b"a")
    assert second.start() == [0]
    second.finish(0)  # and goes on with the other
    second.assign()

    first.assign(WHOLE, waits=(Wait("m2", 1, 1, T0, (WHOLE,)),))
    second.finish(1)
    first.hear_log()
    first.finish(0)
    first.fetch()
    assert first.finish_all() == []
    first.after(10_000)
    assert first.committed == (2, tag(1))


def test_a_run_that_slept_after_it_was_confirmed_ends_nothing_that_began_since() -> None:
    """Nobody hears that it is not the run that counts before its announcement is in the log."""
    sleeper = TableMember("m1", static=True, kept_back=[actions.ConfirmMembership])
    sleeper.assign(WHOLE)
    [asked] = sleeper.unanswered
    assert isinstance(asked, actions.ConfirmMembership)
    looked = sleeper.log.end_offset
    owner = TableMember("m1", log=sleeper.log, incarnation=2, static=True)
    owner.assign(WHOLE)
    sleeper.tell(events.MembershipConfirmed(asked.token, True, {0: looked}))
    owner.produce(b"a")
    owner.start()
    [claim] = decode_subscription(owner.core.subscription()).claims
    owner.assign(lead="m2")
    heir = TableMember("m2", log=owner.log, committed=owner.committed)
    heir.assign(WHOLE, waits=(Wait("m1", 2, claim.number, T0, (WHOLE,)),))
    heir.produce(b"a")
    assert heir.start() == []
    owner.finish(0)
    heir.hear_log()
    heir.produce(b"a")
    assert heir.start() == [1]


def test_what_an_earlier_run_began_later_than_we_looked_is_ended_by_another_announcement() -> None:
    member = TableMember("m1", incarnation=2, static=True)
    member.assign(KeyRange(0, 9), lead="m2", waits=(Wait("m9", 1, 1, T0, (KeyRange(0, 9),)),))
    late = TenureId("m1", 1, 1)  # on its way when its process was killed
    key = TenureKey("billing", TOPIC_ID, 0, late)
    told = TenureRecord(1, -1, (RangeProgress(WHOLE, 0),))
    member.log.append(encode_key(key), encode_value(told))
    assert member.store.unreleased(late, [WHOLE]) == (WHOLE,)
    member.hear_log()
    member.after(1_000)
    member.hear_log()
    assert member.store.unreleased(late, [WHOLE]) == ()


def test_an_announcement_is_not_made_again_because_a_look_was_older_than_it() -> None:
    """The look ended before it, so a killed predecessor's tenure seems to go on there."""
    killed = TableMember("m1", static=True)
    killed.assign(WHOLE)
    killed.produce(b"a")
    before = killed.log.read(0, max_records=100)
    heir = TableMember(
        "m1", log=killed.log, incarnation=2, static=True, kept_back=[actions.ReadLog]
    )
    heir.assign(WHOLE)
    look = heir.told(actions.ReadLog)[-1]
    heir.tell(events.LogRead(0, before.records, look.read, before.end_offset))
    heir.kept_back = set()
    heir.hear_log()
    heir.after(1_000)
    announced = [entry for it in heir.to_log() for entry in it.entries]
    keys = [decode_key(key) for key, _ in announced]
    assert sum(isinstance(key, AnnounceKey) for key in keys) == 1
    assert len(heir.told(actions.ConfirmMembership)) == 1


def test_a_release_in_a_log_that_has_lost_the_epoch_frees_nothing_before_the_next_one() -> None:
    """Work before it counts in no epoch that this log knows, so it would come again."""
    old = TableMember()
    old.assign(WHOLE)
    old.produce(b"a")
    old.start()
    [claim] = decode_subscription(old.core.subscription()).claims
    old.assign(lead="m2")
    new = TableMember("m2", log=old.log, committed=old.committed)
    new.assign(WHOLE, waits=(Wait("m1", 1, claim.number, T0, (WHOLE,)),))
    new.produce(b"a")
    old.finish(0)
    rest = MemoryLog()
    *_, release = old.log.read(0, 100).records
    rest.append(release.key, release.value)
    new.kept_back = {actions.FetchCommitted}
    new.lose_log(rest)
    assert new.start() == []
