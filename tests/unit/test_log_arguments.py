"""Logs, offset stores and patterns say so if they are given what they cannot use, and go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from assignors import TopicPartition
from coop_consumer.errors import ConfigError, MisuseError
from coop_consumer.logs import Applied, CommitLog, LogToken, MemoryPartition, NewRecord
from coop_consumer.logs.kafka_log import config_of
from coop_consumer.offset_stores import LogOffsetStore, MemoryOffsetStore, OffsetEntry
from coop_consumer.patterns import (
    Checkpoint,
    Deduplicator,
    ExclusiveProducer,
    MergeLog,
    OffsetChangelog,
    PairedOffsets,
    committed_records,
    with_source,
)
from tests.support.hostile import HOSTILE, T0, no_functions, other_than
from tests.support.registers import Registers, put

CONFIG = {"bootstrap.servers": "localhost:1"}
ENTRY = {T0: OffsetEntry(1)}
NO_TIMES = other_than(int, float, type(None))


@pytest.fixture
def log() -> Iterator[CommitLog]:
    with CommitLog.in_memory(MemoryPartition(lock=threading.RLock()), "a", Registers()) as opened:
        yield opened


def refused(call: Callable[[Any], object], values: list[Any]) -> None:
    for value in values:
        with pytest.raises((MisuseError, ConfigError)) as caught:
            call(value)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("call", "values"),
    [
        (lambda log, it: log.append(it), HOSTILE),
        (lambda log, it: log.append_later(it), HOSTILE),
        (lambda log, it: log.append([put("x", 1)], check=it), no_functions()[1:]),
        (lambda log, it: log.append([put("x", 1)], timeout_s=it), NO_TIMES),
        (lambda log, it: log.read(it), no_functions()),
        (lambda log, it: log.read_later(it), no_functions()),
        (lambda log, it: log.read(list, timeout_s=it), NO_TIMES),
        (lambda log, it: log.peek(it), no_functions()),
        (lambda log, it: log.peek(list, timeout_s=it), NO_TIMES),
        (lambda log, it: log.sync(timeout_s=it), NO_TIMES),
        (lambda log, it: log.follow(it), [*NO_TIMES, None, 0, -1]),
        (lambda log, it: log.snapshot(timeout_s=it), NO_TIMES),
    ],
)
def test_a_commit_log_refuses_what_it_cannot_use(
    log: CommitLog, call: Callable[[CommitLog, Any], object], values: list[Any]
) -> None:
    refused(lambda it: call(log, it), values)
    assert isinstance(log.append([put("x", 2)]), Applied)
    assert log.read(lambda: log.token.offset) == 0, "nothing of the others was appended"


def test_a_commit_log_in_memory_is_made_of_a_partition_a_name_and_a_machine() -> None:
    partition = MemoryPartition()
    refused(lambda it: CommitLog.in_memory(it, "a", Registers()), HOSTILE)
    refused(lambda it: CommitLog.in_memory(partition, it, Registers()), [*other_than(str), "a b"])
    refused(lambda it: CommitLog.in_memory(partition, "a", it), HOSTILE)
    refused(lambda it: CommitLog.in_memory(partition, "a", Registers(), it), HOSTILE[1:])


@pytest.mark.parametrize(
    "name", ["", " ", "a b", " a", "a\n", "ä", "a/b", "..", "x" * 250, None, 5]
)
def test_a_name_that_people_could_not_type_into_kafkas_tools_is_refused(name: Any) -> None:
    for config in (CONFIG, config_of(CONFIG, "sound")):
        with pytest.raises(MisuseError, match=r"name=.*A name has 1 to 249 of the characters"):
            config_of(config, name)
    with pytest.raises(MisuseError, match=r"name=.*A name has 1 to 249 of the characters"):
        ExclusiveProducer(CONFIG, T0, name)


def test_no_log_has_the_name_of_the_writer_of_its_snapshots() -> None:
    with pytest.raises(MisuseError, match="name=snapshots is that of whoever writes snapshots"):
        CommitLog.open(CONFIG, "orders", 0, "snapshots", Registers())


def test_a_token_is_28_bytes() -> None:
    for value in HOSTILE:
        with pytest.raises(ValueError, match="no token of a log"):
            LogToken.decode(value)


STORES: dict[str, Callable[[], Any]] = {
    "memory": MemoryOffsetStore,
    "log": lambda: LogOffsetStore.in_memory([MemoryPartition(lock=threading.RLock())], "a"),
}


@pytest.mark.parametrize("store", STORES)
def test_an_offset_store_refuses_what_it_cannot_use(store: str) -> None:
    with STORES[store]() as offsets:
        refused(lambda it: offsets.commit(it, ENTRY), other_than(str))
        refused(lambda it: offsets.commit("g", it), [it for it in HOSTILE if it != {}])
        refused(
            lambda it: offsets.commit("g", ENTRY, it), [0, False, *other_than(type(None), dict)]
        )
        refused(lambda it: offsets.commit("g", ENTRY, {T0: it}), [*other_than(int, type(None)), -1])
        refused(lambda it: offsets.commit("g", ENTRY, timeout_s=it), NO_TIMES)
        refused(lambda it: offsets.fetch(it, [T0]), other_than(str))
        refused(lambda it: offsets.fetch("g", it), [it for it in other_than(dict) if it != []])
        refused(lambda it: offsets.fetch("g", [T0], timeout_s=it), NO_TIMES)
        assert offsets.fetch("g", [T0]) == {}


def test_an_offset_store_in_memory_is_made_of_partitions_and_a_name() -> None:
    refused(lambda it: LogOffsetStore.in_memory(it, "a"), HOSTILE)
    refused(lambda it: LogOffsetStore.in_memory([MemoryPartition()], it), [*other_than(str), "a b"])


WRITERS: dict[str, Callable[[Any], object]] = {
    "ExclusiveProducer": lambda it: ExclusiveProducer(CONFIG, it, "w"),
    "PairedOffsets": lambda it: PairedOffsets(CONFIG, it, T0, "w"),
    "Checkpoint": lambda it: Checkpoint(CONFIG, it, "w"),
    "OffsetChangelog": lambda it: OffsetChangelog(CONFIG, it, T0, "w"),
    "MergeLog": lambda it: MergeLog(CONFIG, [it], T0, "w"),
    "MergeLog, inputs": lambda it: MergeLog(CONFIG, it, T0, "w"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_writer_refuses_a_place_that_is_none_before_it_asks_a_broker(writer: str) -> None:
    refused(WRITERS[writer], HOSTILE)


def test_a_changelog_refuses_functions_that_are_none() -> None:
    sound: dict[str, Any] = {"initial": dict, "apply": lambda *_: None}
    for which in sound:
        refused(
            lambda it, which=which: OffsetChangelog(CONFIG, T0, T0, "w", **{**sound, which: it}),
            no_functions(),
        )


def test_a_position_of_a_merge_log_is_a_number_from_0_on() -> None:
    merged = TopicPartition("merged", 0)
    refused(
        lambda it: MergeLog(CONFIG, [T0], merged, "w", position=it), [*other_than(int), -1, 10**400]
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda it: list(committed_records(CONFIG, it, 0)),
        lambda it: Deduplicator().catch_up(CONFIG, it, 0),
    ],
)
def test_a_reader_refuses_a_place_that_is_none(call: Callable[[Any], object]) -> None:
    refused(call, HOSTILE)


def test_a_source_is_headers_a_place_and_an_offset() -> None:
    refused(lambda it: with_source([], it, 0), other_than(TopicPartition))
    refused(lambda it: with_source([], T0, it), [*other_than(int, bool), 1.5, -1])
    refused(lambda it: with_source(it, T0, 0), [None, 5, [5], [None], object()])
    refused(lambda it: with_source([], TopicPartition("orders", it), 0), [None, "0", -1])
    headers = with_source([("unit", b"EUR")], T0, 42)
    assert headers[1:] == [("source.partition", b"0"), ("source.offset", b"42")]


def test_a_deduplicator_is_given_messages() -> None:
    dedup = Deduplicator()
    with pytest.raises(MisuseError, match=r"is_new\(\): None is no message"):
        dedup.is_new(None)
    refused(dedup.is_new, HOSTILE)


def test_a_record_in_a_log_that_is_none_is_named() -> None:
    with CommitLog.in_memory(MemoryPartition(), "a", Registers()) as opened:
        refused(lambda it: opened.append([NewRecord(b"k", it)]), other_than(bytes, type(None)))


def test_a_header_of_a_record_in_a_log_has_a_name_that_a_log_can_keep() -> None:
    """confluent-kafka 2.16 crashes the interpreter by a name that is not UTF-8."""
    with CommitLog.in_memory(MemoryPartition(), "a", Registers()) as opened:
        named = [((it, b""),) for it in (None, 5, b"unit", "\udcff")]
        refused(lambda it: opened.append([NewRecord(b"k", b"v", it)]), named)
