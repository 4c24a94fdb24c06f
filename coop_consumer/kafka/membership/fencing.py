"""Fencing: ends the open transactions of runs that are not in the group any more.

In: runs of members whose transactions are undecided. Out: those that were fenced, whose
transactions are over. It asks over the membership's own connection: a new Producer of librdkafka
would take half a second for the same. Runs on kafka-python's IO thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from assignors import UnknownVersionError, UserDataError, decode_subscription
from coop_consumer.core.blocked_read import RunId, to_fence
from coop_consumer.kafka.init_producer import end_transaction, error_of

if TYPE_CHECKING:
    from coop_consumer.kafka.membership.coordinator import Coordinator

_STABLE = "Stable"


async def fence(
    coordinator: Coordinator, undecided: Collection[RunId], id_of: Callable[[RunId], str]
) -> list[RunId] | None:
    """Fence those of these runs that are not in the group; returns them.

    None: nobody is fenced, as the group is not stable. Who comes and goes is not known then.

    Args:
        coordinator: Of a member.
        undecided: Whose transactions hold up a read. They were looked up before this call.
        id_of: The transactional.id of a run.

    Raises:
        KafkaError: kafka-python's, such as for a missing right.
    """
    members = await _runs_in(coordinator)
    if members is None:
        return None
    runs = to_fence(undecided, members)
    for run in runs:
        await end_transaction(coordinator, id_of(run))
    return runs


async def _runs_in(coordinator: Coordinator) -> set[RunId] | None:
    """The runs that the group consists of, as its coordinator says; None: it is not stable."""
    request = DescribeGroupsRequest(groups=[coordinator.group_id])
    response = await coordinator.asked(request)
    (group,) = response.groups
    if group.error_code:
        raise error_of(group.error_code)
    if group.group_state != _STABLE:
        return None
    found = set()
    for member in group.members:
        with suppress(UnknownVersionError, UserDataError):  # a plain one has no transactions
            told = ConsumerProtocolSubscription.decode(bytes(member.member_metadata))
            subscription = decode_subscription(bytes(told.user_data or b""))
            found.add(RunId(subscription.name, subscription.incarnation))
    return found
