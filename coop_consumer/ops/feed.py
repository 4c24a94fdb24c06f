"""The feed of a group: its last look, for all who show it, and who is called with each new one.

In: looks, on the thread that looks. Out: a `FeedState` for any thread, and calls of listeners. A
look that failed changes nothing of what was seen before: the state says since when looks fail, and
why. So a page can show an old picture, and say that it is old. A `Listing` says the same of the
search for groups.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from coop_consumer.ops.speed import NO_SPEED, GroupSpeed, Speed

if TYPE_CHECKING:
    from coop_consumer.errors import CoopConsumerError
    from coop_consumer.ops.group_metrics import GroupLook

Listener = Callable[[], object]

EVERY_S, UNWATCHED_S = 2.0, 10.0
"""How long after a look the next one begins, while somebody has the page open, and otherwise."""
WATCHED_S = 20.0
"""For so long after somebody has asked, a group counts as watched."""


class HistoryLine(Protocol):
    """A figure over the last 30 minutes.

    Attributes:
        name: As in `left`.
        title: The same for people.
        unit: As in `/s`; "": it is a count.
        points: Moments in Unix time, ascending, with their values; None: not known.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def unit(self) -> str: ...  # noqa: D102
    @property
    def points(self) -> Sequence[tuple[int, float | None]]: ...  # noqa: D102


class KeepsHistory(Protocol):
    """Keeps some figures of a group for half an hour."""

    def note(self, look: GroupLook, at_ms: int) -> None:
        """Take a look, on the thread that looks."""

    def series(self) -> Sequence[HistoryLine]:
        """The figures so far; any thread."""


@dataclass(frozen=True, slots=True)
class FeedState:
    """What is known of a group now.

    Attributes:
        group: The group's id.
        version: How many looks there were.
        look: The last one that succeeded; None: none has.
        seen_at_ms: When that was, Unix time; 0: never.
        failing_since_ms: Since when looks fail; 0: the last one succeeded.
        error: Why the last one failed; None: it did not, or a defect of ours is in the log.
        speed: How fast it goes.
    """

    group: str
    version: int = 0
    look: GroupLook | None = None
    seen_at_ms: int = 0
    failing_since_ms: int = 0
    error: CoopConsumerError | None = None
    speed: Speed = NO_SPEED


@dataclass(frozen=True, slots=True)
class Listing:
    """What the search for groups has come to, where none is named.

    Attributes:
        is_over: Whether a search has ended; what follows is of the last one.
        has_failed: Whether it has failed: groups that came meanwhile are not known.
        error: Why; None: it has not, or a defect of ours is in the log.
        hidden: How many groups this user may not describe, as far as a search could tell.
        left_out: How many groups without members are not watched, as there are too many.
    """

    is_over: bool = False
    has_failed: bool = False
    error: CoopConsumerError | None = None
    hidden: int = 0
    left_out: int = 0


class GroupFeed:
    """Of one group.

    Args:
        group: Its id.
        history: Takes each look, too; None: nobody keeps any.
        now_ms: The clock.

    Attributes:
        now: What is known; a new value for each look.
        hurry: Called when a look is due at once, on any thread; it returns at once.
    """

    def __init__(
        self,
        group: str,
        history: KeepsHistory | None = None,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.group = group
        self.history = history
        self.now = FeedState(group)
        self.hurry: Callable[[], object] = bool
        self._touched_s = -WATCHED_S
        self._now_ms = now_ms
        self._speed = GroupSpeed()
        self._changing = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()
        self._watching = 0

    def put(self, look: GroupLook) -> None:
        """Take a look in, and call all listeners. One thread calls."""
        before, at_ms = self.now, self._now_ms()
        if self.history is not None:
            self.history.note(look, at_ms)
        if look.status is None:
            self.now = FeedState(
                group=self.group,
                version=before.version + 1,
                look=before.look,
                seen_at_ms=before.seen_at_ms,
                failing_since_ms=before.failing_since_ms or at_ms,
                error=look.error,
                speed=before.speed,
            )
        else:
            speed = self._speed.note(look.status)
            self.now = FeedState(
                self.group, before.version + 1, look, seen_at_ms=at_ms, speed=speed
            )
        for call in self._listeners:
            call()

    @contextmanager
    def listening(self, call: Listener, *, watches: bool = True) -> Iterator[None]:
        """Have this called after each look, on the thread that looks; for the length of a block.

        Args:
            call: The listener.
            watches: Whether this makes the group a watched one.
        """
        with self._changing:
            self._listeners = (*self._listeners, call)
            self._watching += watches
        try:
            yield
        finally:
            with self._changing:
                self._listeners = tuple(it for it in self._listeners if it is not call)
                self._watching -= watches

    def touch(self) -> None:
        """Somebody asks for it. If nobody has for long, the next look is due at once."""
        was_watched = self.is_watched
        self._touched_s = time.monotonic()
        if not was_watched:
            self.hurry()

    @property
    def is_watched(self) -> bool:
        """Whether anybody looks at it."""
        return self._watching > 0 or time.monotonic() - self._touched_s < WATCHED_S


class Feeds(Protocol):
    """The feeds of all groups that are shown."""

    def names(self) -> Sequence[str]:
        """The groups, in order."""

    def get(self, group: str) -> GroupFeed | None:
        """One of them; None: it is not shown."""
