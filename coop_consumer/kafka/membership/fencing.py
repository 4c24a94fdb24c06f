"""Fencing: ends the open transactions of runs that are not in the group any more.

In: runs of members whose transactions are undecided. Out: those that were fenced, whose
transactions are over. It asks over the membership's own connection: a new Producer of librdkafka
would take half a second for the same. Runs on kafka-python's IO thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kafka import errors as kafka_errors
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest
from kafka.protocol.producer.transaction import InitProducerIdRequest

from assignors import UnknownVersionError, UserDataError, decode_subscription
from coop_consumer.core.blocked_read import RunId, to_fence

if TYPE_CHECKING:
    from coop_consumer.kafka.membership.coordinator import Coordinator

_AGAIN_S = 0.01
_TIMEOUT_MS = 10_000
"""Of a transaction that nobody will begin under the new epoch."""
_STABLE = "Stable"


async def fence(
    coordinator: Coordinator, undecided: Collection[RunId], id_of: Callable[[RunId], str]
) -> list[RunId]:
    """Fence those of these runs that are not in the group; returns them.

    Nobody is fenced while the group is not stable: who comes and goes is not known then.

    Args:
        coordinator: Of a member.
        undecided: Whose transactions hold up a read. They were looked up before this call.
        id_of: The transactional.id of a run.

    Raises:
        KafkaError: kafka-python's, such as for a missing right.
    """
    runs = to_fence(undecided, await _runs_in(coordinator))
    for run in runs:
        await _end_transaction(coordinator, id_of(run))
    return runs


async def _runs_in(coordinator: Coordinator) -> set[RunId] | None:
    """The runs that the group consists of, as its coordinator says; None: it is not stable."""
    request = DescribeGroupsRequest(groups=[coordinator.group_id])
    response = await coordinator.asked(request)
    (group,) = response.groups
    _raise_for(group.error_code)
    if group.group_state != _STABLE:
        return None
    found = set()
    for member in group.members:
        with suppress(UnknownVersionError, UserDataError):  # a plain one has no transactions
            told = ConsumerProtocolSubscription.decode(bytes(member.member_metadata))
            subscription = decode_subscription(bytes(told.user_data or b""))
            found.add(RunId(subscription.name, subscription.incarnation))
    return found


async def _end_transaction(coordinator: Coordinator, transactional_id: str) -> None:
    """Take the next epoch of an id, as a Producer at its start: whatever is open is aborted."""
    ask = FindCoordinatorRequest(
        key_type=CoordinatorType.TRANSACTION.value,
        coordinator_keys=[transactional_id],
        min_version=4,
    )
    (node,) = (await coordinator.asked(ask, anywhere=True)).coordinators
    _raise_for(node.error_code)
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=_TIMEOUT_MS,
        producer_id=-1,
        producer_epoch=-1,
        max_version=4,
    )
    while True:
        response: Any = await coordinator.asked(request, node_id=node.node_id)
        error = kafka_errors.for_code(response.error_code)
        if error is not kafka_errors.ConcurrentTransactionsError:
            _raise_for(response.error_code)
            return
        await coordinator.pause(_AGAIN_S)  # its markers are on their way


def _raise_for(error_code: int) -> None:
    error = kafka_errors.for_code(error_code)
    if error is not kafka_errors.NoError:
        raise error
