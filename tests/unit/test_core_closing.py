"""The end of a member tells what it waits for, and waits all the same."""

from __future__ import annotations

import pytest

from assignors import WHOLE
from coop_consumer.core import actions, events
from coop_consumer.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    CoopConsumerError,
    MemberLostError,
    TopicMissingError,
)
from offsets import Committed
from tests.unit.core_member import HIGH, LOW, TO_LOG, TableMember, tag

GONE, AWAY = TopicMissingError("t"), BrokerUnreachableError("b:9092", "silent")


def closing_member() -> TableMember:
    """A member that runs one record, and was asked to close."""
    member = TableMember(shutdown_timeout_ms=30_000)
    member.assign(WHOLE)
    member.produce(b"a", b"b")
    member.start()
    member.finish(1)
    member.tell(events.Close())
    return member


def told_by(told: list[actions.Action]) -> list[str]:
    texts = [action.text for action in told if isinstance(action, actions.LogLine)]
    return [text for text in texts if "still waiting" in text]


def test_what_runs_is_told_after_the_shutdown_timeout_and_now_and_then() -> None:
    member = closing_member()
    assert told_by(member.after(29_000)) == []
    [line] = told_by(member.after(1_000))
    assert line.startswith("about to leave, still waiting for 1 running record, not abandoning")
    assert "them: t-0 offset 0 (key b'a'). If the process must go now, end it by a second" in line
    assert told_by(member.after(29_000)) == []
    assert len(told_by(member.after(1_000))) == 1
    assert not member.told(actions.Leave)
    member.finish(0)
    assert member.told(actions.Leave)


def test_brokers_that_do_not_take_the_last_commit_are_told_of() -> None:
    member = closing_member()
    member.kept_back = set(TO_LOG)
    member.finish(0)
    [line] = told_by(member.after(30_000))
    assert line == "about to leave, still waiting for the brokers to take what is done"
    member.let_go()
    assert member.told(actions.Leave)


SESSION_MS = 10_000


def idle_member(**settings: int) -> TableMember:
    """A member that has done all there is, and the log has it."""
    member = TableMember(session_timeout_ms=SESSION_MS, **settings)
    member.assign(WHOLE)
    member.produce(b"a")
    member.finish_all()
    member.after(1_000)
    member.kept_back = set(TO_LOG)
    return member


@pytest.mark.parametrize("is_closing", [False, True])
def test_who_has_nothing_to_commit_leaves_brokers_that_are_away_when_its_session_is_over(
    is_closing: bool,
) -> None:
    """It waited for as long as they were away, to say no more than that its ranges are free."""
    member = idle_member(shutdown_timeout_ms=30_000)
    told = [events.BrokersAway(True), events.Close()]
    if is_closing:  # or they go away meanwhile
        told.reverse()
    for event in told:
        member.tell(event)
    [line] = told_by(member.told(actions.LogLine))
    assert line.startswith("about to leave, still waiting for brokers, which are away, for 10 s")
    assert not member.told(actions.Leave)
    member.after(SESSION_MS)
    assert member.told(actions.Leave) == [actions.Leave(None)]
    assert member.core.closing.unheard


def test_it_leaves_at_once_if_they_have_been_away_for_a_session() -> None:
    member = idle_member(shutdown_timeout_ms=30_000)
    member.tell(events.BrokersAway(True))
    member.after(SESSION_MS)
    member.tell(events.Close())
    assert member.told(actions.Leave)


def test_the_shutdown_timeout_bounds_that_wait() -> None:
    member = idle_member(shutdown_timeout_ms=3_000)
    for event in (events.BrokersAway(True), events.Close()):
        member.tell(event)
    member.after(2_000)
    assert not member.told(actions.Leave)
    member.after(1_000)
    assert member.told(actions.Leave)


def test_brokers_that_come_back_are_told_all() -> None:
    member = idle_member(shutdown_timeout_ms=3_000)
    for event in (events.BrokersAway(True), events.Close(), events.BrokersAway(False)):
        member.tell(event)
    member.after(60_000)
    assert not member.told(actions.Leave)
    member.let_go()
    assert member.told(actions.Leave)
    assert not member.core.closing.unheard


