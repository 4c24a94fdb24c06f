"""Several inputs merged on a real broker: in a recorded order, whoever reads it, however often."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer

from assignors import TopicPartition
from coop_consumer.errors import LogConflictError, MisuseError
from coop_consumer.patterns import MergedBatch, MergeLog
from coop_consumer.patterns import merge_log as module
from coop_consumer.patterns.held import HeldRecords
from tests.support.brokers import MakeTopic
from tests.support.journal import WAIT_S
from tests.support.stock import eventually

pytestmark = pytest.mark.integration


class Merging:
    """Two inputs of one partition, and their merge log."""

    def __init__(self, bootstrap: str, topic: MakeTopic, name: str) -> None:
        self.config: dict[str, object] = {"bootstrap.servers": bootstrap}
        self.inputs = [TopicPartition(topic(), 0), TopicPartition(topic(), 0)]
        self.log, self.name = TopicPartition(topic(), 0), name
        self.producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})

    def feed(self, number: int, *values: str) -> None:
        for value in values:
            self.producer.produce(self.inputs[number].topic, value.encode(), b"k", 0)
        assert self.producer.flush(WAIT_S) == 0

    @contextmanager
    def merge(self, position: int = 0) -> Iterator[MergeLog]:
        with MergeLog(self.config, self.inputs, self.log, self.name, position) as found:
            yield found

    def batches(self, merge: MergeLog, count: int) -> list[MergedBatch]:
        """Batches with as many records."""
        found: list[MergedBatch] = []
        while sum(len(batch.messages) for batch in found) < count:
            batch = merge.next_batch(WAIT_S)
            assert batch is not None, "no record for a long time"
            found.append(batch)
        assert sum(len(batch.messages) for batch in found) == count
        return found


def values(batches: Sequence[MergedBatch]) -> list[str]:
    return [(it.value() or b"").decode() for batch in batches for it in batch.messages]


@pytest.fixture
def merging(bootstrap: str, topic: MakeTopic, group_id: str) -> Merging:
    return Merging(bootstrap, topic, group_id)


def test_records_come_in_the_order_in_which_they_arrived_and_in_it_again(merging: Merging) -> None:
    """The drawing of the merge: 0 of the first, then 0 and 1 of the second, and so on."""
    arrivals = [(0, 1), (1, 2), (0, 2), (1, 1), (0, 1), (1, 2), (0, 1)]
    wanted: list[str] = []
    with merging.merge() as merge:
        batches: list[MergedBatch] = []
        for number, count in arrivals:
            new = [f"{number}:{len(wanted) + at}" for at in range(count)]
            merging.feed(number, *new)
            batches += merging.batches(merge, count)
            wanted += new
    assert values(batches) == wanted
    with merging.merge() as merge:
        assert values(merging.batches(merge, len(wanted))) == wanted
        assert merge.next_batch(0.0) is None
    for at, batch in enumerate(batches):
        rest = values(batches[at + 1 :])
        with merging.merge(batch.next_offset) as merge:
            assert values(merging.batches(merge, len(rest))) == rest


def test_after_the_recorded_orders_it_goes_on_with_what_arrives(merging: Merging) -> None:
    merging.feed(0, "a", "b")
    merging.feed(1, "c")
    with merging.merge() as merge:
        first = merging.batches(merge, 3)
    merging.feed(1, "d", "e")
    with merging.merge() as merge:
        again = merging.batches(merge, 5)
        merging.feed(0, "f")
        again += merging.batches(merge, 1)
    assert values(again)[:3] == values(first)
    assert values(again)[3:] == ["d", "e", "f"]


def test_inputs_that_come_before_the_recorded_orders_wait_for_them(
    merging: Merging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One Consumer reads all; which partition's records it brings first is chance."""
    merging.feed(0, "a", "b")
    merging.feed(1, "c")
    with merging.merge() as merge:
        first = merging.batches(merge, 3)
    with merging.merge() as merge:
        with monkeypatch.context() as patch:
            patch.setattr(merge, "_pause_what_is_full", lambda: None)
            merge._tail.keep_paused({merging.log})
            eventually(lambda: merge.next_batch(0.1) or len(merge._held) == 3)
            assert merge.next_batch(0.0) is None, "their order is not read yet"
        again = merging.batches(merge, 3)
        merging.feed(1, "d")
        again += merging.batches(merge, 1)
    assert values(again) == [*values(first), "d"]


