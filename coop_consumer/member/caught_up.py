"""Leaves once the whole group has processed its topics up to their ends. One thread.

In: whether this member has caught up, ends and committed offsets. Out: a call to leave. It waits
for the whole group, because this member may get the ranges of a member that died.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coop_consumer.errors import CoopConsumerError
from coop_consumer.kafka.topics import LATEST, Topics
from coop_consumer.log_events import LogEvent
from coop_consumer.member.topic_side import TopicSide

if TYPE_CHECKING:
    from coop_consumer.member.ports import GroupMembership, Say

_LOOK_S = 0.25


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class CaughtUp:
    """Waits for the end of one member's work.

    Args:
        side: Knows the topics.
        topics: Asks for the topics' ends.
        membership: Knows what the group has committed.
        ended: Done when the member has ended.
        say: Reports a line that names the member: its level and text.
        leave: Called once the whole group is done.
        is_here: Whether this member has caught up; the member's thread sets it.
    """

    side: TopicSide
    topics: Topics
    membership: GroupMembership
    ended: Future[Any]
    say: Say
    leave: Callable[[], None]
    is_here: bool = False

    def start(self, group: str) -> None:
        """Start the thread."""
        name = f"coop-caught-up-{group}"
        threading.Thread(target=self._watch, name=name, daemon=True).start()

    def _watch(self) -> None:
        while not wait([self.ended], _LOOK_S).done:
            try:
                if self.is_here and self._group_is_done():
                    self.say(logging.INFO, LogEvent.MEMBER_CAUGHT_UP, "caught up, leaving")
                    self.leave()
                    return
            except CoopConsumerError as error:
                told = f"it is not known yet whether the group is done: {error}"
                self.say(logging.INFO, LogEvent.GROUP_UNKNOWN, told, error=error)

    def _group_is_done(self) -> bool:
        ends = self.topics.offsets(self.side.all(), LATEST)
        committed = self.membership.committed((tp.topic, tp.partition) for tp in ends).result()
        return all(
            (found := committed[tp.topic, tp.partition]) is not None and found.offset >= end
            for tp, end in ends.items()
        )
