"""What users of `CooperativeConsumer` write, as mypy has to understand it. Never run."""

from __future__ import annotations

from typing import assert_type

from opentelemetry.context import Context

from coop_consumer import (
    CommittedOffset,
    Config,
    CooperativeConsumer,
    KeyRange,
    OffsetRange,
    Owner,
    RangeListener,
    Record,
    TopicPartition,
)


class Loading(RangeListener):
    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        assert_type(tp.topic, str)
        assert_type([key_range.lo for key_range in ranges], list[int])


def bill(record: Record) -> None:
    assert_type(record.key, bytes | None)
    assert_type(record.value, bytes | None)
    assert_type(record.headers, list[tuple[str, bytes | None]])
    assert_type(record.timestamp_ms, int)


def subscribed() -> None:
    with CooperativeConsumer({"bootstrap.servers": "b:9092", "group.id": "billing"}) as consumer:
        consumer.subscribe(["orders"], Loading())
        record = consumer.poll(timeout=1.0)
        assert_type(record, Record | None)
        if record is not None:
            try:
                assert_type(consumer.trace_context(record), Context)
                bill(record)
            except ValueError as error:
                consumer.failed(record, error)
            else:
                consumer.done(record)
        assert_type(consumer.consume(num_messages=100, timeout=1.0), list[Record])
        for each in consumer:
            bill(each)
            consumer.done(each)


def assigned() -> None:
    config = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "billing"})
    consumer, tp = CooperativeConsumer(config), TopicPartition("orders", 3)
    consumer.assign({tp: [KeyRange(0, 99)], TopicPartition("orders", 4): []})
    consumer.pause([tp])
    consumer.resume([tp])
    consumer.seek(tp, 42)
    assert_type(consumer.assignment(), dict[TopicPartition, tuple[KeyRange, ...]])
    assert_type(consumer.commit(), dict[TopicPartition, int])
    assert_type(consumer.position([tp]), dict[TopicPartition, int | None])
    found = consumer.committed([tp])[tp]
    assert_type(found, CommittedOffset | None)
    if found is not None:
        assert_type(found.gaps, tuple[OffsetRange, ...])
    assert_type(consumer.owner_of("orders", b"key"), Owner | None)
    consumer.close(timeout=5.0)


def mistakes(consumer: CooperativeConsumer) -> None:
    consumer.subscribe("orders")  # type: ignore[arg-type]
    consumer.done(None)  # type: ignore[arg-type]
