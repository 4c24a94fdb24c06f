"""Whether a member can make transactions: asked before it joins its group.

In: a configuration. Out: the settings of the transactional Producer, or an error that says what is
missing: brokers that have transactions and check their members, a right, a time-out that they
accept.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from kafka.protocol.producer import TxnOffsetCommitRequest

from coop_consumer.config import Config
from coop_consumer.core.blocked_read import RunId
from coop_consumer.errors import (
    ConfigError,
    CoopConsumerError,
    NoTransactionsError,
)
from coop_consumer.kafka.clients import log as client_log
from coop_consumer.kafka.clients import making
from coop_consumer.kafka.group_metadata import check_encoding
from coop_consumer.kafka.own_topics import writer_settings
from coop_consumer.kafka.token_login import logged_in
from coop_consumer.kafka.topics import TopicFacts
from coop_consumer.kafka.transaction_calls import meet_brokers
from coop_consumer.kafka.transactor import transactional_id
from coop_consumer.kafka.translate import translated

_PATIENCE_S = 30.0
"""A cluster makes its transaction log with the first transaction: that takes seconds."""
_CHECKS_MEMBERS = 3
"""The version of TxnOffsetCommit that has a member and its generation in it (KIP-447).

To brokers without it librdkafka sends an older one, and says nothing. They would take the progress
of a member that was put out of its group.
"""
_UNKNOWN_MS = 2_000
_QUEUE_MIN = 100_000
"""librdkafka's default of `queue.buffering.max.messages`."""


def id_of(config: Config, run: RunId) -> str:
    """The transactional.id of a run of a member of the group."""
    prefix = config.transactional_id_prefix
    return transactional_id(prefix, config.group_id, run.member, run.incarnation)


def transactor_settings(progress: TopicFacts, config: Config, run: RunId) -> dict[str, Any]:
    """The dict of the Producer of a run's transactions."""
    settings = {**config.producer(id_of(config, run)), **writer_settings(progress, config)}
    queue = int(settings.get("queue.buffering.max.messages", _QUEUE_MIN))
    return {
        # A topic that is gone holds up the whole transaction: say so soon.
        "topic.metadata.propagation.max.ms": _UNKNOWN_MS,
        **settings,
        "partitioner": "murmur2_random",  # as Java's producers
        # All outputs of a transaction, and its progress.
        "queue.buffering.max.messages": max(queue, 2 * config.output_max_records),
    }


def check_transactions(config: Config, settings: dict[str, Any]) -> None:
    """See whether brokers accept transactions of this Producer. Blocks; 100 ms, mostly.

    Args:
        config: The member's.
        settings: As `transactor_settings` returns them.

    Raises:
        ClientVersionError: librdkafka writes the metadata of a group in another form.
        ConfigError: `transaction.timeout.ms` is above what the brokers accept.
        AuthorizationError: The right to write the transactional.id is missing.
        NoTransactionsError: The brokers have no transactions, nowhere to keep them, or do not check
            the generation of who commits.
    """
    check_encoding(config)
    _check_brokers(config)
    with making(config):
        producer = Producer(logged_in(settings), logger=client_log)
    meet_brokers(producer)
    try:
        producer.init_transactions(_PATIENCE_S)
    except KafkaException as error:
        raise transactions_refusal(config, settings, error.args[0]) from error


def _check_brokers(config: Config) -> None:
    """See whether brokers check in which generation of its group a member is.

    One broker is asked: while brokers are upgraded, another one may be older.
    """
    # Only members with exactly once need it, and it takes a moment to load.
    from coop_consumer.kafka.group_view import newest_version  # noqa: PLC0415

    newest = newest_version(config, TxnOffsetCommitRequest.API_KEY)
    if newest < _CHECKS_MEMBERS:
        raise NoTransactionsError(
            config.bootstrap_servers,
            "the check of a member's generation in its transactions",
            f"they offer TxnOffsetCommit up to version {newest}, and it takes {_CHECKS_MEMBERS}",
            "Upgrade them to Kafka 2.5 or newer, or set processing.guarantee=at_least_once",
        )


def transactions_refusal(
    config: Config, settings: dict[str, Any], error: KafkaError
) -> CoopConsumerError:
    """Why brokers do not serve a transactional Producer of these settings."""
    where = f"transactional.id {settings['transactional.id']}"
    if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        return ConfigError(
            "transaction.timeout.ms",
            f"={settings['transaction.timeout.ms']} is above the brokers' "
            "transaction.max.timeout.ms",
            "Choose less, or have theirs raised",
        )
    if error.code() in (KafkaError._TIMED_OUT, KafkaError._UNSUPPORTED_FEATURE):
        return NoTransactionsError(config.bootstrap_servers, where, error.str())
    return translated(error, where, config.user, "write")
