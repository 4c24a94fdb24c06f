"""Paired offsets: a text makes any number of words, and no word is missing or there twice.

    coop-consumer broker start
    python examples/paired_offsets.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker (what `broker start` printed)
--topic NAME            a new topic, which the script makes and fills

A commit says which text is next, and how many words the texts before it have made. Words are
published before that, so that a long text needs no large transaction. After a kill the words that
are there already come again, and are dropped: the same texts have to make the same words.
"""

import argparse
from collections.abc import Mapping

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer import TopicPartition
from coop_consumer.patterns import PairedOffsets, committed_records

PUBLISH = 100
TEXT = b"it was the best of times it was the worst of times"


def run(config: Mapping[str, object], topic: str, partition: int) -> None:
    """Split what is left of a partition. May be killed anywhere, and called again."""
    texts = TopicPartition(topic, partition)
    words = TopicPartition(f"{topic}-words", partition)
    with PairedOffsets(config, texts, words, f"{topic}-splitter-{partition}") as pair:
        print(f"{texts}: from {pair.offset} on; {pair.drop} words are dropped", flush=True)
        for text in committed_records(config, texts, pair.offset):
            for number, word in enumerate((text.value() or b"").split(), 1):
                pair.put(word)
                if number % PUBLISH == 0:
                    pair.publish()
            pair.commit((text.offset() or 0) + 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="texts")
    options = parser.parse_args()
    client = {"bootstrap.servers": options.bootstrap}
    admin = AdminClient(client)
    names = (options.topic, f"{options.topic}-words")
    for name, made in admin.create_topics([NewTopic(it, 1, 1) for it in names]).items():
        if refused := made.exception():
            raise SystemExit(f"{name}: {refused.args[0].str()} Is a broker up? A new --topic?")
    producer = Producer(client)
    for copies in (1, 0, 30):  # the last one makes 360 words
        producer.produce(options.topic, b" ".join([TEXT] * copies))
    producer.flush()
    run(client, options.topic, 0)
    found = [it.value() for it in committed_records(client, TopicPartition(names[1], 0), 0)]
    right = found == TEXT.split() * 31
    print(f"{len(found)} words of 3 texts, {'each once, in order' if right else 'WRONG'}")
