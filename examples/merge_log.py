"""Merge log: two topics as they come, in an order that is recorded before anybody sees it.

    coop-consumer broker start
    python examples/merge_log.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker (what `broker start` printed)
--topic NAME            a new topic, which the script makes and fills, as it does NAME-payments

In which order records of two topics arrive is chance. The merge log records it, so that after a
kill the same records come in the same order again. Then paired offsets can drop what is in the
output already; without the recorded order that would lose records and double others.
"""

import argparse
from collections.abc import Mapping

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer import TopicPartition
from coop_consumer.patterns import MergeLog, PairedOffsets, committed_records

EACH, PUBLISH = 1_000, 100


def run(config: Mapping[str, object], topic: str, partition: int) -> None:
    """Merge what is left of a partition. May be killed anywhere, and called again."""
    inputs = [TopicPartition(it, partition) for it in (topic, f"{topic}-payments")]
    order = TopicPartition(f"{topic}-order", partition)
    merged = TopicPartition(f"{topic}-merged", partition)
    writer, merger = f"{topic}-writer-{partition}", f"{topic}-merger-{partition}"
    with (
        PairedOffsets(config, order, merged, writer) as pair,
        MergeLog(config, inputs, order, merger, pair.offset) as merge,
    ):
        print(f"{order}: from {pair.offset} on; {pair.drop} records are dropped", flush=True)
        while pair.outputs < 2 * EACH:
            batch = merge.next_batch()
            for number, record in enumerate(batch.messages if batch else (), 1):
                pair.put(record.value(), record.key())
                if number % PUBLISH == 0:
                    pair.publish()
            if batch:
                pair.commit(batch.next_offset)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="merged-orders")
    options = parser.parse_args()
    client = {"bootstrap.servers": options.bootstrap}
    admin = AdminClient(client)
    names = [f"{options.topic}{it}" for it in ("", "-payments", "-order", "-merged")]
    for name, made in admin.create_topics([NewTopic(it, 1, 1) for it in names]).items():
        if refused := made.exception():
            raise SystemExit(f"{name}: {refused.args[0].str()} Is a broker up? A new --topic?")
    producer = Producer(client)
    for number in range(EACH):
        producer.produce(names[0], b"order %d" % number)
        producer.produce(names[1], b"payment %d" % number)
    producer.flush()
    run(client, options.topic, 0)
    found = [it.value() or b"" for it in committed_records(client, TopicPartition(names[3], 0), 0)]
    for kind in (b"order", b"payment"):
        right = [it for it in found if it.startswith(kind)] == [
            kind + b" %d" % number for number in range(EACH)
        ]
        print(f"{kind.decode()}s: {'each once, in order' if right else 'WRONG'}")
    print(f"{len(found):,} records of 2 topics")
