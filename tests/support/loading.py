"""A bulk load to be killed when it has handed over so many records.

`python -m tests.support.loading`; see `tests.support.killed`.
"""

from __future__ import annotations

import json
import sys
import threading
from itertools import count
from typing import Any

from coop_consumer.logs import ConditionalProducer
from coop_consumer.logs.kafka_log import KafkaLog
from tests.support.appending import load_records
from tests.support.killed import say_there


def main() -> None:
    plan = json.loads(sys.argv[1])
    numbers, real = count(), KafkaLog._hand_over

    def hand_over(log: KafkaLog, *given: Any) -> None:
        if next(numbers) == plan["count"]:
            say_there()
            threading.Event().wait()
        real(log, *given)

    KafkaLog._hand_over = hand_over  # type: ignore[method-assign]
    with ConditionalProducer(plan["settings"], plan["topic"], 0, "loader") as producer:
        producer.bulk_load(load_records())
    say_there()  # it has less to load
    threading.Event().wait()


if __name__ == "__main__":
    main()
