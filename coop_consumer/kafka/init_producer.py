"""A new epoch for a transactional.id: whatever its writer has open is aborted, and it is fenced.

In: a transactional.id. Out: it is done, or an error of kafka-python. It asks over a connection that
is there (a membership's), or makes one for the purpose. A new Producer of librdkafka would take
half a second for the same.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import Any, Protocol

from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest
from kafka.protocol.producer.transaction import InitProducerIdRequest

from coop_consumer.config import Config
from coop_consumer.errors import grant_command
from coop_consumer.kafka.admin_settings import for_admin
from coop_consumer.log_events import LogEvent

log = logging.getLogger(__name__)

_AGAIN = (
    kafka_errors.ConcurrentTransactionsError,  # its markers are on their way
    kafka_errors.NotCoordinatorError,
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.CoordinatorLoadInProgressError,
)
"""What passes. Here it is said of the id's coordinator, and not of a group's."""
_AGAIN_S = 0.01
_PATIENCE_S = 10.0
"""A marker may wait for a partition without a leader: whoever asked asks again."""
_TIMEOUT_MS = 10_000
"""Of a transaction that nobody will begin under the new epoch."""


class AsksBrokers(Protocol):
    """A connection to brokers. All calls are made on its thread."""

    async def asked(
        self, request: Any, *, node_id: int | str | None = None, anywhere: bool = False
    ) -> Any:
        """The answer of a broker: of any one, if `anywhere` says so."""

    async def pause(self, seconds: float) -> None:
        """Let the thread do something else for so long."""


async def end_transaction(brokers: AsksBrokers, transactional_id: str) -> None:
    """Take the next epoch of an id, as a Producer at its start: whatever is open is aborted.

    Raises:
        KafkaError: kafka-python's, such as for a missing right.
    """
    until_s = monotonic() + _PATIENCE_S
    while True:
        error = await _init(brokers, transactional_id)
        if error is kafka_errors.NoError:
            return
        if error not in _AGAIN or monotonic() >= until_s:
            raise error(transactional_id)
        await brokers.pause(_AGAIN_S)


async def _init(brokers: AsksBrokers, transactional_id: str) -> type[Exception]:
    """Ask once; returns what the id's coordinator says."""
    ask = FindCoordinatorRequest(
        key_type=CoordinatorType.TRANSACTION.value,
        key=transactional_id,  # for brokers before Kafka 3.0, which know no lists
        coordinator_keys=[transactional_id],
    )
    found: Any = await brokers.asked(ask, anywhere=True)
    (node,) = found.coordinators or (found,)
    if node.error_code:
        return error_of(node.error_code)
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=_TIMEOUT_MS,
        producer_id=-1,
        producer_epoch=-1,
        max_version=4,
    )
    response: Any = await brokers.asked(request, node_id=node.node_id)
    return error_of(response.error_code)


def error_of(error_code: int) -> type[Exception]:
    """kafka-python's error of a code."""
    found: type[Exception] = kafka_errors.for_code(error_code)
    return found


class _OwnConnection:
    """Connections made for the purpose; see `AsksBrokers`."""

    def __init__(self, admin: Any) -> None:
        self._manager, self._net = admin._manager, admin._net

    async def asked(
        self, request: Any, *, node_id: int | str | None = None, anywhere: bool = False
    ) -> Any:
        del anywhere
        return await self._manager.send(request, node_id=node_id)

    async def pause(self, seconds: float) -> None:
        await self._net.sleep(seconds)


def end_transaction_of(config: Config, transactional_id: str) -> bool:
    """End what an id has open, over a connection of its own. Blocks; 0.2 s.

    Returns:
        False: it was not possible, and the log says why. Brokers end it after its time-out.
    """
    keywords = for_admin(config.membership())
    try:
        admin = KafkaAdminClient(**keywords)
        try:
            admin._manager.run(end_transaction, _OwnConnection(admin), transactional_id)
        finally:
            admin.close()
    except (kafka_errors.KafkaError, ValueError) as error:
        user = f"User:{config.user or 'NAME'}"
        grant = grant_command(f"transactional.id {transactional_id}", ["write"], user)
        log.warning(
            "transactional.id %s: its open transaction cannot be ended from here (%s), so brokers "
            "end it after its transaction.timeout.ms; what is behind it waits until then, and "
            "nothing is lost. If the right is missing, grant it: %s",
            transactional_id, error, grant,
            extra=LogEvent.TRANSACTION_NOT_FENCED.extra(error=error),
        )  # fmt: skip
        return False
    return True
