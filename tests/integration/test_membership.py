"""Members of one group on a real broker: what each hears, in which order, and what it may commit.

A `Group` makes members whose listeners note what they hear. Tests wait for what they promise, never
for time; a member that ends by a failure nobody expected fails its test.
"""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from queue import Queue
from time import monotonic
from typing import Any, TypeVar

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
)
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from kafka import KafkaConsumer
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor

from coop_consumer.errors import (
    BrokerUnreachableError,
    ConfigError,
    CoopConsumerError,
    FencedError,
    ForeignProtocolError,
    GroupIdMissingError,
    MemberLostError,
    MembershipError,
    TopicMissingError,
)
from coop_consumer.kafka.membership import (
    AssignmentSnapshot,
    GroupMember,
    MemberAssignment,
    Membership,
    Seat,
    leave_for,
    membership,
)
from offsets import Committed
from tests.brokers import MakeBroker, MakeTopic
from tests.stock import described, eventually
from tests.topics import ADMIN_TIMEOUT_S, create_topic

pytestmark = pytest.mark.integration

WAIT_S = 20.0
PROTOCOL = "coop-test"
PATIENCE = {"connect_timeout_ms": 2_000, "topic_timeout_ms": 2_000}

Value = TypeVar("Value")


class Member:
    """A member and its listener; leads by giving each member every partition and its own bytes."""

    def __init__(
        self,
        group: Group,
        name: str,
        topics: Sequence[str],
        plain: str | None = None,
        seat: Seat | None = None,
        **settings: Any,
    ) -> None:
        self.name = name
        self.user_data = name.encode()
        self.heard: list[tuple[str, Any]] = []
        self.plans: list[Mapping[str, MemberAssignment]] = []
        self.led: list[tuple[Mapping[str, int], Sequence[GroupMember]]] = []
        self.failing: dict[str, Exception] = {}
        self.at: dict[str, Callable[[], None]] = {}
        self.fails = False
        self.owns: list[tuple[str, int]] = []
        self.holds_on = False
        self.let_go: Future[object] = Future()
        self._group = group
        self.membership = Membership(
            settings, topics, PROTOCOL, self, plain=plain, seat=seat, **PATIENCE
        )

    # -- what it hears

    def on_joining(self) -> bytes:
        self._note("joining")
        return self.user_data

    def on_revoking(self) -> Future[object]:
        self._note("revoking")
        self.let_go = Future()
        if not self.holds_on:
            self.let_go.set_result(None)
        return self.let_go

    def owned(self) -> list[tuple[str, int]]:
        return self.owns

    def on_assigned(self, snapshot: AssignmentSnapshot) -> None:
        self._note("assigned", snapshot)

    def on_lost(self, reason: str) -> None:
        self._note("lost", reason)

    def on_fatal(self, error: CoopConsumerError) -> None:
        self._note("fatal", error)

    def lead_assign(
        self, partitions: Mapping[str, int], members: Sequence[GroupMember]
    ) -> Mapping[str, MemberAssignment]:
        self.led.append((dict(partitions), members))
        self._note("lead")
        everything = {topic: list(range(count)) for topic, count in partitions.items()}
        said = {it.member_id: f"{len(members)} members, {it.member_id}" for it in members}
        plan = {id_: MemberAssignment(everything, text.encode()) for id_, text in said.items()}
        self.plans.append(plan)
        return plan

    def lead_plain(
        self, partitions: Mapping[str, int], members: Sequence[GroupMember]
    ) -> Mapping[str, MemberAssignment]:
        """Partition n goes to the n-th member."""
        self.led.append((dict(partitions), members))
        [(topic, count)] = partitions.items()
        shares = {it.member_id: [n] for n, it in enumerate(members) if n < count}
        return {id_: MemberAssignment({topic: own}, b"") for id_, own in shares.items()}

    def _note(self, kind: str, value: object = None) -> None:
        with self._group.news:
            self.heard.append((kind, value))
            self._group.news.notify_all()
        if kind in self.at:
            self.at.pop(kind)()
        if kind in self.failing:
            raise self.failing[kind]

    # -- what a test asks

    def kinds(self, *, after: int = 0) -> list[str]:
        """What it heard after the first `after` things, but whether it led is chance."""
        return [kind for kind, _ in self.heard[after:] if kind != "lead"]

    def leads(self, after: int) -> bool:
        return "lead" in [kind for kind, _ in self.heard[after:]]

    def values(self, kind: str) -> list[Any]:
        return [value for it, value in self.heard if it == kind]

    def wait_for(self, kind: str, *, after: int = 0) -> Any:
        """The first thing heard of this kind, of those after the first `after` things heard."""
        found = self._group.wait(
            lambda: next(((it, value) for it, value in self.heard[after:] if it == kind), None)
        )
        return found[1]

    def last_told(self) -> AssignmentSnapshot | None:
        told = [value for kind, value in self.heard if kind in {"assigned", "lost"}]
        return told[-1] if told and isinstance(told[-1], AssignmentSnapshot) else None

    def held(self) -> AssignmentSnapshot:
        snapshot = self.last_told()
        assert snapshot is not None
        assert snapshot == self.membership.snapshot
        return snapshot

    def holds(self, topic: str, partition: int) -> bool:
        snapshot = self.last_told()
        return snapshot is not None and partition in snapshot.partitions.get(topic, ())

    def commit(
        self, topic: str, partition: int, offset: int, generation: int, metadata: str = ""
    ) -> CoopConsumerError | None:
        outcome: Queue[CoopConsumerError | None] = Queue()
        offsets = {(topic, partition): (offset, metadata)}
        self.membership.commit(offsets, generation, outcome.put)
        return outcome.get(timeout=WAIT_S)

    def confirm(self, generation: int) -> CoopConsumerError | None:
        outcome: Queue[CoopConsumerError | None] = Queue()
        self.membership.confirm(generation, outcome.put)
        return outcome.get(timeout=WAIT_S)

    def committed(self, *partitions: tuple[str, int]) -> list[Committed | None]:
        found = self.membership.committed(partitions).result(WAIT_S)
        return [found[it] for it in partitions]


