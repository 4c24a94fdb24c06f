"""Many processes on one partition: each is a member of the group and owns a range of the keys.

    coop-consumer broker start
    python examples/many_processes.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker (what `broker start` printed)
--topic NAME            a new topic, which the script makes and fills; also the group's name
--processes N           how many; 4 by default

The processes could be on many hosts: they have only the broker in common. While they run,
`coop-consumer status GROUP` shows who owns what.
"""

import argparse
import multiprocessing
import time
from collections import Counter
from multiprocessing.queues import Queue
from typing import TypeAlias

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer import KeyRange, Record, TopicPartition, Worker, WorkerPool

RECORDS, KEYS, WORKERS = 8_000, 500, 8
Results: TypeAlias = "Queue[tuple[int, Counter[bytes | None]]]"  # process, records by key


class Member(Worker):
    """Counts the records of each key, and prints the ranges that it gets."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.keys: Counter[bytes | None] = Counter()

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """Called before the first record of ranges that begin here."""
        share = sum(key_range.size for key_range in ranges) / 2**63
        print(f"process {self.number} begins {share:.0%} of the keys of {tp}", flush=True)

    def process(self, record: Record) -> None:
        """Count the key."""
        time.sleep(0.01)  # a remote call
        self.keys[record.key] += 1  # only one worker at a time runs a key


def run(number: int, bootstrap: str, topic: str, results: Results) -> None:
    """Run a pool in one process, until the whole group has caught up."""
    member = Member(number)
    config = {"bootstrap.servers": bootstrap, "group.id": topic}
    with WorkerPool(member, config, [topic], workers=WORKERS, until_caught_up=True) as pool:
        pool.wait()
    results.put((number, member.keys))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="many")
    parser.add_argument("--processes", type=int, default=4)
    options = parser.parse_args()
    new = NewTopic(options.topic, num_partitions=1, replication_factor=1)
    client = {"bootstrap.servers": options.bootstrap}
    admin = AdminClient(client)
    if refused := admin.create_topics([new])[options.topic].exception():
        raise SystemExit(f"{options.topic}: {refused.args[0].str()} Is a broker up? A new --topic?")
    producer = Producer(client)
    for number in range(RECORDS):
        producer.produce(options.topic, b"record %d" % number, b"key %d" % (number % KEYS))
    producer.flush()

    spawn = multiprocessing.get_context("spawn")
    results: Results = spawn.Queue()
    arguments = (options.bootstrap, options.topic, results)
    for number in range(options.processes):
        spawn.Process(target=run, args=(number, *arguments), daemon=True).start()
    counts = sorted(results.get(timeout=120) for _ in range(options.processes))
    for number, keys in counts:
        print(f"process {number}: {keys.total():,} records of {len(keys)} keys")
    print(f"together: {sum(keys.total() for _, keys in counts):,} of {RECORDS:,} records")
