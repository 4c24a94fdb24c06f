"""A program whose main thread forks while a pool and a consumer of it are at work.

In: settings and a topic as JSON, an executor. Out, on stdout: what the calls of the child raised,
how the child ended, and how many records the parent's pool had processed in the end.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from coop_consumer import CoopConsumerError, CooperativeConsumer, Record, Worker, WorkerPool
from coop_consumer.config import Config
from coop_consumer.kafka.publish import Publisher
from tests.support.journal import WAIT_S


class Counting(Worker):
    def process(self, record: Record) -> None: ...


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def told(call: Callable[[], object]) -> None:
    """Print what a call raises."""
    try:
        call()
    except CoopConsumerError as error:
        say(f"told {type(error).__name__} {str(error).partition(' (')[0]}")


def in_the_child(
    fresh: WorkerPool, pool: WorkerPool, consumer: CooperativeConsumer, publisher: Publisher
) -> None:
    for call in (
        fresh.run,
        pool.wait,
        pool.assignment,
        consumer.poll,
        consumer.commit,
        lambda: publisher.write("x", b""),
    ):
        told(call)
    pool.close()
    sys.exit(3)  # through all blocks, and all that an interpreter does at its end


def main(settings: Mapping[str, object], topic: str, executor: str) -> None:
    group = settings["group.id"]
    others = {**settings, "group.id": f"{group}-2"}
    fresh = WorkerPool(Counting, others, [topic], workers=2)
    with ExitStack() as blocks:
        enter = blocks.enter_context
        pool = enter(WorkerPool(Counting, settings, [topic], workers=2, executor=executor))
        consumer = enter(CooperativeConsumer({**settings, "group.id": f"{group}-3"}))
        publisher = enter(Publisher(Config.from_dict(dict(others)), f"{group}-4"))
        consumer.subscribe([topic])
        record = consumer.poll(WAIT_S)
        assert record is not None
        pid = os.fork()
        if pid == 0:
            in_the_child(fresh, pool, consumer, publisher)
        killer = threading.Timer(WAIT_S, os.kill, (pid, 9))
        killer.start()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        killer.cancel()
        say(f"child ended with {code}")
        consumer.done(record)
        with publisher.transaction():
            publisher.write(topic, b"", b"from the parent")
        consumer.commit(WAIT_S)
        say("go on")
        sys.stdin.readline()
    say(f"finished {pool.counters.finished}, failed {pool.counters.failures}")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2], sys.argv[3])
