"""The group of a member, watched from inside of the member's process while somebody asks for it.

In: the member's configuration. Out: the feed of its group, as `coop-consumer web` has one for each.
Nothing runs, and no client is open, before somebody asks. When nobody has asked for a while, both
end: a member pays for the picture of its group only while somebody looks at it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import monotonic

from coop_consumer.admin.group_watch import GroupWatch
from coop_consumer.config import Config
from coop_consumer.ops.feed import EVERY_S, UNWATCHED_S, GroupFeed
from coop_consumer.ops.history import GroupHistory

IDLE_S = 120.0
"""After so long without a question the watch ends. An autoscaler may ask once a minute only."""


class OwnGroup:
    """The feeds of one group.

    Args:
        config: The member's.
        idle_s: See `IDLE_S`.
    """

    def __init__(self, config: Config, *, idle_s: float = IDLE_S) -> None:
        self._config = config
        self._idle_s = idle_s
        self._changing = threading.Lock()
        self._watch: GroupWatch | None = None
        self._asked_s = 0.0
        self._is_closed = False
        self._feed = GroupFeed(config.group_id, GroupHistory())

    @property
    def is_watching(self) -> bool:
        """Whether a thread looks at the group now."""
        return self._watch is not None

    def names(self) -> Sequence[str]:
        """The group."""
        return (self._config.group_id,)

    def get(self, group: str) -> GroupFeed | None:
        """Its feed, which is filled from now on; None: it is another group."""
        if group != self._config.group_id:
            return None
        with self._changing:
            self._asked_s = monotonic()
            if self._watch is None and not self._is_closed:
                self._watch = self._begun()
        return self._feed

    def _begun(self) -> GroupWatch:
        config = self._config
        watch = GroupWatch(
            config, (), self._every_s, noticed=self._feed.put, options=config.command_options
        )
        self._feed.hurry = watch.look_soon
        watch.start()
        return watch

    def _every_s(self) -> float:
        """How long until the next look, after each; on the thread that looks."""
        if self._feed.is_watched:
            return EVERY_S
        with self._changing:
            if monotonic() - self._asked_s >= self._idle_s:
                self._end()
        return UNWATCHED_S

    def close(self) -> None:
        """Watch no more; returns at once."""
        with self._changing:
            self._is_closed = True
            self._end()

    def _end(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()