class Group:
    """The members of one group, in this process; each with a client and threads of its own."""

    def __init__(self, bootstrap: str, group_id: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.group_id = group_id
        self.topic = topic
        self.news = threading.Condition()
        self.members: list[Member] = []

    def member(self, name: str, *, topics: Sequence[str] = (), **settings: Any) -> Member:
        """A member that has not started yet."""
        defaults: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "group_id": self.group_id,
            "client_id": name,
            "session_timeout_ms": 2_000,
            "heartbeat_interval_ms": 200,
            "max_poll_interval_ms": 10_000,
        }
        member = Member(self, name, topics or [self.topic], **(defaults | settings))
        self.members.append(member)
        return member

    def join(self, *names: str, **settings: Any) -> list[Member]:
        """Start members and wait until all that have not ended share a generation."""
        joined = [self.member(name, **settings) for name in names]
        for member in joined:
            member.membership.start()
        self.settle()
        return joined

    def settle(self, members: int | None = None) -> int:
        """Wait until all members hold one generation made for so many; returns it."""
        here = [it for it in self.members if "fatal" not in it.kinds()]
        count = members or len(here)
        said = f"{count} members, ".encode()

        def generation() -> int | None:
            held = [it.last_told() for it in here]
            made = {
                it.generation if it and (it.user_data or b"").startswith(said) else None
                for it in held
            }
            return made.pop() if len(made) == 1 else None

        return self.wait(generation)

    def wait(self, find: Callable[[], Value | None]) -> Value:
        found: list[Value | None] = [None]

        def seen() -> bool:
            found[0] = find()
            return found[0] is not None

        with self.news:
            in_time = self.news.wait_for(seen, WAIT_S)
        story = {it.name: it.heard for it in self.members}
        assert in_time, f"not in {WAIT_S} s; heard so far: {story}"
        assert found[0] is not None
        return found[0]


@pytest.fixture
def group(bootstrap: str, admin: AdminClient, group_id: str, topic: MakeTopic) -> Iterator[Group]:
    def is_coordinated() -> bool:
        try:
            admin.describe_consumer_groups([group_id])[group_id].result(ADMIN_TIMEOUT_S)
        except KafkaException as error:
            return bool(error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND)
        return True

    # A young broker is not ready for it, and members join more than once.
    eventually(is_coordinated)
    group = Group(bootstrap, group_id, topic(3))
    yield group
    for member in group.members:
        member.membership.leave()
    assert [it.name for it in group.members if "fatal" in it.kinds()] == [
        it.name for it in group.members if it.fails
    ]
    assert not [it for it in threading.enumerate() if it.name.endswith(group.group_id)]


# -- generations -----------------------------------------------------------------------------------


def test_a_lone_member_gets_the_bytes_that_its_own_plan_made(group: Group) -> None:
    [alone] = group.join("alone")
    snapshot = alone.held()
    assert snapshot.user_data == alone.plans[-1][snapshot.member_id].user_data
    assert snapshot.partitions == {group.topic: (0, 1, 2)}
    assert (snapshot.generation, snapshot.group_instance_id) == (1, None)
    [(partitions, members)] = alone.led
    assert partitions == {group.topic: 3}
    assert members == [GroupMember(snapshot.member_id, None, (group.topic,), b"alone")]


