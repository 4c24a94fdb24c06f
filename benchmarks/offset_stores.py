"""The part of the case `logs` about offset stores: their memory, how they load, what they commit.

In: a broker. Out: rows. Memory and loads are of two shapes of a million entries: 1,000
groups of 20 topics with 50 partitions, and 50,000 groups of 20 topics with one. Commits are of one
entry each, by 64 callers, each for a group of its own. They wait for each answer, or keep eight
under way. Kafka's own store does the same job beside: by our client, and by a consumer of
librdkafka a caller. And callers wait where there is no store at all: so much is left for one.
"""

from __future__ import annotations

import gc
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import count, product
from pathlib import Path
from queue import Empty, SimpleQueue
from statistics import median

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from assignors import TopicPartition
from benchmarks.bench import Broker
from benchmarks.processes import alone
from benchmarks.rows import JsonRow
from benchmarks.topics import made
from coop_consumer.logs.records import VisibleRecord
from coop_consumer.offset_stores import (
    KafkaOffsetStore,
    LogOffsetStore,
    MemoryOffsetStore,
    OffsetConflict,
    OffsetEntry,
    OffsetStore,
)
from coop_consumer.offset_stores.machine import OffsetMachine
from offsets.offset_codec import encode_entry, encode_place

SHAPES = {
    "a million entries, 50 partitions a topic": (1_000, 20, 50),
    "a million entries, 1 partition a topic": (50_000, 20, 1),
}
CALLERS, UNDER_WAY, SECONDS = 64, 8, 2.0
LOG_PARTITIONS = 4
APPEND_S = 0.002
"""So long an append of one record takes."""
OVER: Future[OffsetConflict | None] = Future()
"""Stands for a caller that asks no more."""
_PARTITIONS = 16
_LOAD_AT_ONCE = 1_000
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

Figures = dict[str, float]


def offset_store_rows(broker: Broker, runs: int) -> list[JsonRow]:
    """The medians of some runs; stores that commit take turns."""
    sizes: dict[str, list[Figures]] = {name: [] for name in SHAPES}
    rates: dict[str, list[Figures]] = {name: [] for name in COMMITS}
    for _ in range(runs):
        for name, shape in SHAPES.items():
            sizes[name].append(alone(tables, shape))
        for name, measure in COMMITS.items():
            rates[name].append({"commits_a_second": alone(measure, broker.bootstrap)})
    return [
        {
            "case": "logs",
            "system": "kafka" if "Kafka" in name else "ours",
            "point": name,
            "runs": runs,
            "figures": {it: round(median(one[it] for one in of), 1) for it in of[0]},
        }
        for name, of in (sizes | rates).items()
    ]


# ── A million entries ──


def tables(shape: tuple[int, int, int]) -> Figures:
    """What one table of a million entries takes, and how fast one core fills it (CPU time)."""
    groups, topics, partitions = shape
    names = product(range(groups), range(topics), range(partitions))
    value = encode_entry(OffsetEntry(1_000_000_007))
    records = [
        VisibleRecord(number, encode_place(b"consumer-group-%05d" % g, b"topic-%02d" % t, p), value)
        for number, (g, t, p) in enumerate(names)
    ]
    before_bytes = _resident_bytes()
    machine = OffsetMachine("offsets-0")
    begun_s = time.process_time()
    for at in range(0, len(records), _LOAD_AT_ONCE):
        machine.apply(records[at : at + _LOAD_AT_ONCE])
    records_s = time.process_time() - begun_s
    grown_bytes = _resident_bytes() - before_bytes
    parts = list(map(bytes, machine.snapshot()))
    begun_s = time.process_time()
    other = OffsetMachine("offsets-0")
    other.restore(parts)
    snapshot_s = time.process_time() - begun_s
    entries = len(machine.table)
    assert len(other.table) == entries == groups * topics * partitions
    return {
        "bytes_an_entry": grown_bytes / entries,
        "bytes_of_a_snapshot_an_entry": sum(map(len, parts)) / entries,
        "from_records_a_second": entries / records_s,
        "from_a_snapshot_a_second": entries / snapshot_s,
    }


def _resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


# ── Commits of 64 callers ──


def waiting(store: OffsetStore, topic: str) -> float:
    """Each caller waits for the answer to each commit; commits a second."""

    def call(number: int, end_s: float) -> int:
        for offset in count():
            if time.perf_counter() > end_s:
                return offset
            store.commit(f"{topic}-{number}", {_place(topic, number): OffsetEntry(offset)})
        raise AssertionError

    return _rate(call)


def under_way(store: OffsetStore, topic: str) -> float:
    """Each caller has eight commits under way; commits a second."""

    def call(number: int, end_s: float) -> int:
        asked: deque[Future[OffsetConflict | None]] = deque()
        for offset in count():
            if time.perf_counter() > end_s:
                while asked:
                    asked.popleft().result()
                return offset
            if len(asked) == UNDER_WAY:
                asked.popleft().result()
            entries = {_place(topic, number): OffsetEntry(offset)}
            asked.append(store.commit_later(f"{topic}-{number}", entries))
        raise AssertionError

    return _rate(call)


