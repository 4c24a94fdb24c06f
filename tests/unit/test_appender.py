"""What an append writes besides its records, and what it says when it is given up."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coop_consumer.core.transaction import Said
from coop_consumer.errors import AppendAbortedError
from coop_consumer.logs.appender import Appender
from coop_consumer.logs.conditional import AppendEnd
from coop_consumer.logs.memory_log import MemoryClient, MemoryPartition
from coop_consumer.logs.port import Landed
from coop_consumer.logs.records import NewRecord

ID = b"sixteen-bytes-id"


class Noting(MemoryClient):
    """Notes what is produced; the answer to the first commit is lost."""

    def __init__(self) -> None:
        super().__init__(MemoryPartition(), "clerk")
        self.produced: list[NewRecord] = []
        self.is_lost = True

    def produce(self, records: Sequence[NewRecord]) -> Landed:
        self.produced += records
        return super().produce(records)

    def commit(self) -> Said:
        said = super().commit()
        self.is_lost, was_lost = False, self.is_lost
        return Said.BROKEN if was_lost else said


def test_the_first_record_names_the_append_and_its_writer_for_whoever_is_held_up() -> None:
    log = Noting()
    Appender(log).append(
        [NewRecord(b"k", b"v", (("unit", b"EUR"),)), NewRecord(b"k", b"w")], -1, ID
    )
    assert log.produced[0].headers == (
        ("coop.append", ID),
        ("coop.transactional.id", b"clerk"),
        ("unit", b"EUR"),
    )
    assert log.produced[1].headers == ()


def test_a_header_of_the_callers_is_not_taken_for_the_id_of_the_append() -> None:
    """Else an append whose commit was not answered would not find itself."""
    log = Noting()
    end = Appender(log).append([NewRecord(b"k", b"v", (("coop.append", b"mine"),))], -1, ID)
    assert end is AppendEnd.APPENDED
    assert len(log.produced) == 1


def test_an_append_without_time_does_not_blame_what_went_wrong_long_ago() -> None:
    log = MemoryClient(MemoryPartition(), "a")
    log.why = "an hour ago a broker was away"
    with pytest.raises(AppendAbortedError, match=r"not made within 0.0 s: others append, or"):
        Appender(log).append([NewRecord(b"x", b"1")], -1, bytes(16), timeout_s=0.0)
