"""Exactly once: each order has one result, though a process is killed in the midst of its work.

    coop-consumer broker start
    python examples/exactly_once.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker (what `broker start` printed)
--topic NAME            a new topic, which the script makes and fills; also the group's name
--member                be the process that is killed; the script starts it by itself

`process` numbers the orders of each customer: the state that it keeps, the result that it sends and
the progress of its order become visible together. A first process is killed half-way. What it had
not committed never becomes visible, and this process does it again. It needs the extra `state`.
"""

import argparse
import signal
import subprocess
import sys
import time
from collections import Counter

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer import Context, Record, Worker, WorkerPool

ORDERS, CUSTOMERS = 2_000, 50


class Numbers(Worker):
    """Numbers the orders of each customer, in its state, and sends the number of each order."""

    keyed_state = True

    def __init__(self, results: str) -> None:
        self.outputs = (results,)
        self.results = results

    def setup(self, context: Context) -> None:
        """Keep the context: it has the state, and sends."""
        self.context = context

    def process(self, record: Record) -> None:
        """Each attempt finds what the order before has left, and may fail or be killed at will."""
        time.sleep(0.005)
        number = int(self.context.state.get(record) or 0) + 1
        self.context.state.put(record, b"%d" % number)
        self.context.send(record, self.results, record.key, b"%d" % number)


def visible(results: str, client: dict[str, str]) -> Counter[tuple[bytes, bytes]]:
    """How often each number of each customer is there, for a reader of committed records."""
    committed = {"isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({**client, **committed, "group.id": "-", "enable.auto.commit": False})
    consumer.assign([TopicPartition(results, 0, OFFSET_BEGINNING)])
    found: Counter[tuple[bytes, bytes]] = Counter()
    while True:
        message = consumer.poll(1)
        if message is not None and message.error():  # the end of its one partition
            consumer.close()
            return found
        if message is not None:
            found[message.key() or b"", message.value() or b""] += 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="numbers")
    parser.add_argument("--member", action="store_true", help="be the one that is killed")
    options = parser.parse_args()
    client, topic = {"bootstrap.servers": options.bootstrap}, options.topic
    config = {**client, "group.id": topic, "processing.guarantee": "exactly_once"}
    results = f"{topic}.results"
    if options.member:
        WorkerPool(Numbers(results), config, [topic], workers=8).run()
        sys.exit()

    admin = AdminClient(client)
    for name in (topic, results):
        admin.create_topics([NewTopic(name, 1, 1)])[name].result()
    producer = Producer(client)
    for number in range(ORDERS):
        producer.produce(topic, key=f"customer-{number % CUSTOMERS}", value=f"order {number}")
    producer.flush()

    member = subprocess.Popen([sys.executable, *sys.argv, "--member"])  # noqa: S603
    while visible(results, client).total() < ORDERS // 2:
        time.sleep(0.1)
    member.send_signal(signal.SIGKILL)
    print("killed half-way; its ranges are free once its session is over")
    with WorkerPool(Numbers(results), config, [topic], workers=8, until_caught_up=True) as pool:
        pool.wait()
    found = visible(results, client)
    expected = Counter(
        (b"customer-%d" % customer, b"%d" % (number + 1))
        for customer in range(CUSTOMERS)
        for number in range(ORDERS // CUSTOMERS)
    )
    print(f"{found.total():,} results of {ORDERS:,} orders, each once: {found == expected}")
