"""What every log promises. Another kind of log subclasses `LogContract` and gives its `log`."""

import pytest

from offsets import Log, LogBatch, LogRecord, MemoryLog


def read_all(log: Log, max_records: int = 100) -> list[LogRecord]:
    """Read from the beginning till a read says that it was complete."""
    records: list[LogRecord] = []
    read = log.read(0, max_records)
    records += read.records
    while not read.is_complete:
        read = log.read(read.next_offset, max_records)
        records += read.records
    return records


class LogContract:
    """The promises; `log` is a fresh, empty log."""

    @pytest.fixture
    def log(self) -> Log:
        raise NotImplementedError

    def test_an_empty_log_is_read_completely(self, log: Log) -> None:
        assert log.read(0, 10).is_complete

    def test_records_come_back_in_the_order_and_with_the_offsets_of_their_appends(
        self, log: Log
    ) -> None:
        offsets = [log.append(b"k%d" % (i % 3), b"v%d" % i) for i in range(7)]
        records = read_all(log)
        assert offsets == sorted(set(offsets))
        assert [record.offset for record in records] == offsets
        assert [record.value for record in records] == [b"v%d" % i for i in range(7)]

    def test_small_reads_omit_nothing_and_only_the_last_is_complete(self, log: Log) -> None:
        for i in range(5):
            log.append(b"k", b"%d" % i)
        first = log.read(0, 2)
        assert len(first.records) <= 2
        assert not first.is_complete
        assert [r.value for r in read_all(log, max_records=2)] == [b"%d" % i for i in range(5)]

    def test_a_read_at_the_end_finds_what_is_appended_later(self, log: Log) -> None:
        log.append(b"k", b"old")
        read = log.read(0, 10)
        assert read.is_complete
        log.append(b"k", b"new")
        following = log.read(read.next_offset, 10)
        assert [record.value for record in following.records] == [b"new"]
        assert following.is_complete

    def test_a_tombstone_is_a_record_without_a_value(self, log: Log) -> None:
        log.append(b"k", None)
        assert [record.value for record in read_all(log)] == [None]


class TestMemoryLog(LogContract):
    @pytest.fixture
    def log(self) -> MemoryLog:
        return MemoryLog()

    def test_compaction_keeps_the_last_record_of_each_key_at_its_offset(self) -> None:
        log = self.filled()
        log.compact()
        assert [(r.offset, r.key) for r in read_all(log)] == [(2, b"a"), (3, b"b"), (4, b"c")]

    def test_tombstones_go_on_demand_but_never_the_last_record(self) -> None:
        log = self.filled()
        log.append(b"a", None)
        log.append(b"c", None)
        log.compact(drop_tombstones=True)
        assert [(r.offset, r.value) for r in read_all(log)] == [(3, b"4"), (6, None)]
        assert log.end_offset == 7

    def test_what_lies_above_the_compacted_part_neither_goes_nor_counts(self) -> None:
        log = self.filled()
        log.compact(end_offset=2)
        assert [r.offset for r in read_all(log)] == [0, 1, 2, 3, 4]
        log.compact(end_offset=3)
        assert [r.offset for r in read_all(log)] == [1, 2, 3, 4]

    def test_holes_of_compaction_do_not_keep_a_read_from_being_complete(self) -> None:
        log = self.filled()
        log.compact()
        assert log.read(0, 3) == LogBatch(read_all(log), next_offset=5, end_offset=5)
        assert log.read(0, 2).next_offset == 4

    @pytest.mark.parametrize("offset", [-1, 6])
    def test_a_read_outside_the_log_names_its_bounds(self, offset: int) -> None:
        with pytest.raises(ValueError, match=f"offset {offset} is outside the log, 0 to 5"):
            self.filled().read(offset, 1)

    def test_a_read_of_no_records_is_refused(self) -> None:
        with pytest.raises(ValueError, match="max_records=0"):
            self.filled().read(0, 0)

    @staticmethod
    def filled() -> MemoryLog:
        log = MemoryLog()
        for i, key in enumerate([b"a", b"b", b"a", b"b", b"c"]):
            log.append(key, b"%d" % (i + 1))
        return log
