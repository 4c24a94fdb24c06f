"""Translates librdkafka's errors into ours.

In: a `KafkaError` and where it happened. Out: our error, with what happens now and what to do.
"""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from coop_consumer.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    CoopConsumerError,
    RecordRefusedError,
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
_MISSING = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._UNKNOWN_TOPIC,
)
_UNREACHABLE = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._MSG_TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError._PURGE_QUEUE,  # of a client that was replaced because it knew no broker
    KafkaError._PURGE_INFLIGHT,
)
_TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)
_ALTER = "kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics --entity-name"
_CLOCK = (
    "set the clock of this machine right, or let the brokers set the time: "
    f"{_ALTER} {{topic}} --add-config message.timestamp.type=LogAppendTime"
)
_REFUSED = {
    KafkaError.INVALID_TIMESTAMP: _CLOCK,
    KafkaError.INVALID_RECORD: (  # librdkafka says no more of a wrong time, or a missing key
        f"give it a key if the topic is compacted; else {_CLOCK}; if the clock is right, ask who "
        "runs the brokers what they require of records"
    ),
    KafkaError.POLICY_VIOLATION: "ask who runs the brokers which policy of theirs refuses it",
    KafkaError.UNSUPPORTED_COMPRESSION_TYPE: "set compression.type to one that the brokers know",
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT: (
        f"raise the topic's format: {_ALTER} {{topic}} --add-config message.format.version=3.0"
    ),
    KafkaError._UNKNOWN_PARTITION: "name a partition that it has, or none: the key decides then",
    KafkaError.TOPIC_EXCEPTION: "write to another topic: nobody but the brokers may write this one",
}
"""Errors that refuse a record for ever, and what to do."""
_REFUSED[KafkaError._INVALID_DIFFERENT_RECORD] = _REFUSED[KafkaError.INVALID_RECORD]
_OF_A_BATCH = (
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.INVALID_RECORD,
    KafkaError._INVALID_DIFFERENT_RECORD,
    KafkaError.POLICY_VIOLATION,
)


def is_of_a_batch(error: KafkaError) -> bool:
    """Whether librdkafka tells it of all records of a batch, though one of them is refused."""
    return error.code() in _OF_A_BATCH


def words_of(error: BaseException) -> str:
    """What an error says, for people: librdkafka's own have codes around their words."""
    cause = error.args[0] if isinstance(error, KafkaException) and error.args else error
    return cause.str() if isinstance(cause, KafkaError) else str(cause)


def translated(
    error: KafkaError, where: str, principal: str = "", operation: str = ""
) -> CoopConsumerError:
    """Our error for an error of librdkafka.

    Args:
        error: As librdkafka gave it.
        where: What was used, such as "topic orders" or "group billing".
        principal: The user's name, if it is known.
        operation: What was done, in case a right to the resource is missing.
    """
    code = error.code()
    name = where.removeprefix("topic ")
    if code in _DENIED:
        return AuthorizationError(where, _denied(code, operation), principal)
    if code in _MISSING:
        return TopicMissingError(name, "written" if operation == "write" else "consumed")
    if code in _TOO_LARGE:
        return RecordTooLargeError(name, error.str())
    if operation == "write" and code in _REFUSED:
        return RecordRefusedError(name, error.str(), _REFUSED[code].format(topic=name))
    if code in _UNREACHABLE:
        return BrokerUnreachableError(where, error.str())
    return UnexpectedAnswerError(where, error.str())


def fetched_from(error: KafkaError, topic: str, group: str) -> str:
    """What the error of a fetching Consumer is about, for `translated`.

    Args:
        error: As librdkafka gave it.
        topic: Of its message; "" if it names none, as where a Consumer looks for its coordinator.
        group: The group.
    """
    is_of_group = error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED or not topic
    return f"group {group}" if is_of_group else f"topic {topic}"


def _denied(code: int, operation: str) -> str:
    """The refused operation: the caller's own, unless the login itself was refused."""
    return _DENIED[code] if code in _LOGIN else operation or _DENIED[code]