def test_five_members_hold_one_generation_and_exactly_the_leaders_bytes(group: Group) -> None:
    members = group.join("m1", "m2", "m3", "m4", "m5")
    generation = group.settle()
    [leader] = [it for it in members if it.plans and len(it.plans[-1]) == 5]
    plan = leader.plans[-1]
    for member in members:
        snapshot = member.held()
        assert snapshot.generation == generation
        assert snapshot.user_data == plan[snapshot.member_id].user_data
    assert {it.user_data for it in leader.led[-1][1]} == {b"m1", b"m2", b"m3", b"m4", b"m5"}


def test_join_and_leave_of_another_reach_everyone_as_joining_then_assigned(group: Group) -> None:
    first, second = group.join("m1", "m2")
    first_heard, second_heard = len(first.heard), len(second.heard)
    [third] = group.join("m3")
    third.membership.leave()
    group.members.remove(third)
    group.settle()
    assert first.kinds(after=first_heard) == ["joining", "assigned"] * 2
    assert second.kinds(after=second_heard) == ["joining", "assigned"] * 2
    assert "lost" not in first.kinds() + second.kinds() + third.kinds()


def test_a_killed_members_share_is_assigned_anew_after_its_session(group: Group) -> None:
    [survivor] = group.join("survivor")
    command = [sys.executable, "-c", DOOMED_MEMBER, group.bootstrap, group.group_id, group.topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as doomed:
        try:
            assert doomed.stdout is not None
            assert doomed.stdout.readline() == b"assigned\n"
            group.settle(members=2)
        finally:
            doomed.kill()
    group.settle(members=1)
    assert "lost" not in survivor.kinds()


DOOMED_MEMBER = f"""
import sys, threading
from coop_consumer.kafka.membership import Membership

class Listener:
    def on_joining(self): return b"doomed"
    def on_assigned(self, snapshot): print("assigned", flush=True)
    def lead_assign(self, partitions, members): return {{}}

bootstrap, group_id, topic = sys.argv[1:]
settings = dict(bootstrap_servers=bootstrap, group_id=group_id, max_poll_interval_ms=10_000,
                session_timeout_ms=2_000, heartbeat_interval_ms=200)
Membership(settings, [topic], "{PROTOCOL}", Listener()).start()
threading.Event().wait()
"""


def test_a_member_that_missed_a_rebalance_is_told_its_loss_and_joins_again(group: Group) -> None:
    # It asks for news every 5 s only, and the others wait for it no longer than 1 s.
    slow = {"heartbeat_interval_ms": 5_000, "session_timeout_ms": 16_000}
    [slept] = group.join("slept", max_poll_interval_ms=1_000, **slow)
    held = slept.held()
    group.members.remove(slept)
    group.join("awake", max_poll_interval_ms=1_000)
    refused = slept.commit(group.topic, 0, 7, held.generation)
    assert isinstance(refused, MemberLostError)
    assert isinstance(refused.__cause__, kafka_errors.UnknownMemberIdError)
    assert slept.committed((group.topic, 0)) == [None]
    slept.wait_for("lost")
    group.members.append(slept)
    assert group.settle() > held.generation
    since = slept.kinds().index("lost")
    assert slept.kinds()[since:] == ["lost", "joining", "joining", "assigned"]


def test_new_partitions_are_assigned_without_being_asked_for(
    group: Group, admin: AdminClient
) -> None:
    members = group.join("m1", "m2", metadata_max_age_ms=500)
    admin.create_partitions([NewPartitions(group.topic, 4)])[group.topic].result(WAIT_S)
    for member in members:
        group.wait(lambda member=member: member.holds(group.topic, 3) or None)  # type: ignore[misc]


# -- rejoining -------------------------------------------------------------------------------------


def test_a_join_that_ends_between_two_looks_at_it_is_taken_in_and_not_repeated(
    group: Group, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look is shorter than an answer takes. A leader that joins for a new partition, too."""
    monkeypatch.setattr(membership, "_POLL_MS", 0.1)
    [alone] = group.join("alone")
    first = alone.held()
    admin.create_partitions([NewPartitions(group.topic, 4)])[group.topic].result(WAIT_S)
    alone.membership.look_at_topics()
    group.wait(lambda: alone.holds(group.topic, 3) or None)
    assert (first.generation, alone.held().generation) == (1, 2)


def test_rejoining_with_changed_bytes_is_a_rebalance_for_everyone(group: Group) -> None:
    members = group.join("m1", "m2")
    for member in members:  # one of them leads, one follows
        heard = [len(it.heard) for it in members]
        member.user_data += b"+"
        member.membership.request_rejoin()
        for it, before in zip(members, heard, strict=True):
            it.wait_for("assigned", after=before)
        group.settle()
        [(_, seen)] = [it.led[-1] for it, n in zip(members, heard, strict=True) if it.leads(n)]
        assert {it.user_data for it in seen} == {it.user_data for it in members}


def test_rejoining_with_unchanged_bytes_repeats_a_followers_assignment(group: Group) -> None:
    members = group.join("m1", "m2")
    generation = group.settle()
    [follower] = [it for it in members if not it.plans or len(it.plans[-1]) < 2]
    heard = len(follower.heard)
    snapshot = follower.held()
    follower.membership.request_rejoin()
    assert follower.wait_for("assigned", after=heard) == snapshot
    assert group.settle() == generation


def test_a_rejoin_asked_for_during_a_join_is_not_forgotten(group: Group) -> None:
    member = group.member("m1")
    member.at["lead"] = member.membership.request_rejoin  # its bytes are on their way already
    member.membership.start()
    group.wait(lambda: len(member.values("assigned")) == 2 or None)
    assert [it.generation for it in member.values("assigned")] == [1, 2]


def test_who_is_too_busy_to_say_what_it_holds_is_asked_again(group: Group) -> None:
    """A handler that keeps the interpreter for seconds, or a frozen machine, ends no member."""
    member = group.member("m1")

    def be_busy() -> None:
        raise TimeoutError

    member.at["joining"] = be_busy
    member.membership.start()
    member.wait_for("assigned")
    assert member.kinds()[:2] == ["joining", "joining"]
    assert set(member.kinds()) == {"joining", "assigned"}


def test_a_changed_subscription_is_assigned(group: Group, topic: MakeTopic) -> None:
    first, second = group.join("m1", "m2")
    more = topic(2)
    first.membership.subscribe([group.topic, more])
    for member in (first, second):
        group.wait(lambda member=member: member.holds(more, 1) or None)  # type: ignore[misc]


# -- offsets ---------------------------------------------------------------------------------------


def test_offsets_of_the_held_generation_are_stored_and_seen_by_standard_tools(
    group: Group, admin: AdminClient
) -> None:
    [member] = group.join("m1")
    assert member.commit(group.topic, 1, 42, member.held().generation, "coop:1") is None
    assert member.committed((group.topic, 0), (group.topic, 1)) == [None, (42, "coop:1")]
    described(admin, group.group_id)  # librdkafka dies where a coordinator that loads is asked
    asked = ConsumerGroupTopicPartitions(group.group_id)
    found = admin.list_consumer_group_offsets([asked])[group.group_id].result(WAIT_S)
    [stored] = found.topic_partitions
    assert (stored.partition, stored.offset, stored.metadata) == (1, 42, "coop:1")


def test_offsets_of_another_generation_are_refused(group: Group) -> None:
    [first] = group.join("m1")
    old = first.held().generation
    assert first.commit(group.topic, 0, 5, old) is None
    group.join("m2")
    current = first.held().generation
    assert current > old
    for generation in (old, current + 1):
        refused = first.commit(group.topic, 0, 9, generation)
        assert isinstance(refused, MemberLostError)
    assert first.committed((group.topic, 0)) == [(5, "")]
    assert first.commit(group.topic, 0, 6, current) is None
    assert "lost" not in first.kinds()


def test_offsets_are_stored_while_the_group_still_gathers(group: Group) -> None:
    [first] = group.join("m1")
    generation = first.held().generation
    outcome: Queue[CoopConsumerError | None] = Queue()

    def commit_before_joining() -> None:
        first.membership.commit({(group.topic, 0): (3, "")}, generation, outcome.put)

    first.at["joining"] = commit_before_joining
    group.join("m2")
    # The join is on its way first, so the answer depends on who was quicker: stored or refused.
    answer = outcome.get(timeout=WAIT_S)
    stored = first.committed((group.topic, 0)) == [(3, "")]
    assert stored == (answer is None)
    assert answer is None or isinstance(answer, MemberLostError)


def test_what_the_broker_refuses_is_told_to_the_one_who_asked(group: Group) -> None:
    [member] = group.join("m1")
    refused = member.commit(group.topic, 0, 1, member.held().generation, "x" * 5_000)
    assert isinstance(refused, MembershipError)
    assert isinstance(refused.__cause__, kafka_errors.OffsetMetadataTooLargeError)
    assert member.commit(group.topic, 0, 1, member.held().generation) is None


# -- static members --------------------------------------------------------------------------------


def test_a_static_member_that_returns_in_time_keeps_its_generation(group: Group) -> None:
    static = {"group_instance_id": "one", "session_timeout_ms": 10_000}
    [before] = group.join("before", **static)
    [other] = group.join("other")
    generation = group.settle()
    had, heard = before.held(), len(other.heard)
    before.membership.leave()
    group.members.remove(before)
    [after] = group.join("after", **static)
    assert group.settle(members=2) == generation
    assert (after.held().user_data, after.held().group_instance_id) == (had.user_data, "one")
    assert after.held().member_id != had.member_id
    assert len(other.heard) == heard


def test_a_twin_of_a_static_member_ends_the_older_one(group: Group) -> None:
    [older] = group.join("older", group_instance_id="one")
    older.fails = True
    younger = group.member("younger", group_instance_id="one")
    younger.membership.start()
    error = older.wait_for("fatal")
    assert isinstance(error, FencedError)
    assert error.instance == "one"
    assert older.kinds()[-2:] == ["lost", "fatal"]
    younger.wait_for("assigned")
    assert "lost" not in younger.kinds()


def test_a_member_is_told_whether_it_still_is_the_one_that_was_assigned(group: Group) -> None:
    [older] = group.join("older", group_instance_id="one")
    generation = older.held().generation
    assert older.confirm(generation) is None
    assert isinstance(older.confirm(generation - 1), MemberLostError)
    older.fails = True
    younger = group.member("younger", group_instance_id="one")
    younger.membership.start()
    younger.wait_for("assigned")
    assert isinstance(older.confirm(generation), FencedError | MemberLostError)
    assert younger.confirm(younger.held().generation) is None
    assert isinstance(older.wait_for("fatal"), FencedError)


# -- seats -----------------------------------------------------------------------------------------


class TakenSeat:
    """A seat that a dead process has left, and what its new owner tells of it."""

    def __init__(self, member: str) -> None:
        self.member = member
        self.told: list[str] = []

    def take(self) -> str:
        return self.member

    def joined(self, member: str) -> None:
        self.told.append(member)

    def left(self) -> None:
        self.told.append("left")


@pytest.fixture
def dead(group: Group) -> str:
    """The id of a member whose process is dead, and whose session is far from its end."""
    [survivor] = group.join("survivor")
    program = DOOMED_MEMBER.replace("session_timeout_ms=2_000", "session_timeout_ms=600_000")
    command = [sys.executable, "-c", program, group.bootstrap, group.group_id, group.topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as doomed:
        try:
            assert doomed.stdout is not None
            assert doomed.stdout.readline() == b"assigned\n"
            group.settle(members=2)
        finally:
            doomed.kill()
    [dead] = {it.member_id for it in survivor.led[-1][1]} - {survivor.held().member_id}
    return dead


def test_a_dead_member_can_be_made_to_leave_and_asking_again_is_no_error(
    group: Group, dead: str
) -> None:
    client = {"bootstrap_servers": group.bootstrap, "group_id": group.group_id}
    leave_for(client, dead)
    group.settle(members=1)
    leave_for(client, dead)


def test_a_member_that_takes_a_dead_ones_seat_needs_one_rebalance(group: Group, dead: str) -> None:
    generation = group.members[0].held().generation
    seat = TakenSeat(dead)
    [heir] = group.join("heir", seat=seat)
    assert (heir.held().member_id, heir.held().generation) == (dead, generation + 1)
    assert seat.told == [dead]
    heir.membership.leave()
    group.members.remove(heir)
    group.settle(members=1)
    assert seat.told == [dead, "left"]


def test_a_member_whose_seat_is_gone_gets_another(group: Group) -> None:
    seat = TakenSeat("nobody-knows-this-one")
    [member] = group.join("late", seat=seat)
    assert seat.told == [member.held().member_id]


def test_a_static_member_tells_no_id_as_nobody_else_can_sit_there(group: Group) -> None:
    seat = TakenSeat("")
    group.join("one", seat=seat, group_instance_id="one")
    assert seat.told == [""]


# -- strangers -------------------------------------------------------------------------------------


@pytest.fixture
def plain_consumer(bootstrap: str, group: Group) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group.group_id})
    consumer.subscribe([group.topic])
    yield consumer
    consumer.close()


def poll_until(consumer: Consumer, find: Callable[[Any], Value | None]) -> Value:
    deadline = monotonic() + WAIT_S
    while monotonic() < deadline:
        found = find(consumer.poll(0.1))
        if found:
            return found
    raise AssertionError(f"not in {WAIT_S} s")


def test_a_group_of_plain_consumers_is_left_alone(group: Group, plain_consumer: Consumer) -> None:
    poll_until(plain_consumer, lambda _: plain_consumer.assignment())
    member = group.member("m1")
    member.fails = True
    member.membership.start()
    error = member.wait_for("fatal")
    assert isinstance(error, ForeignProtocolError)
    assert group.group_id in str(error)
    partitions = [ConfluentPartition(group.topic, it) for it in range(3)]
    assert sorted(plain_consumer.assignment()) == partitions


def test_a_plain_consumer_is_refused_and_the_members_hear_nothing(
    group: Group, bootstrap: str
) -> None:
    [member] = group.join("m1")
    heard = len(member.heard)
    refusals: Queue[int] = Queue()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group.group_id,
            "error_cb": lambda error: refusals.put(error.code()),
        }
    )
    consumer.subscribe([group.topic])
    try:

        def refusal(message: Any) -> int | None:
            if message is not None and message.error():
                refusals.put(message.error().code())
            return None if refusals.empty() else refusals.get()

        code = poll_until(consumer, refusal)
    finally:
        consumer.close()
    assert code == KafkaError.INCONSISTENT_GROUP_PROTOCOL
    assert len(member.heard) == heard


# -- beside plain members --------------------------------------------------------------------------


def test_members_that_offer_a_plain_protocol_use_ours_while_nobody_needs_the_other(
    group: Group, admin: AdminClient
) -> None:
    first, second = group.join("m1", "m2", plain="range")
    described = admin.describe_consumer_groups([group.group_id])[group.group_id].result(WAIT_S)
    assert described.partition_assignor == PROTOCOL
    assert {it.held().user_data is None for it in (first, second)} == {False}


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_beside_a_plain_consumer_a_member_gets_whole_partitions_until_that_one_leaves(
    group: Group, bootstrap: str, strategy: str
) -> None:
    [member] = group.join("m1", plain=strategy)
    led = len(member.led)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group.group_id,
            "partition.assignment.strategy": strategy,
        }
    )
    consumer.subscribe([group.topic])
    try:
        poll_until(consumer, lambda _: consumer.assignment())
        taken = {it.partition for it in consumer.assignment()}
        held = member.held()
        assert (held.plain, held.user_data) == (True, None)
        # This member leads the group, being its first: its plan is what the plain one follows.
        plan = [{0}, {1}]
        assert [{*held.partitions[group.topic]}, taken] in (plan, plan[::-1])
        [(_, members), *_] = member.led[led:]
        assert {it.topics for it in members} == {(group.topic,)}
    finally:
        consumer.close()
    group.settle(members=1)
    assert not member.held().plain


def test_what_members_still_work_on_is_told_to_the_one_that_leads(
    group: Group, bootstrap: str
) -> None:
    [leader] = group.join("m1", plain="cooperative-sticky")
    leader.owns = [(group.topic, 2)]
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group.group_id,
        "partition.assignment.strategy": "cooperative-sticky",
    }
    consumer = Consumer(settings)
    consumer.subscribe([group.topic])
    try:
        poll_until(consumer, lambda _: consumer.assignment())
        [taken] = consumer.assignment()
        leader.membership.request_rejoin()
        poll_until(consumer, lambda _: all(it.owned for it in leader.led[-1][1]))
        owned = {it.owned for it in leader.led[-1][1]}
        assert owned == {((group.topic, 2),), ((group.topic, taken.partition),)}
    finally:
        consumer.close()


def test_a_join_waits_until_the_member_has_let_go_and_heartbeats_and_commits_go_on(
    group: Group,
) -> None:
    session_ms = 5_000  # what is asserted of a whole session must not hang on who else computes
    [holding] = group.join("holding", plain="range", session_timeout_ms=session_ms)
    generation = holding.held().generation
    holding.holds_on = True
    other = group.member("other", plain="range", session_timeout_ms=session_ms)
    other.membership.start()
    holding.wait_for("revoking")
    two_sessions_on = monotonic() * 1000 + 2 * session_ms
    while not holding.membership.alive(two_sessions_on):  # so until one session has passed
        assert holding.commit(group.topic, 0, 5, generation) is None
    assert "assigned" not in other.kinds()
    assert holding.kinds()[-1] == "revoking"
    holding.let_go.set_result(None)
    assert group.settle(members=2) == generation + 1
    assert holding.kinds()[-3:] == ["revoking", "joining", "assigned"]


def test_a_member_that_does_not_let_go_is_not_waited_for(group: Group) -> None:
    [holding] = group.join("holding", plain="range", max_poll_interval_ms=1_500)
    holding.holds_on = True
    other = group.member("other", plain="range")
    other.membership.start()
    other.wait_for("assigned")
    assert not holding.let_go.done()
    holding.wait_for("lost")
    assert group.settle(members=2) == other.held().generation


def test_a_member_that_leaves_while_it_should_let_go_does_not_join_again(group: Group) -> None:
    [holding] = group.join("holding", plain="range")
    holding.holds_on = True
    holding.membership.request_rejoin()
    holding.wait_for("revoking")
    holding.membership.leave()
    assert holding.kinds()[-1] == "revoking"
    assert holding.membership.snapshot is None


def test_without_a_plain_protocol_nobody_is_asked_to_let_go(group: Group) -> None:
    first, second = group.join("m1", "m2")
    assert "revoking" not in first.kinds() + second.kinds()


# -- hostile members -------------------------------------------------------------------------------


class UnreadableAssignor(AbstractPartitionAssignor):  # type: ignore[misc] # ships no types
    """Joins under our protocol with bytes that are no subscription."""

    name = PROTOCOL

    def metadata(self, _topics: object) -> bytes:
        return b"\xff"

    def assign(self, _cluster: object, _members: object) -> dict[str, bytes]:
        return {}

    def on_assignment(self, _assignment: object, _generation: int) -> None:
        """Get what it is given."""


def test_a_member_nobody_can_read_gets_nothing_and_harms_nobody(group: Group) -> None:
    [member] = group.join("m1")
    hostile = KafkaConsumer(
        group.topic,
        bootstrap_servers=group.bootstrap,
        group_id=group.group_id,
        partition_assignment_strategy=[UnreadableAssignor()],
        enable_auto_commit=False,
    )

    def poll() -> None:
        with contextlib.suppress(RuntimeError, kafka_errors.KafkaError):  # closed under its feet
            hostile.poll(WAIT_S * 1000)

    driver = threading.Thread(target=poll)
    driver.start()
    try:
        group.settle(members=2)
        [nobody] = [it for it in member.led[-1][1] if it.member_id != member.held().member_id]
        assert (nobody.topics, nobody.user_data) == ((), b"")
    finally:
        hostile.close()
        driver.join()


def test_standard_tools_list_the_members_with_their_partitions(
    group: Group, admin: AdminClient
) -> None:
    members = group.join("m1", "m2")
    described = admin.describe_consumer_groups([group.group_id])[group.group_id].result(WAIT_S)
    assert described.state == ConsumerGroupState.STABLE
    assert described.partition_assignor == PROTOCOL
    shown = {
        it.member_id: sorted(tp.partition for tp in it.assignment.topic_partitions)
        for it in described.members
    }
    assert shown == {it.held().member_id: [0, 1, 2] for it in members}


# -- failures --------------------------------------------------------------------------------------


def test_a_leader_that_cannot_assign_leaves_and_another_leads(group: Group) -> None:
    failing = group.member("failing")
    failing.fails = True
    failing.failing["lead"] = ZeroDivisionError("no shares")
    failing.membership.start()
    error = failing.wait_for("fatal")
    assert isinstance(error, MembershipError)
    assert "ZeroDivisionError: no shares" in str(error)
    assert "assigned" not in failing.kinds()
    group.join("sound")


def test_followers_of_a_leader_that_fails_get_nothing_and_then_a_new_leader(group: Group) -> None:
    leader, follower = group.member("leader"), group.member("follower")
    leader.membership.start()
    leader.wait_for("assigned")
    leader.fails = True
    leader.failing["lead"] = ForeignProtocolError(group.group_id)
    follower.membership.start()
    error = leader.wait_for("fatal")
    assert error is leader.failing["lead"]
    assert leader.kinds()[-2:] == ["lost", "fatal"]
    group.settle(members=1)
    told = follower.values("assigned")
    assert [it.user_data for it in told[:-1]] in ([None], [])


@pytest.mark.parametrize("kind", ["joining", "assigned", "lost"])
def test_a_failing_callback_ends_the_member_and_not_the_group(group: Group, kind: str) -> None:
    failing = group.member("failing", group_instance_id="one")
    failing.fails = True
    failing.failing[kind] = ValueError("broken")
    failing.membership.start()
    if kind == "lost":
        failing.wait_for("assigned")
        group.member("twin", group_instance_id="one").membership.start()
    error = failing.wait_for("fatal")
    expected = FencedError if kind == "lost" else MembershipError
    assert isinstance(error, expected)


@pytest.fixture
def failed_connections(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Collect the sockets of failed connections here, which kafka-python never closes itself."""
    caplog.set_level("CRITICAL", "kafka")  # log records would hold on to them
    yield
    gc.collect()


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.usefixtures("failed_connections")
def test_an_unreachable_broker_is_told_with_its_address_in_bounded_time() -> None:
    nowhere = "127.0.0.1:1"
    member = Group(nowhere, "g", "orders").member("m1")
    member.membership.start()
    error = member.wait_for("fatal")
    assert isinstance(error, BrokerUnreachableError)
    assert nowhere in str(error)


@pytest.mark.chaos
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.usefixtures("failed_connections")
def test_a_member_outlives_a_broker_that_dies_and_returns(
    fresh_broker: MakeBroker, group_id: str
) -> None:
    broker = fresh_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    create_topic(admin, "orders", 3, {})
    group = Group(broker.bootstrap_servers, group_id, "orders")
    [member] = group.join("m1")
    outcome: Queue[CoopConsumerError | None] = Queue()
    broker.kill()
    member.membership.commit({("orders", 0): (1, "")}, member.held().generation, outcome.put)
    broker.restart()
    # Stored, or refused because the session expired meanwhile: but answered.
    answer = outcome.get(timeout=WAIT_S)
    assert answer is None or isinstance(answer, MemberLostError)
    if answer is not None:
        member.wait_for("lost")  # what it held before is not what it settles for
    group.settle()
    assert member.commit("orders", 0, 2, member.held().generation) is None
    member.membership.leave()
    assert "fatal" not in member.kinds()


def test_a_missing_topic_is_told_and_not_created(group: Group, admin: AdminClient) -> None:
    missing = f"{group.topic}-missing"
    member = group.member("m1", topics=[group.topic, missing])
    member.fails = True
    member.membership.start()
    error = member.wait_for("fatal")
    assert isinstance(error, TopicMissingError)
    assert error.topic == missing
    assert missing not in admin.list_topics().topics


@pytest.mark.parametrize(
    ("settings", "topics", "expected"),
    [
        ({"group_id": "g", "no_such_name": 1}, ["orders"], "no_such_name"),
        ({"group_id": "g"}, ["or ders"], "or ders"),
        ({"group_id": "g"}, [], "topics"),
        ({}, ["orders"], "group.id"),
    ],
)
def test_bad_settings_are_refused_at_the_door(
    settings: dict[str, Any], topics: list[str], expected: str
) -> None:
    listener = Group("127.0.0.1:1", "g", "orders").member("m1")
    with pytest.raises(ConfigError, match=expected):
        Membership(settings, topics, PROTOCOL, listener)
    assert issubclass(GroupIdMissingError, ConfigError)


def test_a_session_timeout_that_the_broker_refuses_names_the_setting(group: Group) -> None:
    member = group.member("m1", session_timeout_ms=100, heartbeat_interval_ms=30)
    member.fails = True
    member.membership.start()
    error = member.wait_for("fatal")
    assert isinstance(error, ConfigError)
    assert error.name == "session.timeout.ms"


# -- the end ---------------------------------------------------------------------------------------


def test_leaving_is_silent_final_and_may_be_repeated(group: Group) -> None:
    [member] = group.join("m1")
    generation = member.held().generation
    heard = len(member.heard)
    member.membership.leave()
    member.membership.leave()
    assert len(member.heard) == heard
    assert member.membership.snapshot is None
    assert isinstance(member.commit(group.topic, 0, 1, generation), MemberLostError)
    with pytest.raises(MemberLostError):
        member.committed((group.topic, 0))


def test_a_member_that_never_started_can_leave(group: Group) -> None:
    group.member("m1").membership.leave()


@pytest.mark.parametrize("kind", ["joining", "assigned", "lead"])
def test_leaving_inside_a_callback_does_not_block(group: Group, kind: str) -> None:
    member = group.member("m1")
    called = threading.Event()

    def leave() -> None:
        member.membership.leave()
        called.set()

    member.at[kind] = leave
    member.membership.start()
    assert called.wait(WAIT_S)
    member.membership.leave()
    assert member.membership.snapshot is None


def test_a_member_is_alive_until_one_session_after_its_last_answer(group: Group) -> None:
    member = group.member("m1")
    assert not member.membership.alive(monotonic() * 1000)
    member.membership.start()
    member.wait_for("assigned")
    now_ms = monotonic() * 1000
    assert member.membership.alive(now_ms)
    assert not member.membership.alive(now_ms + 10_000)
    member.membership.leave()
    assert not member.membership.alive(now_ms)
