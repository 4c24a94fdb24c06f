"""A bulk load on a partition in a list: where it goes on, whoever has loaded there before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coop_consumer.errors import AppendInDoubtError, LogConflictError, MisuseError
from coop_consumer.logs import LogToken, NewRecord
from coop_consumer.logs.bulk_load import BATCH_BYTES, BATCH_RECORDS, LOAD_HEADER, bulk_load
from coop_consumer.logs.records import Conflict, TaggedRecord, VisibleRecord

EMPTY = LogToken(bytes(16), 0, -1)


class Target:
    """A producer; all producers of a test have one log.

    Attributes:
        appends: How many records each append has had.
    """

    def __init__(self, log: list[NewRecord], name: str) -> None:
        self.log, self.name, self.place = log, name, ("memory", 0)
        self.appends: list[int] = []
        self.is_ready = False
        self.removed = 0

    def take_over(self) -> None:
        self.is_ready = True

    def last_tagged(self, header: str) -> tuple[LogToken, Iterator[TaggedRecord]]:
        assert self.is_ready, "a predecessor may still have a commit under way"
        found = [
            TaggedRecord(VisibleRecord(offset, it.key, it.value), dict(it.headers).get(header, b""))
            for offset, it in enumerate(self.log)
        ]
        return EMPTY.at(len(self.log) - 1), iter(found[self.removed :][::-1])

    def first_offset(self) -> int:
        return self.removed

    def append(self, records: list[NewRecord], expected: LogToken) -> LogToken | Conflict:
        assert expected.offset == len(self.log) - 1, "nobody else is at work"
        self.log += records
        self.appends.append(len(records))
        return EMPTY.at(len(self.log) - 1)


def some(count: int, size: int = 1) -> list[NewRecord]:
    return [NewRecord(b"%d" % number, bytes(size)) for number in range(count)]


def test_loads_of_several_names_share_a_partition_and_each_goes_on_behind_its_own() -> None:
    log: list[NewRecord] = []
    assert bulk_load(Target(log, "a"), some(3)).count == 3
    assert bulk_load(Target(log, "a-b"), some(7)).found == 0
    log.append(NewRecord(b"plain", b"record"))
    loaded = bulk_load(Target(log, "a"), some(5))
    assert (loaded.found, loaded.count) == (3, 5)
    numbers = [dict(it.headers).get(LOAD_HEADER, b"") for it in log]
    assert [it for it in numbers if it.endswith(b":a")] == [b"%d:a" % n for n in range(5)]
    with pytest.raises(MisuseError, match="record number 6 is not the one"):
        bulk_load(Target(log, "a-b"), some(6))


def test_a_load_goes_in_appends_of_bounded_number_and_size() -> None:
    small, large = Target([], "a"), Target([], "b")
    bulk_load(small, some(2 * BATCH_RECORDS + 1))
    assert small.appends == [BATCH_RECORDS, BATCH_RECORDS, 1]
    bulk_load(large, some(9, size=BATCH_BYTES // 4))
    assert large.appends == [4, 4, 1]


def test_a_load_that_the_log_has_lost_is_not_made_again_unasked() -> None:
    log: list[NewRecord] = []
    bulk_load(Target(log, "a"), some(3))
    shortened = Target(log, "a")
    shortened.removed = 2
    assert bulk_load(shortened, some(4)).found == 3, "its last record is there"

    log.append(NewRecord(b"plain", b"record"))
    shortened.removed = 4
    with pytest.raises(LogConflictError, match=r"lost its beginning and has no record .* begin="):
        bulk_load(shortened, some(6))
    assert len(log) == 5
    loaded = bulk_load(shortened, some(6), begin=4)
    assert (loaded.found, loaded.count) == (4, 6)
    assert log[5:] == [
        it._replace(headers=((LOAD_HEADER, b"%d:a" % number),))
        for number, it in enumerate(some(6))
        if number >= 4
    ]
    assert bulk_load(shortened, some(6), begin=0).found == 6, "the log knows better"


def test_a_load_that_has_never_begun_begins_in_a_shortened_log() -> None:
    shortened = Target([NewRecord(b"plain", b"record")] * 3, "a")
    shortened.removed = 2
    loaded = bulk_load(shortened, some(2), begin=0)
    assert (loaded.found, loaded.count) == (0, 2)


def test_a_load_that_ends_before_its_begin_is_refused() -> None:
    """To take the missing ones for loaded would hide that they are not."""
    shortened = Target(some(3), "a")
    shortened.removed = 2
    with pytest.raises(MisuseError, match="begin=5, and the load has 4 records"):
        bulk_load(shortened, some(4), begin=5)
    assert bulk_load(shortened, some(4), begin=4).count == 4
    assert len(shortened.log) == 3


def test_a_record_that_is_none_is_named_also_where_a_load_goes_on() -> None:
    log: list[NewRecord] = []
    bulk_load(Target(log, "a"), some(3))
    wrong: Any = [(it.key, it.value) for it in some(3)]
    with pytest.raises(MisuseError, match="is no record of a log"):
        bulk_load(Target(log, "a"), wrong)


def test_a_load_in_doubt_says_that_it_is_to_be_started_again() -> None:
    class Doubtful(Target):
        def append(self, records: list[NewRecord], expected: LogToken) -> LogToken | Conflict:
            super().append(records, expected)
            raise AppendInDoubtError("memory", 0, bytes(16), "no answer")

    log: list[NewRecord] = []
    with pytest.raises(AppendInDoubtError, match="Start the load a again: it goes on behind"):
        bulk_load(Doubtful(log, "a"), some(3))
    assert bulk_load(Target(log, "a"), some(3)).found == 3


def test_a_load_without_records_is_none() -> None:
    assert bulk_load(Target([], "a"), []).count == 0
