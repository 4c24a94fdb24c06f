"""What batches and streams plan, on brokers that are made up: where each begins and ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from assignors import TopicPartition
from assignors.key_hash import key_hash
from coop_consumer.core.placement import partition_of
from coop_consumer.errors import (
    BrokerUnreachableError,
    ConfigError,
    TopicMissingError,
    UnexpectedAnswerError,
)
from coop_consumer.kafka import patience
from coop_consumer.kafka.topics import EARLIEST, LATEST, TopicFacts
from streams_adapter.source import places, stream
from streams_adapter.source.batch import BatchReader, FilteredBatchReader
from streams_adapter.source.errors import (
    CheckpointMismatchError,
    OffsetsGoneError,
    TopicGoneError,
)
from streams_adapter.source.options import SourceOptions
from streams_adapter.source.rows import SCHEMA
from streams_adapter.source.scan import ScanTask
from streams_adapter.source.stream import StreamReader

MS = 10
"""A record's time is so often its offset."""


@dataclass
class Topic:
    """Its id, and the first and the next offset of each partition."""

    logs: list[tuple[int, int]]
    id: bytes = b"\x01"
    held_back_from: int | None = None
    """The first offset of an open transaction, in partition 0."""


class Brokers:
    """They answer as `Topics` does."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.refusals = 0
        self.clock: Clock | None = None
        self.away_until_s = 0.0

    def answer(self) -> None:
        """Or not: then it takes 10 s to see it."""
        if self.clock is not None and self.clock.now_s < self.away_until_s:
            self.clock.now_s += 10
            raise BrokerUnreachableError("b:9092", "timed out")

    def check_broker(self) -> None:
        self.answer()

    def names(self) -> list[str]:
        return sorted(self.topics)

    def describe(self, names: Iterable[str]) -> dict[str, TopicFacts]:
        self.answer()
        for it in names:
            if it not in self.topics:
                raise TopicMissingError(it)
        return {it: TopicFacts(self.topics[it].id, len(self.topics[it].logs)) for it in names}

    def offsets(
        self,
        asked: Iterable[TopicPartition],
        spec: Any,
        *,
        committed: bool = False,
    ) -> dict[TopicPartition, int]:
        self.answer()
        if self.refusals:
            self.refusals -= 1
            raise UnexpectedAnswerError("topic orders", "Broker: Not leader for partition")
        found = {}
        for tp in asked:
            if tp.topic not in self.topics or tp.partition >= len(self.topics[tp.topic].logs):
                raise TopicMissingError(tp.topic)
            topic = self.topics[tp.topic]
            begin, end = topic.logs[tp.partition]
            if committed and topic.held_back_from is not None and tp.partition == 0:
                end = min(end, topic.held_back_from)
            young = [at for at in range(begin, end) if isinstance(spec, int) and at * MS >= spec]
            oldest = young[0] if young else -1
            found[tp] = begin if spec is EARLIEST else end if spec is LATEST else oldest
        return found


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    found = Brokers()
    found.topics["orders"] = Topic([(10, 100)])
    monkeypatch.setattr(places, "Topics", lambda _: found)
    monkeypatch.setattr(places, "at_time", lambda time_ms: time_ms)
    return found


def parsed(**said: str) -> SourceOptions:
    needed = {"kafka.bootstrap.servers": "b:9092", "keyRanges": "1", "subscribe": "orders", **said}
    return SourceOptions.parse({name: value for name, value in needed.items() if value})


def planned(reader: BatchReader) -> dict[str, tuple[int, int]]:
    """By partition: the first and the last offset."""
    return told(reader.partitions())


def told(tasks: Iterable[Any]) -> dict[str, tuple[int, int]]:
    assert all(isinstance(it, ScanTask) for it in tasks)
    return {str(it.tp): (it.offsets.first, it.offsets.last) for it in tasks}


def batch(**said: str) -> BatchReader:
    return BatchReader(parsed(**said), SCHEMA, 4)


def at(offset: int) -> str:
    return f'{{"orders": {{"0": {offset}}}}}'


@pytest.mark.usefixtures("brokers")
class TestBatches:
    def test_all_that_is_there(self) -> None:
        assert planned(batch()) == {"orders-0": (10, 99)}

    def test_a_start_behind_the_end_is_refused(self) -> None:
        said = {"startingOffsets": at(60), "endingOffsets": at(50)}
        with pytest.raises(ConfigError, match="begins at 60 in orders-0, endingOffsets ends at 50"):
            batch(**said).partitions()
        with pytest.raises(ConfigError, match="begins at 100 in orders-0"):
            batch(startingOffsets="latest", endingOffsets=at(50)).partitions()
        assert planned(batch(startingOffsets=at(50), endingOffsets=at(50))) == {}

    def test_a_group_that_has_passed_the_end_has_nothing_left(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        committed = {TopicPartition("orders", 0): (70, "")}
        monkeypatch.setattr(places, "committed_offsets", lambda _: committed)
        assert planned(batch(**{"group.id": "billing"})) == {"orders-0": (70, 99)}
        assert planned(batch(**{"group.id": "billing"}, endingOffsets=at(50))) == {}

    def test_offsets_beyond_the_log_end_a_query_or_are_moved_to_its_ends(self) -> None:
        with pytest.raises(ConfigError, match="orders-0 has no offset 101, it ends at 100"):
            batch(endingOffsets=at(101)).partitions()
        with pytest.raises(ConfigError, match="orders-0 has no offset 101, it ends at 100"):
            batch(startingOffsets=at(101)).partitions()
        with pytest.raises(OffsetsGoneError, match=r"offsets \[5-9\]"):
            batch(startingOffsets=at(5)).partitions()
        lenient = {"failOnDataLoss": "false"}
        both = batch(**lenient, startingOffsets=at(5), endingOffsets=at(101))
        assert planned(both) == {"orders-0": (10, 99)}
        assert planned(batch(**lenient, startingOffsets=at(101))) == {}

    def test_a_time_is_where_its_first_record_is(self, brokers: Brokers) -> None:
        brokers.topics["orders"].logs.append((0, 5))
        said = {"startingTimestamp": str(60 * MS - 1)}
        with pytest.raises(ConfigError, match="is later than every record of orders-1"):
            batch(**said).partitions()
        said["startingOffsetsByTimestampStrategy"] = "latest"
        assert planned(batch(**said)) == {"orders-0": (60, 99)}

    def test_a_time_is_where_a_batch_ends(self, brokers: Brokers) -> None:
        brokers.topics["orders"].logs.append((0, 50))
        until = {"endingTimestamp": str(60 * MS)}
        assert planned(batch(**until)) == {"orders-0": (10, 59), "orders-1": (0, 49)}
        between = {**until, "startingTimestamp": str(20 * MS)}
        assert planned(batch(**between)) == {"orders-0": (20, 59), "orders-1": (20, 49)}
        assert planned(batch(endingTimestamp="0")) == {}
        brokers.topics["orders"].held_back_from = 40
        assert planned(batch(**until))["orders-0"] == (10, 39)

    def test_each_partition_has_a_time_of_its_own(self, brokers: Brokers) -> None:
        brokers.topics["orders"].logs.append((0, 50))

        def each(first: int, second: int) -> str:
            return json.dumps({"orders": {"0": first * MS, "1": second * MS}})

        said = {
            "startingOffsetsByTimestamp": each(60, 20),
            "endingOffsetsByTimestamp": each(70, 90),
        }
        assert planned(batch(**said)) == {"orders-0": (60, 69), "orders-1": (20, 49)}
        with pytest.raises(ConfigError, match=r"ByTimestamp=600 is later than every.*orders-1"):
            batch(startingOffsetsByTimestamp=each(60, 60)).partitions()
        with pytest.raises(ConfigError, match="endingOffsetsByTimestamp does not name orders-1"):
            batch(endingOffsetsByTimestamp='{"orders": {"0": 5}}').partitions()
        with pytest.raises(ConfigError, match="does not name orders-0"):
            batch(startingOffsetsByTimestamp='{"others": {"0": 5}}').partitions()

    def test_a_filter_on_time_moves_the_start_and_only_forward(self) -> None:
        def since(ms: int) -> list[Filter]:
            moment = datetime.fromtimestamp(ms / 1_000, UTC)
            return [GreaterThanOrEqual(("timestamp",), moment)]

        for ms, expected in (
            (600, {"orders-0": (60, 99)}),
            (5_000, {}),
            (0, {"orders-0": (20, 99)}),
        ):
            reader = FilteredBatchReader(parsed(startingOffsets=at(20)), SCHEMA, 4)
            filters = since(ms)
            assert reader.pushFilters(filters) == filters
            assert planned(reader) == expected

    def test_keys_and_partitions_read_less_and_filters_of_them_still_less(
        self, brokers: Brokers
    ) -> None:
        brokers.topics["orders"].logs += [(0, 5), (0, 7)]
        said = {"keys": '["a", "b"]', "partitions": "[1, 2]", "keyRanges": "64"}
        tasks = [it for it in batch(**said).partitions() if isinstance(it, ScanTask)]
        assert told(tasks) == {"orders-1": (0, 4), "orders-2": (0, 6)}
        assert len(tasks) == 4
        for it in tasks:
            own = it.key_ranges[it.number]
            assert key_hash(b"a") in own or key_hash(b"b") in own
            assert it.keys
            assert all(key_hash(key) in own for key in it.keys)
        assert {key for it in tasks for key in it.keys or ()} == {b"a", b"b"}
        reader = FilteredBatchReader(parsed(**said), SCHEMA, 4)
        reader.pushFilters([EqualTo(("key",), b"b"), EqualTo(("partition",), 1)])
        [task] = reader.partitions()
        assert isinstance(task, ScanTask)
        assert (task.tp.partition, task.keys) == (1, {b"b"})

    def test_partitions_are_counted_after_the_ends_were_seen(self, brokers: Brokers) -> None:
        """A topic may grow in between: its new keys lie where the larger count puts them."""
        topic = brokers.topics["orders"]
        topic.logs[:] = [(0, 5)] * 3
        ask = brokers.offsets

        def grows(asked: Any, spec: Any, **options: Any) -> dict[TopicPartition, int]:
            if spec is LATEST:
                topic.logs += [(0, 5)] * (6 - len(topic.logs))
            return ask(asked, spec, **options)

        brokers.offsets = grows  # type: ignore[method-assign]
        keys = json.dumps([f"k{i}" for i in range(50)])
        said = {"partitioner": "murmur2", "partitionCounts": "[3]", "keys": keys}
        found = [it for it in batch(**said).partitions() if isinstance(it, ScanTask)]
        there = {(it.tp.partition, key) for it in found for key in it.keys or ()}
        assert {it.tp.partition for it in found} == {0, 1, 2}
        for i in range(50):
            key = b"k%d" % i
            places = {partition_of(key, count) for count in (3, 6)}
            assert {(place, key) for place in places if place < 3} <= there

    def test_a_partition_that_is_not_there_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="partitions names 3, which orders has not"):
            batch(partitions="[0, 3]").partitions()


@dataclass
class Query:
    """A stream as Spark asks for it: what a batch reads, then the next; and its checkpoint."""

    said: dict[str, str]
    reached: Any = None

    def __post_init__(self) -> None:
        self.reader = StreamReader(parsed(**self.said), SCHEMA, 4)
        if self.reached is None:
            self.reached = self.reader.initialOffset()

    def goes_on(self, **said: str) -> Query:
        """Stopped, and started again from its checkpoint."""
        return Query({**self.said, **said}, self.reached)

    def next(self) -> dict[str, tuple[int, int]]:
        """One micro-batch, if there is to be one."""
        start = self.reached
        self.reached = self.reader.latestOffset(start, self.reader.getDefaultReadLimit())
        return {} if self.reached == start else told(self.reader.partitions(start, self.reached))


def query(**said: str) -> Query:
    return Query({"startingOffsets": "earliest", **said})


LENIENT = {"failOnDataLoss": "false"}
LATEST_IF_NONE = {"startingOffsetsByTimestampStrategy": "latest"}


class TestStreams:
    def test_where_one_begins(self, brokers: Brokers) -> None:
        brokers.topics["orders"].logs.append((0, 5))
        assert query(startingOffsets="").next() == {}  # latest
        late = {"startingOffsets": "", "startingTimestamp": str(60 * MS)}
        with pytest.raises(ConfigError, match="is later than every record of orders-1"):
            query(**late)
        late["startingOffsetsByTimestampStrategy"] = "latest"
        assert query(**late).next() == {"orders-0": (60, 99)}

    @pytest.mark.usefixtures("brokers")
    def test_limits_are_those_of_the_options(self) -> None:
        def limit(**said: str) -> Any:
            return query(**said).reader.getDefaultReadLimit()

        assert isinstance(limit(), ReadAllAvailable)
        assert limit(minOffsetsPerTrigger="9") == ReadMinRows(9)
        assert limit(minOffsetsPerTrigger="9", maxOffsetsPerTrigger="20") == ReadMaxRows(20)

    def test_a_batch_waits_for_enough_records_or_long_enough(
        self, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now_s = 50.0
        monkeypatch.setattr(stream, "time", SimpleNamespace(monotonic=lambda: now_s))
        said = {"minOffsetsPerTrigger": "100", "maxOffsetsPerTrigger": "120"}
        waiting = query(**said, maxTriggerDelay="2m")
        assert waiting.next() == {"orders-0": (10, 99)}, "the first waits for nothing, as Spark's"
        brokers.topics["orders"].logs[0] = (10, 199)
        assert waiting.next() == {}
        now_s += 119
        assert waiting.next() == {}
        now_s += 2
        assert waiting.next() == {"orders-0": (100, 198)}
        brokers.topics["orders"].logs[0] = (10, 200)
        assert waiting.next() == {}
        brokers.topics["orders"].logs[0] = (10, 300)
        assert waiting.next() == {"orders-0": (199, 299)}
        brokers.topics["orders"].logs[0] = (10, 310)
        assert waiting.next() == {}
        waiting.reader.prepareForTriggerAvailableNow()
        brokers.topics["orders"].logs[0] = (10, 320)
        assert waiting.next() == {"orders-0": (300, 309)}

    @pytest.mark.parametrize(
        "start",
        [
            {"startingOffsets": "latest"},
            {"startingOffsets": "earliest"},
            {"startingOffsets": "", "startingTimestamp": str(100 * MS), **LATEST_IF_NONE},
        ],
    )
    def test_a_first_batch_that_fell_is_repeated_as_it_was(
        self, brokers: Brokers, start: dict[str, str]
    ) -> None:
        """Spark keeps its end, and asks anew for its start."""
        fell = query(**start)
        brokers.topics["orders"].logs[0] = (10, 130)
        first, end = fell.next(), fell.reached
        assert first["orders-0"][1] == 129
        brokers.topics["orders"].logs[0] = (10, 160)
        again = query(**start)
        assert told(again.reader.partitions(again.reached, end)) == first
        again.reached = end
        assert again.next() == {"orders-0": (130, 159)}
        assert told(again.reader.partitions(end, end)) == {}, "a batch without records, for Spark"
        brokers.topics["orders"].logs[0] = (125, 160)
        with pytest.raises(OffsetsGoneError, match=rf"\[{first['orders-0'][0]}-124\]"):
            again.reader.partitions(again.reader.initialOffset(), end)

    def test_a_first_batch_without_records_is_repeated_without_any(self, brokers: Brokers) -> None:
        fell = query(startingOffsets="latest")
        assert fell.next() == {}
        brokers.topics["orders"].logs[0] = (10, 130)
        again = query(startingOffsets="latest")
        assert told(again.reader.partitions(again.reached, fell.reached)) == {}
        again.reached = fell.reached
        assert again.next() == {"orders-0": (100, 129)}

    def test_an_open_transaction_is_lag_until_it_ends(self, brokers: Brokers) -> None:
        orders = brokers.topics["orders"]
        orders.held_back_from = 60
        reading = query()
        assert reading.next() == {"orders-0": (10, 59)}
        assert reading.next() == {}
        told_end = reading.reader.reportLatestOffset()
        assert told_end["topics"]["orders"]["offsets"] == {"0": 100}
        orders.held_back_from = None
        assert reading.next() == {"orders-0": (60, 99)}

    def test_what_was_read_uncommitted_is_not_gone_while_its_transaction_is_open(
        self, brokers: Brokers
    ) -> None:
        brokers.topics["orders"].held_back_from = 60
        uncommitted = query(**{"kafka.isolation.level": "read_uncommitted"})
        assert uncommitted.next() == {"orders-0": (10, 99)}
        committed = uncommitted.goes_on(**{"kafka.isolation.level": "read_committed"})
        assert committed.next() == {}
        brokers.topics["orders"].held_back_from = None
        brokers.topics["orders"].logs[0] = (10, 110)
        assert committed.next() == {"orders-0": (100, 109)}
        brokers.topics["orders"].held_back_from = 60
        with pytest.raises(ConfigError, match="up to 60 now, an open transaction holds back"):
            batch(endingOffsets=at(80)).partitions()

    def test_what_brokers_hold_is_reported(self, brokers: Brokers) -> None:
        reading = query(maxOffsetsPerTrigger="5")
        reading.next()
        brokers.topics["orders"].logs[0] = (20, 150)
        told = reading.reader.reportLatestOffset()
        assert told["topics"]["orders"]["offsets"] == {"0": 150}

    def test_of_a_log_that_was_cut_off_nothing_is_repeated_and_nothing_new_missed(
        self, brokers: Brokers
    ) -> None:
        reading = query(**LENIENT)
        assert reading.next() == {"orders-0": (10, 99)}
        brokers.topics["orders"].logs[0] = (10, 60)
        with pytest.raises(OffsetsGoneError, match=r"orders-0 offsets \[60-99\]"):
            reading.goes_on(failOnDataLoss="true").next()
        assert reading.next() == {}
        brokers.topics["orders"].logs[0] = (10, 80)
        assert reading.next() == {"orders-0": (60, 79)}
        assert reading.next() == {}

    def test_nor_if_a_batch_would_wait_for_more(self, brokers: Brokers) -> None:
        reading = query(**LENIENT)
        reading.next()
        reading = reading.goes_on(minOffsetsPerTrigger="15")
        brokers.topics["orders"].logs[0] = (10, 60)
        assert reading.next() == {}
        brokers.topics["orders"].logs[0] = (10, 80)
        assert reading.next() == {"orders-0": (60, 79)}

    def test_what_retention_took_is_left_out(self, brokers: Brokers) -> None:
        reading = query(maxOffsetsPerTrigger="10")
        assert reading.next() == {"orders-0": (10, 19)}
        brokers.topics["orders"].logs[0] = (30, 100)
        with pytest.raises(OffsetsGoneError, match=r"orders-0 offsets \[20-29\]"):
            reading.next()
        assert reading.goes_on(**LENIENT).next() == {"orders-0": (30, 39)}

    def test_a_topic_made_again_is_read_from_its_beginning(self, brokers: Brokers) -> None:
        reading = query()
        reading.next()
        brokers.topics["orders"] = Topic([(0, 200)], b"\x02")
        with pytest.raises(OffsetsGoneError):
            reading.next()
        lenient = reading.goes_on(**LENIENT)
        assert lenient.next() == {"orders-0": (0, 199)}
        assert lenient.next() == {}

    @pytest.mark.parametrize("how", ["deleted", "another pattern"])
    def test_a_topic_that_a_pattern_does_not_find_any_more_is_a_loss(
        self, brokers: Brokers, how: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        brokers.topics["returns"] = Topic([(0, 5)])
        reading = query(subscribe="", subscribePattern="orders|returns")
        assert reading.next() == {"orders-0": (10, 99), "returns-0": (0, 4)}
        if how == "deleted":
            del brokers.topics["returns"]
        else:
            reading = reading.goes_on(subscribePattern="orders")
        brokers.topics["orders"].logs[0] = (10, 110)
        with pytest.raises(TopicGoneError, match="topic returns: the checkpoint says"):
            reading.next()
        lenient = reading.goes_on(**LENIENT)
        assert lenient.next() == {"orders-0": (100, 109)}
        assert [it for it in caplog.messages if "topic returns" in it]
        caplog.clear()
        assert lenient.next() == {}
        assert caplog.messages == []

    def test_a_group_is_not_told_of_a_topic_that_is_gone(
        self, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        heard: list[set[str]] = []

        def hear(_: object, __: str, offsets: dict[TopicPartition, object]) -> None:
            heard.append({tp.topic for tp in offsets})

        monkeypatch.setattr(places, "commit_from_outside", hear)
        brokers.topics["returns"] = Topic([(0, 5)])
        said = {"subscribe": "", "subscribePattern": ".*", "group.id": "billing", **LENIENT}
        reading = query(**said)
        reading.next()
        del brokers.topics["returns"]
        reading.next()
        assert heard == [{"orders"}]

    def test_a_new_topic_is_read_from_its_beginning(self, brokers: Brokers) -> None:
        reading = query(subscribe="", subscribePattern="o.*")
        reading.next()
        brokers.topics["others"] = Topic([(3, 5)])
        assert reading.next() == {"others-0": (3, 4)}

    @pytest.mark.usefixtures("brokers")
    @pytest.mark.parametrize(
        "said", [{"endingOffsets": "latest"}, {"endingTimestamp": "5"}], ids=min
    )
    def test_an_end_is_refused(self, said: dict[str, str]) -> None:
        with pytest.raises(ConfigError, match=f"{min(said)} is for batches.*availableNow"):
            query(**said)

    def test_only_some_partitions_and_no_fewer_later(self, brokers: Brokers) -> None:
        brokers.topics["orders"].logs += [(0, 5), (0, 7)]
        reading = query(partitions="[1, 2]")
        assert reading.next() == {"orders-1": (0, 4), "orders-2": (0, 6)}
        with pytest.raises(CheckpointMismatchError, match=r"\[1, 2\], this query reads \[1\]"):
            reading.goes_on(partitions="[1]").next()
        assert reading.goes_on(partitions="").next() == {"orders-0": (10, 99)}

    @pytest.mark.usefixtures("brokers")
    def test_only_some_keys(self) -> None:
        reading = query(keys='["a"]', keyRanges="64")
        end = reading.reader.latestOffset(reading.reached, ReadAllAvailable())
        [task] = reading.reader.partitions(reading.reached, end)
        assert isinstance(task, ScanTask)
        assert (task.keys, len(task.key_ranges)) == ({b"a"}, 1)

    @pytest.mark.usefixtures("brokers")
    def test_a_group_is_not_told_that_keys_are_done_which_were_not_read(self) -> None:
        with pytest.raises(ConfigError, match=r"group.id is given beside keys"):
            query(keys='["a"]', **{"group.id": "billing"})


def test_a_partition_between_two_leaders_is_asked_again_for_a_while(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "_AGAIN_S", 0.0)
    brokers.refusals = 3
    reader = StreamReader(parsed(), SCHEMA, 2)
    assert reader.reportLatestOffset()["topics"]["orders"]["offsets"] == {"0": 100}
    monkeypatch.setattr(patience, "LEADERLESS_S", -1.0)
    brokers.refusals = 3
    with pytest.raises(UnexpectedAnswerError, match="Not leader"):
        reader.reportLatestOffset()
    assert brokers.refusals == 2


class Clock:
    """Moves when somebody sleeps, or an answer does not come."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, brokers: Brokers) -> Clock:
    found = brokers.clock = Clock()
    monkeypatch.setattr(patience, "time", found)
    return found


