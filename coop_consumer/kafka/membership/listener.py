"""What a member hears of its group, and answers: the values and the listener of a membership.

In: what the group protocol carries. Out: values, and the port that a member's shell implements.
Nothing here touches a client.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from coop_consumer.errors import CoopConsumerError
from offsets import Committed

Offsets: TypeAlias = Mapping[tuple[str, int], Committed]
"""(topic, partition) → the first offset not yet done, with metadata of at most 4,096 bytes."""

OffsetsFound: TypeAlias = dict[tuple[str, int], Committed | None]
"""(topic, partition) → what the group has committed, or None where that is nothing."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member as the leader sees it.

    `user_data` is what its `on_joining` returned, `owned` the (topic, partition) that a plain
    member says it still works on.
    """

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    user_data: bytes
    owned: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """What the leader gives one member; `user_data` decides.

    `partitions` (topic → partition numbers) serves standard tools, which show it as the member's
    assignment. Several members may have the same partition there.
    """

    partitions: Mapping[str, Sequence[int]]
    user_data: bytes


@dataclass(frozen=True, slots=True)
class AssignmentSnapshot:
    """An assignment together with the identity under which it holds.

    `user_data` is None in three cases. A plain assignor made it (`plain` is true), or the broker
    itself did, during a migration from the newer group protocol: then `partitions` are whole ones.
    Or the leader could not assign, as it had no metadata yet, or failed: another generation
    follows.
    """

    generation: int
    member_id: str
    group_instance_id: str | None
    user_data: bytes | None
    partitions: Mapping[str, tuple[int, ...]]
    plain: bool = False


class MembershipListener(Protocol):
    """What a member hears of its group.

    Calls come one at a time, all but `on_fatal` on kafka-python's IO thread. While a call runs,
    heartbeats wait: so it hands work over and returns, and never blocks on a `Membership` method.
    If a call raises, the member leaves the group and `on_fatal` gets the reason.
    """

    def on_joining(self) -> bytes:
        """Return this member's user data for the next generation; asked at every JoinGroup.

        From this call until `on_assigned`, what the data claim may shrink but not grow. A join may
        be repeated, so two calls can come without an assignment between them.

        Raises:
            TimeoutError: The member's thread has had no core for seconds; it is asked again.
        """

    def on_revoking(self) -> Future[object]:
        """Release everything before the next JoinGroup; done when the log has it all.

        Called only if a plain protocol is offered: with the answer to that JoinGroup a plain member
        may begin everything that `owned` will not list. Heartbeats and commits continue meanwhile.
        The wait also ends when the assignment is lost, or the member leaves.
        """

    def owned(self) -> Collection[tuple[str, int]]:
        """The (topic, partition) that nobody else may get yet; asked right after `on_joining`.

        Asked only where a plain protocol is offered; empty if that one is eager.
        """

    def on_assigned(self, snapshot: AssignmentSnapshot) -> None:
        """Take the assignment of a new generation; it replaces the one before.

        The same generation comes again when a static member restarts, or when this member rejoined
        with unchanged user data.
        """

    def on_lost(self, reason: str) -> None:
        """Learn that the assignment held no longer counts: others may own all of it already.

        Called at most once an assignment, and only if one was held. The member joins again by
        itself, unless `on_fatal` follows. After `leave` there is no call.
        """

    def on_fatal(self, error: CoopConsumerError) -> None:
        """Learn that membership has ended for good; the last call, on the driver thread."""

    def lead_assign(
        self, partitions: Mapping[str, int], members: Sequence[GroupMember]
    ) -> Mapping[str, MemberAssignment]:
        """Assign, as leader, all partitions to the members; returns member id → assignment.

        `partitions` is topic → number of partitions, for the subscribed topics whose metadata the
        leader has; it is never empty. If members name other topics, another call follows with their
        metadata. Members left out get nothing. The result must depend only on the arguments, so
        that every leader finds the same.
        """

    def lead_plain(
        self, partitions: Mapping[str, int], members: Sequence[GroupMember]
    ) -> Mapping[str, MemberAssignment]:
        """The same in a generation of the plain protocol: each partition to one member at most."""
