"""A member's seat in its group, which outlives the process that sits on it.

Room: `coop_consumer.kafka.membership`. In: the member id of a process that is surely dead. Out: the
present member id, for the code that starts the next process. A dynamic member that joins with its
predecessor's id takes its place in one rebalance. With a new id, the predecessor's ranges would
have no owner until its session expires.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient, MemberToRemove

from coop_consumer.errors import CoopConsumerError, MembershipError
from coop_consumer.kafka.admin_settings import for_admin
from coop_consumer.kafka.membership.errors import in_our_words
from coop_consumer.kafka.membership.settings import completed

_NOT_LEFT = "Its ranges wait until its session expires."


class Seat(Protocol):
    """Gives a member its first id, and hears of its later ones."""

    def take(self) -> str:
        """The member id to join with, the first time; "" for none."""

    def joined(self, member: str) -> None:
        """Note the present member id; "" for a static member. Called for each generation; quick."""

    def left(self) -> None:
        """Note that the membership has ended."""


def leave_for(kwargs: Mapping[str, Any], member: str) -> None:
    """Leave the group for a member whose process is dead. About 50 ms.

    Args:
        kwargs: As for `Membership`.
        member: Its member id; a member that the group does not know has left already.

    Raises:
        CoopConsumerError: The coordinator did not remove it in `request_timeout_ms`.
    """
    settings = completed(kwargs)
    group: str = settings["group_id"]
    try:
        admin = KafkaAdminClient(**for_admin(settings))
        try:
            told = admin.remove_group_members(group, [MemberToRemove(member_id=member)])
        finally:
            admin.close()
        error = told[member]()
    except kafka_errors.KafkaError as failure:
        error = failure
    if not isinstance(error, kafka_errors.NoError | kafka_errors.UnknownMemberIdError):
        raise _translated(error, settings, member) from error


def _translated(error: Exception, settings: Mapping[str, Any], member: str) -> CoopConsumerError:
    detail = f"{type(error).__name__}: {error}"
    return in_our_words(error, settings, member) or MembershipError(
        settings["group_id"], detail, _NOT_LEFT
    )
