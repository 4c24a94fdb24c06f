"""A member's seat in its group, which outlives the process that sits on it.

Room: `coop_consumer.kafka.membership`. In: the member id of a process that is dead for sure. Out:
the member id of the present process, for the parent that starts the next one. A dynamic member that
joins with the id of its predecessor takes its place in one rebalance. With a new id, the old one's
ranges would be nobody's until its session expires.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient, MemberToRemove

from coop_consumer.errors import CoopConsumerError, MembershipError
from coop_consumer.kafka.membership.errors import in_our_words
from coop_consumer.kafka.membership.settings import completed

_NOT_LEFT = "Its ranges wait until its session expires."


class Seat(Protocol):
    """Where a member comes from, and who hears where it is."""

    def take(self) -> str:
        """The member id to join with, the first time; "" for none."""

    def joined(self, member: str) -> None:
        """It is a member by this id; "" for a static one. Called for each generation; quick."""

    def left(self) -> None:
        """It is a member no more."""


def leave_for(kwargs: Mapping[str, Any], member: str) -> None:
    """Make a member leave whose process is dead; as if it had said so itself. Some 50 ms.

    Args:
        kwargs: As for `Membership`.
        member: Its member id; one that the group does not know has left.

    Raises:
        CoopConsumerError: If the coordinator did not do so in `request_timeout_ms`.
    """
    settings = completed(kwargs)
    group: str = settings["group_id"]
    known = {name: it for name, it in settings.items() if name in KafkaAdminClient.DEFAULT_CONFIG}
    try:
        admin = KafkaAdminClient(**known)
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
