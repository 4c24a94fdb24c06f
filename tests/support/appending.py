"""A conditional producer to be killed before or after a step of an append.

`python -m tests.support.appending`; see `tests.support.killed`. Of a load, see `loading`.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from coop_consumer.logs import ConditionalProducer, NewRecord
from coop_consumer.logs.kafka_log import KafkaLog
from tests.support.killed import say_there

CALLS = ("renew", "read", "produce", "commit")
STEPS = [f"{when} {call}" for call in CALLS for when in ("before", "after")]
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


def main() -> None:
    plan = json.loads(sys.argv[1])
    when, _, call = STEPS[plan["count"]].partition(" ")
    with ConditionalProducer(plan["settings"], plan["topic"], 0, "killed") as producer:
        token = producer.token().at(-1)
        stand(call, when)
        producer.append(RECORDS, token, append_id=bytes(16))


if __name__ == "__main__":
    main()
