"""The worked examples of the patterns, on a real broker: where the next start goes on, and why."""

from __future__ import annotations

from itertools import islice

import pytest
from confluent_kafka.admin import AdminClient

from coop_consumer.errors import ConfigError, MisuseError
from coop_consumer.patterns import (
    Checkpoint,
    ExclusiveProducer,
    MergeLog,
    PairedOffsets,
    committed_records,
)
from tests.support.single_writers import Bench, Writer
from tests.support.stock import committed, ends, eventually

pytestmark = pytest.mark.integration


def test_with_8_records_in_the_output_it_goes_on_at_8_whatever_the_end_is(
    bench: Bench, admin: AdminClient
) -> None:
    with bench.make(ExclusiveProducer) as writer:
        for batch in (range(5), range(5, 8)):
            with writer.transaction():
                for position in batch:
                    writer.put(position, b"copy %d" % position)
        with pytest.raises(ZeroDivisionError):
            fall_behind_a_copy(writer)
    end = 8 + 1 + 3  # copies, one that is void, and three markers
    eventually(lambda: [*ends(admin, bench.output.topic, 1).values()], [end].__eq__)
    with bench.make(ExclusiveProducer) as writer:
        assert writer.position == 8
        with writer.transaction():
            writer.put(8, b"copy 8")
    assert bench.values() == [b"copy %d" % position for position in range(9)]


def test_a_position_that_is_done_is_refused_and_the_transaction_goes_on(bench: Bench) -> None:
    with bench.make(ExclusiveProducer) as writer, writer.transaction():
        writer.put(3, b"3")
        for position in (3, 0):
            with pytest.raises(MisuseError, match=r"comes after 3, and positions grow.*position 4"):
                writer.put(position, b"again")
        writer.put(7, b"7")
    assert bench.values() == [b"3", b"7"]


def fall_behind_a_copy(writer: ExclusiveProducer) -> None:
    with writer.transaction():
        writer.put(8, b"void")
        writer._publisher.send()  # brokers have it
        1 / 0  # noqa: B018


def test_with_a_commit_at_4_7_and_8_outputs_one_is_dropped(bench: Bench) -> None:
    bench.feed(b"a", b"b", b"c", b"d", b"e")
    with bench.make(PairedOffsets) as pair:
        for number in range(7):
            pair.put(b"output %d" % number)
        pair.commit(4)
        pair.put(b"output 7")
        pair.publish()  # and here it falls
    with bench.make(PairedOffsets) as pair:
        assert (pair.offset, pair.outputs, pair.drop) == (4, 7, 1)
        for number in (7, 8):  # the input at 4 makes two
            pair.put(b"output %d" % number)
        pair.commit(5)
    assert bench.values() == [b"output %d" % number for number in range(9)]


def test_after_6_inputs_the_commit_says_6_and_count_6(bench: Bench, admin: AdminClient) -> None:
    bench.feed(*[b"v"] * 7)
    with bench.make(Checkpoint) as checkpoint:
        inputs = committed_records(bench.config, bench.source, checkpoint.offset)
        for count, message in enumerate(islice(inputs, 6), 1):
            with checkpoint.transaction(message.offset() + 1, f"count: {count}"):
                checkpoint.write(bench.output.topic, b"%d" % count)
    place = (bench.source.topic, bench.source.partition)
    assert committed(admin, bench.name) == {place: (6, "count: 6")}, "as Kafka's own tools see it"
    with bench.make(Checkpoint) as checkpoint:
        assert (checkpoint.offset, checkpoint.state) == (6, "count: 6")
    assert bench.values() == [b"%d" % number for number in range(1, 7)]


@pytest.mark.parametrize("kind", [ExclusiveProducer, MergeLog])
def test_a_time_out_of_transactions_above_the_brokers_is_told(
    bench: Bench, kind: type[Writer]
) -> None:
    with pytest.raises(ConfigError, match=r"transaction\.timeout\.ms=999999999 is above"):
        bench.make(kind, config={"transaction.timeout.ms": 999_999_999})
