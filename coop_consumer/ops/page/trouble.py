"""Why a page has nothing to show, and what to do. Pure.

In: what the feed of a group has, without any look that succeeded. Out: a `Trouble`.
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
    from coop_consumer.ops.feed import FeedState


@dataclass(frozen=True, slots=True)
class Trouble:
    """Nothing can be seen.

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
