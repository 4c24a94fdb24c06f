"""What members and a group's visitors ask of the room `kafka`: two ports.

`GroupMembership` is a member's place in its group. `GroupView` shows a group to anybody. Each of
the two has a contract suite in `tests/contract`; a new implementation joins by a fixture there.
`Say` is how the parts of a member report lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from concurrent.futures import Future

    from assignors import TopicPartition
    from coop_consumer.core.blocked_read import RunId
    from coop_consumer.errors import Told
    from coop_consumer.kafka.membership import Offsets, OffsetsFound
    from coop_consumer.log_events import Facts, LogEvent
    from coop_consumer.status.seen import GroupDescription
    from offsets import Committed


class Say(Protocol):
    """Reports a line that names group and member."""

    def __call__(self, level: int, event: LogEvent, text: str, /, **facts: Unpack[Facts]) -> None:
        """Report a line, and the facts that it has besides group and member."""


class GroupMembership(Protocol):
    """One member of one group, from `start` to `leave`. Any thread may call; only `leave` blocks.

    Two implementations: `kafka.membership.Membership`, by Kafka's classic group protocol, and
    `kafka.alone.Alone`, which joins no group. A membership with generations notifies a
    `MembershipListener` of each: an assignment, its loss, and the end. `Alone` has one generation,
    0, and calls no listener.

    Every implementation promises:

    - `commit`, `confirm` and `committed` answer exactly once, also after `leave`: then with an
      error.
    - `commit` stores nothing unless the generation is that of the present assignment.
    - `request_rejoin` and `look_at_topics` may be called at any time. Before the first assignment
      and after `leave` they do nothing.
    """

    def start(self) -> None:
        """Join in the background. Called once."""

    def leave(self) -> None:
        """Leave the group and close the clients. May be repeated."""

    def alive(self, now_ms: float) -> bool:
        """Whether the group surely still counts on this member at `now_ms` (monotonic clock).

        Only for stopping early: no safety may depend on a clock.
        """

    def answered(self) -> tuple[float | None, bool]:
        """When the coordinator answered last, and whether it waits for other members to join.

        The time is in monotonic seconds; None if it never answered, or is never asked.
        """

    def stepped_s(self) -> Mapping[str, float]:
        """When each thread that must not stand still took a step last, by the thread's name.

        In monotonic seconds; infinite while the thread has nothing to do, or waits for the system.
        """

    def request_rejoin(self) -> None:
        """Request another assignment, by the subscription at that time."""

    def look_at_topics(self) -> None:
        """Check the topics' partitions now; a leader assigns anew if they have changed."""

    def committed(self, partitions: Iterable[tuple[str, int]]) -> Future[OffsetsFound]:
        """The committed offset of each (topic, partition); needs no generation."""

    def confirm(self, generation: int, done: Told) -> None:
        """Ask whether the group still counts on us in this generation; `done` gets None if so."""

    def fence(
        self, undecided: Collection[RunId], id_of: Callable[[RunId], str]
    ) -> Future[Sequence[RunId]]:
        """End the transactions of those of these runs that are not in the group any more."""

    def commit(self, offsets: Offsets, generation: int, done: Told) -> None:
        """Commit offsets under this generation; `done` gets None once all are stored."""


class GroupView(Protocol):
    """Shows a group as its coordinator has it, to members and others. Calls block.

    One implementation: `kafka.group_view.CoordinatorView`, for groups of either of Kafka's
    protocols and for groups without members, such as one whose consumers call `assign`. `status`,
    `owner_of`, `reset` and planned jobs read a group through it.

    Raises:
        AuthorizationError, BrokerUnreachableError: By each method, as they say.
    """

    def described(self) -> GroupDescription:
        """The group's state and its members: for each its ranges, and what they wait for."""

    def committed(self) -> dict[TopicPartition, Committed]:
        """All offsets that the group has committed in Kafka's own store, with their metadata."""