def test_inputs_may_have_holes(merging: Merging, bootstrap: str) -> None:
    """Markers and aborted records take offsets, and are no records."""
    merging.feed(1, "z")
    ids: Any = {"transactional.id": f"{merging.name}-input"}
    producer = Producer({"bootstrap.servers": bootstrap, **ids})
    producer.init_transactions(WAIT_S)
    for number in range(6):
        producer.begin_transaction()
        for value in (f"{number}", f"{number}'"):
            producer.produce(merging.inputs[0].topic, value, partition=0)
        if number % 2:
            producer.commit_transaction(WAIT_S)
        else:
            assert producer.flush(WAIT_S) == 0
            producer.abort_transaction(WAIT_S)
    with merging.merge() as merge:
        first = values(merging.batches(merge, 7))
    assert [it for it in first if it != "z"] == ["1", "1'", "3", "3'", "5", "5'"]
    with merging.merge() as merge:
        assert values(merging.batches(merge, 7)) == first


def test_an_input_may_be_added_and_one_may_go_once_its_orders_are_done(
    merging: Merging, topic: MakeTopic
) -> None:
    both = list(merging.inputs)
    merging.feed(0, "a")
    merging.feed(1, "b")
    merging.inputs = both[:1]
    with merging.merge() as merge:
        assert values(merging.batches(merge, 1)) == ["a"]
    merging.inputs = both
    with merging.merge() as merge:
        batches = merging.batches(merge, 2)
        assert values(batches) == ["a", "b"]
    merging.inputs = both[1:]
    with merging.merge() as merge, pytest.raises(LogConflictError, match=f"records of {both[0]} "):
        merge.next_batch(WAIT_S)


def test_an_input_is_paused_while_much_of_it_waits(
    merging: Merging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorded orders name the other input first, so this one's records have to wait."""
    monkeypatch.setattr(module, "HeldRecords", partial(HeldRecords, records_max=20))
    monkeypatch.setattr(module, "BATCH_RECORDS", 10)
    monkeypatch.setattr("coop_consumer.kafka.tail.BATCH_MAX", 10)
    merging.feed(0, *[f"a{number}" for number in range(100)])
    with merging.merge() as merge:
        first = values(merging.batches(merge, 100))
    merging.feed(1, *[f"b{number}" for number in range(300)])
    seen: list[bool] = []
    with merging.merge() as merge:
        again: list[MergedBatch] = []
        while sum(len(batch.messages) for batch in again) < 400:
            batch = merge.next_batch(WAIT_S)
            assert batch is not None
            again.append(batch)
            assert len(merge._held) <= 2 * (20 + 10), "what is held is bounded"
            seen.append(merging.inputs[1] in merge._tail.paused)
    assert values(again)[:100] == first
    assert values(again)[100:] == [f"b{number}" for number in range(300)]
    assert any(seen)


def test_an_input_that_the_next_order_waits_for_is_not_paused(
    merging: Merging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay may get the records of an order in smaller pieces than the first run did."""
    monkeypatch.setattr(module, "HeldRecords", partial(HeldRecords, bytes_max=100))
    wanted = [f"{number:050}" for number in range(60)]
    with merging.merge() as merge:
        for first in (0, 20, 40):
            merging.feed(0, *wanted[first : first + 20])
            found = values(merging.batches(merge, 20))
            assert found == wanted[first : first + 20]
    monkeypatch.setattr("coop_consumer.kafka.tail.BATCH_MAX", 1)
    with merging.merge() as merge:
        assert values(merging.batches(merge, 60)) == wanted


def test_who_goes_on_behind_an_interrupt_is_refused_as_records_may_be_missing(
    merging: Merging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An order without them would be a sound one: inputs may have holes."""
    merging.feed(0, "a", "b")
    with merging.merge() as merge:
        real = merge._tail.messages

        def messages(timeout_s: float) -> list[Any]:
            if real(timeout_s):
                raise KeyboardInterrupt
            return []

        with monkeypatch.context() as patch:
            patch.setattr(merge._tail, "messages", messages)
            with pytest.raises(KeyboardInterrupt):
                merge.next_batch(WAIT_S)
        merging.feed(0, "c")
        with pytest.raises(MisuseError, match="Make a new MergeLog at the position"):
            merge.next_batch(WAIT_S)
    with merging.merge() as merge:
        assert values(merging.batches(merge, 3)) == ["a", "b", "c"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_is_refused_and_its_parent_goes_on(merging: Merging) -> None:
    merging.feed(0, "a")
    with merging.merge() as merge:
        child = os.fork()
        if child == 0:
            try:
                merge.next_batch(0.1)
            except MisuseError:
                merge.close()  # closes nothing of its parent's
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert values(merging.batches(merge, 1)) == ["a"]


@pytest.mark.parametrize("inputs", ["none", "twice", "log"])
def test_inputs_that_cannot_be_are_refused(merging: Merging, inputs: str) -> None:
    first = merging.inputs[0]
    merging.inputs = {"none": [], "twice": [first, first], "log": [first, merging.log]}[inputs]
    with pytest.raises(MisuseError, match="Name each input once"), merging.merge():
        pass
