"""Failures: a flaky record is tried again, a poisoned one is parked, no other key waits for them.

    coop-consumer broker start
    python examples/retry_and_park.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker (what `broker start` printed)
--topic NAME            a new topic, which the script makes and fills; also the group's name

A parked key waits for a person. `coop-consumer status GROUP` shows the key in red, and
`coop-consumer retry|skip GROUP TOPIC-PARTITION OFFSET` decides. Here the script types the skip.
"""

import argparse
import subprocess
import sys
import threading

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer import Record, Worker, WorkerPool

KEYS, ROUNDS, ATTEMPTS = (b"good", b"flaky", b"poison", b"fine"), 5, 4


class Fragile(Worker):
    """Fails now and then."""

    def __init__(self) -> None:
        self.done: list[Record] = []
        self.poisoned_at = -1
        self.others_are_done = threading.Event()

    def process(self, record: Record) -> None:
        """An error counts the attempt as failed."""
        if record.key == b"flaky" and record.attempt < 3:
            raise ConnectionError("the remote service is away")
        if record.value == b"poison 1":
            self.poisoned_at = record.offset
            raise ValueError("nobody can read this")
        if record.attempt > 1:
            text = (record.value or b"").decode()
            print(f"{text}: done at attempt {record.attempt}\n", end="")  # a line as a whole
        self.done.append(record)
        if len(self.done) - self.of(b"poison") == ROUNDS * (len(KEYS) - 1):
            self.others_are_done.set()

    def of(self, key: bytes) -> int:
        """How many records of a key are done."""
        return sum(record.key == key for record in list(self.done))


def skip(bootstrap: str, topic: str, offset: int) -> None:
    """Type `coop-consumer skip …` until the record is parked and the command succeeds."""
    words = ["skip", topic, f"{topic}-0", str(offset), "--bootstrap", bootstrap]
    command = [sys.executable, "-m", "coop_consumer.cli", *words]
    for _ in range(30):
        ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if ended.returncode == 0:
            print(ended.stdout.strip())
            return
    raise SystemExit(ended.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="fragile")
    options = parser.parse_args()
    new = NewTopic(options.topic, num_partitions=1, replication_factor=1)
    client = {"bootstrap.servers": options.bootstrap}
    admin = AdminClient(client)
    if refused := admin.create_topics([new])[options.topic].exception():
        raise SystemExit(f"{options.topic}: {refused.args[0].str()} Is a broker up? A new --topic?")
    producer = Producer(client)
    for number in range(ROUNDS):
        for key in KEYS:
            producer.produce(options.topic, b"%s %d" % (key, number), key)
    producer.flush()
    config = {
        **client,
        "group.id": options.topic,
        "max.attempts": ATTEMPTS,
        "attempt.backoff.ms": 20,
        "on.failure": "park",  # the default; others: stop, skip, dead_letter
    }
    worker = Fragile()
    with WorkerPool(worker, config, [options.topic], workers=4, until_caught_up=True) as pool:
        worker.others_are_done.wait(60)
        print(f"all other keys are done; of the poisoned one {worker.of(b'poison')} of {ROUNDS}")
        skip(options.bootstrap, options.topic, worker.poisoned_at)
        pool.wait()
    print(f"after the skip: {worker.of(b'poison')} of {ROUNDS}, {len(worker.done)} done in all")
