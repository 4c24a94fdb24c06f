"""Single writers whose input or output has lost records, was made again, or never had them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from assignors import TopicPartition
from coop_consumer.errors import InputGoneError, LogConflictError, MisuseError
from coop_consumer.patterns import (
    Checkpoint,
    ExclusiveProducer,
    MergeLog,
    OffsetChangelog,
    PairedOffsets,
)
from tests.support.brokers import MakeTopic
from tests.support.journal import WAIT_S
from tests.support.single_writers import FOREVER, Bench, Writer, position_of
from tests.support.stock import committed, eventually, plain_visit, wait_until_empty
from tests.support.topics import ADMIN_TIMEOUT_S, create_topic, remove_below

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("kind", [PairedOffsets, Checkpoint, OffsetChangelog])
def test_an_input_that_is_gone_is_an_error_until_the_loss_is_accepted(
    bench: Bench, kind: type[Writer], admin: AdminClient
) -> None:
    bench.feed(*[b"v"] * 6)
    with bench.make(kind) as writer:
        bench.go_on(writer)
    remove_below(admin, bench.source.topic, 4)
    with pytest.raises(
        InputGoneError, match=f"goes on at offset 1 of {bench.source}, which begins at 4"
    ):
        bench.make(kind)
    with bench.make(kind, config={"on.data.loss": "warn"}) as writer:
        assert writer.offset == 4
        bench.go_on(writer)
    with bench.make(kind) as writer:
        assert writer.offset == 5


def test_outputs_of_inputs_that_are_gone_are_not_waited_for(
    bench: Bench, admin: AdminClient
) -> None:
    """They were published before the commit, and would be dropped when they come again."""
    bench.feed(*[b"v"] * 6)
    with bench.make(PairedOffsets) as pair:
        bench.go_on(pair)
        pair.put(b"of the second input")
        pair.publish()
    remove_below(admin, bench.source.topic, 4)
    with bench.make(PairedOffsets, config={"on.data.loss": "warn"}) as pair:
        assert (pair.offset, pair.outputs, pair.drop) == (4, 2, 0)
        bench.go_on(pair)
    assert bench.values() == [b"out", b"of the second input", b"out"]


def test_a_merge_whose_input_is_gone_ends(bench: Bench, admin: AdminClient) -> None:
    bench.feed(*[b"v"] * 6)
    with bench.make(MergeLog) as merge:
        batch = merge.next_batch(WAIT_S)
        assert batch is not None
    remove_below(admin, bench.source.topic, 3)
    with pytest.raises(InputGoneError, match=f"goes on at offset 0 of {bench.source}"):
        bench.make(MergeLog)
    with bench.make(MergeLog, config={"on.data.loss": "warn"}) as merge:
        told = f"{bench.source} had {len(batch.messages)} records"
        with pytest.raises(LogConflictError, match=told):
            merge.next_batch(WAIT_S)


def test_a_merge_at_a_position_that_its_log_does_not_have_is_told(
    bench: Bench, admin: AdminClient
) -> None:
    bench.feed(*[b"v"] * 3)
    with bench.make(MergeLog) as merge:
        batch = merge.next_batch(WAIT_S)
        assert batch is not None
    with pytest.raises(
        LogConflictError, match=r"position=99 lies above its end, 2: .*or 0 to"
    ) as it:
        bench.make(MergeLog, position=99)
    assert "on.data.loss" not in str(it.value), "that would not help"
    bench.feed(b"new")
    with bench.make(MergeLog, position=batch.next_offset) as merge:
        last = merge.next_batch(WAIT_S)
        assert last is not None
    remove_below(admin, bench.output.topic, batch.next_offset)
    with pytest.raises(InputGoneError, match=f"goes on at offset 0 of {bench.output}"):
        bench.make(MergeLog)
    with bench.make(MergeLog, config={"on.data.loss": "warn"}) as merge:
        found = merge.next_batch(WAIT_S)
        assert [it.value() for it in found.messages] == [b"new"], "the other order is lost"
        assert found.next_offset == last.next_offset


@pytest.mark.parametrize(
    ("kind", "commit"),
    [
        (PairedOffsets, lambda it, offset: it.commit(offset)),
        (Checkpoint, lambda it, offset: it.commit(offset, "state")),
        (OffsetChangelog, lambda it, offset: it.transaction(offset - 1).__enter__()),
    ],
)
def test_an_offset_above_the_inputs_end_is_not_committed(
    bench: Bench, kind: type[Writer], commit: Callable[[Writer, int], object]
) -> None:
    """The next start would say that retention has removed what was never there."""
    bench.feed(b"a", b"b")
    with bench.make(kind) as writer:
        with pytest.raises(MisuseError, match=f"input 2 would be done, and {bench.source} ends at"):
            commit(writer, 3)
        bench.feed(b"c")
        bench.go_on(writer)
        commit(writer, 3)
    with bench.make(kind) as writer:
        assert writer.offset == (1 if kind is OffsetChangelog else 3)


@pytest.mark.parametrize("kind", [PairedOffsets, Checkpoint])
def test_an_input_that_is_done_is_not_committed_again(bench: Bench, kind: type[Writer]) -> None:
    bench.feed(b"a", b"b")
    with bench.make(kind) as writer:
        bench.go_on(writer)
        bench.go_on(writer)
        commit = writer.commit if kind is PairedOffsets else partial(writer.commit, state="old")
        with pytest.raises(MisuseError, match="offset 1 lies below 2, which is committed"):
            commit(1)
    with bench.make(kind) as writer:
        assert writer.offset == 2


def test_a_commit_of_somebody_else_is_no_pair(bench: Bench, admin: AdminClient) -> None:
    """As if the name were that of a consumer group: where that stands, this writer does not."""
    bench.feed(b"a", b"b")
    plain_visit(bench.client, bench.source.topic, bench.name, 1)
    wait_until_empty(admin, bench.name)
    with pytest.raises(LogConflictError, match=r"offset that is no pair.*no consumer group has"):
        bench.make(PairedOffsets)
    assert committed(admin, bench.name)[bench.source.topic, 0][0] == 1, "its group goes on there"


@pytest.mark.parametrize("kind", [ExclusiveProducer, PairedOffsets])
def test_an_output_that_was_emptied_needs_a_word_once(
    bench: Bench, kind: type[Writer], admin: AdminClient
) -> None:
    bench.feed(*[b"v"] * 6)
    with bench.make(kind) as writer:
        bench.go_on(writer)
    remove_below(admin, bench.output.topic, -1)  # all
    with pytest.raises(LogConflictError, match="all its records were removed"):
        bench.make(kind)
    with bench.make(kind, begin=3) as writer:
        assert position_of(writer) == 3
        bench.go_on(writer)
    with bench.make(kind) as writer:
        assert position_of(writer) == 4


@pytest.mark.parametrize("kind", [PairedOffsets, OffsetChangelog, MergeLog])
def test_an_input_that_was_made_again_is_another_one(
    bench: Bench, kind: type[Writer], admin: AdminClient, topic: MakeTopic
) -> None:
    name = f"{bench.name}-again"
    create_topic(admin, name, config=FOREVER)
    bench.source = TopicPartition(name, 0)
    bench.feed(b"a", b"b")
    with bench.make(kind) as writer:
        bench.go_on(writer)
    admin.delete_topics([name])[name].result(ADMIN_TIMEOUT_S)
    create_again(admin, name)
    bench.feed(b"c", b"d")
    with pytest.raises(LogConflictError, match=r"made again|forgotten it"):
        bench.make(kind)
    admin.delete_topics([name])[name].result(ADMIN_TIMEOUT_S)


def create_again(admin: AdminClient, name: str) -> None:
    def made() -> bool:
        try:
            create_topic(admin, name, config=FOREVER)
        except KafkaException:  # its deletion is under way
            return False
        return True

    eventually(made)