def test_who_has_something_to_commit_waits_for_brokers_and_says_so_at_once() -> None:
    member = closing_member()
    member.kept_back = set(TO_LOG)
    member.tell(events.BrokersAway(True))
    [line] = told_by(member.told(actions.LogLine))
    assert "1 running record" in line
    member.finish(0)
    [line, *_] = told_by(member.after(60_000))
    assert line == "about to leave, still waiting for the brokers to take what is done"
    assert not member.told(actions.Leave)
    member.let_go()
    assert member.told(actions.Leave)


def failed_member() -> TableMember:
    """A member that has parked a record, and is about to commit that."""
    member = TableMember(
        session_timeout_ms=SESSION_MS, on_failure="park", max_attempts=1, circuit_share=0
    )
    member.assign(WHOLE)
    member.produce(b"a")
    member.start()
    return member


def test_who_has_a_failure_to_commit_waits_for_brokers() -> None:
    """Whoever comes next would try again what waits for a person."""
    member = failed_member()
    member.kept_back = set(TO_LOG)
    member.fail(0)
    for event in (events.BrokersAway(True), events.Close()):
        member.tell(event)
    [line, *_] = told_by(member.after(60_000))
    assert line == "about to leave, still waiting for the brokers to take what is done"
    assert not member.told(actions.Leave)
    member.let_go()
    assert member.told(actions.Leave)


def test_who_has_told_of_its_failures_leaves_brokers_that_are_away() -> None:
    member = failed_member()
    member.fail(0)
    member.after(1_000)
    member.kept_back = set(TO_LOG)
    for event in (events.BrokersAway(True), events.Close()):
        member.tell(event)
    member.after(SESSION_MS)
    assert member.told(actions.Leave)
    assert member.core.closing.unheard


def test_of_two_that_leave_at_once_neither_puts_the_committed_offset_back_for_good() -> None:
    """The one has read the log before the other told its last, and commits after it has."""
    slow = TableMember()
    slow.assign(LOW)
    quick = TableMember("m2", log=slow.log, committed=slow.committed)
    quick.assign(HIGH, lead="m1")
    keys = [b"key-%d" % number for number in range(12)]
    for member in (slow, quick):
        member.produce(*keys)
    slow.finish_all()
    rest = quick.start()
    while rest[0] < len(keys) // 2:
        quick.finish(rest.pop(0))
    quick.after(10_000)
    slow.kept_back = {actions.CommitOffsets}
    slow.tell(events.Close())
    assert slow.unanswered
    for offset in rest:
        quick.finish(offset)
    quick.tell(events.Close())
    assert quick.committed == (len(keys), tag(1))

    slow.committed = quick.committed
    slow.let_go()
    assert slow.told(actions.Leave)
    assert slow.committed == (len(keys), tag(1))


def test_who_leaves_others_at_work_does_not_wait_until_they_pause() -> None:
    """They are always a bit further than what it has just mirrored; the rest is theirs."""
    member = TableMember()
    member.assign(LOW)
    other = TableMember("m2", log=member.log, committed=member.committed)
    other.assign(HIGH, lead="m2")
    keys = [b"key-%d" % number for number in range(60)]
    for it in (member, other):
        it.produce(*keys)
    member.finish_all()
    rest = other.start()

    def more() -> None:
        for _ in range(3):
            other.finish(rest.pop(0))
        other.after(1_000)

    more()
    member.kept_back = {actions.CommitOffsets}
    member.tell(events.Close())
    rounds = 0
    while member.unanswered:
        more()
        rounds += 1
        [commit], member.unanswered = member.unanswered, []
        for answer in member.answers(commit):
            member.tell(answer)
    assert member.told(actions.Leave)
    assert rounds == 2
    assert rest, "it is at work"


