"""Who waits for a transaction: handlers, readers of outputs, and whoever takes ranges over.

`python -m benchmarks eoswaits`. Both guarantees take turns. A member of 16 workers handles records
of 1 ms and sends an output each; a commit each 100 ms. Printed are, in milliseconds:

    begun_p99         from a record's arrival in the member until its handler begins, at 1,000 a
                      second: it waits for a worker, for its key, or for the member's threads
    made_begun_p99    from its making: the producer, the broker and the fetch are in it as well
    visible_p50       from the end of a handler until a reader of committed records has its output
    visible_idle_p50  the same at 4 records a second, where the member is idle in between

Who produces and who reads are processes of their own.

A second part kills members whose ranges another member takes over, in turns between one with no
transaction open and one that is stopped just before it commits:

    resumed_ms        from the new owner's assignment until it handled a record of each partition
                      that it has taken over
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from multiprocessing.connection import Connection
from statistics import median
from typing import Self
from uuid import uuid4

from confluent_kafka import Consumer, Message, Producer
from confluent_kafka import TopicPartition as Offset

from assignors.key_range import WHOLE
from benchmarks import topics
from benchmarks.machine import conditions
from benchmarks.stops import percentile
from coop_consumer import Context, KeyRange, Record, TopicPartition, Worker, WorkerPool
from coop_consumer.core.actions import Commit
from coop_consumer.core.transaction import Said, TransactionCall
from coop_consumer.kafka import fetcher
from coop_consumer.kafka.transactor import Transactor
from coop_consumer.log_events import LogEvent
from tests.support.journal import Place

GUARANTEES = ("at_least_once", "exactly_once")
WORK_S, WORKERS, INTERVAL_MS, KEYS = 0.001, 16, 100, 500
BUSY_PER_S, BUSY_S, IDLE_PER_S, IDLE_S = 1_000, 10.0, 4, 10.0
WARM_UP_S = 5.0
FEED_PER_S, MANY, SESSION_MS, LIMIT_S = 200, 100, 6_000, 60.0
_FETCH_MS = 5
_SPAWN = multiprocessing.get_context("spawn")


class Arrivals:
    """Notes when this process took each record from its client, in ns by place."""

    def __init__(self) -> None:
        self.at_ns: dict[Place, int] = {}
        self._take = fetcher.waiting_messages

    def __enter__(self) -> Self:
        fetcher.waiting_messages = self._noting
        return self

    def __exit__(self, *_: object) -> None:
        fetcher.waiting_messages = self._take

    def _noting(self, consumer: Consumer, count_max: int, timeout_s: float) -> list[Message]:
        messages = self._take(consumer, count_max, timeout_s)
        now_ns = time.monotonic_ns()
        self.at_ns.update(((it.partition() or 0, it.offset() or 0), now_ns) for it in messages)
        return messages


class Sends(Worker):
    """Takes its time, sends the place of each record, and notes begin and end.

    Attributes:
        begun_ns, ended_ns: By place.
        assigned_ns: When ranges of each partition last began here.
    """

    def __init__(self) -> None:
        self.begun_ns: dict[Place, int] = {}
        self.ended_ns: dict[Place, int] = {}
        self.assigned_ns: dict[int, int] = {}
        self._owned = 0

    @property
    def share(self) -> float:
        """Of all partitions, that it has."""
        return self._owned / (topics.PARTITIONS * WHOLE.size)

    def setup(self, context: Context) -> None:
        """Know where to send to."""
        self._send = context.send
        (self._outputs,) = context.config.output_names

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """Note when."""
        self.assigned_ns[tp.partition] = time.monotonic_ns()
        self._owned += sum(it.size for it in ranges)

    def on_ranges_revoked(self, _: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """They are another member's."""
        self._owned -= sum(it.size for it in ranges)

    def process(self, record: Record) -> None:
        """Handle one."""
        place = record.partition, record.offset
        self.begun_ns[place] = time.monotonic_ns()
        time.sleep(WORK_S)
        self._send(record, self._outputs, record.key, b"%d/%d" % place)
        self.ended_ns[place] = time.monotonic_ns()


