"""Memberships of one group in the test's own process, which note what the group tells them.

In: a broker, a topic, settings of kafka-python. Out: what each heard, held and planned. The module
is also a program to be killed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from queue import Queue
from time import monotonic
from typing import Any, TypeVar

from confluent_kafka import Consumer

from coop_consumer.errors import CoopConsumerError
from coop_consumer.kafka.membership import (
    AssignmentSnapshot,
    GroupMember,
    MemberAssignment,
    Membership,
    Seat,
)
from offsets import Committed

WAIT_S = 20.0
PROTOCOL = "coop-test"
PATIENCE = {"connect_timeout_ms": 2_000, "topic_timeout_ms": 2_000}

Value = TypeVar("Value")

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


class Member:
    """A member and its listener; as a leader it gives each member every partition and own bytes."""

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
        """Give partition n to the n-th member."""
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
        """What it heard after the first `after` things, but not whether it led, which is chance."""
        return [kind for kind, _ in self.heard[after:] if kind != "lead"]

    def leads(self, after: int) -> bool:
        return "lead" in [kind for kind, _ in self.heard[after:]]

    def values(self, kind: str) -> list[Any]:
        return [value for it, value in self.heard if it == kind]

    def wait_for(self, kind: str, *, after: int = 0) -> Any:
        """Wait for the first thing of this kind after the first `after` things heard."""
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


def poll_until(consumer: Consumer, find: Callable[[Any], Value | None]) -> Value:
    deadline = monotonic() + WAIT_S
    while monotonic() < deadline:
        found = find(consumer.poll(0.1))
        if found:
            return found
    raise AssertionError(f"not in {WAIT_S} s")