@pytest.mark.parametrize("is_passed_on", [False, True])
def test_who_was_to_lead_mirrors_before_it_leaves_though_it_had_not_begun(
    is_passed_on: bool,
) -> None:
    """It was told to leave before it knew the committed offset, and nobody else will mirror.

    Nor will who is given it next, if that one leaves as well.
    """
    before = TableMember(kept_back=())
    before.assign(WHOLE)
    before.produce(*[b"key-%d" % number for number in range(8)])
    before.finish_all()
    before.after(10_000)
    newcomer = TableMember("m2", log=before.log, committed=Committed(0, tag(1)))
    newcomer.kept_back = {actions.FetchCommitted}
    newcomer.assign()
    newcomer.tell(events.Close())
    if is_passed_on:
        newcomer.assign(lead="m3")
    assert not newcomer.told(actions.Leave)
    newcomer.let_go()
    newcomer.after(1_000)
    assert newcomer.told(actions.Leave)
    assert newcomer.committed == Committed(8, tag(1))


@pytest.mark.parametrize("began", [False, True])
def test_who_has_given_away_mirrors_when_it_leaves_what_the_next_owner_never_began(
    began: bool,
) -> None:
    """The next owner was leaving already when it was given the partition, and so took nothing."""
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c")
    member.finish_all()
    member.assign(lead="m2")
    member.committed = Committed(1, tag(1))
    if began:
        TableMember("m2", log=member.log, committed=member.committed).assign(WHOLE)
    member.tell(events.Close())
    member.after(1_000)
    assert member.told(actions.Leave)
    assert member.committed == ((1 if began else 3), tag(1))


def test_who_died_before_is_not_taken_for_the_next_owner() -> None:
    """Its tenure is in the log, released by nobody; whoever began after it had waited for it."""
    gone = TableMember("m3")
    gone.assign(WHOLE)
    member = TableMember(log=gone.log, committed=gone.committed)
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c")
    member.finish_all()
    member.assign(lead="m2")
    member.committed = Committed(1, tag(1))
    member.tell(events.Close())
    member.after(1_000)
    assert member.told(actions.Leave)
    assert member.committed == Committed(3, tag(1))


def test_what_a_rebalance_refuses_is_mirrored_after_it_whoever_else_seems_at_work() -> None:
    """Nobody may be: the log does not tell a member that died from one that is idle."""
    member = closing_member()
    TableMember("m2", log=member.log, committed=member.committed).assign(HIGH)
    member.kept_back = {actions.CommitOffsets}
    member.finish(0)
    for _ in range(5):
        [commit], member.unanswered = member.unanswered, []
        assert isinstance(commit, actions.CommitOffsets)
        member.tell(events.OffsetsCommitted(commit.token, MemberLostError("g", "m1", "over")))
        member.after(1_000)
    assert not member.told(actions.Leave)
    member.let_go()
    assert member.told(actions.Leave)
    assert member.committed == Committed(2, tag(1))


def test_offsets_that_kafka_refuses_are_told_with_what_that_means_and_a_command() -> None:
    member = closing_member()
    member.kept_back = {actions.CommitOffsets}
    member.finish(0)
    [commit] = [it for it in member.unanswered if isinstance(it, actions.CommitOffsets)]
    refused = AuthorizationError("group g", "read", "ann")
    member.tell(events.OffsetsCommitted(commit.token, refused))
    [line] = [it for it in member.told(actions.LogLine) if it.level >= actions.Level.WARNING]
    assert line.text.startswith(
        "Kafka does not take the committed offset of t-0 (group g: user ann may not read). Other "
        "tools show an older lag"
    )
    assert "nothing is lost" in line.text
    assert "`coop-consumer doctor --group" in line.text


@pytest.mark.parametrize(("error", "leaves"), [(GONE, True), (AWAY, False)])
def test_a_mirror_that_is_refused_for_good_keeps_nobody_from_leaving(
    error: CoopConsumerError, *, leaves: bool
) -> None:
    """The topic is deleted while a member leaves: it waited for ever. All that is done is told."""
    member = closing_member()
    member.kept_back = {actions.CommitOffsets}
    member.finish(0)
    for _ in range(10):
        asked, member.unanswered = member.unanswered, []
        for commit in asked:
            assert isinstance(commit, actions.CommitOffsets)
            member.tell(events.OffsetsCommitted(commit.token, error))
        member.after(1_000)
    assert bool(member.told(actions.Leave)) == leaves
    lines = member.told(actions.LogLine)
    assert [it for it in lines if it.level >= actions.Level.WARNING] == []
    assert member.store.progress().stable == 2
