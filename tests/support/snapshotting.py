"""A commit log to be killed while it writes a snapshot, or, with a count of -1, while it appends.

`python -m tests.support.snapshotting`; see `tests.support.killed`.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from coop_consumer.kafka.publish import Publisher
from coop_consumer.logs import CommitLog
from coop_consumer.logs.kafka_log import KafkaLog
from tests.support.killed import say_there
from tests.support.registers import Registers, put

STEPS = ["before write", "after write", "after send", "after commit"]


def stop() -> None:
    say_there()
    threading.Event().wait()


def stand(owner: type, method: str, *, is_after: bool) -> None:
    """Stop before or after the first call of a method."""
    real = getattr(owner, method)

    def stopped(it: Any, *given: Any, **named: Any) -> None:
        if is_after:
            real(it, *given, **named)
        stop()

    setattr(owner, method, stopped)


def main() -> None:
    plan = json.loads(sys.argv[1])
    step = plan["count"]
    with CommitLog.open(plan["settings"], plan["topic"], 0, "killed", Registers()) as log:
        log.append([put("x", 1)])
        log.append([put("x", 2)])
        if step < 0:
            stand(KafkaLog, "commit", is_after=False)
            log.append([put("x", 3)])
        elif STEPS[step] == "after commit":
            log.snapshot()
            stop()
        else:
            when, _, method = STEPS[step].partition(" ")
            stand(Publisher, method, is_after=when == "after")
            log.snapshot()


if __name__ == "__main__":
    main()
