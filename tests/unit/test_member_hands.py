"""The hands and the sides of a member with clients that only note what is asked of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, get_args
from unittest.mock import Mock

import pytest

from assignors import (
    WHOLE,
    AssignmentData,
    Claim,
    ClaimLoad,
    HeavyHash,
    Subscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from coop_consumer.config import Balance, Config, TopicChoice
from coop_consumer.core import actions, events
from coop_consumer.core.blocked_read import RunId
from coop_consumer.core.policies import Policies
from coop_consumer.errors import (
    BrokerUnreachableError,
    CoopConsumerError,
    ForeignProtocolError,
    HandlerOverdueError,
    ProgressLogLostError,
    VersionMismatchError,
)
from coop_consumer.kafka.membership import AssignmentSnapshot, GroupMember
from coop_consumer.kafka.topics import TopicFacts
from coop_consumer.member import hands as room
from coop_consumer.member.group_side import GroupSide
from coop_consumer.member.hands import Hands
from coop_consumer.member.inbox import TICK, Inbox
from coop_consumer.member.topic_side import TopicSide
from offsets import Committed
from tests.simulation.shell import MemberShell

T0 = TopicPartition("orders", 0)
CONFIG = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "billing"})
AWAY = BrokerUnreachableError("b:9092", "no answer")
FACTS = TopicFacts(b"1" * 16, 2)


class Noting:
    """Any client: notes each call, and answers None."""

    def __init__(self, *_: object, **__: object) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *given, **_: self.calls.append((name, given))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


class Seat(Noting):
    """A membership that answers when the test wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Future[dict[tuple[str, int], Committed | None]] = Future()

    def committed(self, _: Iterable[tuple[str, int]]) -> Future[Any]:
        return self.asked


class Table:
    """Hands between an inbox and clients that only note."""

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.seat, self.topics, self.side = Seat(), Noting(), Noting()
        self.executor, self.range_calls, self.committer = Noting(), Noting(), Noting()
        self.said: list[str] = []
        self.left: list[CoopConsumerError | None] = []
        given: Any = SimpleNamespace(
            topics=self.topics, side=self.side, executor=self.executor, calls=self.range_calls
        )
        self.hands = Hands(
            config=CONFIG,
            inbox=self.inbox,
            topics=given.topics,
            side=given.side,
            membership=self.seat,  # type: ignore[arg-type] # answers to any name
            executor=given.executor,
            range_calls=given.calls,
            committer=self.committer,  # type: ignore[arg-type] # answers to any name
            say=lambda _level, _event, text, /, **_facts: self.said.append(text),
            leave=self.left.append,
        )

    def heard(self) -> events.Event:
        return self.inbox.next(5)[0]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Table]]:
    for name in ("ProgressReader", "Fetcher"):
        monkeypatch.setattr(room, name, Noting)
    made: list[Table] = []

    def make() -> Table:
        made.append(Table())
        return made[-1]

    yield make
    for one in made:
        one.hands.close(log_lost=False)


def test_every_action_is_carried_out_by_the_threads_and_by_the_simulation(
    table: Callable[..., Table],
) -> None:
    every = set(get_args(actions.Action))
    assert table().hands._performers().keys() == every
    assert MemberShell._performers(Mock()).keys() == every


def test_what_goes_to_the_log_goes_to_the_committer(table: Callable[..., Table]) -> None:
    it = table()
    append = actions.Append(3, [(b"k", b"v")], 7)
    commit = actions.Commit({3: []}, 8, ["effect"], events.NO_MEMBER)
    it.hands.perform(append)
    it.hands.perform(commit)
    assert it.committer.calls == [("append", (append,)), ("commit", (commit,))]


def test_a_late_commit_is_reported_with_what_it_waits_for(table: Callable[..., Table]) -> None:
    it = table()
    it.committer.waits_for = lambda token: f"the step of commit {token}"
    it.hands.perform(actions.CommitLate(3, 8, 12_345))
    (line,) = it.said
    assert line.startswith("progress log, partition 3: a commit has not been acknowledged for 12 s")
    assert line.endswith("It waits for the step of commit 8.")


