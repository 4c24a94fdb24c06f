"""The list of groups, as plain values. Pure.

In: what the feeds have. Out: a line a group, those that need a person first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from coop_consumer.ops.page.group_page import outlook, stale_words, stuck_in
from coop_consumer.ops.page.letters import Letters
from coop_consumer.ops.page.needs import Urgency, needs_of_group
from coop_consumer.ops.page.shown import name_shown
from coop_consumer.ops.page.trouble import trouble_of
from coop_consumer.status.words import count, short, span

if TYPE_CHECKING:
    from coop_consumer.ops.feed import FeedState

_UNKNOWN = "?"
_RANKS = {"bad": 0, "warn": 1, "": 2, "good": 3}


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A group in the list.

    Attributes:
        group: Its id as it is shown.
        path: The same as a part of paths.
        kind: `bad`, `warn`, `good` or "".
        told: What needs a person, or that nothing does.
        members, left, lag, outlook: Figures.
    """

    group: str
    path: str
    kind: str
    told: str
    members: str
    left: str
    lag: str
    outlook: str


@dataclass(frozen=True, slots=True)
class GroupsPage:
    """The list.

    Attributes:
        version: Grows with each look at any group.
        title: Of the window.
        lines: A line a group.
    """

    version: int
    title: str
    lines: tuple[GroupLine, ...]


def groups_page(feeds: Sequence[FeedState], now_ms: int, old_ms: int) -> GroupsPage:
    """The list; O(partitions of all groups)."""
    lines = sorted(
        (_line(it, now_ms, old_ms) for it in feeds), key=lambda it: (_RANKS[it.kind], it.group)
    )
    needy = sum(it.kind in {"bad", "warn"} for it in lines)
    title = "groups | coop-consumer"
    return GroupsPage(
        sum(it.version for it in feeds), f"({needy}) {title}" if needy else title, tuple(lines)
    )


def _line(feed: FeedState, now_ms: int, old_ms: int) -> GroupLine:
    group, path = name_shown(feed.group), quote(feed.group, safe="")
    status = None if feed.look is None else feed.look.status
    if status is None:
        trouble = trouble_of(feed, ())
        kind = "" if trouble.is_looking else "warn"
        return GroupLine(group, path, kind, trouble.title, *[_UNKNOWN] * 4)
    letters = Letters()
    letters.meet(it.name for it in status.members)
    needs = needs_of_group(status, letters.letter)
    left = sum(it.remaining.records for it in status.partitions)
    lags = [it.lag for it in status.partitions if it.lag is not None]
    bad, warn = needs.counts[Urgency.BAD], needs.counts[Urgency.WARN]
    if stale_words(feed, now_ms, old_ms):
        kind, told = "warn", f"cannot be seen for {span(now_ms - feed.seen_at_ms)}"
    elif bad or warn:
        kind = "bad" if bad else "warn"
        told = f"{count(bad + warn, 'thing')} to look at: {needs.shown[0].title}"
    else:
        kind, told = "good", "nothing needs you"
    return GroupLine(
        group,
        path,
        kind,
        told,
        f"{len(status.members):,}",
        short(left),
        short(sum(lags)) if lags else _UNKNOWN,
        outlook(left, stuck_in(status.partitions), feed.speed.total),
    )