def settings(bootstrap: str, guarantee: str, outputs: str, group: str) -> dict[str, object]:
    """A member's."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "processing.guarantee": guarantee,
        "output.topics": outputs,
        "commit.interval.ms": INTERVAL_MS,
        "session.timeout.ms": SESSION_MS,
    }


# ---- handlers and readers ------------------------------------------------------------------------


class Elsewhere:
    """A function in a process of its own: it takes no turns at the interpreter with the member.

    Args:
        function: Is given a pipe, and what else is given. It sends None when it is ready, goes on
            until it is told something, and sends what it has found at the end.
    """

    def __init__(self, function: Callable[..., None], *given: object) -> None:
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=function, args=(theirs, *given), daemon=True)
        self._process.start()
        theirs.close()  # if the process ends by an error, `recv` raises
        self._pipe.recv()

    def end(self, told: int = 0) -> dict[Place, int]:
        """Tell it to end; what it has found: a moment by place, in ns of the monotonic clock.

        Raises:
            TimeoutError: It has not ended in time: outputs are missing, say.
        """
        self._pipe.send(told)
        if not self._pipe.poll(LIMIT_S):
            raise TimeoutError("it does not come to an end")
        found: dict[Place, int] = self._pipe.recv()
        self._process.join()
        return found


def feed(pipe: Connection, bootstrap: str, topic: str, per_s: float) -> None:
    """Produce at a rate; find when each record was made."""
    made_ns: dict[Place, int] = {}
    producer = Producer({"bootstrap.servers": bootstrap})
    pipe.send(None)
    begun_s, number = time.monotonic(), 0
    while not pipe.poll(max(0.0, begun_s + number / per_s - time.monotonic())):
        now_ns = time.monotonic_ns()

        def note(_: object, message: Message, now_ns: int = now_ns) -> None:
            made_ns[message.partition() or 0, message.offset() or 0] = now_ns

        producer.produce(topic, topics.VALUE, f"key-{number % KEYS}", on_delivery=note)
        producer.poll(0)
        number += 1
    producer.flush()
    pipe.send(made_ns)


def read(pipe: Connection, bootstrap: str, topic: str) -> None:
    """Read committed outputs, until as many are there as it is told; find when each was seen."""
    seen_ns: dict[Place, int] = {}
    asked = {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": _FETCH_MS,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(asked)
    consumer.assign([Offset(topic, it, 0) for it in range(topics.PARTITIONS)])
    consumer.poll(1.0)
    pipe.send(None)
    awaited = sys.maxsize
    while len(seen_ns) < awaited:
        for message in consumer.consume(500, 0.01):
            _, place = topics.output_of(b"", message.value() or b"")
            seen_ns.setdefault(place, time.monotonic_ns())
        if pipe.poll():
            awaited = pipe.recv()
    consumer.close()
    pipe.send(seen_ns)


def waits(
    bootstrap: str, guarantee: str, per_s: float, seconds: float
) -> Mapping[str, list[float]]:
    """Waits of handlers and of readers, in ms. The first second does not count: it warms up."""
    topic, outputs = topics.made(bootstrap), topics.made(bootstrap)
    worker = Sends()
    config = settings(bootstrap, guarantee, outputs, f"eoswaits-{uuid4().hex[:8]}")
    with Arrivals() as arrivals, WorkerPool(worker, config, [topic], workers=WORKERS) as pool:
        reader = Elsewhere(read, bootstrap, outputs)
        until(lambda: len(worker.assigned_ns) == topics.PARTITIONS)
        feeder = Elsewhere(feed, bootstrap, topic, per_s)
        pool.wait(seconds + 1)
        made_ns = feeder.end()
        seen_ns = reader.end(len(made_ns))
    first_ns = min(made_ns.values()) + 1_000_000_000
    places = [place for place, at_ns in made_ns.items() if at_ns > first_ns]
    return {
        "begun": [(worker.begun_ns[it] - arrivals.at_ns[it]) / 1e6 for it in places],
        "made_begun": [(worker.begun_ns[it] - made_ns[it]) / 1e6 for it in places],
        "visible": [(seen_ns[it] - worker.ended_ns[it]) / 1e6 for it in places],
    }


def until(is_so: Callable[[], bool]) -> None:
    """Wait for it.

    Raises:
        TimeoutError: It is not.
    """
    end_s = time.monotonic() + LIMIT_S
    while not is_so():
        if time.monotonic() > end_s:
            raise TimeoutError("it does not come to an end")
        time.sleep(0.01)


# ---- taking over ---------------------------------------------------------------------------------

LEAVES, DIES, DIES_OPEN = "leaves", "is killed", "is killed before it commits"


def be_member(bootstrap: str, topic: str, outputs: str, group: str, way: str) -> None:
    """Be a member that another one takes over from.

    Says a line when it has worked for a while. Told a line, it goes on until it stands where it is
    to be killed, and says another one; or it leaves, and says when it had left.
    """
    worker, is_told = Sends(), threading.Event()
    ask = Transactor._asked

    def asked(self: Transactor, call: TransactionCall, action: Commit) -> Said:
        if is_told.is_set() and call is TransactionCall.COMMIT:
            print(time.monotonic_ns(), flush=True)
            threading.Event().wait()
        return ask(self, call, action)

    if way == DIES_OPEN:
        Transactor._asked = asked  # type: ignore[method-assign]
    config = settings(bootstrap, "exactly_once", outputs, group)
    with WorkerPool(worker, config, [topic], workers=WORKERS):
        until(lambda: len(worker.ended_ns) > MANY)
        print(0, flush=True)
        sys.stdin.readline()
        is_told.set()
        if way == DIES:
            print(time.monotonic_ns(), flush=True)
        if way != LEAVES:
            threading.Event().wait()
    print(time.monotonic_ns(), flush=True)


class Generations(logging.Handler):
    """Notes when this process last learned of a generation of its group, in ns."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.at_ns = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Is it one?"""
        if getattr(record, "event", "") == LogEvent.MEMBER_JOINED.value:
            self.at_ns = time.monotonic_ns()


