"""Checkpoint: a count and a sum that travel in the commit, and are right whatever is killed.

    coop-consumer broker start
    python examples/checkpoint.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker (what `broker start` printed)
--topic NAME            a new topic, which the script makes and fills

The commit of an input's offset holds a text of up to 4 KB: the state at that offset. It is written
in the transaction of the outputs, so all of it is visible or nothing. Keep a larger state in an
OffsetChangelog (examples/offset_changelog.py).
"""

import argparse
import json
from collections.abc import Mapping
from itertools import islice

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer import TopicPartition
from coop_consumer.patterns import Checkpoint, committed_records

BATCH = 100


def run(config: Mapping[str, object], topic: str, partition: int) -> None:
    """Count what is left of a partition. May be killed anywhere, and called again."""
    payments = TopicPartition(topic, partition)
    with Checkpoint(config, payments, f"{topic}-counter-{partition}") as checkpoint:
        print(f"{payments}: at {checkpoint.offset}, {checkpoint.state or 'no state'}", flush=True)
        count, total = json.loads(checkpoint.state or "[0, 0]")
        records = committed_records(config, payments, checkpoint.offset)
        while batch := list(islice(records, BATCH)):
            totals = []
            for payment in batch:
                count, total = count + 1, total + int(payment.value() or 0)
                totals.append(b"%d %d" % (count, total))
            state = json.dumps([count, total])
            with checkpoint.transaction((batch[-1].offset() or 0) + 1, state):
                for value in totals:
                    checkpoint.write(f"{topic}-totals", value, b"partition %d" % partition)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="counted-payments")
    options = parser.parse_args()
    client = {"bootstrap.servers": options.bootstrap}
    admin = AdminClient(client)
    names = (options.topic, f"{options.topic}-totals")
    for name, made in admin.create_topics([NewTopic(it, 1, 1) for it in names]).items():
        if refused := made.exception():
            raise SystemExit(f"{name}: {refused.args[0].str()} Is a broker up? A new --topic?")
    for _ in range(2):  # the second time it goes on with the state of the first
        producer = Producer(client)
        for number in range(500):
            producer.produce(options.topic, b"%d" % number)
        producer.flush()
        run(client, options.topic, 0)
    found = [it.value() for it in committed_records(client, TopicPartition(names[1], 0), 0)]
    print(f"{len(found):,} totals of 1,000 payments; the last one: {(found[-1] or b'').decode()}")
