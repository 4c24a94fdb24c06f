"""A conditional producer to be killed before or after a step of an append.

`python -m tests.support.appending`; see `tests.support.killed`. Of a load, see `loading`.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Producer

from assignors import TopicPartition
from coop_consumer.logs import ConditionalProducer, NewRecord
from coop_consumer.logs.kafka_log import KafkaLog, config_of
from coop_consumer.logs.port import Landed
from coop_consumer.logs.records import ID_HEADER
from tests.support.killed import say_there

CALLS = ("renew", "read", "produce", "commit", "abort", "end_blocker")
STEPS = [f"{when} {call}" for call in CALLS for when in ("before", "after")]
PLAIN = b"of a plain producer"
RECORDS = [NewRecord(None, b"%d" % n) for n in range(3)]


def load_records() -> list[NewRecord]:
    """What a load loads."""
    return [NewRecord(b"key", b"record %d" % n) for n in range(5_000)]


def stand(call: str, when: str) -> None:
    """Stop before or after the first call of a name."""
    real = getattr(KafkaLog, call)

    def stop(log: KafkaLog, *given: Any) -> Any:
        answer = real(log, *given) if when == "after" else None
        say_there()
        threading.Event().wait()
        return answer

    setattr(KafkaLog, call, stop)


def lose_a_race(settings: dict[str, Any], topic: str) -> None:
    """A plain producer comes between the first read and its append, so that is aborted."""
    real = KafkaLog.produce

    def produce(log: KafkaLog, records: Sequence[NewRecord]) -> Landed:
        KafkaLog.produce = real  # type: ignore[method-assign]
        plain = Producer(settings)
        plain.produce(topic, PLAIN, partition=0)
        plain.flush()
        return real(log, records)

    KafkaLog.produce = produce  # type: ignore[assignment, method-assign]


def leave_undecided(settings: dict[str, Any], topic: str) -> KafkaLog:
    """Another writer has opened a transaction, and does not end it."""
    other = KafkaLog(config_of(settings, "other"), TopicPartition(topic, 0), "other")
    other.renew()
    other.produce([NewRecord(None, b"undecided", ((ID_HEADER, other.writer.encode()),))])
    return other


def main() -> None:
    plan = json.loads(sys.argv[1])
    settings, topic = plan["settings"], plan["topic"]
    when, _, call = STEPS[plan["count"]].partition(" ")
    others = []
    if call == "abort":
        lose_a_race(settings, topic)
    elif call == "end_blocker":
        others.append(leave_undecided(settings, topic))
    with ConditionalProducer(settings, topic, 0, "killed") as producer:
        token = producer.token().at(-1)
        stand(call, when)
        producer.append(RECORDS, token, append_id=bytes(16))


if __name__ == "__main__":
    main()