def _place(topic: str, number: int) -> TopicPartition:
    return TopicPartition(topic, number % _PARTITIONS)


def _rate(call: Callable[[int, float], int]) -> float:
    with ThreadPoolExecutor(CALLERS) as callers:
        begun_s = time.perf_counter()
        done = sum(callers.map(call, range(CALLERS), [begun_s + SECONDS] * CALLERS))
        return done / (time.perf_counter() - begun_s)


Measure = Callable[[OffsetStore, str], float]


def in_memory(bootstrap: str) -> float:
    """Of this process's memory."""
    with closing(MemoryOffsetStore()) as store:
        return waiting(store, bootstrap)


def over_logs(bootstrap: str, partitions: int, measure: Measure) -> float:
    """Over commit logs."""
    topic = made(bootstrap, partitions)
    with closing(LogOffsetStore({"bootstrap.servers": bootstrap}, topic, topic)) as store:
        for number in range(CALLERS):  # reads each log partition before the clock runs
            store.fetch(f"{topic}-{number}", [])
        return measure(store, topic)


def over_kafkas(bootstrap: str, measure: Measure) -> float:
    """Over Kafka's own store, by our client."""
    topic = made(bootstrap, _PARTITIONS)
    with closing(KafkaOffsetStore({"bootstrap.servers": bootstrap})) as store:
        for number in range(CALLERS):
            store.fetch(f"{topic}-{number}", [_place(topic, number)])
        return measure(store, topic)


def by_consumers(bootstrap: str) -> float:
    """Over Kafka's own store, by a consumer of librdkafka a caller."""
    topic = made(bootstrap, _PARTITIONS)

    def consumers() -> Iterator[Consumer]:
        for number in range(CALLERS):
            group = {"group.id": f"{topic}-{number}", "enable.auto.commit": False}
            yield Consumer({"bootstrap.servers": bootstrap, **group})

    made_before = list(consumers())

    def call(number: int, end_s: float) -> int:
        consumer = made_before[number]
        for offset in count():
            if time.perf_counter() > end_s:
                return offset
            place = Place(topic, number % _PARTITIONS, offset)
            consumer.commit(offsets=[place], asynchronous=False)
        raise AssertionError

    try:
        for number, consumer in enumerate(made_before):
            consumer.committed([Place(topic, number % _PARTITIONS)])
        return _rate(call)
    finally:
        for consumer in made_before:
            consumer.close()


def no_store(_: str) -> float:
    """Nothing is committed: a thread sleeps for as long as an append takes, and answers all."""
    asked: SimpleQueue[Future[OffsetConflict | None]] = SimpleQueue()

    def answer() -> None:
        left = CALLERS
        while left:
            taken = [asked.get()]  # its caller has just come back, and so have others
            time.sleep(APPEND_S)
            with suppress(Empty):
                while True:
                    taken.append(asked.get_nowait())
            for it in taken:
                left -= it is OVER
                if it is not OVER:
                    it.set_result(None)

    def call(_: int, end_s: float) -> int:
        for number in count():
            if time.perf_counter() > end_s:
                asked.put(OVER)
                return number
            mine: Future[OffsetConflict | None] = Future()
            asked.put(mine)
            mine.result()
        raise AssertionError

    with ThreadPoolExecutor(1) as server:
        done = server.submit(answer)
        rate = _rate(call)
        done.result()
    return rate


def log_1_waiting(bootstrap: str) -> float:
    """One log partition, callers wait."""
    return over_logs(bootstrap, 1, waiting)


def log_waiting(bootstrap: str) -> float:
    """Some log partitions, callers wait."""
    return over_logs(bootstrap, LOG_PARTITIONS, waiting)


def log_1_under_way(bootstrap: str) -> float:
    """One log partition, eight commits a caller are under way."""
    return over_logs(bootstrap, 1, under_way)


def log_under_way(bootstrap: str) -> float:
    """Some log partitions, eight commits a caller are under way."""
    return over_logs(bootstrap, LOG_PARTITIONS, under_way)


def kafkas_waiting(bootstrap: str) -> float:
    """Kafka's own store, callers wait."""
    return over_kafkas(bootstrap, waiting)


def kafkas_under_way(bootstrap: str) -> float:
    """Kafka's own store, eight commits a caller are under way."""
    return over_kafkas(bootstrap, under_way)


COMMITS: dict[str, Callable[[str], float]] = {
    f"no store, callers wait {APPEND_S * 1_000:g} ms": no_store,
    "offsets in memory": in_memory,
    "offsets in 1 log, callers wait": log_1_waiting,
    "offsets in 1 log, 8 under way": log_1_under_way,
    f"offsets in {LOG_PARTITIONS} logs, callers wait": log_waiting,
    f"offsets in {LOG_PARTITIONS} logs, 8 under way": log_under_way,
    "Kafka's own offsets, callers wait": kafkas_waiting,
    "Kafka's own offsets, 8 under way": kafkas_under_way,
    "Kafka's own offsets, a consumer a caller": by_consumers,
}
