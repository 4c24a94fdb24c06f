"""librdkafka's errors in our words, once.

In: a `KafkaError` and where it happened. Out: an error of ours that says what now and what to do.
"""

from __future__ import annotations

from confluent_kafka import KafkaError

from coop_consumer.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    CoopConsumerError,
    RecordTooLargeError,
    TopicMissingError,
    UnexpectedAnswerError,
)

_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "read or write",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "read",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "idempotent write",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "write",
    KafkaError.SASL_AUTHENTICATION_FAILED: "authenticate",
    KafkaError._AUTHENTICATION: "authenticate",
}
_LOGIN = (KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION)
_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
_UNREACHABLE = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._MSG_TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError._PURGE_QUEUE,  # of a client that was replaced because it knew no broker any more
    KafkaError._PURGE_INFLIGHT,
)
_TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)


def translated(
    error: KafkaError, where: str, principal: str = "", operation: str = ""
) -> CoopConsumerError:
    """What an error of librdkafka means for our caller.

    Args:
        error: As librdkafka gave it.
        where: What was being used, such as "topic orders" or "group billing".
        principal: The user's name, if it is known.
        operation: What was being done, where a right to the resource may be what is missing.
    """
    code = error.code()
    name = where.removeprefix("topic ")
    if code in _DENIED:
        return AuthorizationError(where, _denied(code, operation), principal)
    if code in _MISSING:
        return TopicMissingError(name)
    if code in _TOO_LARGE:
        return RecordTooLargeError(name, error.str())
    if code in _UNREACHABLE:
        return BrokerUnreachableError(where, error.str())
    return UnexpectedAnswerError(where, error.str())


def _denied(code: int, operation: str) -> str:
    """What may not be done: as the caller knows it, unless the login itself was refused."""
    return _DENIED[code] if code in _LOGIN else operation or _DENIED[code]
