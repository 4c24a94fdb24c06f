"""What users of `coop_consumer.patterns` write, as mypy has to understand it. Never run."""

from __future__ import annotations

from typing import assert_type

from coop_consumer import TopicPartition
from coop_consumer.patterns import (
    Checkpoint,
    Deduplicator,
    ExclusiveProducer,
    MergedBatch,
    MergeLog,
    OffsetChangelog,
    PairedOffsets,
    committed_records,
    with_source,
)

CONFIG = {"bootstrap.servers": "b:9092"}
ORDERS, OUT = TopicPartition("orders", 0), TopicPartition("out", 0)


def copies() -> None:
    with ExclusiveProducer(CONFIG, OUT, "copier", begin=7) as producer, producer.transaction():
        assert_type(producer.position, int)
        producer.put(8, b"value", None, [("unit", b"EUR")], timestamp_ms=1)


def pairs() -> None:
    with PairedOffsets(CONFIG, ORDERS, OUT, "splitter") as pair:
        for record in committed_records(CONFIG, ORDERS, pair.offset):
            pair.put(record.value(), record.key(), with_source([], ORDERS, record.offset() or 0))
            pair.publish()
            pair.commit((record.offset() or 0) + 1)
        assert_type(pair.drop, int)


def states() -> None:
    with Checkpoint(CONFIG, ORDERS, "counter") as checkpoint:
        assert_type(checkpoint.state, str)
        with checkpoint.transaction(checkpoint.offset + 1, "count: 6") as transaction:
            assert_type(transaction, Checkpoint)
            transaction.write("out", b"6")
        checkpoint.commit(checkpoint.offset + 1, "count: 7")


def add(state: dict[bytes, int], key: bytes, value: bytes | None) -> None:
    state[key] = state.get(key, 0) + int(value or 0)


def changes() -> None:
    with OffsetChangelog(CONFIG, ORDERS, OUT, "values") as values:
        assert_type(values.state, dict[bytes, bytes])
        with values.transaction(values.offset):
            values.change(b"key", None)
    operations = OffsetChangelog(CONFIG, ORDERS, OUT, "sums", initial=dict[bytes, int], apply=add)
    assert_type(operations.state, dict[bytes, int])


def merges() -> None:
    with MergeLog(CONFIG, [ORDERS], OUT, "merger", 42) as merge:
        batch = merge.next_batch(timeout_s=0.5)
        assert_type(batch, MergedBatch | None)
        if batch is not None:
            assert_type(batch.next_offset, int)
            assert_type([it.value() for it in batch.messages], list[bytes | None])


def reads() -> None:
    dedup = Deduplicator(("output", "source.offset"))
    dedup.catch_up(CONFIG, OUT, 42, look_back=1_000)
    assert_type([dedup.is_new(it) for it in committed_records(CONFIG, OUT, 42)], list[bool])


def mistakes() -> None:
    ExclusiveProducer(CONFIG, "out-0", "copier")  # type: ignore[arg-type]
    OffsetChangelog(CONFIG, ORDERS, OUT, "sums", apply=add)  # type: ignore[call-overload]
