"""Conditional producer: a counter that two clerks share, and a list that is loaded once.

    coop-consumer broker start
    python examples/conditional_producer.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker (what `broker start` printed)
--topic NAME            a new topic, which the script makes and fills, as it does NAME-numbers

An append names the record that it has to follow. If somebody else was faster, it is a conflict and
nothing of it is there: the clerk reads what has come, and tries again. So each number is drawn
once, without a lock. A load gives each record a number, and goes on behind the last one.
"""

import argparse
from collections.abc import Mapping
from threading import Thread

from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer import TopicPartition
from coop_consumer.logs import ConditionalProducer, LogToken, NewRecord
from coop_consumer.patterns import committed_records

ROWS, NUMBERS = 5_000, 100


def load(config: Mapping[str, object], topic: str, partition: int) -> None:
    """Load a list of prices; a file would do as well, if its lines stay the same."""
    rows = (NewRecord(b"article %d" % row, b"%d" % (100 + row)) for row in range(ROWS))
    with ConditionalProducer(config, topic, partition, "loader") as producer:
        loaded = producer.bulk_load(rows)
        print(f"{loaded.count:,} prices are there, {loaded.found:,} from before", flush=True)


def draw(config: Mapping[str, object], topic: str, partition: int, clerk: str) -> None:
    """Draw numbers until all are drawn. Clerks that work at the same time have other names."""
    mine = number = 0
    with ConditionalProducer(config, f"{topic}-numbers", partition, clerk) as producer:
        token = producer.token().at(-1)  # before the first record
        while number < NUMBERS:
            end = producer.append([NewRecord(None, b"%d" % (number + 1))], token)
            if isinstance(end, LogToken):
                token, number, mine = end, number + 1, mine + 1
                continue
            for record in producer.read(token):  # a conflict: what has come meanwhile
                token, number = token.at(record.offset), int(record.value or 0)
    print(f"{clerk} has drawn {mine} numbers", flush=True)


def run(config: Mapping[str, object], topic: str, partition: int) -> None:
    """Do what is left of both. May be killed anywhere, and called again."""
    load(config, topic, partition)
    draw(config, topic, partition, "clerk-0")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="prices")
    options = parser.parse_args()
    client = {"bootstrap.servers": options.bootstrap}
    admin = AdminClient(client)
    names = (options.topic, f"{options.topic}-numbers")
    for name, made in admin.create_topics([NewTopic(it, 1, 1) for it in names]).items():
        if refused := made.exception():
            raise SystemExit(f"{name}: {refused.args[0].str()} Is a broker up? A new --topic?")
    other = Thread(target=draw, args=(client, options.topic, 0, "clerk-1"))
    other.start()
    for _ in range(2):  # the second time nothing is left to do
        run(client, options.topic, 0)
    other.join()
    places = [TopicPartition(name, 0) for name in names]
    prices, numbers = ([it.value() for it in committed_records(client, at, 0)] for at in places)
    once = numbers == [b"%d" % (number + 1) for number in range(NUMBERS)]
    print(f"{len(prices):,} prices; {len(numbers)} numbers, {'each once' if once else 'WRONG'}")
