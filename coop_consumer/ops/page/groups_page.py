"""The list of groups, as plain values. Pure.

In: what the feeds have, and what the search for groups has come to. Out: a line a group, those that
need a person first, and which groups are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from coop_consumer.errors import grant_command
from coop_consumer.ops.page.group_page import outlook, stale_words, stuck_in
from coop_consumer.ops.page.letters import Letters
from coop_consumer.ops.page.needs import Urgency, needs_of_group
from coop_consumer.ops.page.own_page import UNKNOWN_HOST
from coop_consumer.ops.page.shown import name_shown
from coop_consumer.ops.page.trouble import Trouble, trouble_of, trouble_of_listing
from coop_consumer.plain_text import command, counted
from coop_consumer.status.standing import Command
from coop_consumer.status.words import short, span

if TYPE_CHECKING:
    from coop_consumer.ops.feed import FeedState, Listing

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
class LeftOut:
    """Groups that are not in the list.

    Attributes:
        text: How many, and why, as sentences.
        command: What shows them.
    """

    text: str
    command: Command


@dataclass(frozen=True, slots=True)
class GroupsPage:
    """The list.

    Attributes:
        version: Grows with each look at any group.
        title: Of the window.
        lines: A line a group.
        trouble: Why groups may be missing; None: they are not for that.
        left_out: What else is missing.
        name_command: What shows a group that is not found; "": groups are named, or may be missing.
    """

    version: int
    title: str
    lines: tuple[GroupLine, ...]
    trouble: Trouble | None
    left_out: tuple[LeftOut, ...]
    name_command: str


def groups_page(
    feeds: Sequence[FeedState],
    now_ms: int,
    old_ms: int,
    listing: Listing | None = None,
    options: Sequence[str] = (),
) -> GroupsPage:
    """The list; O(partitions of all groups).

    Args:
        feeds: Of the groups that are shown.
        now_ms: Unix time.
        old_ms: What was seen longer ago is called old.
        listing: What the search for groups has come to; None: groups are named.
        options: Words that commands need to find the groups.
    """
    trouble = None if listing is None else trouble_of_listing(listing, options)
    lines = sorted(
        (_line(it, now_ms, old_ms) for it in feeds), key=lambda it: (_RANKS[it.kind], it.group)
    )
    needy = sum(it.kind in {"bad", "warn"} for it in lines)
    needy += trouble is not None and not trouble.is_looking
    title = "groups | coop-consumer"
    is_all = listing is not None and trouble is None
    return GroupsPage(
        version=sum(it.version for it in feeds),
        title=f"({needy}) {title}" if needy else title,
        lines=tuple(lines),
        trouble=trouble,
        left_out=() if listing is None else tuple(_left_out(listing, options)),
        name_command=command("web", "GROUP", options=options) if is_all else "",
    )


def _left_out(listing: Listing, options: Sequence[str]) -> Iterator[LeftOut]:
    if listing.hidden:
        yield LeftOut(
            f"{counted(listing.hidden, 'group')} of this cluster may not be described by this "
            "user, so nobody knows here whose they are. Grant Describe on those that matter "
            "(docs/security.md), or on all:",
            Command(
                "let this user describe all groups",
                grant_command("group *", ["describe"], "User:NAME"),
            ),
        )
    if listing.left_out:
        one, more = "more group of this library has", "more groups of this library have"
        yield LeftOut(
            f"{counted(listing.left_out, one, more)} no members, and are not looked at: there are "
            "too many. Name those that matter:",
            Command("show only these", command("web", "GROUP", "GROUP", options=options)),
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
    needs = needs_of_group(status, letters.letter, UNKNOWN_HOST)
    left = sum(it.remaining.records for it in status.partitions)
    lags = [it.lag for it in status.partitions if it.lag is not None]
    bad, warn = needs.counts[Urgency.BAD], needs.counts[Urgency.WARN]
    if stale_words(feed, now_ms, old_ms):
        kind, told = "warn", f"cannot be seen for {span(now_ms - feed.seen_at_ms)}"
    elif bad or warn:
        kind = "bad" if bad else "warn"
        told = f"{counted(bad + warn, 'thing')} to look at: {needs.shown[0].title}"
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
