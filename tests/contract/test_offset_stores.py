"""What every offset store promises. Another one joins by a subclass that gives its `place`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.errors import (
    MisuseError,
    OffsetsPartlyStoredError,
    TopicMissingError,
)
from coop_consumer.kafka.group_offsets import GroupOffsets
from coop_consumer.logs.memory_log import MemoryPartition
from coop_consumer.offset_stores import (
    KafkaOffsetStore,
    LogOffsetStore,
    MemoryOffsetStore,
    OffsetConflict,
    OffsetEntry,
    OffsetStore,
)
from coop_consumer.status.errors import GroupInUseError
from offsets import Committed, OffsetRange
from tests.support.brokers import MakeTopic
from tests.support.journal import WAIT_S
from tests.support.stock import committed

NewStore = Callable[[], OffsetStore]
PARTITIONS = 100


def _failed(answer: Future[Any]) -> bool:
    try:
        return answer.exception(WAIT_S) is not None
    except CancelledError:
        return True


class OffsetStoreContract:
    """The promises. `new` gives another store of the same place, closed after the test."""

    @pytest.fixture
    def new(self) -> Iterator[NewStore]:
        raise NotImplementedError

    @pytest.fixture
    def orders(self) -> str:
        """A topic of 100 partitions."""
        return "orders"

    @pytest.fixture
    def places(self, orders: str) -> list[TopicPartition]:
        return [TopicPartition(orders, number) for number in range(PARTITIONS)]

    @pytest.fixture
    def group(self) -> str:
        return f"group-{uuid4().hex[:8]}"

    def test_what_was_never_committed_is_not_there(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        assert new().fetch(group, places) == {}

    def test_a_commit_is_there_for_every_store_once_it_was_answered(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        one, other = new(), new()
        for offset in range(5):
            entries = {places[0]: OffsetEntry(offset), places[7]: OffsetEntry(offset, "in file 3")}
            writer, reader = (one, other) if offset % 2 else (other, one)
            assert writer.commit(group, entries) is None
            assert reader.fetch(group, places) == entries
            assert writer.fetch(group, [places[7]]) == {places[7]: entries[places[7]]}

    def test_groups_do_not_see_each_other(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        store = new()
        store.commit(group, {places[0]: OffsetEntry(1)})
        store.commit(f"{group}-2", {places[0]: OffsetEntry(2)})

        assert store.fetch(group, places) == {places[0]: OffsetEntry(1)}

    def test_metadata_go_with_the_next_commit(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        store = new()
        store.commit(group, {places[0]: OffsetEntry(1, "x" * 4_096)})
        assert store.fetch(group, places) == {places[0]: OffsetEntry(1, "x" * 4_096)}
        store.commit(group, {places[0]: OffsetEntry(2)})
        assert store.fetch(group, places) == {places[0]: OffsetEntry(2)}

    def test_an_offset_may_go_back(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        store = new()
        store.commit(group, {places[0]: OffsetEntry(50)})
        store.commit(group, {places[0]: OffsetEntry(0)})
        assert store.fetch(group, places) == {places[0]: OffsetEntry(0)}

    def test_many_callers_commit_at_once(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        store, at_once = new(), threading.Barrier(16)

        def commit(number: int) -> None:
            at_once.wait()
            for offset in range(5):
                assert store.commit(group, {places[number]: OffsetEntry(offset)}) is None

        with ThreadPoolExecutor(16) as callers:
            list(callers.map(commit, range(16)))
        assert store.fetch(group, places) == {place: OffsetEntry(4) for place in places[:16]}

    def test_a_commit_of_nothing_changes_nothing(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        store = new()
        assert store.commit(group, {}) is None
        assert store.fetch(group, []) == {}
        assert store.fetch(group, places) == {}

    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            (OffsetEntry(-1), "-3: offset -1 is not in 0 to 9223372036854775807"),
            (OffsetEntry(2**63), "offset 9223372036854775808 is not in"),
            (OffsetEntry(1, "x" * 4_097), "-3: metadata of 4097 bytes, and at most 4096"),
            (OffsetEntry(1, "ä" * 2_049), "metadata of 4098 bytes"),
            (OffsetEntry(1, "\ud800"), "lone surrogate"),
            (OffsetEntry(1, gaps=(OffsetRange(1, 2),)), "gap ranges above stable offset 1"),
            (
                OffsetEntry(1, gaps=tuple(OffsetRange(2 * n, 2 * n) for n in range(2, 10_003))),
                "10001 gap ranges, and at most 10000",
            ),
        ],
    )
    def test_a_wrong_entry_is_refused_with_all_others_of_its_commit(
        self,
        new: NewStore,
        group: str,
        places: list[TopicPartition],
        entry: OffsetEntry,
        message: str,
    ) -> None:
        store = new()
        with pytest.raises(MisuseError, match=message) as refused:
            store.commit(group, {places[2]: OffsetEntry(1), places[3]: entry})
        assert "Nothing was committed" in str(refused.value)
        assert store.fetch(group, places) == {}

    @pytest.mark.parametrize(
        ("name", "place_topic", "partition", "message"),
        [
            ("", "orders", 0, "group '': its name has 0 bytes, not 1 to 32767"),
            ("g" * 32_768, "orders", 0, "has 32768 bytes"),
            ("\ud800", "orders", 0, "lone surrogate"),
            ("g", "", 0, "topic '': its name has 0 bytes, not 1 to 249"),
            ("g", "t" * 250, 0, "has 250 bytes"),
            ("g", "orders", -1, "the partition is not in 0 to 1048575"),
            ("g", "orders", 2**20, "the partition is not in 0 to 1048575"),
        ],
    )
    def test_a_name_that_cannot_be_is_refused_by_every_call(
        self, new: NewStore, name: str, place_topic: str, partition: int, message: str
    ) -> None:
        store, place = new(), TopicPartition(place_topic, partition)
        with pytest.raises(MisuseError, match=message):
            store.commit_later(name, {place: OffsetEntry(1)})
        with pytest.raises(MisuseError, match=message):
            store.fetch(name, [place])

    def test_a_closed_store_refuses_calls(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        store = new()
        store.close()
        store.close()
        with pytest.raises(MisuseError, match="the store is closed"):
            store.commit(group, {places[0]: OffsetEntry(1)})
        with pytest.raises(MisuseError, match="the store is closed"):
            store.fetch(group, places)


class DurableContract(OffsetStoreContract):
    """What a store in memory cannot promise."""

    def test_a_later_store_finds_what_an_ended_one_has_committed(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        first, entries = new(), {places[0]: OffsetEntry(42, "größer")}
        first.commit(group, entries)
        second = new()
        first.close()

        assert second.fetch(group, places) == entries

    def test_what_is_under_way_when_a_store_is_closed_ends(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        """Each commit was made, or is an error; none is lost on the way."""
        store, other = new(), new()
        asked = [store.commit_later(group, {place: OffsetEntry(1)}) for place in places]
        asked[50].cancel()
        store.close()
        ended = [place for place, it in zip(places, asked, strict=True) if not _failed(it)]
        assert set(ended) <= other.fetch(group, places).keys()

    def test_a_callback_that_would_wait_for_its_own_thread_is_refused(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        """Else all callers would wait with it until its time is over."""
        store = new()
        later: Future[Future[OffsetConflict | None]] = Future()
        refused: list[str] = []

        def answered(_: object) -> None:
            for call in (
                lambda: store.commit(group, {places[1]: OffsetEntry(2)}),
                lambda: store.fetch(group, places),
                store.close,
            ):
                try:
                    call()
                except MisuseError as error:
                    refused.append(error.call)
            later.set_result(store.commit_later(group, {places[2]: OffsetEntry(3)}))

        store.commit_later(group, {places[0]: OffsetEntry(1)}).add_done_callback(answered)
        assert later.result(WAIT_S).result(WAIT_S) is None
        assert refused == ["commit()", "fetch()", "close()"]
        assert store.fetch(group, places) == {
            places[0]: OffsetEntry(1),
            places[2]: OffsetEntry(3),
        }

    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
    def test_a_forked_child_is_refused_and_its_parent_goes_on(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        store, other = new(), new()
        assert store.commit(group, {places[0]: OffsetEntry(1)}) is None
        pid = os.fork()
        if pid == 0:
            refused = 0
            try:
                store.commit_later(group, {places[0]: OffsetEntry(2)})
            except MisuseError as error:
                refused += "was made before this process" in str(error)
            try:
                store.fetch(group, places)
            except MisuseError as error:
                refused += "was made before this process" in str(error)
            store.close()
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2
        assert store.commit(group, {places[1]: OffsetEntry(3)}) is None
        assert other.fetch(group, places) == {places[0]: OffsetEntry(1), places[1]: OffsetEntry(3)}


class ComparingContract(OffsetStoreContract):
    """What Kafka's own store cannot promise."""

    def test_expected_offsets_are_compared_all_together(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        one, other = new(), new()
        entries = {places[0]: OffsetEntry(10), places[1]: OffsetEntry(20, "m")}
        assert one.commit(group, entries, {places[0]: None, places[1]: None}) is None

        found = other.commit(
            group,
            {places[0]: OffsetEntry(11), places[2]: OffsetEntry(30)},
            {places[0]: 10, places[1]: 21, places[2]: None},
        )
        assert found == OffsetConflict(group, {**entries, places[2]: None})
        assert one.fetch(group, places) == entries

        right = {places[0]: 10, places[1]: 20, places[2]: None}
        assert other.commit(group, {places[0]: OffsetEntry(11)}, right) is None
        assert one.fetch(group, places) == {**entries, places[0]: OffsetEntry(11)}

    @pytest.mark.parametrize("expected", [-1, 2**63])
    def test_an_expected_offset_that_cannot_be_is_refused(
        self, new: NewStore, group: str, places: list[TopicPartition], expected: int
    ) -> None:
        with pytest.raises(MisuseError, match=f"expected offset {expected} is not in"):
            new().commit(group, {places[0]: OffsetEntry(1)}, {places[0]: expected})

    def test_a_conflict_is_never_due_to_what_the_store_has_not_heard_of(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        """Two stores in turns: each expects what the other has just committed."""
        stores = [new(), new()]
        for offset in range(10):
            expected = {places[0]: offset - 1 if offset else None}
            store = stores[offset % 2]
            assert store.commit(group, {places[0]: OffsetEntry(offset)}, expected) is None

    def test_of_commits_that_expect_the_same_exactly_one_is_made(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        stores, callers, place = [new(), new()], 8, places[0]
        at_once = threading.Barrier(callers)

        def increment(number: int) -> list[int]:
            store = stores[number % 2]
            made: list[int] = []
            at_once.wait()
            while len(made) < 5:
                known = store.fetch(group, [place]).get(place)
                offset = 0 if known is None else known.offset + 1
                expected = {place: None if known is None else known.offset}
                if store.commit(group, {place: OffsetEntry(offset)}, expected) is None:
                    made.append(offset)
            return made

        with ThreadPoolExecutor(callers) as pool:
            made = [offset for numbers in pool.map(increment, range(callers)) for offset in numbers]
        assert sorted(made) == list(range(5 * callers))

    def test_a_hundred_offsets_are_committed_all_or_none(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        """A second store looks again and again, and never sees some of one and some of another."""
        one, other, done = new(), new(), threading.Event()

        def commit() -> None:
            for offset in range(30):
                assert one.commit(group, dict.fromkeys(places, OffsetEntry(offset))) is None
            done.set()

        seen = set()
        with ThreadPoolExecutor(1) as pool:
            committing = pool.submit(commit)
            while not (done.is_set() or committing.done()):
                found = other.fetch(group, places)
                assert len(found) in (0, PARTITIONS)
                assert len(set(found.values())) <= 1
                seen |= set(found.values())
            committing.result()
        assert other.fetch(group, places) == dict.fromkeys(places, OffsetEntry(29))

    def test_gap_ranges_are_kept_until_the_next_commit(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        one, other = new(), new()
        rich = OffsetEntry(43, "", (OffsetRange(45, 47), OffsetRange(50, 50)))
        one.commit(group, {places[0]: rich})
        assert other.fetch(group, places) == {places[0]: rich}
        other.commit(group, {places[0]: OffsetEntry(51)})
        assert one.fetch(group, places) == {places[0]: OffsetEntry(51)}

    def test_commits_of_a_thread_take_effect_in_its_order(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        store = new()
        answers = [
            store.commit_later(
                group, {places[0]: OffsetEntry(offset)}, {places[0]: offset - 1 if offset else None}
            )
            for offset in range(20)
        ]
        assert [answer.result(30) for answer in answers] == [None] * 20
        assert store.fetch(group, places) == {places[0]: OffsetEntry(19)}


class TestMemory(ComparingContract):
    @pytest.fixture
    def new(self) -> Iterator[NewStore]:
        """One memory is one store: all of a test share it, and what ends keeps nothing."""
        store = MemoryOffsetStore()
        yield lambda: store
        store.close()


class TestLogInMemory(ComparingContract, DurableContract):
    """The rules of the store and of its commit logs, without a broker."""

    @pytest.fixture
    def new(self) -> Iterator[NewStore]:
        partitions = [MemoryPartition(number=number, lock=threading.Lock()) for number in range(2)]
        with ExitStack() as stores:
            names = map(str, count())
            yield lambda: stores.enter_context(LogOffsetStore.in_memory(partitions, next(names)))


@pytest.mark.integration
class TestLog(ComparingContract, DurableContract):
    """Over commit logs on a broker."""

    @pytest.fixture
    def new(self, bootstrap: str, topic: MakeTopic) -> Iterator[NewStore]:
        offsets, names = topic(2, config={"cleanup.policy": "compact"}), map(str, count())
        client = {"bootstrap.servers": bootstrap}
        with ExitStack() as stores:
            yield lambda: stores.enter_context(LogOffsetStore(client, offsets, next(names)))


@pytest.mark.integration
class TestKafka(DurableContract):
    @pytest.fixture
    def orders(self, topic: MakeTopic) -> str:
        return topic(PARTITIONS)

    @pytest.fixture
    def new(self, bootstrap: str) -> Iterator[NewStore]:
        with ExitStack() as stores:
            yield lambda: stores.enter_context(KafkaOffsetStore({"bootstrap.servers": bootstrap}))

    def test_stock_tools_see_the_commits(
        self, new: NewStore, group: str, places: list[TopicPartition], admin: Any
    ) -> None:
        new().commit(group, {places[3]: OffsetEntry(7, "in file 3")})
        assert committed(admin, group) == {(places[3].topic, 3): (7, "in file 3")}

    def test_what_kafka_does_not_have_is_refused(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        store = new()
        with pytest.raises(MisuseError, match="no coordinator compares"):
            store.commit(group, {places[0]: OffsetEntry(1)}, {places[0]: None})
        with pytest.raises(MisuseError, match="gap ranges are given"):
            store.commit(group, {places[0]: OffsetEntry(1, "", (OffsetRange(5, 5),))})
        assert store.fetch(group, places) == {}

    def test_metadata_that_the_brokers_do_not_take_are_told(
        self, group: str, places: list[TopicPartition], bootstrap: str
    ) -> None:
        """They may take less than every store does (`offset.metadata.max.bytes`)."""
        client = GroupOffsets(Config.from_dict({"bootstrap.servers": bootstrap, "group.id": "g"}))
        long = {places[3]: Committed(1, "x" * 4_097)}
        with pytest.raises(MisuseError, match=rf"{places[3]} is longer.*offset\.metadata\.max"):
            client.commit(group, long).result(WAIT_S)
        with pytest.raises(OffsetsPartlyStoredError, match="MetadataTooLarge"):
            client.commit(group, {**long, places[0]: Committed(1, "x" * 4_096)}).result(WAIT_S)
        assert client.committed(group, places).result(WAIT_S) == {
            places[0]: Committed(1, "x" * 4_096)
        }
        client.close()

    def test_a_topic_or_partition_that_is_not_there_is_named(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        store = new()
        for nowhere in (
            TopicPartition(f"{places[0].topic}-not", 0),
            TopicPartition(places[0].topic, 999),
        ):
            problem = f"does not exist, has no partition {nowhere.partition}, or this user may not"
            with pytest.raises(TopicMissingError, match=f"topic {nowhere.topic}: {problem}"):
                store.commit(group, {nowhere: OffsetEntry(1)})

    def test_a_commit_of_which_a_part_was_refused_says_which(
        self, new: NewStore, group: str, places: list[TopicPartition]
    ) -> None:
        nowhere = TopicPartition(f"{places[0].topic}-not", 0)
        store = new()
        with pytest.raises(OffsetsPartlyStoredError) as caught:
            store.commit(group, {places[0]: OffsetEntry(1), nowhere: OffsetEntry(1)})
        assert (caught.value.stored, caught.value.refused) == (str(places[0]), str(nowhere))
        assert store.fetch(group, places) == {places[0]: OffsetEntry(1)}

    def test_a_group_with_members_is_refused(
        self, new: NewStore, group: str, places: list[TopicPartition], bootstrap: str
    ) -> None:
        from confluent_kafka import Consumer

        from tests.support.stock import eventually

        member = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        try:
            member.subscribe([places[0].topic])
            eventually(lambda: member.poll(0.1) or member.assignment())
            with pytest.raises(GroupInUseError, match=f"group {group}: has"):
                new().commit(group, {places[0]: OffsetEntry(1)})
        finally:
            member.close()
