"""What an assignment says besides ranges: refusals, stops, and that its plan is out of date. Pure.

In: assignments. Out: the beginning of a close, or a `Rejoin` where the plan was made before this
run, or before partitions were added. A static member that comes back within its session is given
the assignment as it stands, made for its earlier run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coop_consumer.core.actions import Rejoin
from coop_consumer.core.stop import newest_stop
from coop_consumer.errors import (
    ContractMismatchError,
    CoopConsumerError,
    FencedError,
    ProcessingStoppedError,
    VersionMismatchError,
)

if TYPE_CHECKING:
    from assignors import AssignmentData
    from coop_consumer.core.closing import Closing
    from coop_consumer.core.events import Assigned
    from coop_consumer.core.state import MemberState


class Orders:
    """Heeds what the group's leader says.

    Args:
        contract: Ours, which all members must agree on.
        static: Whether assignments may have been made for an earlier run of our name.
    """

    def __init__(
        self, state: MemberState, closing: Closing, *, contract: str, static: bool
    ) -> None:
        self._state = state
        self._closing = closing
        self._contract = contract
        self._static = static
        self._asked_for: dict[str, int] = {}

    def heed(self, event: Assigned) -> None:
        """Leave if we are refused, or the group stops; join again if that was meant for others."""
        state, data = self._state, event.data
        is_first = state.first_generation < 0
        state.newest_generation = event.generation
        if is_first:
            state.first_generation = event.generation
        stop = newest_stop([data.stop])
        if self._static and is_first and not event.plain and (stop or not data.ranges):
            # Our earlier run was about to leave, or was refused, or the group was about to stop.
            self._join_again("the assignment may be that of an earlier run")
        elif data.refused and not state.closing:
            self._closing.begin(self._refusal(data.refused))
        if stop and stop.is_meant_for(state.first_generation) and not state.closing:
            state.stop = stop
            self._closing.begin(
                ProcessingStoppedError(
                    stop.topic, stop.partition, stop.offset, stop.reason, stop.member
                )
            )

    def miss_partitions(self, data: AssignmentData) -> None:
        """Have partitions assigned that were added while nobody was there to notice.

        All members of a static group may have been away. The lead asks, and once: should the leader
        know no better yet, it looks at its topics when it hears of a plan.
        """
        state = self._state
        if data.lead != state.name or state.alone or state.closing:
            return
        for topic, (_, count) in state.topics.items():
            known = data.planned.get(topic, 0)
            if count > max(known, self._asked_for.get(topic, 0)):
                self._asked_for[topic] = count
                self._join_again(f"topic {topic} has {count} partitions, and the plan {known}")

    def _join_again(self, why: str) -> None:
        self._state.nonce += 1
        self._state.actions.append(Rejoin(why))

    def _refusal(self, refused: str) -> CoopConsumerError:
        """Why the leader gave us nothing, as an error; `refused` is what `leader` says."""
        reason, _, detail = refused.partition(":")
        match reason:
            case "contract":
                return ContractMismatchError(self._state.name, detail, self._contract)
            case "unreadable":
                return VersionMismatchError(self._state.name, detail)
            case _:
                return FencedError(self._state.name)
