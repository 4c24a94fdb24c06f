"""Whose undecided transactions hold up readers of committed records, as brokers know them.

In: partitions whose last stable offset lies below their end. Out: the first open transaction of
each. A look never fails: brokers before Kafka 3.0, and missing rights, hide some or all of it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from kafka import TopicPartition as KafkaPlace
from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.kafka.admin_settings import for_admin
from coop_consumer.log_events import LogEvent
from coop_consumer.status.open_transaction import OpenTransaction

log = logging.getLogger(__name__)

_ENDING = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""The states in which a coordinator has decided a transaction, and writes its markers."""


def open_transactions(
    config: Config, stable_ends: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, OpenTransaction]:
    """The first open transaction of each partition, as far as brokers tell. Blocks; 100 ms.

    Args:
        config: How to reach the brokers.
        stable_ends: Of each partition its last stable offset and its end.
    """
    bootstrap = config.bootstrap_servers
    found = {tp: OpenTransaction(tp, *offsets, bootstrap) for tp, offsets in stable_ends.items()}
    if not found:
        return found
    keywords = for_admin(config.membership())
    try:
        admin = KafkaAdminClient(**keywords)
        try:
            return _Question(admin).all(found)
        finally:
            admin.close()
    except (kafka_errors.KafkaError, ValueError) as error:
        extra = LogEvent.TRANSACTION_UNKNOWN.extra(error=error)
        log.info("open transactions cannot be looked up: %r", error, extra=extra)
        return found


class _Question:
    """One look at the cluster."""

    def __init__(self, admin: Any) -> None:
        self._admin = admin

    def all(
        self, found: Mapping[TopicPartition, OpenTransaction]
    ) -> dict[TopicPartition, OpenTransaction]:
        told = dict(found)
        producers = self._first_producers(found)
        ids = self._ids_of({it.producer_id for it in producers.values()})
        for tp, producer in producers.items():
            told[tp] = self._described(found[tp], producer, ids.get(producer.producer_id, ""))
        suspects = [tp for tp, it in told.items() if it.is_hanging]
        # It may have been decided between the questions.
        again = self._first_producers(suspects)
        for tp in suspects:
            is_same = tp in again and _place(again[tp]) == _place(producers[tp])
            told[tp] = replace(told[tp], is_hanging=is_same)
        return told

    def _first_producers(self, places: Collection[TopicPartition]) -> dict[TopicPartition, Any]:
        """Of each partition the producer whose open transaction began first."""
        asked = [KafkaPlace(tp.topic, tp.partition) for tp in places]
        told = self._admin.describe_producers(asked) if asked else {}
        found = {}
        for place, state in told.items():
            opened = [
                it for it in state.active_producers if it.current_transaction_start_offset >= 0
            ]
            if opened:
                tp = TopicPartition(place.topic, place.partition)
                found[tp] = min(opened, key=lambda it: it.current_transaction_start_offset)
        return found

    def _ids_of(self, producer_ids: Collection[int]) -> dict[int, str]:
        """The transactional.ids of producers, as far as this user may see them."""
        if not producer_ids:
            return {}
        told = self._admin.list_transactions(producer_id_filters=sorted(producer_ids))
        return {it.producer_id: it.transactional_id for them in told.values() for it in them}

    def _described(
        self, known: OpenTransaction, producer: Any, transactional_id: str
    ) -> OpenTransaction:
        known = replace(known, since_ms=max(producer.last_timestamp, 0))
        if not transactional_id:
            return known
        [told] = self._admin.describe_transactions([transactional_id]).values()
        place = KafkaPlace(known.tp.topic, known.tp.partition)
        is_open = told.state.value == "Ongoing" and place in told.topic_partitions
        is_under_way = is_open or told.state.value in _ENDING
        return replace(
            known,
            transactional_id=transactional_id,
            timeout_ms=max(told.transaction_timeout_ms, 0),
            since_ms=told.transaction_start_time_ms if is_under_way else known.since_ms,
            is_hanging=not is_under_way,
        )


def _place(producer: Any) -> tuple[int, int]:
    return producer.producer_id, producer.current_transaction_start_offset
