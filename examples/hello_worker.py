"""A worker and a pool: 20 workers on a topic of one partition, in order per key.

    coop-consumer broker start
    python examples/hello_worker.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker (what `broker start` printed)
--topic NAME            a new topic, which the script makes and fills; also the group's name
"""

import argparse
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer import Context, Record, Worker, WorkerPool

CUSTOMERS, ORDERS, WORKERS = 100, 2_000, 20


class Hello(Worker):
    """Ships orders. One instance serves all workers, so threads only append to what keys share."""

    def setup(self, context: Context) -> None:
        """Called once, before the first record."""
        print(f"{context.workers} workers in group {context.config.group_id}")
        # By customer. Only one worker at a time runs a key, so no lock is needed.
        self.last: dict[bytes | None, int] = {}
        self.ended: list[float] = []
        self.out_of_order = 0

    def process(self, record: Record) -> None:
        """A return counts the record as done."""
        time.sleep(0.01)  # a remote call
        self.out_of_order += self.last.get(record.key, -1) >= record.offset
        self.last[record.key] = record.offset
        self.ended.append(time.monotonic())


def fill(bootstrap: str, topic: str) -> None:
    """Make the topic, with one partition, and its orders."""
    new = NewTopic(topic, num_partitions=1, replication_factor=1)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if refused := admin.create_topics([new])[topic].exception():
        raise SystemExit(f"{topic}: {refused.args[0].str()} Is a broker up? A new --topic?")
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(ORDERS):
        producer.produce(topic, b"order %d" % number, b"customer %d" % (number % CUSTOMERS))
    producer.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="hello")
    options = parser.parse_args()
    config = {"bootstrap.servers": options.bootstrap, "group.id": options.topic}
    fill(options.bootstrap, options.topic)
    hello = Hello()
    with WorkerPool(hello, config, [options.topic], workers=WORKERS, until_caught_up=True) as pool:
        pool.wait()
    seconds = max(hello.ended) - min(hello.ended)
    print(f"{len(hello.ended)} orders in {seconds:.1f} s, {hello.out_of_order} out of order")
    print(f"one worker would need {len(hello.ended) * 0.01:.0f} s for the calls alone")
