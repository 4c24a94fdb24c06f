"""Offset store: 100 offsets in one commit, by a process that is killed again and again.

    coop-consumer broker start
    python examples/offset_store.py --bootstrap localhost:9092

--bootstrap HOST:PORT   a broker (what `broker start` printed)
--topic NAME            a new topic for the offsets, which the script makes
--kills N               how often the process is killed; 5 by default

The process commits the offsets of 100 partitions, all the same number, and expects those of its
last commit. Wherever a kill -9 hits it, a reader finds 100 times the same number. Somebody who
comes late, and expects an old offset, is told what there is.
"""

import argparse
import multiprocessing
import random
from ctypes import c_int

from confluent_kafka.admin import AdminClient, NewTopic

from coop_consumer import TopicPartition
from coop_consumer.offset_stores import LogOffsetStore, OffsetEntry

GROUP = "billing"
PLACES = [TopicPartition("orders", number) for number in range(100)]


def run(bootstrap: str, topic: str, commits: c_int) -> None:
    """Commit for ever. The next store of this name ends what this one has begun."""
    with LogOffsetStore({"bootstrap.servers": bootstrap}, topic, name="billing-1") as offsets:
        there = offsets.fetch(GROUP, PLACES)
        while True:
            expected = {place: there[place].offset if there else None for place in PLACES}
            offset = 1 + (expected[PLACES[0]] or 0)
            entries = dict.fromkeys(PLACES, OffsetEntry(offset, f"commit {commits.value}"))
            conflict = offsets.commit(GROUP, entries, expected)
            assert conflict is None, "nobody else commits for this group"
            there = entries
            commits.value += 1  # so that whoever kills this process knows that it is at work


def run_and_kill(bootstrap: str, topic: str) -> None:
    """Run it, and kill it in the midst of a commit."""
    spawn = multiprocessing.get_context("spawn")
    commits, enough = spawn.RawValue(c_int), random.randrange(5, 50)  # noqa: S311
    process = spawn.Process(target=run, args=(bootstrap, topic, commits))
    process.start()
    while process.is_alive() and commits.value < enough:
        process.join(0.001)
    process.kill()
    process.join()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="billing-offsets")
    parser.add_argument("--kills", type=int, default=5)
    options = parser.parse_args()
    client = {"bootstrap.servers": options.bootstrap}
    new = NewTopic(options.topic, 1, 1, config={"cleanup.policy": "compact"})
    admin = AdminClient(client)
    if refused := admin.create_topics([new])[options.topic].exception():
        raise SystemExit(f"{options.topic}: {refused.args[0].str()} Is a broker up? A new --topic?")

    with LogOffsetStore(client, options.topic, name="reader") as store:
        for number in range(options.kills):
            run_and_kill(options.bootstrap, options.topic)
            found = store.fetch(GROUP, PLACES)
            at = {entry.offset for entry in found.values()}
            print(f"kill -9, number {number + 1}: {len(found)} offsets at {at}", flush=True)
        late = store.commit(GROUP, {PLACES[3]: OffsetEntry(4)}, expected={PLACES[3]: 3})
        print("who expects 3 finds", late and late.found[PLACES[3]])
