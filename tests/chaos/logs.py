"""`python -m tests.chaos.logs [--runs N]`: histories of the KV store, and killed bulk loads.

In: how many histories of each kind, and how many kills (50). Out: a line each, a table at the end,
and exit code 1 if no order explains a history, if a record of a load is missing or there twice, or
if the judge takes a history for sound whose servers never asked the log. In one kind of history
leaders move and are killed; in the other kind every server leads every shard, and one is killed.
All on one embedded broker.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from confluent_kafka.admin import AdminClient

from coop_consumer.broker import EmbeddedBroker
from coop_consumer.logs import ConditionalProducer
from tests.support.appending import load_records
from tests.support.killed import to_be_killed
from tests.support.linearizable import Call, calls_of, unexplained
from tests.support.stock import records_of
from tests.support.topics import create_topic

EXAMPLE = Path(__file__).parents[2] / "examples" / "kv_store.py"
LIMIT_S = 120
KILLS = 5
"""Of a load."""
KINDS = {
    "leaders move": ("--seconds", "6", "--kills", "2"),
    "everyone leads": ("--seconds", "4", "--kills", "1", "--everyone"),
}
STALE = ("--seconds", "4", "--kills", "0", "--everyone", "--stale")


def history(bootstrap: str, options: Sequence[str]) -> list[Call]:
    """What clients of the example have asked for and got."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "history"
        command = [sys.executable, EXAMPLE, "--bootstrap", bootstrap, "--history", file]
        subprocess.run(
            [*command, "--topic", f"kv-{uuid4().hex[:8]}", *options],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=LIMIT_S,
        )
        return calls_of(file.read_text().splitlines())


def unsound(bootstrap: str, runs: int) -> int:
    """How many histories no order explains."""
    found = 0
    for number, (kind, options) in product(range(1, runs + 1), KINDS.items()):
        calls = history(bootstrap, options)
        wrong = unexplained(calls)
        found += wrong is not None
        told = "linearizable" if wrong is None else f"NO ORDER EXPLAINS {wrong}"
        sys.stderr.write(f"history {number}, {kind}: {len(calls)} calls, {told}\n")
    return found


def killed_load(bootstrap: str, kills: int, chance: random.Random) -> tuple[int, int]:
    """Records of a load that are missing and doubled, after so many of its processes were killed.

    A batch has 1,000 records: each process gets no further than its second one.
    """
    topic, records = f"load-{uuid4().hex[:8]}", load_records()
    settings = {"bootstrap.servers": bootstrap}
    create_topic(AdminClient(settings), topic, 1)
    for _ in range(kills):
        at = chance.randrange(1_500)
        with to_be_killed("tests.support.loading", settings, topic, at):
            sys.stderr.write(f"load {topic}: kill -9 at the record {at} of a process\n")
    with ConditionalProducer(settings, topic, 0, "loader") as producer:
        producer.bulk_load(records)
    committed = {**settings, "isolation.level": "read_committed"}
    found = [it.value() for it in records_of(committed, topic)]
    return len({it.value for it in records} - {*found}), len(found) - len({*found})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.logs", description=__doc__)
    parser.add_argument("--runs", type=int, default=50, help="histories of a kind; kills of loads")
    parser.add_argument("--first", type=int, default=1, help="the seed of the kills of loads")
    asked = parser.parse_args()
    with EmbeddedBroker() as broker:
        bootstrap = broker.bootstrap_servers
        chance = random.Random(asked.first)
        loads = [
            killed_load(bootstrap, min(KILLS, asked.runs - done), chance)
            for done in range(0, asked.runs, KILLS)
        ]
        missing, doubled = (sum(it) for it in zip(*loads, strict=True))
        wrong = unsound(bootstrap, asked.runs)
        is_seen = unexplained(history(bootstrap, STALE)) is not None
    sys.stdout.write(
        f"histories                    {len(KINDS)} x {asked.runs}, not linearizable {wrong}\n"
        f"reads that do not ask        {'found by the judge' if is_seen else 'NOT FOUND'}\n"
        f"kills of a load              {asked.runs}, missing {missing}, doubled {doubled}\n"
    )
    return int(wrong > 0 or not is_seen or missing > 0 or doubled > 0)


if __name__ == "__main__":
    sys.exit(main())
