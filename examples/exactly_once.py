"""Exactly once: running totals by a process that is killed again and again, and each one is right.

    coop-consumer broker start
    python examples/exactly_once.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker (what `broker start` printed)
--topic NAME            a new topic, which the script makes and fills; also the group's name
--kills N               how often the process is killed; 5 by default

What a handler sends and puts becomes visible together with the progress of its record, in one
transaction of Kafka. After a kill -9 either all of it is there, or nothing of it is and the record
comes again. Whoever reads the totals sees each of them once, as consumers do by default.
"""

import argparse
import multiprocessing
import random
import time
from ctypes import c_int
from itertools import accumulate

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer import Context, Record, Worker, WorkerPool

PAYMENTS, CUSTOMERS, WORKERS = 10_000, 100, 16


class Totals(Worker):
    """Adds up each customer's payments, and sends every total. That is all: it checks nothing."""

    keyed_state = True  # of pip install '.[state]'

    def __init__(self, handled: c_int) -> None:
        self.handled = handled

    def setup(self, context: Context) -> None:
        """Called once, before the first record."""
        self.context = context
        [self.totals] = context.config.output_names

    def process(self, record: Record) -> None:
        """Only one worker at a time runs a key."""
        time.sleep(0.01)  # a remote call
        total = int(self.context.state.get(record) or 0) + int(record.value or 0)
        self.context.state.put(record, b"%d" % total)
        self.context.send(record, self.totals, record.key, b"%d" % total)
        self.handled.value += 1  # so that whoever kills this process knows that it is at work


def run(bootstrap: str, topic: str, handled: c_int) -> None:
    """Run a pool in a process of its own, until it has caught up."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": topic,
        "group.instance.id": "totals-1",  # its next process takes its place at once
        "processing.guarantee": "exactly_once",
        "output.topics": f"{topic}-totals",
        "max.attempts": 1_000,  # whatever is in hand when a process falls is no suspect here
    }
    with WorkerPool(
        Totals(handled), config, [topic], workers=WORKERS, until_caught_up=True
    ) as pool:
        pool.wait()


def run_and_kill(bootstrap: str, topic: str, kills: int) -> None:
    """Run it, and as often as asked for kill it in the midst of its work."""
    spawn = multiprocessing.get_context("spawn")
    for number in range(kills + 1):
        handled = spawn.RawValue(c_int)
        enough = random.randrange(PAYMENTS // (kills + 1))  # noqa: S311 - any moment will do
        process = spawn.Process(target=run, args=(bootstrap, topic, handled))
        process.start()
        while process.is_alive():
            process.join(0.01)
            if number < kills and handled.value > enough:
                process.kill()
                process.join()
                print(f"kill -9, number {number + 1}, after {handled.value} payments", flush=True)


def found(bootstrap: str, topic: str) -> dict[bytes, list[int]]:
    """The totals of each customer, as a plain consumer reads them."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    totals: dict[bytes, list[int]] = {}
    while message := consumer.poll(30):  # a process that was killed may still hold up the end
        if not message.error():
            totals.setdefault(message.key() or b"", []).append(int(message.value() or b""))
        elif sum(map(len, totals.values())) >= PAYMENTS:
            break
    consumer.close()
    return totals


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="payments")
    parser.add_argument("--kills", type=int, default=5)
    options = parser.parse_args()
    client = {"bootstrap.servers": options.bootstrap}
    new = [NewTopic(options.topic, 3, 1), NewTopic(f"{options.topic}-totals", 1, 1)]
    admin = AdminClient(client)
    for name, made in admin.create_topics(new).items():
        if refused := made.exception():
            raise SystemExit(f"{name}: {refused.args[0].str()} Is a broker up? A new --topic?")
    producer = Producer({**client, "enable.idempotence": True})  # a retry changes no order
    payments: dict[bytes, list[int]] = {}
    for number in range(PAYMENTS):
        customer, amount = b"customer %d" % (number % CUSTOMERS), number % 97
        payments.setdefault(customer, []).append(amount)
        producer.produce(options.topic, b"%d" % amount, customer)
    producer.flush()

    run_and_kill(options.bootstrap, options.topic, options.kills)
    totals = found(options.bootstrap, f"{options.topic}-totals")
    right = sum(list(accumulate(payments[it])) == totals.get(it) for it in payments)
    print(f"{sum(map(len, totals.values())):,} totals of {PAYMENTS:,} payments")
    print(f"of {right} of {CUSTOMERS} customers all are there, once, in order, and right")
