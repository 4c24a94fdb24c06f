"""Offset changelog: counts of many pages, restored from a log that says which view is next.

    coop-consumer broker start
    python examples/offset_changelog.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker (what `broker start` printed)
--topic NAME            a new topic, which the script makes and fills

Each change of the state carries the offset of its view. So whoever reads the changelog has the
state, and the offset to go on at; no commit is needed. Changes here are values. They may be
operations, too: then pass `apply=`, which has to be deterministic (no clock, no chance), because
the restore calls it again.
"""

import argparse
from collections.abc import Mapping
from itertools import islice

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer import TopicPartition
from coop_consumer.patterns import OffsetChangelog, committed_records

BATCH, VIEWS, PAGES = 200, 2_000, 50


def run(config: Mapping[str, object], topic: str, partition: int) -> dict[bytes, bytes]:
    """Count what is left of a partition. May be killed anywhere, and called again."""
    views = TopicPartition(topic, partition)
    changes = TopicPartition(f"{topic}-changes", partition)
    with OffsetChangelog(config, views, changes, f"{topic}-counter-{partition}") as changelog:
        counts = changelog.state
        print(f"{views}: from {changelog.offset} on, with {len(counts)} pages", flush=True)
        records = committed_records(config, views, changelog.offset)
        while batch := list(islice(records, BATCH)):
            with changelog.transaction(batch[-1].offset() or 0):
                for view in batch:
                    page = view.key() or b""
                    changelog.change(page, b"%d" % (int(counts.get(page, 0)) + 1))
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="page-views")
    options = parser.parse_args()
    client = {"bootstrap.servers": options.bootstrap}
    admin = AdminClient(client)
    kept = {"cleanup.policy": "compact"}
    new = [NewTopic(options.topic, 1, 1), NewTopic(f"{options.topic}-changes", 1, 1, config=kept)]
    for name, made in admin.create_topics(new).items():
        if refused := made.exception():
            raise SystemExit(f"{name}: {refused.args[0].str()} Is a broker up? A new --topic?")
    for _ in range(2):  # the second time it begins with a restore
        producer = Producer(client)
        for number in range(VIEWS):
            producer.produce(options.topic, b"viewed", b"page %d" % (number % PAGES))
        producer.flush()
        counts = run(client, options.topic, 0)
    right = set(counts.values()) == {b"%d" % (2 * VIEWS // PAGES)}
    print(f"{len(counts)} pages, {sum(map(int, counts.values())):,} of {2 * VIEWS:,} views counted")
    print("each page is right" if right else "WRONG")
