"""Exclusive producer: a copy that knows by its own end where to go on, whatever is killed.

    coop-consumer broker start
    python examples/exclusive_producer.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker (what `broker start` printed)
--topic NAME            a new topic, which the script makes and fills

The producer is the only writer of its partition. A second one of the same name fences the first.
Each copy carries the offset of its order in a header, so that the last copy tells what is next. An
offset of the copies would not: each transaction takes one of them for its marker.
"""

import argparse
from collections.abc import Mapping
from itertools import islice

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer import TopicPartition
from coop_consumer.patterns import ExclusiveProducer, committed_records

BATCH = 100


def run(config: Mapping[str, object], topic: str, partition: int) -> None:
    """Copy what is left of a partition. May be killed anywhere, and called again."""
    orders = TopicPartition(topic, partition)
    copies = TopicPartition(f"{topic}-copies", partition)
    with ExclusiveProducer(config, copies, f"{topic}-copier-{partition}") as producer:
        print(f"{copies}: {producer.position} orders are there", flush=True)
        records = committed_records(config, orders, producer.position)
        while batch := list(islice(records, BATCH)):
            with producer.transaction():
                for order in batch:
                    producer.put(order.offset() or 0, order.value(), order.key())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="copied-orders")
    options = parser.parse_args()
    client = {"bootstrap.servers": options.bootstrap}
    admin = AdminClient(client)
    names = (options.topic, f"{options.topic}-copies")
    for name, made in admin.create_topics([NewTopic(it, 1, 1) for it in names]).items():
        if refused := made.exception():
            raise SystemExit(f"{name}: {refused.args[0].str()} Is a broker up? A new --topic?")
    for number in range(2):  # the second time it goes on behind the first 1,000 orders
        producer = Producer(client)
        for order in range(1_000):
            producer.produce(options.topic, b"order %d" % (1_000 * number + order))
        producer.flush()
        run(client, options.topic, 0)
    found = list(committed_records(client, TopicPartition(names[1], 0), 0))
    right = [it.value() for it in found] == [b"order %d" % number for number in range(2_000)]
    print(f"{len(found):,} copies of 2,000 orders, {'each once, in order' if right else 'WRONG'}")