class TestBrokersAway:
    def test_a_query_that_runs_waits_for_them(
        self, brokers: Brokers, clock: Clock, caplog: pytest.LogCaptureFixture
    ) -> None:
        reading = query()
        reading.next()
        brokers.topics["orders"].logs[0] = (10, 150)
        brokers.away_until_s = clock.now_s + 200
        end = reading.reader.latestOffset(reading.reached, ReadAllAvailable())
        assert clock.now_s >= brokers.away_until_s
        brokers.away_until_s = clock.now_s + 200
        assert told(reading.reader.partitions(reading.reached, end)) == {"orders-0": (100, 149)}
        brokers.away_until_s = clock.now_s + 200
        assert reading.reader.reportLatestOffset()["topics"]["orders"]["offsets"] == {"0": 150}
        waits = [it for it in caplog.messages if "nothing is lost by waiting" in it]
        assert len(waits) == 12, "one a minute"
        assert len([it for it in caplog.messages if "the work goes on" in it]) == 3

    def test_it_ends_after_some_minutes(self, brokers: Brokers, clock: Clock) -> None:
        reading = query()
        began_s = clock.now_s
        brokers.away_until_s = began_s + 10_000
        with pytest.raises(BrokerUnreachableError):
            reading.next()
        assert clock.now_s - began_s == pytest.approx(patience.AWAY_S, abs=11)

    @pytest.mark.parametrize("planned", [query, lambda: batch().partitions()])
    def test_a_query_that_is_planned_does_not(
        self, brokers: Brokers, clock: Clock, planned: Callable[[], object]
    ) -> None:
        brokers.away_until_s = clock.now_s + 10_000
        with pytest.raises(BrokerUnreachableError):
            planned()
        assert clock.now_s == 1_010, "it asks once"

    def test_nor_does_one_that_is_started_again(self, brokers: Brokers, clock: Clock) -> None:
        reading = query().goes_on()
        brokers.away_until_s = clock.now_s + 10_000
        with pytest.raises(BrokerUnreachableError):
            reading.next()
        assert clock.now_s == 1_010

    def test_its_group_is_told_when_they_are_back(
        self, brokers: Brokers, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        heard: list[dict[TopicPartition, object]] = []

        def hear(_: object, __: str, offsets: dict[TopicPartition, object]) -> None:
            brokers.answer()
            if brokers.refusals:  # the coordinator is not ready yet
                brokers.refusals -= 1
                raise UnexpectedAnswerError("group billing", "Broker: Coordinator load in progress")
            heard.append(offsets)

        monkeypatch.setattr(places, "commit_from_outside", hear)
        reading = query(**{"group.id": "billing"})
        reading.next()
        brokers.away_until_s, brokers.refusals = clock.now_s + 30, 3
        reading.reader.commit(reading.reached)
        assert heard == [{TopicPartition("orders", 0): (100, "")}]


class TestTopicsMadeAgain:
    """While a stream runs, or between its runs."""

    @pytest.mark.parametrize("partitions", [1, 3, 5])
    def test_it_goes_on_at_their_first_records(
        self, brokers: Brokers, partitions: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        brokers.topics["orders"] = Topic([(0, 30)] * 3)
        reading = query(**LENIENT)
        assert set(reading.next()) == {"orders-0", "orders-1", "orders-2"}
        brokers.topics["orders"] = Topic([(0, 40)] * partitions, b"\x02")
        expected = {f"orders-{number}": (0, 39) for number in range(partitions)}
        assert reading.next() == expected
        assert [it for it in caplog.messages if "was deleted and made again" in it]
        caplog.clear()
        assert reading.next() == {}
        assert caplog.messages == []

    def test_also_if_it_looks_the_same(self, brokers: Brokers) -> None:
        reading = query(**LENIENT)
        assert reading.next() == {"orders-0": (10, 99)}
        brokers.topics["orders"] = Topic([(0, 0)], b"\x02")
        assert reading.next() == {}
        brokers.topics["orders"].logs[0] = (0, 100)
        assert reading.next() == {"orders-0": (0, 99)}

    @pytest.mark.parametrize("partitions", [1, 3])
    @pytest.mark.parametrize("said", [{}, {"partitions": "[1, 2]"}])
    def test_otherwise_it_says_what_has_happened(
        self, brokers: Brokers, partitions: int, said: dict[str, str]
    ) -> None:
        brokers.topics["orders"] = Topic([(0, 30)] * 3)
        reading = query(**said)
        reading.next()
        brokers.topics["orders"] = Topic([(0, 40)] * partitions, b"\x02")
        with pytest.raises(OffsetsGoneError, match="orders: was deleted and made again"):
            reading.next()

    def test_partitions_that_it_does_not_have_any_more_are_not_read(self, brokers: Brokers) -> None:
        brokers.topics["orders"] = Topic([(0, 30)] * 3)
        reading = query(partitions="[0, 2]", **LENIENT)
        reading.next()
        brokers.topics["orders"] = Topic([(0, 40)], b"\x02")
        assert reading.next() == {"orders-0": (0, 39)}

    def test_one_that_is_missing_is_waited_for(
        self, brokers: Brokers, caplog: pytest.LogCaptureFixture
    ) -> None:
        brokers.topics["returns"] = Topic([(0, 5)])
        reading = query(subscribe="orders,returns", **LENIENT)
        assert reading.next() == {"orders-0": (10, 99), "returns-0": (0, 4)}
        del brokers.topics["returns"]
        assert reading.next() == {}
        brokers.topics["orders"].logs[0] = (10, 110)
        assert reading.next() == {"orders-0": (100, 109)}
        assert reading.next() == {}
        assert len([it for it in caplog.messages if "goes on without it" in it]) == 1
        again = reading.goes_on()
        assert again.next() == {}
        brokers.topics["returns"] = Topic([(0, 3)], b"\x02")
        assert again.next() == {"returns-0": (0, 2)}

    def test_one_that_is_missing_ends_a_query_that_must_not_lose(self, brokers: Brokers) -> None:
        reading = query()
        reading.next()
        del brokers.topics["orders"]
        with pytest.raises(TopicMissingError):
            reading.next()

    @pytest.mark.usefixtures("brokers")
    def test_and_one_that_is_only_planned(self) -> None:
        with pytest.raises(TopicMissingError):
            query(subscribe="orders,no-such", **LENIENT)

    @pytest.mark.parametrize("partitions", [1, 3])
    def test_a_batch_that_was_planned_of_the_former_reads_nothing_of_the_new(
        self, brokers: Brokers, partitions: int
    ) -> None:
        brokers.topics["orders"] = Topic([(0, 30)] * 3)
        reading = query(**LENIENT)
        start = reading.reached
        end = reading.reader.latestOffset(start, ReadAllAvailable())
        brokers.topics["orders"] = Topic([(0, 40)] * partitions, b"\x02")
        assert told(reading.reader.partitions(start, end)) == {}
        reading.reached = end
        assert set(reading.next().values()) == {(0, 39)}
        with pytest.raises(OffsetsGoneError, match="made again"):
            reading.goes_on(failOnDataLoss="true").reader.partitions(start, end)

    def test_all_that_is_available_is_not_what_was_made_since(self, brokers: Brokers) -> None:
        reading = query(maxOffsetsPerTrigger="50", **LENIENT)
        reading.reader.prepareForTriggerAvailableNow()
        assert reading.next() == {"orders-0": (10, 59)}
        brokers.topics["orders"] = Topic([(0, 40)], b"\x02")
        assert reading.next() == {}
        assert reading.goes_on().next() == {"orders-0": (0, 39)}

    def test_it_may_happen_between_two_looks(self, brokers: Brokers) -> None:
        brokers.topics["orders"] = Topic([(0, 30)] * 3)
        reading = query(**LENIENT)
        reading.next()
        ask = brokers.offsets

        def now(*asked: Any, **options: Any) -> dict[TopicPartition, int]:
            brokers.offsets = ask  # type: ignore[method-assign]
            brokers.topics["orders"] = Topic([(0, 40)], b"\x02")
            return ask(*asked, **options)

        brokers.offsets = now  # type: ignore[method-assign]
        assert reading.next() == {"orders-0": (0, 39)}

    def test_the_group_hears_of_what_is_there(
        self, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        heard: list[set[int]] = []

        def hear(_: object, __: str, offsets: dict[TopicPartition, object]) -> None:
            heard.append({tp.partition for tp in offsets})

        monkeypatch.setattr(places, "commit_from_outside", hear)
        brokers.topics["orders"] = Topic([(0, 30)] * 3)
        reading = query(**{"group.id": "billing"}, **LENIENT)
        reading.next()
        brokers.topics["orders"] = Topic([(0, 40)], b"\x02")
        reading.next()
        reading.next()
        assert heard == [set(), {0}]


def test_readers_of_filters_are_made_only_where_they_are_pushed() -> None:
    """Spark fails a query whose reader could take filters and gets none."""
    reads: Callable[..., object] = BatchReader.pushFilters
    assert reads is not FilteredBatchReader.pushFilters
    assert reads.__qualname__.startswith("DataSourceReader.")
