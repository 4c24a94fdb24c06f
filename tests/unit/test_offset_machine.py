"""The state of an offset store's log partition: records in, entries out, damage reported."""

from __future__ import annotations

import logging

import pytest

from assignors import TopicPartition
from coop_consumer.errors import OffsetUnknownError
from coop_consumer.logs.records import NewRecord, VisibleRecord
from coop_consumer.logs.state_machine import SNAPSHOT_PART_MAX_BYTES
from coop_consumer.offset_stores.machine import OffsetMachine, records_of, size_record
from offsets import CorruptRecordError, OffsetCommit, OffsetEntry, OffsetRange

ORDERS = [TopicPartition("orders", number) for number in range(5)]
RICH = OffsetEntry(43, "in file 7", (OffsetRange(45, 47),))


def visible(*records: NewRecord, first: int = 0) -> list[VisibleRecord]:
    return [VisibleRecord(first + i, it.key, it.value) for i, it in enumerate(records)]


def commit(offset: int, *places: TopicPartition) -> list[NewRecord]:
    return records_of(OffsetCommit("billing", dict.fromkeys(places, OffsetEntry(offset)), {}))


@pytest.fixture
def machine() -> OffsetMachine:
    machine = OffsetMachine("offsets-3")
    machine.apply(visible(size_record(8), *commit(42, *ORDERS)))
    return machine


def test_one_record_an_entry(machine: OffsetMachine) -> None:
    assert len(commit(1, *ORDERS)) == 5
    assert machine.table.found("billing", ORDERS) == dict.fromkeys(ORDERS, OffsetEntry(42))
    assert machine.partitions == 8


@pytest.mark.parametrize("damage", [None, b"", b"\x01\0\0", b"\x07" * 9, b"\x01" + b"\xff" * 8])
def test_a_corrupt_record_names_its_log_offset_and_the_last_sound_entry_stays(
    machine: OffsetMachine, damage: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    [key, *_] = [record.key for record in commit(50, ORDERS[2])]
    machine.apply([VisibleRecord(77, key, damage), *visible(*commit(43, ORDERS[3]), first=78)])

    assert machine.table.get("billing", ORDERS[2]) == OffsetEntry(42)
    assert machine.table.get("billing", ORDERS[3]) == OffsetEntry(43)
    [line] = caplog.records
    assert line.levelno == logging.ERROR
    assert line.getMessage().startswith("offsets-3, offset 77: corrupt record, byte ")
    assert "The last sound entry of its place counts." in line.getMessage()
    assert machine.corrupt == 1

    machine.apply(visible(*commit(51, ORDERS[2]), first=79))
    assert machine.table.get("billing", ORDERS[2]) == OffsetEntry(51)


def test_a_place_whose_sound_records_compaction_has_removed_is_unknown_and_not_absent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A fresh machine has the newest record of each key, and the others have been there."""
    log = visible(size_record(8), *commit(42, *ORDERS))
    damaged = log[3].key
    log.append(VisibleRecord(77, damaged, b"\x01 torn"))
    newest = {it.key: it for it in log}
    machine = OffsetMachine("offsets-3")
    machine.apply([it for it in log if newest[it.key] is it])

    known = [it for it in ORDERS if it != ORDERS[2]]
    assert machine.found("billing", known) == dict.fromkeys(known, OffsetEntry(42))
    for ask in (
        lambda: machine.get("billing", ORDERS[2]),
        lambda: machine.found("billing", ORDERS),
    ):
        with pytest.raises(OffsetUnknownError, match=r"orders-2: .* \(offsets-3, offset 77\)"):
            ask()
    assert machine.get("other", ORDERS[2]) is None
    assert "no sound entry of its place, so nobody gets one" in caplog.text

    other = OffsetMachine("offsets-3")
    parts = list(machine.snapshot())
    other.restore(parts)
    assert (other.partitions, len(other.table)) == (8, 4)
    with pytest.raises(OffsetUnknownError, match="offset 77"):
        other.get("billing", ORDERS[2])
    for end in range(4, 40):
        with pytest.raises(CorruptRecordError):
            other.restore([b"".join(parts)[:end]])

    other.apply(visible(*commit(43, ORDERS[2]), first=78))
    assert other.get("billing", ORDERS[2]) == OffsetEntry(43)
    machine.restore(other.snapshot())
    assert machine.found("billing", ORDERS)[ORDERS[2]] == OffsetEntry(43)


def test_a_sound_record_behind_a_corrupt_one_counts_in_the_same_read() -> None:
    machine = OffsetMachine("offsets-3")
    [sound] = commit(43, ORDERS[0])
    machine.apply([VisibleRecord(1, sound.key, b""), *visible(sound, first=2)])
    assert machine.get("billing", ORDERS[0]) == OffsetEntry(43)


def test_a_corrupt_key_makes_no_place_unknown(caplog: pytest.LogCaptureFixture) -> None:
    machine = OffsetMachine("offsets-3")
    [record] = commit(43, ORDERS[0])
    assert record.key is not None
    machine.apply([VisibleRecord(1, record.key + b"!", record.value)])
    machine.apply([VisibleRecord(2, record.key.replace(b"o", b"\xff"), record.value)])
    assert machine.get("billing", ORDERS[0]) is None
    assert caplog.text.count("It names no place, so no entry is concerned") == 2


def test_a_number_of_partitions_that_is_none_is_reported_too(
    machine: OffsetMachine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.apply([VisibleRecord(9, size_record(8).key, b"")])

    assert "offsets-3, offset 9" in caplog.text
    assert machine.partitions == 8


def test_a_log_full_of_garbage_gets_ten_lines(
    machine: OffsetMachine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.apply([VisibleRecord(n, b"key", b"value") for n in range(1_000)])

    assert len(caplog.records) == 10
    assert "Further ones are counted only" in caplog.records[-1].getMessage()
    assert machine.corrupt == 1_000


def test_a_snapshot_in_parts_is_the_same_machine(machine: OffsetMachine) -> None:
    for number in range(30_000):
        machine.table.put(f"group-{number}", ORDERS[0], OffsetEntry(number))
    machine.table.put("billing", ORDERS[1], RICH)
    parts = [bytes(part) for part in machine.snapshot()]
    other = OffsetMachine("offsets-3")
    other.restore(parts)

    assert len(parts) > 1
    assert max(map(len, parts)) <= SNAPSHOT_PART_MAX_BYTES
    assert other.partitions == 8
    assert sorted(other.table.entries()) == sorted(machine.table.entries())
    with pytest.raises(CorruptRecordError):
        other.restore(parts[:-1])
    assert len(other.table) == len(machine.table)
