"""Orders: an assignment refuses us, tells of a stop, or comes of a plan that is out of date. Pure.

In: assignments, stops in the log. Out: the beginning of a close, or a `Rejoin` where the plan was
made before this run, or before partitions were added. A static member that comes back within its
session is given the assignment as it stands, made for its earlier run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coop_consumer.core.actions import Level
from coop_consumer.core.contract import guarantee_the_same, mean_the_same
from coop_consumer.core.stop import Stop, newest_stop
from coop_consumer.errors import (
    ContractMismatchError,
    CoopConsumerError,
    FencedError,
    ProcessingStoppedError,
    VersionMismatchError,
)
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assignors import AssignmentData
    from coop_consumer.core.closing import Closing
    from coop_consumer.core.events import Assigned
    from coop_consumer.core.failures import Failures
    from coop_consumer.core.state import LogView, MemberState

_PAUSE_MS, _PAUSE_MAX_MS = 5_000, 300_000
"""Between two requests for what the plan lacks: doubled each time."""


@dataclass(slots=True, eq=False)
class Orders:
    """Follows what the group's leader says.

    Args:
        contract: Ours, which all members must agree on.
        static: Whether assignments may have been made for an earlier run of our name.
    """

    state: MemberState
    closing: Closing
    failures: Failures
    contract: str
    static: bool
    _planned: Mapping[str, int] | None = None
    _asked_for: dict[str, int] = field(default_factory=dict)
    _ask_again_ms: int = 0
    _pause_ms: int = 0
    _is_accepted: bool = False

    def apply(self, event: Assigned) -> None:
        """Leave if we are refused, or the group stops; join again if an earlier run is meant."""
        membership, data = self.state.membership, event.data
        is_first = membership.first_generation < 0
        membership.newest_generation = event.metadata.generation
        if is_first:
            membership.first_generation = event.metadata.generation
        stop = newest_stop([data.stop])
        if self.static and is_first and not event.plain and (stop or not data.ranges):
            # Our earlier run was about to leave, or was refused, or the group was about to stop.
            self.state.rejoin("the assignment may be that of an earlier run")
        elif data.refused and not membership.closing:
            self._refused(data.refused)
        self._is_accepted |= not (data.refused or event.plain)
        if stop and stop.is_meant_for(membership.first_generation) and not membership.closing:
            membership.stop = stop
            self.stop(stop)

    def _refused(self, refused: str) -> None:
        """End, as the group has agreed on something else than we have.

        While a group changes its guarantee, one member after the other, a newcomer waits until
        those of the guarantee before are fewer. These end then.
        """
        reason, _, theirs = refused.partition(":")
        is_change = mean_the_same(theirs, self.contract) and not guarantee_the_same(
            theirs, self.contract
        )
        if reason != "contract" or self._is_accepted or not is_change:
            self.closing.begin(self._refusal(refused))
            return
        self.state.report(
            Level.WARNING,
            LogEvent.GROUP_OTHER_GUARANTEE,
            f"no range yet: most members of the group have another guarantee ({theirs}; ours: "
            f"{self.contract}). It begins once they are fewer: stop them one by one, or change "
            "processing.guarantee back",
        )

    def stop(self, stop: Stop) -> None:
        """End this run because the group stops. A member without a group is its own group."""
        state, place = self.state, f"{stop.topic}-{stop.partition}"
        skip = state.config.command("skip", state.group, place, stop.offset)
        self.closing.begin(
            ProcessingStoppedError(
                stop.topic, stop.partition, stop.offset, stop.reason, stop.member, skip
            )
        )

    def stop_if_logged(self, view: LogView) -> None:
        """Stop if the log tells of a stop behind our announcement: it is meant for us as well."""
        state, membership = self.state, self.state.membership
        if (
            membership.stop
            or membership.closing
            or not view.announcement.was_in_log
            or not view.current
        ):
            return
        stop = view.store.stop(after_offset=view.announcement.offset)
        if stop is not None:
            told, topic_id = stop.record, stop.key.topic_id
            topic = next((t for t, (id_, _) in state.topics.items() if id_ == topic_id), "?")
            membership.stop = Stop(
                topic,
                stop.key.partition,
                told.offset,
                told.reason,
                told.member,
                membership.newest_generation,
            )
            self.failures.stop_all()

    def miss_partitions(self, data: AssignmentData) -> None:
        """Have partitions assigned that the plan lacks; the lead asks for them.

        They were added while all members of a static group were away, or the leader does not know
        of them yet.
        """
        is_lead = data.lead == self.state.name and not self.state.membership.alone
        self._planned = data.planned if is_lead else None
        self.ask_due()

    def ask_due(self) -> None:
        """Ask for what the plan lacks: at once, and again and again while it does.

        The leader looks at its topics when it hears of a plan, so one question is mostly enough.
        But if it crashes then, its next run goes on with the old plan, and finds nothing new.
        """
        state, planned = self.state, self._planned
        membership = state.membership
        if planned is None or not (membership.is_stable and membership.is_member):
            return
        gone = state.topics_left | state.topics_missing
        consumed = ((t, n) for t, (_, n) in state.topics.items() if t not in gone)
        short = {t: n for t, n in consumed if n > planned.get(t, 0)}
        if not short or (short == self._asked_for and state.now_ms < self._ask_again_ms):
            return
        is_again = short == self._asked_for
        self._pause_ms = min(2 * self._pause_ms, _PAUSE_MAX_MS) if is_again else _PAUSE_MS
        self._asked_for, self._ask_again_ms = short, state.now_ms + self._pause_ms
        topic, count = next(iter(short.items()))
        state.rejoin(
            f"topic {topic} has {counted(count, 'partition')}, and the plan {planned.get(topic, 0)}"
        )

    def _refusal(self, refused: str) -> CoopConsumerError:
        """Why the leader gave us nothing, as an error; `refused` is what `leader` says."""
        reason, _, detail = refused.partition(":")
        match reason:
            case "contract":
                return ContractMismatchError(self.state.name, detail, self.contract)
            case "unreadable":
                return VersionMismatchError(self.state.name, detail)
            case _:
                return FencedError(self.state.name)
