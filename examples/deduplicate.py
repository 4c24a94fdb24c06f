"""Deduplicating: views are partitioned anew, some of them twice, and a reader sees each once.

    coop-consumer broker start
    python examples/deduplicate.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker (what `broker start` printed)
--topic NAME            a new topic, which the script makes and fills

Any number of tasks may write a partition of the new topic, so no end of it tells what one of them
has written, and after a crash some records come again. Each carries its source's place in headers.
A reader keeps a bit for each place. `coop-consumer clean` makes a topic without repeats of it.
"""

import argparse
from collections.abc import Mapping

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer import TopicPartition
from coop_consumer.patterns import Deduplicator, committed_records, with_source

VIEWS, PARTITIONS = 2_000, 3


def run(config: Mapping[str, str], topic: str, partition: int, first: int = 0) -> None:
    """Write views by their page, which is their value, to another topic. At least once.

    May be killed anywhere, and called again: then it writes some of them again.
    """
    producer, source = Producer({**config}), TopicPartition(topic, partition)
    for view in committed_records(config, source, first):
        headers = with_source([], source, view.offset() or 0)
        producer.produce(f"{topic}-by-page", view.key(), view.value(), headers=[*headers])
    producer.flush()


def read(client: Mapping[str, str], topic: str, partition: int, first: int = 0) -> list[Message]:
    """The records of a partition without repeats, from an offset on."""
    place, dedup = TopicPartition(f"{topic}-by-page", partition), Deduplicator()
    dedup.catch_up(client, place, first)  # what was read before `first` is no news
    return [it for it in committed_records(client, place, first) if dedup.is_new(it)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="views")
    options = parser.parse_args()
    client = {"bootstrap.servers": options.bootstrap}
    admin = AdminClient(client)
    new = [NewTopic(it, PARTITIONS, 1) for it in (options.topic, f"{options.topic}-by-page")]
    for name, made in admin.create_topics(new).items():
        if refused := made.exception():
            raise SystemExit(f"{name}: {refused.args[0].str()} Is a broker up? A new --topic?")
    producer = Producer(client)
    for number in range(VIEWS):
        producer.produce(options.topic, b"page %d" % (number % 40), b"visitor %d" % (number % 70))
    producer.flush()
    for number in range(PARTITIONS):
        run(client, options.topic, number)  # here the task falls, before its last commit
        run(client, options.topic, number, 400)  # the next one goes on at an older commit
    raw = [
        it
        for number in range(PARTITIONS)
        for it in committed_records(client, TopicPartition(f"{options.topic}-by-page", number), 0)
    ]
    once = [it for number in range(PARTITIONS) for it in read(client, options.topic, number)]
    print(f"{len(raw):,} records in the topic, {len(once):,} without repeats, of {VIEWS:,} views")
