"""A membership of each kind on the session's broker, and what its member was told.

In: a broker, a topic, a group. Out: a `Seated` for the contracts of `GroupMembership` and of
`GroupView`. A member's user data are real ones, so that a view can read them.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, ClassVar

import pytest

from assignors import (
    AssignmentData,
    KeyRange,
    Subscription,
    TopicPartition,
    Wait,
    encode_assignment,
    encode_subscription,
)
from coop_consumer.config import Config
from coop_consumer.errors import CoopConsumerError
from coop_consumer.kafka.alone import GENERATION, Alone
from coop_consumer.kafka.membership import (
    AssignmentSnapshot,
    GroupMember,
    MemberAssignment,
    Membership,
    leave_for,
)
from coop_consumer.kafka.topics import Topics
from coop_consumer.member.ports import GroupMembership
from coop_consumer.planning import PROTOCOL
from offsets import Committed
from tests.support.brokers import MakeTopic

WAIT_S = 20.0
PARTITIONS = 2
LOW, HIGH = KeyRange(0, 9), KeyRange(10, 19)


class Seated:
    """A membership, and the generation that it holds.

    Attributes:
        config: Names the group.
        topic: What it consumes.
        membership: The one under test.
    """

    membership: GroupMembership

    def __init__(self, config: Config, topic: str) -> None:
        self.config = config
        self.topic = topic

    def take_place(self) -> None:
        """Start; return once the membership counts on its generation."""
        raise NotImplementedError

    def generation(self) -> int:
        """The generation of the assignment held now."""
        raise NotImplementedError

    def rejoin(self) -> None:
        """Request another assignment; return once it has come, if one comes."""
        raise NotImplementedError

    def commit(self, offsets: Mapping[int, Committed], generation: int) -> CoopConsumerError | None:
        """Commit, and wait for the answer; a second answer fails the test."""
        answers: SimpleQueue[CoopConsumerError | None] = SimpleQueue()
        told = {(self.topic, number): value for number, value in offsets.items()}
        self.membership.commit(told, generation, answers.put)
        return self._only(answers)

    def confirm(self, generation: int) -> CoopConsumerError | None:
        """Ask, and wait for the answer; a second answer fails the test."""
        answers: SimpleQueue[CoopConsumerError | None] = SimpleQueue()
        self.membership.confirm(generation, answers.put)
        return self._only(answers)

    def committed(self) -> dict[int, Committed | None]:
        """What the group has committed, by partition."""
        places = [(self.topic, number) for number in range(PARTITIONS)]
        found = self.membership.committed(places).result(WAIT_S)
        assert list(found) == places
        return {number: value for (_, number), value in found.items()}

    @staticmethod
    def _only(answers: SimpleQueue[CoopConsumerError | None]) -> CoopConsumerError | None:
        answer = answers.get(timeout=WAIT_S)
        assert answers.empty(), "answered twice"
        return answer


class SeatedAlone(Seated):
    """A consumer that calls `assign`: it joins no group."""

    def __init__(self, config: Config, topic: str) -> None:
        super().__init__(config, topic)
        self.membership = Alone(Topics(config), config)

    def take_place(self) -> None:
        self.membership.start()

    def generation(self) -> int:
        return GENERATION

    def rejoin(self) -> None:
        self.membership.request_rejoin()


class SeatedInGroup(Seated):
    """A member by the classic group protocol, and its own listener: it leads, and gets everything.

    Attributes:
        subscription: Its subscription for the next join.
        waits: What its next assignment says that it waits for.
        heard: The calls of its listener: the name and the argument of each.
    """

    def __init__(self, config: Config, topic: str) -> None:
        super().__init__(config, topic)
        self.subscription = Subscription("m1", 7, "host-1", 3, True, "ordering=key", 0)
        self.waits: tuple[Wait, ...] = ()
        self.heard: list[tuple[str, Any]] = []
        self._news = threading.Condition()
        self.membership = Membership(config.membership(), [topic], PROTOCOL, self)

    def take_place(self) -> None:
        self.membership.start()
        self.wait_for("assigned")

    def generation(self) -> int:
        held: AssignmentSnapshot = self.wait_for("assigned")
        return held.generation

    @property
    def ranges(self) -> dict[TopicPartition, tuple[KeyRange, ...]]:
        """The ranges that a plan gives it."""
        return {TopicPartition(self.topic, number): (LOW, HIGH) for number in range(PARTITIONS)}

    def rejoin(self) -> None:
        heard = len(self.heard)
        self.subscription = replace(self.subscription, nonce=self.subscription.nonce + 1)
        self.membership.request_rejoin()
        self.wait_for("assigned", after=heard)

    def be_removed(self) -> None:
        """Remove the member from its group, as an operator does."""
        held: AssignmentSnapshot = self.wait_for("assigned")
        leave_for(self.config.membership(), held.member_id)

    def wait_for(self, kind: str, *, after: int = 0) -> Any:
        """Wait for the last call of a kind after the first `after` calls."""

        def told() -> list[Any]:
            return [value for it, value in self.heard[after:] if it == kind]

        with self._news:
            assert self._news.wait_for(told, WAIT_S), f"no {kind} in {WAIT_S} s: {self.heard}"
            return told()[-1]

    # ---- what it is told -----------------------------------------------------------------------

    def on_joining(self) -> bytes:
        return encode_subscription(self.subscription)

    def on_revoking(self) -> Future[object]:
        raise AssertionError("no plain protocol was offered")

    def owned(self) -> Collection[tuple[str, int]]:
        raise AssertionError("no plain protocol was offered")

    def on_assigned(self, snapshot: AssignmentSnapshot) -> None:
        self._note("assigned", snapshot)

    def on_lost(self, reason: str) -> None:
        self._note("lost", reason)

    def on_fatal(self, error: CoopConsumerError) -> None:
        self._note("fatal", error)

    def lead_assign(
        self, partitions: Mapping[str, int], members: Sequence[GroupMember]
    ) -> Mapping[str, MemberAssignment]:
        data = encode_assignment(AssignmentData(self.ranges, self.waits, lead="m1", members=1))
        numbers = {topic: range(count) for topic, count in partitions.items()}
        return {it.member_id: MemberAssignment(numbers, data) for it in members}

    def lead_plain(
        self,
        partitions: Mapping[str, int],  # noqa: ARG002 - as its port's
        members: Sequence[GroupMember],  # noqa: ARG002
    ) -> Mapping[str, MemberAssignment]:
        raise AssertionError("no plain protocol was offered")

    def _note(self, kind: str, value: object) -> None:
        with self._news:
            self.heard.append((kind, value))
            self._news.notify_all()


def config_of(bootstrap: str, group: str) -> Config:
    """A member's configuration, with which it hears of a new generation soon."""
    names = {"bootstrap.servers": bootstrap, "group.id": group, "heartbeat.interval.ms": 100}
    return Config.from_dict(names)


class SeatedTests:
    """Tests of a membership; `seated` is in a group of its own."""

    kind: ClassVar[type[Seated]]

    @pytest.fixture
    def seated(self, bootstrap: str, group_id: str, topic: MakeTopic) -> Iterator[Seated]:
        seated = self.kind(config_of(bootstrap, group_id), topic(PARTITIONS))
        seated.take_place()
        yield seated
        seated.membership.leave()
