"""The pieces of `coop_consumer.patterns` on one input and one output, to be made and used alike.

In: settings, topics, a name. Out: pieces, records written and read. `go_on` does one more input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from assignors import TopicPartition
from coop_consumer.patterns import (
    Checkpoint,
    ExclusiveProducer,
    MergeLog,
    OffsetChangelog,
    PairedOffsets,
    committed_records,
)
from tests.support.journal import WAIT_S
from tests.support.stock import wait_until_decided

FOREVER = {"retention.ms": "-1", "retention.bytes": "-1"}
Writer = Any
"""One of the pieces; each test knows which."""


ALL = (ExclusiveProducer, PairedOffsets, Checkpoint, OffsetChangelog, MergeLog)
COUNTED = (ExclusiveProducer, PairedOffsets, OffsetChangelog, MergeLog)
"""Those whose output's last record has to be their own."""


def position_of(writer: Writer) -> int:
    """Where it goes on."""
    found: int = writer.position if isinstance(writer, ExclusiveProducer) else writer.offset
    return found


class Bench:
    """An input and an output of one partition, and each piece on them; all share a name."""

    def __init__(
        self, client: Mapping[str, Any], source: str, output: str, name: str, **own: Any
    ) -> None:
        """`client` may do everything; `own` is what the pieces have besides."""
        self.client = dict(client)
        self.config: dict[str, object] = {**client, **own}
        self.name = name
        self.source, self.output = TopicPartition(source, 0), TopicPartition(output, 0)
        self.producer = Producer({**client, "acks": "all"})

    def feed(self, *values: bytes, place: TopicPartition | None = None) -> None:
        place = place or self.source
        for value in values:
            self.producer.produce(place.topic, value, b"k", place.partition)
        assert self.producer.flush(WAIT_S) == 0

    def values(self, place: TopicPartition | None = None) -> list[bytes | None]:
        place = place or self.output
        wait_until_decided(AdminClient(self.client), place.topic, place.partition)
        found = committed_records(self.client, place, 0)
        return [it.value() for it in found]

    def make(self, kind: type[Writer], **arguments: Any) -> Writer:
        config = {**self.config, **arguments.pop("config", {})}
        if kind is ExclusiveProducer:
            return ExclusiveProducer(config, self.output, self.name, **arguments)
        if kind is Checkpoint:
            return Checkpoint(config, self.source, self.name)
        if kind is MergeLog:
            return MergeLog(config, [self.source], self.output, self.name, **arguments)
        return kind(config, self.source, self.output, self.name, **arguments)

    def go_on(self, writer: Writer) -> None:
        """Do one more input, the first value of which is there."""
        match writer:
            case ExclusiveProducer():
                with writer.transaction():
                    writer.put(writer.position, b"out")
            case PairedOffsets():
                writer.put(b"out")
                writer.commit(writer.offset + 1)
            case Checkpoint():
                with writer.transaction(writer.offset + 1, "state"):
                    writer.write(self.output.topic, b"out")
            case OffsetChangelog():
                with writer.transaction(writer.offset):
                    writer.change(b"key", b"out")
            case MergeLog():
                assert writer.next_batch(WAIT_S) is not None
