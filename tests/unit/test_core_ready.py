"""The ready set: who is next, and that busy keys and new keys leave each other room."""

from __future__ import annotations

from assignors import WHOLE
from coop_consumer.core.lane import TURN_MAX, TURN_S, Lane
from coop_consumer.core.lanes import KeyLanes
from coop_consumer.core.record import Record
from tests.unit.core_member import TableMember


class OneWorker:
    """Takes what is next, and runs turns of so many records.

    Attributes:
        ran: The keys of what it has run, one item a record.
    """

    def __init__(self, *keys: bytes, turn: int) -> None:
        self.member = TableMember(max_records_in_lanes=100_000)
        self.member.assign(WHOLE)
        self.member.produce(*keys)
        self.turn = turn
        self.ran: list[bytes | None] = []

    @property
    def lanes(self) -> KeyLanes:
        """Its member's."""
        return self.member.core.lanes

    def run(self, records: int) -> list[bytes | None]:
        """Run at least so many; returns the keys of those."""
        first = len(self.ran)
        while len(self.ran) < first + records and self.lanes.ready:
            entry = self.lanes.begin()
            for record in self._records_of(entry):
                self.ran.append(record.key)
                self.lanes.finished.append(record)
            self.lanes.ended.append(entry)
            self.lanes.settle()
        return self.ran[first:]

    def _records_of(self, entry: Lane | Record) -> list[Record]:
        if isinstance(entry, Record):
            return [entry]
        records = list(entry.turn())[: self.turn]
        entry.done += len(records)
        return records


CROWD = [b"new %d" % number for number in range(400)]


def test_a_busy_key_goes_on_beside_a_crowd_of_new_keys_and_takes_no_more_than_half() -> None:
    worker = OneWorker(*[b"busy"] * 100, *CROWD, turn=10)
    ran = worker.run(200)
    assert 90 <= ran.count(b"busy") <= 110


def test_a_crowd_of_busy_keys_leaves_new_keys_half_of_the_work() -> None:
    busy = [b"busy %d" % (number % 50) for number in range(50 * 100)]
    worker = OneWorker(*busy, turn=10)
    worker.run(100)  # now all of them have had a turn
    worker.member.produce(*CROWD)
    ran = worker.run(600)
    assert 280 <= sum(key in CROWD for key in ran) <= 320


def test_busy_keys_wait_for_each_other_in_the_order_of_their_turns() -> None:
    worker = OneWorker(*[b"%d" % (number % 7) for number in range(700)], turn=1)
    worker.run(7)
    turns = worker.run(70)
    assert turns == [b"%d" % (number % 7) for number in range(70)]


def test_new_records_that_run_while_no_key_is_busy_are_not_made_up_for() -> None:
    worker = OneWorker(*CROWD, *[b"busy"] * 50, *(b"x" + key for key in CROWD), turn=10)
    worker.run(400)
    ran = worker.run(40)
    assert ran.count(b"busy") <= 25


def test_a_turn_is_over_by_time_only_where_something_else_is_ready() -> None:
    worker = OneWorker(b"a", b"b", turn=1)
    lanes = worker.lanes
    assert lanes.is_over(TURN_S)
    assert not lanes.is_over(TURN_S * 0.99)
    lanes.begin(), lanes.begin()
    assert not lanes.is_over(TURN_S * 100)


def test_what_is_given_up_is_taken_out_of_both_kinds() -> None:
    worker = OneWorker(*[b"busy"] * 9, *CROWD, turn=1)
    worker.run(3)
    assert worker.lanes.ready.going_on
    worker.member.assign()
    assert not worker.lanes.ready
    assert not worker.lanes.in_use


def test_a_turn_has_a_bound_in_records() -> None:
    worker = OneWorker(*[b"busy"] * (3 * TURN_MAX), b"other", turn=10**9)
    ran = worker.run(2 * TURN_MAX)
    assert ran.index(b"other") <= TURN_MAX + 1
