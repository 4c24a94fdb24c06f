"""Announcing: a run is named in a partition of the log before its first record there. Pure.

In: complete reads of the log, joins and assignments, the coordinator's answer. Out: `Announce`
records, and a `Rejoin` if another run of our name has announced itself after us. An announcement
ends the tenures of earlier runs of the name. So the run that counts must be the last to make one.

An assignment shows that we count. But we may have slept over it, and another run may have taken our
place. So a static member asks the coordinator once more, after each assignment. It may sleep over
that answer as well, and announce itself behind the run that follows it. So an announcement ends
only what had begun before the question was asked. If more of an earlier run turns up, it is made
again (decision 018).

Upholds I4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignors import TopicPartition
from coop_consumer.core.actions import ConfirmMembership, Level
from coop_consumer.core.announcement import AnnouncementEvent
from coop_consumer.log_events import LogEvent
from offsets import AnnounceKey, AnnounceRecord, encode_key, encode_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coop_consumer.core.events import MembershipConfirmed
    from coop_consumer.core.outbox import Outbox
    from coop_consumer.core.state import LogView, MemberState
    from coop_consumer.errors import CoopConsumerError

_ASK_AGAIN_MS = 500


@dataclass(slots=True, eq=False)
class Announcing:
    """Announces this run in each view of the log."""

    state: MemberState
    outbox: Outbox
    static: bool
    _under_way: dict[int, LogView] = field(default_factory=dict)
    _everywhere: bool = False
    _log_ends: Mapping[int, int] = field(default_factory=dict)  # as seen before we were confirmed
    _looked: dict[int, int] = field(default_factory=dict)
    _asked: int = 0  # the token of the question under way
    _ask_again_ms: int = 0

    def joining(self) -> None:
        """A JoinGroup is about to be sent: if we are not the run that counts, it is fenced."""
        for view in self.state.views.values():
            view.announcement.move(AnnouncementEvent.JOIN)

    def assigned(self) -> None:
        """We are assigned something: the broker took us for the run that counts, back then."""
        for view in self.state.views.values():
            view.announcement.move(AnnouncementEvent.ASSIGN)
        if self.static:
            self._log_ends, self._asked, self._ask_again_ms = {}, 0, 0
        if self._everywhere:
            self.announce_everywhere()

    def confirmed(self, event: MembershipConfirmed) -> None:
        """The coordinator has said whether we are the run that counts; if not, it will fence us."""
        if event.token == self._asked:
            self._asked = 0
            self._log_ends = event.log_ends if event.confirmed else {}
            if self._log_ends and self._everywhere:
                self.announce_everywhere()

    def announce(self, view: LogView) -> None:
        """Do the next step, if there is one."""
        if view.announcement.is_owed:
            if not self.static:
                self._send(view, seen=0)
            elif view.log_partition in self._log_ends:
                self._send(view, self._log_ends[view.log_partition])
            else:
                self._ask()
        elif view.announcement.is_in_log and view.current:
            self._contest_if_followed(view)
            if self.static and view.announcement.is_in_log:
                self._announce_again_if_short(view)

    def _ask(self) -> None:
        state = self.state
        if self._asked or not state.membership.is_member or state.now_ms < self._ask_again_ms:
            return
        self._asked = state.token()
        self._ask_again_ms = state.now_ms + _ASK_AGAIN_MS
        log_partitions = sorted(state.views)
        generation = state.membership.generation
        state.actions.append(ConfirmMembership(log_partitions, generation, self._asked))

    def announce_everywhere(self) -> None:
        """End the tenures of earlier runs of our name wherever they may lie.

        Not before the group has assigned us something. Until then an earlier run may be the one
        that goes on, and we may never be let in.
        """
        state, self._everywhere = self.state, True
        if not state.membership.is_member:
            return
        for topic, (_, count) in sorted(state.topics.items()):
            for number in range(count):
                state.view_of(TopicPartition(topic, number))
        for view in state.views.values():
            self.announce(view)

    def retry(self) -> None:
        """Announce again wherever that has failed, or was not confirmed.

        No partition brings about a retry in views of which we hold nothing. But others may wait
        there for an earlier run of ours.
        """
        if self._everywhere and self.state.membership.is_member:
            for view in self.state.views.values():
                if view.announcement.is_owed:
                    self.announce(view)

    def _send(self, view: LogView, seen: int) -> None:
        state = self.state
        view.announcement.move(AnnouncementEvent.SEND)
        key = AnnounceKey(state.group, state.name)
        value = AnnounceRecord(state.incarnation, seen, "", state.config.host_name)
        entry = encode_key(key), encode_value(value)
        self._under_way[self.outbox.append(view, [entry], self)] = view

    def _contest_if_followed(self, view: LogView) -> None:
        """If another run has announced itself after us, ask the broker which one counts.

        Its announcement may be a late one, of a run that is over. Or we have slept, and the other
        run counts: then our JoinGroup is fenced. Without a group the user decides who counts, and
        has assigned us our ranges: we announce ourselves once more.
        """
        state = self.state
        known = view.store.announced(state.name)
        # Our predecessor's may lie below ours.
        is_others = known is not None and known.incarnation != state.incarnation
        if not (known and is_others and known.offset > view.announcement.offset):
            return
        if state.membership.alone:
            state.report(
                Level.WARNING,
                LogEvent.MEMBER_TWIN,
                f"another process has announced itself as {state.name}. If it still runs, both "
                "process the same keys. Assign each range to one process only",
            )
            self._announce_again(view)
        else:
            view.announcement.move(AnnouncementEvent.FOLLOW)
            state.rejoin(f"another run of {state.name} has announced itself")

    def _announce_again_if_short(self, view: LogView) -> None:
        """Announce again if the log got more of an earlier run after we had asked for its end."""
        state, store = self.state, view.store
        if store.next_offset <= view.announcement.offset:
            return  # the look was older than our announcement
        if self._looked.get(view.log_partition) == store.next_offset:
            return
        self._looked[view.log_partition] = store.next_offset
        if any(
            tenure.id.member == state.name
            and tenure.id.incarnation != state.incarnation
            and store.partition(*place).unreleased(tenure.id, tenure.ranges)
            for place in store.partitions()
            for tenure in store.partition(*place).tenures()
        ):
            self._announce_again(view)

    def _announce_again(self, view: LogView) -> None:
        view.announcement.move(AnnouncementEvent.REPEAT)
        self._log_ends = {}
        self._ask()

    def appended(self, token: int, offsets: Sequence[int]) -> None:
        """An announcement of ours is in the log."""
        self._under_way.pop(token).announcement.appended(offsets[0])

    def append_failed(self, token: int, error: CoopConsumerError) -> None:
        """It may or may not be in the log: `announce` and `retry` send it again."""
        del error
        self._under_way.pop(token).announcement.move(AnnouncementEvent.FAIL)
