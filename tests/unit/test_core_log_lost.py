"""A member that has lost the progress log ends: what it does could not be kept."""

from __future__ import annotations

from assignors import WHOLE, KeyRange, decode_subscription, key_hash
from coop_consumer.core import actions, events
from coop_consumer.errors import AuthorizationError, CoopConsumerError, ProgressLogLostError
from tests.unit.core_member import TO_LOG, TableMember

DENIED = AuthorizationError("topic progress", "write", "ann")


def refuse_appends(member: TableMember) -> None:
    """Every append that is unanswered is refused for good."""
    waiting, member.unanswered = member.unanswered, []
    for action in waiting:
        assert isinstance(action, TO_LOG)
        member.tell(events.AppendFailed(action.token, DENIED, is_final=True))


def ends_with(member: TableMember) -> list[CoopConsumerError | None]:
    return [leave.error for leave in member.told(actions.Leave)]


def test_who_may_not_even_announce_itself_leaves_at_once() -> None:
    member = TableMember()
    member.kept_back = set(TO_LOG)
    member.assign(WHOLE)
    refuse_appends(member)
    assert ends_with(member) == [DENIED]


def test_who_loses_the_right_leaves_when_its_last_handler_has_ended() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c")
    member.start()
    member.kept_back = set(TO_LOG)
    member.finish(0)
    member.after(1_000)
    refuse_appends(member)
    appends = len(member.to_log())
    member.finish(1)
    member.after(1_000)
    assert ends_with(member) == []
    member.finish(2)
    member.after(50)
    assert ends_with(member) == [DENIED]
    assert len(member.to_log()) == appends  # it does not try in vain meanwhile


def test_a_last_commit_that_is_refused_is_told_by_whoever_was_about_to_end() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a")
    member.start()
    member.kept_back = set(TO_LOG)
    member.tell(events.Close())
    member.finish(0)
    refuse_appends(member)
    assert ends_with(member) == [DENIED]


def test_who_is_told_that_the_log_is_gone_commits_no_more_and_leaves_behind_its_last_handler() -> (
    None
):
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"b")
    member.start()
    gone = ProgressLogLostError("progress", "was deleted")
    before = len(member.to_log())
    member.tell(events.LogLost(gone))
    member.finish(0)
    member.after(1_000)
    assert ends_with(member) == []
    running = KeyRange(key_hash(b"b"), key_hash(b"b"))
    (claim,) = decode_subscription(member.core.subscription()).claims
    assert claim.ranges == (running,), "no release will come of the rest: nobody may wait for one"
    member.finish(1)
    member.after(50)
    assert ends_with(member) == [gone]
    assert len(member.to_log()) == before
