"""The group coordinator: Kafka's classic group protocol, seen from the broker.

In: joins, syncs, heartbeats, leaves and commits of members. Out: generations, assignments and
refusals. A generation with a plain member is a plain one: all members must know its protocol. A
member that is silent for a session is evicted. A join under the name of a static member takes its
seat and, in a stable group, its present assignment. Committed offsets are fenced by member
and generation. A coordinator that was away has evicted nobody, and all sessions begin anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, cast

from assignors import TopicPartition
from coop_consumer.core.leader import GroupMemberData
from offsets import Committed
from tests.simulation.scheduler import Scheduler

if TYPE_CHECKING:
    from tests.simulation.brokers import Brokers
    from tests.simulation.plain import PlainShell
    from tests.simulation.shell import MemberShell

Offsets = Mapping[TopicPartition, Committed]


class GroupState(Enum):
    """As in Kafka. JOINING is its PreparingRebalance, SYNCING its CompletingRebalance."""

    EMPTY = auto()
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()


class Answer(Enum):
    """The answer to a heartbeat."""

    OK = auto()
    REBALANCE = auto()
    UNKNOWN = auto()
    FENCED = auto()


@dataclass(slots=True, eq=False)
class Seat:
    """A member as the coordinator knows it.

    Attributes:
        joined: Its JoinGroup for the coming generation is here.
        awaiting: It waits for its assignment.
        attempt: The member's number of its last JoinGroup, which answers repeat.
        gone: Why it has no seat any more: "", "left", "evicted" or "fenced".
        first_generation: The first generation of the member; 0: none yet.
        inherits: Its assignment was made for the run of its name before it.
        unheard: Its member has left in order, while brokers were away.
        owned: The whole partitions that it keeps through a join, beside plain members.
    """

    member_id: str
    shell: MemberShell | PlainShell
    static: bool
    subscription: bytes = b""
    deadline_ms: int = 0
    joined: bool = False
    awaiting: bool = False
    attempt: int = 0
    assignment: bytes = b""
    gone: str = ""
    first_generation: int = 0
    inherits: bool = False
    unheard: bool = False
    owned: bytes = b""

    @property
    def lost(self) -> bool:
        """Whether it lost its seat without having left in good order."""
        return self.gone in {"evicted", "fenced"} and not self.unheard


class Coordinator:
    """The coordinator of one group."""

    def __init__(
        self, scheduler: Scheduler, brokers: Brokers, *, session_ms: int, rebalance_ms: int
    ) -> None:
        self._scheduler = scheduler
        self._brokers = brokers
        self._was_away = False
        self._session_ms = session_ms
        self._rebalance_ms = rebalance_ms
        self._rebalance_until_ms = 0
        self._seats_given = 0
        self.seats: dict[str, Seat] = {}
        self.state = GroupState.EMPTY
        self.generation = 0
        self.leader = ""
        self.is_plain = False
        self.offsets: dict[TopicPartition, Committed] = {}
        scheduler.after(_WATCH_MS, self._watch)

    # ---- requests ------------------------------------------------------------------------------

    def join(
        self,
        shell: MemberShell | PlainShell,
        member_id: str,
        subscription: bytes,
        attempt: int,
        owned: bytes = b"",
    ) -> None:
        """JoinGroup. Answered by `shell.assigned`, `shell.lead` or `shell.rejoin_now`."""
        if member_id and member_id not in self.seats:
            return  # its next heartbeat tells it
        if not member_id:
            namesakes = [s for s in self.seats.values() if s.shell.name == shell.name]
            twin = next(iter(namesakes if shell.static else ()), None)
            seat = self._new_seat(shell, attempt)
            if twin is not None:
                self._replace(twin, seat, subscription)
                return
        else:
            seat = self.seats[member_id]
        told = seat.subscription, seat.owned
        changed = told != (subscription, owned) or seat.member_id == self.leader or not member_id
        seat.subscription, seat.owned, seat.attempt = subscription, owned, attempt
        seat.awaiting = False  # whatever it waited for, it does no more
        seat.deadline_ms = self._scheduler.now_ms + self._session_ms
        if self.state is GroupState.STABLE and not changed:
            self._assign(seat)
            return
        self._prepare()
        seat.joined = True
        self._complete_if_all_joined()

    def _new_seat(self, shell: MemberShell | PlainShell, attempt: int) -> Seat:
        self._seats_given += 1
        seat = Seat(f"{shell.name}-{self._seats_given}", shell, shell.static, attempt=attempt)
        seat.deadline_ms = self._scheduler.now_ms + self._session_ms
        self.seats[seat.member_id] = seat
        shell.seated(seat, attempt)
        return seat

    def _replace(self, old: Seat, new: Seat, subscription: bytes) -> None:
        """A static member is back, and takes its seat over; a stable group does not change."""
        del self.seats[old.member_id]
        old.gone = "fenced"
        new.subscription = subscription
        if self.leader == old.member_id:
            self.leader = new.member_id
        if self.state is GroupState.STABLE:
            new.assignment, new.first_generation = old.assignment, old.first_generation
            new.inherits = True
            self._assign(new)
            return
        self._prepare()
        new.joined = True
        self._complete_if_all_joined()

    def sync(self, member_id: str, generation: int, assignments: Mapping[str, bytes]) -> bool:
        """SyncGroup of the leader. True: the group has its plan now."""
        if self.state is not GroupState.SYNCING or generation != self.generation:
            return False
        if member_id != self.leader:
            return False
        self.state = GroupState.STABLE
        for seat in self.seats.values():
            seat.assignment = assignments[seat.member_id]
            seat.first_generation = seat.first_generation or generation
            seat.inherits = False
            self._assign(seat)
        return True

    def heartbeat(self, asking: Seat) -> Answer:
        """A sign of life, and what the group wants of the member."""
        seat = self.seats.get(asking.member_id)
        if seat is None:
            names = {other.shell.name for other in self.seats.values()}
            taken_over = asking.gone == "fenced" or (asking.static and asking.shell.name in names)
            return Answer.FENCED if taken_over else Answer.UNKNOWN
        seat.deadline_ms = self._scheduler.now_ms + self._session_ms
        wanted = self.state is GroupState.JOINING and not seat.joined
        return Answer.REBALANCE if wanted else Answer.OK

    def leave(self, member_id: str) -> None:
        """LeaveGroup; a static member leaves silently, so its seat waits for its return."""
        seat = self.seats.get(member_id)
        if seat is not None and not seat.static:
            self._remove(seat, "left")

    def commit(self, member_id: str, generation: int, offsets: Offsets) -> bool:
        """OffsetCommit. True: stored."""
        if member_id or generation >= 0:
            if member_id not in self.seats or generation != self.generation:
                return False
            if self.state is GroupState.SYNCING:
                return False
        elif self.seats:
            return False
        self.offsets.update(offsets)
        return True

    def takes(self, member_id: str, generation: int) -> bool:
        """TxnOffsetCommit: whether the member is in the group, in this generation.

        The old generation counts until all have joined.
        """
        return member_id in self.seats and generation == self.generation

    # ---- rebalances ----------------------------------------------------------------------------

    def _prepare(self) -> None:
        if self.state is GroupState.JOINING:
            return
        self.state = GroupState.JOINING
        self._rebalance_until_ms = self._scheduler.now_ms + self._rebalance_ms
        for seat in self.seats.values():
            seat.joined = False
            if seat.awaiting:  # its SyncGroup is answered: rebalance in progress
                seat.awaiting = False
                seat.shell.rejoin_now(seat.attempt)

    def _complete_if_all_joined(self) -> None:
        if self.state is GroupState.JOINING and all(s.joined for s in self.seats.values()):
            self._complete()

    def _complete(self) -> None:
        self.generation += 1
        if not self.seats:
            self.state, self.leader = GroupState.EMPTY, ""
            return
        self.state = GroupState.SYNCING
        if self.leader not in self.seats:
            self.leader = next(iter(self.seats))
        for seat in self.seats.values():
            seat.joined, seat.awaiting = False, True
            seat.deadline_ms = self._scheduler.now_ms + self._session_ms
        leader = self.seats[self.leader]
        self.is_plain = any(seat.shell.is_plain for seat in self.seats.values())
        if self.is_plain:
            leader.shell.lead_plain(leader.attempt, self.generation, list(self.seats.values()))
            return
        members = [(seat.member_id, seat.subscription) for seat in self.seats.values()]
        names = {seat.member_id: seat.shell.name for seat in self.seats.values()}
        assert not leader.shell.is_plain
        shell = cast("MemberShell", leader.shell)
        shell.lead(leader.attempt, self.generation, _group(leader, members), names)

    def _assign(self, seat: Seat) -> None:
        seat.awaiting = False
        seat.shell.assigned(seat.attempt, self.generation, seat.assignment, plain=self.is_plain)

    # ---- time ----------------------------------------------------------------------------------

    def _watch(self) -> None:
        if self._brokers.are_away:
            self._was_away = True
        else:
            if self._was_away:
                self._was_away = False
                self._begin_sessions_anew()
            self._evict_silent()
        self._scheduler.after(_WATCH_MS, self._watch)

    def _begin_sessions_anew(self) -> None:
        now_ms = self._scheduler.now_ms
        self._rebalance_until_ms = now_ms + self._rebalance_ms
        for seat in self.seats.values():
            seat.deadline_ms = now_ms + self._session_ms

    def _evict_silent(self) -> None:
        now_ms = self._scheduler.now_ms
        for seat in list(self.seats.values()):
            if now_ms > seat.deadline_ms and not seat.joined:
                self._remove(seat, "evicted")
        if self.state is GroupState.JOINING and now_ms > self._rebalance_until_ms:
            for seat in [s for s in self.seats.values() if not s.joined]:
                self._remove(seat, "evicted")

    def _remove(self, seat: Seat, why: str) -> None:
        if self.seats.pop(seat.member_id, None) is None:
            return
        seat.gone = why
        self._prepare()
        self._complete_if_all_joined()


_WATCH_MS = 100


def _group(leader: Seat, members: Sequence[tuple[str, bytes]]) -> list[GroupMemberData]:
    return [GroupMemberData(id_, tuple(leader.shell.topics), data) for id_, data in members]
