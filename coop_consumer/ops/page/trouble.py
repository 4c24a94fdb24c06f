"""Why a page has nothing to show, or not all, and what to do. Pure.

In: what the feed of a group has, without any look that succeeded; what a search for groups has come
to. Out: a `Trouble`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.errors import AuthorizationError, BrokerUnreachableError
from coop_consumer.ops.page.shown import error_shown, name_shown
from coop_consumer.plain_text import command
from coop_consumer.status.errors import GroupMissingError
from coop_consumer.status.standing import Command

if TYPE_CHECKING:
    from coop_consumer.ops.feed import FeedState, Listing


@dataclass(frozen=True, slots=True)
class Trouble:
    """Nothing can be seen, or not all.

    Attributes:
        title: Why, in a few words.
        text: What to do, as sentences.
        detail: What was answered; "": nothing.
        commands: What helps, to paste.
        is_looking: It is only the first look that is not over.
    """

    title: str
    text: str
    detail: str = ""
    commands: tuple[Command, ...] = ()
    is_looking: bool = False


def trouble_of(feed: FeedState, options: Sequence[str]) -> Trouble:
    """Why there is no look at a group.

    Args:
        feed: What is known of it.
        options: Words that commands need to find it.
    """
    group = name_shown(feed.group)
    see = Command("see it in a terminal", command("status", feed.group, options=options))
    doctor = Command("check brokers, rights and clients", command("doctor", options=options))
    if not feed.failing_since_ms:
        text = "The first look is under way. This page shows it by itself."
        return Trouble(f"Looking at group {group}", text, is_looking=True)
    match feed.error:
        case GroupMissingError():
            text = (
                "It has no member, no committed offset and no progress; or this user may not see "
                "it. Correct its name, start its members, or grant the right to describe it. This "
                "page shows it once it is there."
            )
            start = ("run", "MODULE:WORKER", "--topics", "TOPIC", "--group", feed.group)
            begin = Command("start a member", command(*start, options=options))
            return Trouble(f"There is no group {group}", text, commands=(begin, doctor))
        case AuthorizationError() as error:
            return _without_right(error, doctor, see)
        case BrokerUnreachableError() as error:
            text = (
                "Check that the brokers run, and that this machine reaches them. This page goes on "
                "by itself."
            )
            told = error_shown(str(error))
            return Trouble("No broker answers", text, told, (doctor,))
        case None:
            text = "This is a defect. The log of this process has its traceback. It is tried again."
            return Trouble(f"A look at group {group} failed", text, commands=(see,))
        case error:
            text = "It is tried again."
            detail = error_shown(str(error))
            return Trouble(f"Group {group} cannot be seen", text, detail, (see, doctor))


def trouble_of_listing(listing: Listing, options: Sequence[str]) -> Trouble | None:
    """Why groups may be missing in the list of those that were found; None: none is for this.

    Args:
        listing: What the search for groups has come to.
        options: Words that commands need to find the brokers.
    """
    if not listing.is_over:
        text = "The first search is under way. This page shows by itself what it finds."
        return Trouble("Looking for groups", text, is_looking=True)
    if not listing.has_failed:
        return None
    detail = ""
    match listing.error:
        case AuthorizationError(operation="authenticate"):
            text = "The broker refused the login. Correct it, or have the user added there."
        case AuthorizationError():
            text = "Grant the right to describe the cluster, or the groups (docs/security.md)."
        case BrokerUnreachableError() as error:
            text = (
                "No broker answers. Check that the brokers run, and that this machine reaches them."
            )
            detail = error_shown(str(error))
        case None:
            text = "This is a defect. The log of this process has its traceback."
        case error:
            text = "It may pass."
            detail = error_shown(str(error))
    doctor = Command("check brokers, rights and clients", command("doctor", options=options))
    return Trouble(
        "The groups of this cluster cannot be listed",
        f"{text} It is tried again every half minute. Until then, groups may be missing here.",
        detail,
        (doctor,),
    )


def _without_right(error: AuthorizationError, doctor: Command, see: Command) -> Trouble:
    who = f"User {name_shown(error.principal)}" if error.principal else "The user"
    place = name_shown(error.resource)
    if error.operation == "authenticate":
        text = "Correct the login, or have the user added at the broker."
        return Trouble(f"{place}: the broker refused the login", text, commands=(doctor,))
    text = (
        f"Grant it: {error.operation} on {place}. This page needs the rights to describe the "
        "group, and to describe and read its topics and the progress topic (docs/security.md). "
        "It shows the group once it may."
    )
    told = f"{who} may not {error.operation} {place}"
    return Trouble(told, text, commands=(doctor, see))