def resumed_ms(bootstrap: str, way: str) -> float:
    """How long ranges of a member rest until another one begins them.

    From the end of a member that leaves, or, behind one that was killed, from the moment when the
    other one learned of its assignment.
    """
    topic, outputs = topics.made(bootstrap), topics.made(bootstrap)
    group, worker, generations = f"eoswaits-{uuid4().hex[:8]}", Sends(), Generations()
    told = json.dumps([bootstrap, topic, outputs, group, way])
    logger = logging.getLogger("coop_consumer")
    logger.setLevel(logging.INFO)
    logger.addHandler(generations)
    with ExitStack() as stack:
        stack.callback(logger.removeHandler, generations)
        config = settings(bootstrap, "exactly_once", outputs, group)
        stack.enter_context(WorkerPool(worker, config, [topic], workers=WORKERS))
        stack.callback(Elsewhere(feed, bootstrap, topic, FEED_PER_S).end)
        until(lambda: len(worker.assigned_ns) == topics.PARTITIONS)
        other = stack.enter_context(
            subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-m", "benchmarks.eos_waits", told],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(other.kill)
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()
        until(lambda: worker.share < 1)
        worker.assigned_ns.clear()
        print(file=other.stdin, flush=True)
        ended_ns = int(other.stdout.readline())
        if way != LEAVES:
            other.kill()
        until(lambda: worker.share == 1)
        began_ns = ended_ns if way == LEAVES else generations.at_ns
    return (max(worker.assigned_ns.values()) - began_ns) / 1e6


# ---- all -----------------------------------------------------------------------------------------


def eos_waits(bootstrap: str, runs: int, *, as_json: bool) -> int:
    """Measure and print everything; always 0: nothing is promised by this program."""
    found: dict[str, dict[str, list[float]]] = {it: defaultdict(list) for it in GUARANTEES}
    ranges = defaultdict[str, list[float]](list)
    for guarantee in GUARANTEES:  # a broker that has just started takes its time
        waits(bootstrap, guarantee, BUSY_PER_S, WARM_UP_S)
    for number in range(runs):
        for guarantee in GUARANTEES[:: 1 if number % 2 else -1]:
            busy = waits(bootstrap, guarantee, BUSY_PER_S, BUSY_S)
            idle = waits(bootstrap, guarantee, IDLE_PER_S, IDLE_S)
            figures = found[guarantee]
            figures["begun_p99"].append(percentile(busy["begun"], 0.99))
            figures["made_begun_p99"].append(percentile(busy["made_begun"], 0.99))
            figures["visible_p50"].append(percentile(busy["visible"], 0.5))
            figures["visible_idle_p50"].append(percentile(idle["visible"], 0.5))
        for way in (LEAVES, DIES, DIES_OPEN):
            ranges[way].append(resumed_ms(bootstrap, way))
    told = {
        guarantee: {name: [round(it, 1) for it in each] for name, each in figures.items()}
        for guarantee, figures in found.items()
    }
    resumed = {way: [round(it) for it in each] for way, each in ranges.items()}
    if as_json:
        print(
            json.dumps(
                {"case": "eoswaits", **told, "resumed_ms": resumed, "conditions": conditions()}
            )
        )
        return 0
    for guarantee, figures in told.items():
        for name, each in figures.items():
            print(f"{guarantee:16} {name:18} {median(each):8.1f}   of {each}")
    for way, moved in resumed.items():
        print(f"{'resumed_ms':16} the other {way:28} {median(moved):6.0f}   of {moved}")
    return 0


if __name__ == "__main__":
    be_member(*json.loads(sys.argv[1]))
