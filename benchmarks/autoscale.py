"""An autoscaler that follows `coop-consumer scale`, with real processes, on one partition.

`python -m benchmarks autoscale`. Records come at 200 a second, then at 3,000, then at 200 again; a
handler takes 5 ms, a member has 4 workers. The autoscaler has the rules of Kubernetes'
HorizontalPodAutoscaler (`tests/simulation/autoscaling.py`); its pods are processes of
`coop-consumer run`, its number comes from `coop-consumer scale --json --watch`. Then the same with
a key that has 61 % of the records: no member is to be asked for that could not help it. Printed are

    gone_s    from the step up until what is left is less than arrives in a second; with a hot key
              that never is, so null
    turns     how often the number of members wanted changed its direction
    wanted    the most members that were wanted
    lost      records of all keys but the hot one that were never handled
    out_of_order, repeated    of all records that were handled
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import IO
from uuid import uuid4

from confluent_kafka import Producer

from benchmarks.group import show
from benchmarks.handler import Journal
from benchmarks.machine import conditions
from benchmarks.row_files import RowFiles
from benchmarks.topics import VALUE, made
from coop_consumer import Record, Worker
from tests.simulation.autoscaling import HANDLER_S, TARGET_S, Autoscaler, Course
from tests.support.journal import out_of_order, repeated

LOW, HIGH = 200.0, 3_000.0
UP_S, DOWN_S, END_S = 60.0, 240.0, 300.0
HOT, HOT_SHARE, KEYS, WORKERS, MEMBERS_MAX = "hot", 0.61, 5_000, 4, 20
TURNS_MAX = 3
HELPFUL = 4
"""With the hot key 6.9 workers are busy in the end, and half as many again at first."""

_ROWS = "BENCH_ROWS"
_ROOT = Path(__file__).parent.parent
_TICK_S = 0.02
_DONE_WITHIN_S = 60.0
_LOOK_S = 1.0


class SleepingPod(Worker):
    """Sleeps for each record, and leaves a row."""

    def __init__(self) -> None:
        self._journal = Journal(os.environ[_ROWS], at_once=True)

    def process(self, record: Record) -> None:
        """Stand for a remote call."""
        begun_ns = time.monotonic_ns()
        time.sleep(HANDLER_S)
        place = record.partition, record.offset
        self._journal.note(*place, begun_ns, time.monotonic_ns(), record.key or b"")


@dataclass(frozen=True, slots=True)
class Look:
    """One line of `coop-consumer scale`, and when it came, in seconds since the beginning."""

    at_s: float
    members: int
    wanted: int
    left: int
    reason: str


class Cluster:
    """The pods and their autoscaler.

    Args:
        bootstrap: The broker.
        topic: What they read.
        folder: Where they leave rows.
    """

    def __init__(self, bootstrap: str, topic: str, folder: str) -> None:
        self.begun_s = time.monotonic()
        self.looks: list[Look] = []
        self._group = f"bench-{uuid4().hex[:8]}"
        self._topic = topic
        self._environment = {**os.environ, "COOP_BOOTSTRAP": bootstrap, _ROWS: folder}
        self._pods: list[subprocess.Popen[str]] = []
        self._autoscaler = Autoscaler(1, MEMBERS_MAX)

    @property
    def now_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.begun_s

    @contextmanager
    def advised(self) -> Iterator[None]:
        """Follow the advice for the length of a block; then all is ended."""
        name = ("scale", self._group, "--topic", self._topic)
        advice = self._command(*name, "--json", "--watch", "--config", f"workers={WORKERS}")
        assert advice.stdout is not None
        reader = threading.Thread(target=self._read, args=(advice.stdout,))
        reader.start()
        try:
            self._resize()
            yield
        finally:
            advice.terminate()
            for pod in self._pods:
                pod.terminate()
            for process in (advice, *self._pods):
                process.wait()
            reader.join()

    def sync(self) -> None:
        """One round of the autoscaler."""
        if self.looks:
            self._autoscaler.sync(int(self.now_s), self.looks[-1].wanted)
            self._resize()

    def _resize(self) -> None:
        run = ("run", "benchmarks.autoscale:SleepingPod", "--topics", self._topic, "--group")
        while len(self._pods) < self._autoscaler.replicas:
            options = ("--workers", str(WORKERS), "--no-supervise", "--log-level", "error")
            self._pods.append(self._command(*run, self._group, *options))
        for pod in self._pods[self._autoscaler.replicas :]:
            pod.terminate()  # it finishes what runs, and leaves
            self._pods.remove(pod)

    def _command(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(  # noqa: S603 - the command is ours
            [sys.executable, "-m", "coop_consumer.cli", *words],
            cwd=_ROOT,
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            it = json.loads(line)
            look = Look(self.now_s, it["members"], it["wanted_members"], it["left"], it["reason"])
            self.looks.append(look)


def _produce(cluster: Cluster, producer: Producer, topic: str, hot_share: float) -> int:
    """Produce until the end, and let the autoscaler look meanwhile; how many are not hot."""
    rng, count, others, due, round_s = Random(0), 0, 0, 0.0, 0.0
    before_s = cluster.now_s
    while (now_s := cluster.now_s) < END_S:
        due += (HIGH if UP_S <= now_s < DOWN_S else LOW) * (now_s - before_s)
        before_s = now_s
        while count < due:
            is_hot = rng.random() < hot_share
            producer.produce(topic, VALUE, HOT if is_hot else f"key-{rng.randrange(KEYS)}")
            count += 1
            others += not is_hot
        producer.poll(0)
        if now_s >= round_s + Autoscaler.EVERY_S:
            round_s = now_s
            cluster.sync()
        time.sleep(_TICK_S)
    assert producer.flush() == 0, "the broker took not all of them"
    return others


def _others(rows: RowFiles) -> int:
    """How many records were handled that are not of the hot key."""
    rows.read()
    return len({row.place for row in rows.rows if row.key != HOT})


def measured(bootstrap: str, hot_share: float) -> Mapping[str, object]:
    """One step up and down."""
    topic = made(bootstrap, 1)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        cluster, rows = Cluster(bootstrap, topic, folder), RowFiles(Path(folder))
        with cluster.advised():
            others = _produce(cluster, producer, topic, hot_share)
            until_s = cluster.now_s + _DONE_WITHIN_S
            while (done := _others(rows)) < others and cluster.now_s < until_s:
                time.sleep(_LOOK_S)
        rows.read()
    late = [it.at_s - UP_S for it in cluster.looks if it.left > HIGH and it.at_s > UP_S]
    wanted = [it.wanted for it in cluster.looks if it.at_s > UP_S / 2]
    return {
        "hot_share": hot_share,
        "gone_s": None if hot_share else round(max(late, default=0.0), 1),
        "turns": Course.turns(wanted),
        "wanted": max(wanted),
        "handled": len(rows.places),
        "lost": others - done,
        "out_of_order": len(out_of_order(rows.rows)),
        "repeated": repeated(rows.rows),
        "reason": max(cluster.looks, key=lambda it: it.wanted).reason,
    }


def _is_right(row: Mapping[str, object]) -> bool:
    gone_s, turns, wanted = row["gone_s"], row["turns"], row["wanted"]
    assert isinstance(turns, int)
    assert isinstance(wanted, int)
    if row["lost"] or row["out_of_order"] or turns > TURNS_MAX:
        return False
    return (
        wanted <= HELPFUL
        if gone_s is None
        else isinstance(gone_s, float) and (gone_s <= 1.5 * TARGET_S)
    )


def autoscale(bootstrap: str, *, as_json: bool) -> int:
    """Measure and print both; 1 if a promise is broken: see the tests of the model."""
    told, rows = conditions(), []
    for hot_share in (0.0, HOT_SHARE):
        rows.append(measured(bootstrap, hot_share))
        show({"case": "autoscale", **told, **rows[-1]}, as_json=as_json)
    return int(not all(map(_is_right, rows)))
