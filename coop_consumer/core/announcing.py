"""Announcing: before its first record in a log partition, an incarnation names itself there. Pure.

In: complete reads of the log, joins and assignments. Out: `Announce` records, and a `Rejoin` where
another run of our name has announced itself after us. An announcement ends the tenures of all other
runs of the name, so only the run that counts may make one last.

    NOT -append-> SENT -acked-> IN_LOG -another's follows-> CONTESTED -join-> ASKED -assigned-> SURE

From SURE a run announces itself again, unless one more has followed meanwhile: then it contests.
Upholds I4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignors import TopicPartition
from coop_consumer.core.actions import Append, Rejoin
from coop_consumer.core.state import Announcement
from offsets import AnnounceKey, AnnounceRecord, encode_key, encode_value

if TYPE_CHECKING:
    from coop_consumer.core.handover import Handover
    from coop_consumer.core.state import LogView, MemberState


class Announcing:
    """Announces this run in each view of the log."""

    def __init__(self, state: MemberState, handover: Handover) -> None:
        self._state = state
        self._handover = handover
        self._under_way: dict[int, LogView] = {}
        self._everywhere = False

    def joining(self) -> None:
        """A JoinGroup is about to be sent: if we are not the run that counts, it is fenced."""
        for view in self._state.views.values():
            if view.announcement is Announcement.CONTESTED:
                view.announcement = Announcement.ASKED

    def assigned(self) -> None:
        """We are assigned something: the broker took us for the run that counts, back then."""
        for view in self._state.views.values():
            if view.announcement is Announcement.ASKED:
                view.announcement = Announcement.SURE
                self._handover.read(view)
        if self._everywhere:
            self.announce_everywhere()

    def announce(self, view: LogView) -> None:
        """Do the next step, if there is one."""
        match view.announcement:
            case Announcement.NOT:
                self._send(view)
            case Announcement.IN_LOG if view.current:
                # Below our announcement there may be our predecessor's, which we came after.
                self._contest_if_followed(view, view.announce_offset)
            case Announcement.SURE if view.current:
                # The answer may have waited while we slept, and another run took our place since.
                if not self._contest_if_followed(view, view.contested_offset):
                    self._send(view)
            case _:
                pass

    def announce_everywhere(self) -> None:
        """End the tenures of earlier runs of our name wherever they may lie.

        Once the group has assigned us something, and thereby put them out: before, it may be one of
        them that goes on, and we who are never let in.
        """
        state, self._everywhere = self._state, True
        if state.generation < 0:
            return
        for topic, (_, count) in sorted(state.topics.items()):
            for number in range(count):
                self.announce(state.view_of(TopicPartition(topic, number)))

    def _send(self, view: LogView) -> None:
        state = self._state
        view.announcement = Announcement.SENT
        token = state.token()
        self._under_way[token] = view
        key = AnnounceKey(state.group, state.name)
        value = AnnounceRecord(state.incarnation, "", state.config.host_name)
        entry = encode_key(key), encode_value(value)
        state.actions.append(Append(view.log_partition, [entry], token))

    def _contest_if_followed(self, view: LogView, offset: int) -> bool:
        """If another run has announced itself above `offset`, ask the broker which one counts.

        Its announcement may be a late one of a run that is over; or we have slept, and it is the
        one that counts: then our JoinGroup is fenced.
        """
        state = self._state
        known = view.store.announced(state.name)
        if known is None or known.incarnation == state.incarnation or known.offset <= offset:
            return False
        view.announcement, view.contested_offset = Announcement.CONTESTED, known.offset
        state.nonce += 1
        state.actions.append(Rejoin(f"another run of {state.name} has announced itself"))
        return True

    def appended(self, token: int, offset: int) -> bool:
        """An announcement of ours is in the log."""
        view = self._under_way.pop(token, None)
        if view is None:
            return False
        view.announcement, view.announce_offset = Announcement.IN_LOG, offset
        return True

    def append_failed(self, token: int) -> bool:
        """It may or may not be in the log: send it again."""
        view = self._under_way.pop(token, None)
        if view is not None:
            view.announcement = Announcement.NOT
        return view is not None
