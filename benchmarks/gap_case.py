"""The case `gaps`: a million gap ranges of one key range, to a broker and back.

In: a broker. Out: a row. Every other record is finished and those between are not: a tracker takes
all in, tells its facts, they are encoded in as many parts as fit into records of the progress log,
produced, read back, decoded, and compared. CPU time but for what waits for the broker.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median

from confluent_kafka import KafkaException, Producer, TopicPartition

from assignors.key_range import WHOLE
from benchmarks.bench import Broker
from benchmarks.gaps import GAPS, KEY, memory
from benchmarks.processes import alone, resident_mb
from benchmarks.rows import JsonRow
from benchmarks.topics import made
from benchmarks.watched import BACKOFF, WatchedConsumer
from coop_consumer.cli.garbage import collect_less_often
from coop_consumer.config.config import MESSAGE_MAX_BYTES
from offsets import (
    GapTracker,
    RangeProgress,
    TenureRecord,
    decode_value,
    encode_value,
    split_record,
)
from offsets.offset_range import union

_BEGIN = 10**12
_ROOM_BYTES = 10_000
"""Of a message beside its value."""
_IN_FLIGHT = (64, 256, 1_000, 4_000, 16_000, 60_000)
_MEMORY_AT = 60_000
_READ_TIMEOUT_S = 30.0


def gaps(broker: Broker, runs: int) -> list[JsonRow]:
    """The medians of some runs, and what needs no broker."""
    found: list[dict[str, float]] = []
    for _ in range(runs):
        before_s = broker.cpu_s()
        found.append(alone(_run, broker.bootstrap))
        after_s = broker.cpu_s()
        if before_s is not None and after_s is not None:
            found[-1]["cpu_broker_s"] = after_s - before_s
    figures = {name: round(median(one[name] for one in found), 3) for name in found[0]}
    sizes, facts_us = memory(_MEMORY_AT)
    figures |= {
        "memory_a_record_bytes": round(max(sizes)),
        "facts_of_60000_ms": round(facts_us / 1_000, 1),
    }
    row: JsonRow = {
        "case": "gaps",
        "system": "ours",
        "runs": runs,
        "figures": figures,
        "bytes_a_commit": {str(count): commit_bytes(count) for count in _IN_FLIGHT},
    }
    return [row]


def commit_bytes(in_flight: int) -> int:
    """What a commit writes while so many records are in flight, half of a window of them done."""
    rng = random.Random(1)
    tracker = GapTracker([RangeProgress(WHOLE, _BEGIN)])
    window = range(_BEGIN, _BEGIN + 2 * in_flight)
    for offset in window:
        tracker.admit(offset, rng.getrandbits(63))
    for offset in rng.sample(window, in_flight):
        tracker.done_many([offset])
    tracker.cover(_BEGIN, window.stop)
    return len(encode_value(TenureRecord(0, 1, tracker.facts())))


class _Meter:
    """Seconds by name: of the CPU, or by the clock."""

    def __init__(self) -> None:
        self.spent_s: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str, clock: Callable[[], float] = time.process_time) -> Iterator[None]:
        begun_s = clock()
        yield
        self.spent_s[name] = clock() - begun_s


def _run(bootstrap: str) -> dict[str, float]:
    collect_less_often()  # as `coop-consumer run` does
    meter, rng = _Meter(), random.Random(1)
    hashes = [rng.getrandbits(63) for _ in range(2 * GAPS)]
    tracker = GapTracker([RangeProgress(WHOLE, _BEGIN)])
    with meter("track_s"):
        for number, key_hash in enumerate(hashes):
            tracker.admit(_BEGIN + number, key_hash)
        tracker.cover(_BEGIN, _BEGIN + len(hashes))
        for number in range(1, len(hashes), 2):
            tracker.done_many([_BEGIN + number])
    with meter("facts_s"):
        facts = tracker.facts()
    record = TenureRecord(0, 1, facts)
    with meter("encode_s"):
        parts = split_record(record, MESSAGE_MAX_BYTES - _ROOM_BYTES)
        data = [encode_value(part) for part in parts]
    topic = made(bootstrap, partitions=1)
    with meter("commit_s", time.monotonic):
        _produce(bootstrap, topic, data)
    with meter("read_back_s", time.monotonic):
        read, first_record_s, fetched = _consume(bootstrap, topic, len(data))
    with meter("decode_s"):
        decoded = [decode_value(KEY, one) for one in read]
    found = union(
        gap
        for one in decoded
        if isinstance(one, TenureRecord)
        for fact in one.facts
        for gap in fact.gaps
    )
    assert found == union(gap for fact in facts for gap in fact.gaps), "read back something else"
    count = len(found)
    return {
        "gap_ranges": count,
        "records": len(data),
        "bytes_a_gap": sum(map(len, data)) / count,
        "encode_millions_a_second": count / 1e6 / meter.spent_s["encode_s"],
        "decode_millions_a_second": count / 1e6 / meter.spent_s["decode_s"],
        **meter.spent_s,
        "first_record_s": first_record_s,
        "bytes_fetched": fetched / len(data),
        "cpu_worker_s": time.process_time(),
        "resident_mb": resident_mb(),
    }


def _produce(bootstrap: str, topic: str, data: Sequence[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for one in data:
        producer.produce(topic, one)
    left = producer.flush()
    assert left == 0, f"{left} records were not taken"


def _consume(bootstrap: str, topic: str, count: int) -> tuple[list[bytes], float, int]:
    """The values, when the first one was there, and how many records the broker sent."""
    consumer = WatchedConsumer({**BACKOFF, "bootstrap.servers": bootstrap, "group.id": topic})
    values: list[bytes] = []
    begun_s, first_record_s = time.monotonic(), 0.0
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        until_s = begun_s + _READ_TIMEOUT_S
        while len(values) < count:
            assert time.monotonic() < until_s, f"read {len(values)} of {count} records"
            message = consumer.poll(1.0)
            if message is None:
                continue
            if (error := message.error()) is not None:
                raise KafkaException(error)
            first_record_s = first_record_s or time.monotonic() - begun_s
            values.append(message.value() or b"")
    finally:
        consumer.close()
    return values, first_record_s, consumer.fetched
