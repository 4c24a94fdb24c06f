"""The case `logs`: conditional appends alone and racing, a bulk load, and offset stores.

In: a broker. Out: a row each, beside a plain way to write the same without the promise: a
transaction an append that checks nothing, or an idempotent producer. Those take turns with ours.
`lost` counts updates that one of several racing publishers has overwritten, and records of a load
that are missing or double.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from statistics import median, quantiles
from time import perf_counter
from typing import Any

from confluent_kafka import Producer

from benchmarks.bench import Broker
from benchmarks.offset_stores import offset_store_rows
from benchmarks.processes import alone
from benchmarks.rows import JsonRow
from benchmarks.topics import made
from coop_consumer.logs import ConditionalProducer, LogToken, NewRecord
from tests.support.stock import records_of

APPENDS, BATCHES, BATCH = 400, 60, 1_000
RACERS, INCREMENTS = 4, 1_000
LOAD = 200_000
VALUE = b"x" * 100
_WARM = 10
_ANSWER_S = 120.0

Figures = dict[str, float]
Way = Callable[[str], Figures]


def logs(broker: Broker, runs: int) -> list[JsonRow]:
    """The medians of some runs."""
    found: dict[str, list[Figures]] = {name: [] for name in WAYS}
    for _ in range(runs):
        for name, way in WAYS.items():
            found[name].append(alone(way, broker.bootstrap))
    return [
        {
            "case": "logs",
            "system": "unchecked" if "unchecked" in name else "ours",
            "point": name,
            "runs": runs,
            "figures": {it: round(median(one[it] for one in of), 2) for it in of[0]},
        }
        for name, of in found.items()
    ] + offset_store_rows(broker, runs)


def _figures(count: int, times_s: list[float], took_s: float, lost: int = 0) -> Figures:
    p50_s, p95_s = median(times_s), quantiles(times_s, n=20)[-1]
    return {
        "appends_a_second": len(times_s) / took_s,
        "records_a_second": count / took_s,
        "p50_ms": p50_s * 1_000,
        "p95_ms": p95_s * 1_000,
        "lost": lost,
    }


def _timed(append: Callable[[int], object], appends: int, size: int) -> Figures:
    for number in range(_WARM):
        append(number)
    times_s = []
    for number in range(appends):
        began_s = perf_counter()
        append(number)
        times_s.append(perf_counter() - began_s)
    return _figures(appends * size, times_s, sum(times_s))


# ---- one publisher ------------------------------------------------------------------------------


def _alone(bootstrap: str, appends: int, size: int) -> Figures:
    records = [NewRecord(b"key", VALUE)] * size
    with ConditionalProducer({"bootstrap.servers": bootstrap}, made(bootstrap, 1), 0, "a") as it:
        token = it.token()

        def append(_: int) -> None:
            nonlocal token
            end = it.append(records, token)
            assert isinstance(end, LogToken), "nobody else appends"
            token = end

        return _timed(append, appends, size)


def _unchecked(bootstrap: str, appends: int, size: int) -> Figures:
    """A transaction an append, and no look at where its records lie."""
    topic = made(bootstrap, 1)
    settings = {"bootstrap.servers": bootstrap, "transactional.id": topic, "linger.ms": 0}
    producer = Producer(settings)
    producer.init_transactions()

    def append(_: int) -> None:
        producer.begin_transaction()
        for _ in range(size):
            producer.produce(topic, VALUE, b"key", 0)
        producer.commit_transaction()

    return _timed(append, appends, size)


# ---- racing -------------------------------------------------------------------------------------


def _racing(bootstrap: str) -> Figures:
    topic, spawn = made(bootstrap, 1), get_context("spawn")
    wins: Any = spawn.Queue()
    ready = spawn.Barrier(RACERS + 1)
    racers = [
        spawn.Process(target=_race, args=(bootstrap, topic, f"racer-{n}", ready, wins))
        for n in range(RACERS)
    ]
    for it in racers:
        it.start()
    ready.wait(_ANSWER_S)
    began_s = perf_counter()
    times_s = [taken for _ in racers for taken in wins.get(timeout=_ANSWER_S)]
    took_s = perf_counter() - began_s
    for it in racers:
        it.join()
    counts = [int(it.value() or b"") for it in records_of({"bootstrap.servers": bootstrap}, topic)]
    lost = sum(later != former + 1 for former, later in pairwise([0, *counts]))
    lost += abs(len(times_s) - INCREMENTS) + abs(len(counts) - INCREMENTS)
    return _figures(len(times_s), times_s, took_s, lost)


def _race(bootstrap: str, topic: str, name: str, ready: Any, wins: Any) -> None:
    """Add one to a counter again and again, until it has come far enough."""
    times_s: list[float] = []
    with ConditionalProducer({"bootstrap.servers": bootstrap}, topic, 0, name) as producer:
        token, known = producer.token(), 0
        ready.wait(_ANSWER_S)
        began_s = perf_counter()
        while known < INCREMENTS:
            end = producer.append([NewRecord(None, b"%d" % (known + 1))], token)
            if isinstance(end, LogToken):
                token, known = end, known + 1
                now_s = perf_counter()
                times_s.append(now_s - began_s)
                began_s = now_s
            else:
                last = producer.read(token)[-1]
                token, known = token.at(last.offset), int(last.value or b"")
    wins.put(times_s)


# ---- bulk load ----------------------------------------------------------------------------------


def _records() -> Iterator[NewRecord]:
    for number in range(LOAD):
        yield NewRecord(b"%d" % number, VALUE)


def _loaded(bootstrap: str) -> Figures:
    topic = made(bootstrap, 1)
    with ConditionalProducer({"bootstrap.servers": bootstrap}, topic, 0, "loader") as producer:
        began_s = perf_counter()
        producer.bulk_load(_records())
        took_s = perf_counter() - began_s
    return _load_figures(bootstrap, topic, took_s)


def _unchecked_load(bootstrap: str) -> Figures:
    """An idempotent producer, which begins anew if it is killed."""
    topic, settings = made(bootstrap, 1), {"bootstrap.servers": bootstrap}
    producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 5})
    began_s = perf_counter()
    for key, value, _ in _records():
        while True:
            try:
                producer.produce(topic, value, key, 0)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    return _load_figures(bootstrap, topic, perf_counter() - began_s)


def _load_figures(bootstrap: str, topic: str, took_s: float) -> Figures:
    keys = [it.key() for it in records_of({"bootstrap.servers": bootstrap}, topic)]
    wrong = sum(key != b"%d" % number for number, key in enumerate(keys)) + abs(len(keys) - LOAD)
    batches = LOAD // BATCH
    return _figures(LOAD, [took_s / batches] * batches, took_s, wrong)


WAYS: dict[str, Way] = {
    "1 record": partial(_alone, appends=APPENDS, size=1),
    "1 record, unchecked": partial(_unchecked, appends=APPENDS, size=1),
    "1,000 records": partial(_alone, appends=BATCHES, size=BATCH),
    "1,000 records, unchecked": partial(_unchecked, appends=BATCHES, size=BATCH),
    "4 racing": _racing,
    "bulk load": _loaded,
    "load, unchecked": _unchecked_load,
}