def test_offsets_that_no_broker_tells_are_reported_once_a_minute(
    table: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an outage a member of many partitions wrote fifty lines a second of that."""
    now_s = [1_000.0]
    monkeypatch.setattr(room, "monotonic", lambda: now_s[0])
    it = table()
    monkeypatch.setattr(it.topics, "resolve_later", lambda *asked: asked[-1](AWAY), raising=False)
    for after_s, lines in [(0, 1), (0, 1), (59, 1), (1, 2)]:
        now_s[0] += after_s
        it.hands.perform(actions.ResolveOffset(T0, "earliest"))
        assert it.heard() == events.OffsetResolved(T0, -1)
        assert len(it.said) == lines
    assert it.said[0].startswith("orders-0: its earliest offset cannot be asked")


def test_an_overdue_handler_is_reported_with_a_command_to_paste_and_its_stack(
    table: Callable[..., Table],
) -> None:
    it = table()
    it.executor.stack = lambda lane: f"  the stack of {lane}"
    error = HandlerOverdueError("orders", 0, WHOLE, 43, b"a", 1_200, "leave")
    lane: Any = "a lane"
    it.hands.perform(actions.HandlerOverdue(lane, error, {}))
    (line,) = it.said
    assert line == (
        f"{error} `coop-consumer status billing --bootstrap b:9092` shows how the record stands.\n"
        "It is here:\n  the stack of a lane"
    )


def test_committed_offsets_come_with_their_partitions_or_not_at_all(
    table: Callable[..., Table],
) -> None:
    it = table()
    it.hands.perform(actions.FetchCommitted([T0]))
    it.seat.asked.set_result({("orders", 0): Committed(5, "")})
    assert it.heard() == events.CommittedRead({T0: Committed(5, "")})
    it = table()
    it.hands.perform(actions.FetchCommitted([T0]))
    it.seat.asked.set_exception(AWAY)
    assert it.heard() == events.CommittedUnknown([T0])
    assert "committed offsets cannot be read yet" in it.said[0]


def test_another_reader_takes_the_place_of_one_that_hangs(table: Callable[..., Table]) -> None:
    it = table()
    before = it.hands._reader
    it.hands.perform(actions.RenewLogReader())
    it.hands.perform(actions.ReadLog(1, 2))
    assert before.calls == [("abandon", ())]  # type: ignore[attr-defined]
    assert it.hands._reader.calls == [("read", (1, 2))]  # type: ignore[attr-defined]


def test_whoever_leaves_is_told_and_a_rejoin_says_why(table: Callable[..., Table]) -> None:
    it = table()
    it.hands.perform(actions.Leave(AWAY))
    it.hands.perform(actions.Rejoin("a policy has changed"))
    assert it.left == [AWAY]
    assert it.said == ["rejoining: a policy has changed"]
    assert it.seat.names == ["request_rejoin"]


# ---- what the group tells --------------------------------------------------------------------


def snapshot(
    user_data: bytes | None,
    *,
    partitions: dict[str, tuple[int, ...]] | None = None,
    plain: bool = False,
) -> AssignmentSnapshot:
    return AssignmentSnapshot(4, "m-1", "i-1", user_data, partitions or {}, plain=plain)


class Group:
    """The side of the group, with a core that only has a name."""

    def __init__(self) -> None:
        self.inbox, self.doubts = Inbox(), list[int]()
        self.said: list[str] = []
        core: Any = SimpleNamespace(
            state=SimpleNamespace(name="m1"),
            subscription=lambda: b"mine",
            withdrawal=SimpleNamespace(kept=lambda: [T0]),
        )
        policies: Any = Noting()
        self.side = GroupSide(
            config=CONFIG,
            inbox=self.inbox,
            core=core,
            policies=policies,
            say=lambda _level, _event, text, /, **_facts: self.said.append(text),
            now_ms=lambda: 0,
            doubt_topics=lambda: self.doubts.append(1),
        )

    def heard(self) -> events.Event:
        return self.inbox.next(0)[0]


def test_what_a_plain_assignor_gives_are_whole_partitions() -> None:
    group = Group()
    group.side.on_assigned(snapshot(None, partitions={"orders": (0,)}, plain=True))
    event = group.heard()
    assert isinstance(event, events.Assigned)
    assert event.metadata == events.GroupMetadata(4, "m-1", "i-1")
    assert event.data.ranges == {T0: (WHOLE,)}
    assert group.doubts == [1]


def test_partitions_that_the_broker_has_dealt_end_the_member() -> None:
    group = Group()
    group.side.on_assigned(snapshot(b"", partitions={"orders": (0,)}))
    event = group.heard()
    assert isinstance(event, events.Fatal)
    assert isinstance(event.error, ForeignProtocolError)
    assert not group.side.accepted


def test_an_assignment_of_a_newer_release_ends_the_member_and_garbage_gives_it_nothing() -> None:
    kind, version, *rest = encode_assignment(AssignmentData())
    group = Group()
    group.side.on_assigned(snapshot(bytes([kind, version + 1, *rest])))
    newer = group.heard()
    group.side.on_assigned(snapshot(b"\x00"))
    garbage = group.heard()
    assert isinstance(newer, events.Fatal)
    assert isinstance(newer.error, VersionMismatchError)
    assert isinstance(garbage, events.Assigned)
    assert garbage.data.ranges == {}
    assert "cannot be read, it holds nothing (" in group.said[0]
    assert "`coop-consumer status " in group.said[0]


def test_once_nobody_reads_the_inbox_a_join_gets_the_last_subscription() -> None:
    group = Group()
    group.side.end()
    assert group.side.on_joining() == b"mine"
    assert group.side.owned() == ()


class OpenPolicies(Noting):
    """Policies that forbid nothing."""

    @staticmethod
    def for_plan() -> Policies:
        return Policies()


def test_a_load_that_cannot_be_read_is_said_once() -> None:
    """Its bytes name a hash of the other half."""
    low, high = WHOLE.parts(2)
    load = ClaimLoad((1,) * 8, (HeavyHash(high.lo, 1),), 1)
    claims = (Claim(1, T0, (low,), draining=False, load=load),)
    wrong = encode_subscription(Subscription("m2", 1, "h", 1, True, "c", 0, claims=claims))
    right = encode_subscription(Subscription("m2", 1, "h", 1, True, "c", 0))
    group = Group()
    group.side.policies = OpenPolicies()  # type: ignore[assignment]
    other = encode_subscription(Subscription("m3", 1, "h", 1, True, "c", 0))
    there, gone = (GroupMember("id-2", None, ("orders",), wrong),), ()
    back = (GroupMember("id-2", None, ("orders",), right),)
    for members in (there, there, back, there, gone, there):
        group.side.lead_assign(
            {"orders": 1}, [*members, GroupMember("id-3", None, ("orders",), other)]
        )
    assert [text.partition(" in bytes")[0] for text in group.said] == [
        "m2 says what its claims cost"
    ] * 2, "it had left once"
    assert group.doubts == []
    group.side.config = replace(CONFIG, balance=Balance.HASH)
    group.said.clear()
    group.side._remarked.clear()
    group.side.lead_assign({"orders": 1}, list(there))
    assert group.said == [], "nobody asks for loads"


# ---- what topics tell --------------------------------------------------------------------------


def topic_side(topics: Any, patterns: tuple[str, ...] = ()) -> tuple[Inbox, TopicSide]:
    inbox = Inbox()
    side = TopicSide(
        CONFIG,
        inbox,
        topics,
        choice=TopicChoice(frozenset({"orders"}), patterns),
        facts={"orders": FACTS},
        progress=TopicFacts(b"9" * 16, 50),
    )
    assert inbox.next(0)[0] == events.TopicsKnown({"orders": (FACTS.id, 2)}, patterns=patterns)
    return inbox, side


def test_an_offset_that_is_gone_is_told_after_a_look_at_its_topic() -> None:
    """It may be another topic of the same name."""
    topics = Noting()
    inbox, side = topic_side(topics)
    beside = list[str]()
    side.start(lambda: beside.append("log"), changed=lambda: beside.append("changed"))
    gone = events.OutOfRange(T0, 1, low=0, high=3)
    side.fetched(gone, lambda: None)
    event, look_soon = inbox.next(0)
    assert event is TICK
    assert look_soon is not None
    look_soon()
    side.step(10_000)
    [(name, (names, _, found))] = topics.calls
    assert (name, sorted(names)) == ("look_later", ["__individual_commit_offsets", "orders"])
    assert beside == ["log"]
    found({"orders": TopicFacts(b"2" * 16, 3), "__individual_commit_offsets": None})
    _, seen = inbox.next(0)
    assert seen is not None
    seen()
    assert [inbox.next(0)[0] for _ in range(2)] == [
        events.TopicsKnown({"orders": (b"2" * 16, 3)}),
        gone,
    ]
    assert beside == ["log", "changed"]
    assert side.partitions("orders") == 3


def taken(inbox: Inbox) -> Any:
    """The next event, once what follows it is done."""
    event, after = inbox.next(0)
    if after is not None:
        after()
    return event


def test_the_core_hears_of_what_matches_before_the_group_does() -> None:
    inbox, side = topic_side(Noting(), ("^b",))
    followed = list[list[str]]()
    side.start(changed=lambda: None, follow=lambda names: followed.append(list(names)))
    side.on_matches_changed({"bills": TopicFacts(b"3" * 16, 4)}, ["orders"])
    assert followed == []
    assert taken(inbox) == events.TopicsKnown(
        {"bills": (b"3" * 16, 4)}, frozenset({"orders"}), ("^b",)
    )
    assert len(followed) == 1
    assert (side.partitions("bills"), side.partitions("orders")) == (4, 0)
    assert {tp.topic for tp in side.all()} == {"bills"}


class Listed(Noting):
    """Topics that exist."""

    def chosen(self, choice: TopicChoice) -> dict[str, TopicFacts]:
        return {name: TopicFacts(b"4" * 16, 1) for name in choice.among(["bills"])}


def test_another_subscription_replaces_topics_and_patterns() -> None:
    inbox, side = topic_side(Listed())
    followed = list[list[str]]()
    side.start(changed=lambda: None, follow=lambda names: followed.append(list(names)))
    side.learn(TopicChoice(frozenset(), ("^b",)))
    told = taken(inbox)
    assert told == events.TopicsKnown({"bills": (b"4" * 16, 1)}, frozenset({"orders"}), ("^b",))
    assert (followed, side.names) == ([["bills"]], ["bills"])
    side.learn(TopicChoice(frozenset({"orders"})))
    assert taken(inbox) == events.TopicsKnown({"orders": (FACTS.id, 2)}, frozenset({"bills"}))
    assert followed[-1] == ["orders"]


def test_a_lost_progress_topic_is_told_to_the_core() -> None:
    inbox, side = topic_side(Noting())
    lost = ProgressLogLostError("__individual_commit_offsets", "deleted")
    side.on_progress_lost(lost)
    assert inbox.next(0)[0] == events.LogLost(lost)


def test_a_run_is_fenced_once_and_asked_for_again_if_nobody_could_tell(
    table: Callable[..., Table],
) -> None:
    """While the group is not stable nobody knows who has gone; who is there may go later."""
    it, run = table(), RunId("m1", 7)
    answers: list[list[RunId] | None] = [None, [], [run]]

    def fence(*_: object) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(answers.pop(0))
        return done

    it.seat.fence = fence
    for _ in range(4):
        it.hands.perform(actions.Fence([run]))
    assert answers == []
    assert it.heard() == events.Fenced([run])


def test_a_run_that_holds_up_a_read_meanwhile_is_told_once(table: Callable[..., Table]) -> None:
    """A read that waits asks each 100 ms, also while its fence is under way and just after it."""
    it, run = table(), RunId("m1", 7)
    answers: list[Future[Any]] = []

    def fence(*_: object) -> Future[Any]:
        answers.append(Future())
        return answers[-1]

    it.seat.fence = fence
    it.hands.fence([run])
    it.hands.fence([run])
    answers[0].set_result([run])
    assert len(answers) == 1
    it.hands.fence([run])
    answers[1].set_result([run])
    assert it.heard() == events.Fenced([run])
    assert isinstance(it.heard(), events.Tick), "nothing more"
