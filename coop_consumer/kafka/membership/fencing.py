"""Fencing: ends the open transactions of runs that are not in the group any more.

In: runs of members whose transactions are undecided. Out: those that were fenced, whose
transactions are over. It asks over the membership's own connection: a new Producer of librdkafka
would take half a second for the same. Runs on kafka-python's IO thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from time import monotonic
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

_AGAIN = (
    kafka_errors.ConcurrentTransactionsError,  # its markers are on their way
    kafka_errors.NotCoordinatorError,
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.CoordinatorLoadInProgressError,
)
"""What passes. Here it is said of the id's coordinator, and not of the group's."""
_AGAIN_S = 0.01
_PATIENCE_S = 10.0
"""A marker may wait for a partition without a leader: whoever asked asks again."""
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
    if group.error_code:
        raise _error_of(group.error_code)
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
    until_s = monotonic() + _PATIENCE_S
    while True:
        error = await _init(coordinator, transactional_id)
        if error is kafka_errors.NoError:
            return
        if error not in _AGAIN or monotonic() >= until_s:
            raise error
        await coordinator.pause(_AGAIN_S)


async def _init(coordinator: Coordinator, transactional_id: str) -> type[Exception]:
    """Ask once; returns what the id's coordinator says."""
    ask = FindCoordinatorRequest(
        key_type=CoordinatorType.TRANSACTION.value,
        key=transactional_id,  # for brokers before Kafka 3.0, which know no lists
        coordinator_keys=[transactional_id],
    )
    found = await coordinator.asked(ask, anywhere=True)
    (node,) = found.coordinators or (found,)
    if node.error_code:
        return _error_of(node.error_code)
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=_TIMEOUT_MS,
        producer_id=-1,
        producer_epoch=-1,
        max_version=4,
    )
    response: Any = await coordinator.asked(request, node_id=node.node_id)
    return _error_of(response.error_code)


def _error_of(error_code: int) -> type[Exception]:
    found: type[Exception] = kafka_errors.for_code(error_code)
    return found
