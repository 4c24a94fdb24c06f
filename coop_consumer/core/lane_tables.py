"""Lane tables: where the unfinished records of each partition are filed, by their keys. Pure.

In: admitted records. Out: what can run, into the run queue. A record whose key is idle is filed as
itself. The next record of its key makes a lane that waits behind it.

Where handlers are so quick that the member's own thread runs them, even filing costs more than they
do. Records that come while nothing of their partition is unfinished stay *fresh*. The thread runs
them straight away, in the order in which they came, and so in order by key. Fresh records are filed
as soon as anybody looks at a table, so nobody else has to know of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import compress, groupby
from operator import is_, is_not
from typing import TYPE_CHECKING

from coop_consumer.core.lane import (
    BEHIND,
    READY,
    RUNNING,
    Entry,
    Lane,
    LaneState,
    LaneTable,
    records_of,
)
from coop_consumer.core.record import KEY, TENURE, Record

if TYPE_CHECKING:
    from coop_consumer.core.ready import RunQueue


class Straight:
    """Fresh records that a thread runs in their order, until another one files what is left.

    Both pop from the left end of one deque, which is atomic: one of them gets a record. Behind the
    records lies an end mark for each of the two.

    Attributes:
        records: What was taken to be run; once it is split, what was begun of it.
    """

    __slots__ = ("_left", "records")

    def __init__(self, records: list[Record]) -> None:
        self.records = records
        self._left: deque[Record | None] = deque(records)
        self._left.extend((None, None))

    def __iter__(self) -> Iterator[Record]:
        """Begin one record after the other."""
        return iter(self._left.popleft, None)

    def split(self) -> tuple[Record | None, list[Record]]:
        """The last record that was begun, if one was, and those that are left to the caller."""
        rest: list[Record] = []
        with suppress(IndexError):  # it was split before
            rest.extend(iter(self._left.popleft, None))
        del self.records[len(self.records) - len(rest) :]
        return (self.records[-1] if self.records else None), rest


class LaneTables:
    """The unfinished records of a member. Every method is called with the lanes' lock held.

    Args:
        queue: Where goes what can run.

    Attributes:
        by_partition: The tables; read one by `of` or `filed`.
        fresh: Records that are not filed, the oldest first. Of their partitions nothing is filed.
        goes_straight: Whether records may stay fresh: the member's thread will run them at once.
            Executors set it.
    """

    __slots__ = ("_queue", "_seen", "by_partition", "fresh", "goes_straight")

    def __init__(self, queue: RunQueue) -> None:
        self._queue = queue
        self.by_partition: dict[object, LaneTable] = {}
        self._seen: dict[Lane, LaneState] = {}  # the states at the last `check`
        self.fresh: list[Record] = []
        self.goes_straight = False

    def of(self, partition: object) -> LaneTable:
        """What is unfinished of one partition, now filed; made when first asked for."""
        self.file_fresh()
        return self.filed(partition)

    def filed(self, partition: object) -> LaneTable:
        """The same without what is fresh."""
        return self.by_partition.setdefault(partition, {})

    def add(
        self, partition: object, keys: Sequence[bytes], records: Sequence[Record], *, first: int = 0
    ) -> None:
        """Take in records of one partition, as fresh ones or by their keys.

        They are filed if anything of the partition is: ready, or behind what is there. The first
        `first` of them run before all other entries.
        """
        table = self.filed(partition)
        if self.goes_straight and not table and self._queue.held_back is None:
            self.fresh += records
        else:
            self.file_fresh()
            if first:
                self._queue.inlet.put_back(self._file(table, keys[:first], records[:first]))
                keys, records = keys[first:], records[first:]
            self._queue.inlet.new.extend(self._file(table, keys, records))

    def file_fresh(self) -> None:
        """File what is fresh."""
        if self.fresh:
            fresh, self.fresh = self.fresh, []
            self._file_all(fresh)

    def _file_all(self, records: Iterable[Record]) -> None:
        for tenure, group in groupby(records, TENURE):
            some = list(group)
            keys = list(map(KEY, some))
            self._queue.inlet.new.extend(self._file(self.filed(tenure.tp), keys, some))

    def _file(
        self, table: LaneTable, keys: Sequence[bytes], records: Sequence[Record]
    ) -> list[Record]:
        """File records; returns those that can run."""
        filed = list(map(table.setdefault, keys, records))
        can_run = list(compress(records, map(is_, filed, records)))
        for record in list(compress(records, map(is_not, filed, records))):
            self.follow(table, record, table[record._key])
        return can_run

    def follow(self, table: LaneTable, record: Record, filed: Entry) -> None:
        """Let a record wait for what is filed under its key."""
        if isinstance(filed, Lane):
            filed.records.append(record)
        else:
            lane = table[filed._key] = Lane(record.tenure, table, filed._key, record)
            lane.state, lane.ahead = BEHIND, filed

    def lane_of(self, entry: Entry) -> Lane:
        """An entry that an executor took, as a lane: for executors that run lanes only."""
        if isinstance(entry, Lane):
            return entry
        table = self.of(entry.tenure.tp)
        filed = table.get(entry._key)
        if isinstance(filed, Lane):
            lane = filed
            lane.records.insert(0, entry)
            lane.ahead = None
        else:
            lane = table[entry._key] = Lane(entry.tenure, table, entry._key, entry)
        lane.move(RUNNING)
        lane.begun = True
        return lane

    # ---- the member's thread runs fresh records ------------------------------------------------

    def take_straight(self, records_max: int) -> Straight:
        """Take the oldest fresh records, to run them on the member's thread in their order."""
        taken = self.fresh[:records_max]
        del self.fresh[:records_max]
        return Straight(taken)

    def end_straight(self, run: Straight) -> None:
        """All that was begun of a run has ended well; the rest is as fresh as before."""
        self.fresh[:0] = run.split()[1]

    def file_straight(self, run: Straight) -> Record | None:
        """File what was taken so: it runs, or its handler has failed or is stuck, like any other.

        Returns:
            The record that was begun last, which is now filed as one that runs.
        """
        running, rest = run.split()
        if running is not None:
            self.filed(running.tenure.tp)[running._key] = running
        self._file_all(rest)
        self.file_fresh()
        return running

    def check(self) -> None:
        """Assert that each entry is in the one place that its state says (I4, I8).

        A lane's state may have changed since the last check only as `MOVES` says.
        """
        for record in self.fresh:
            assert not self.filed(record.tenure.tp), f"I4: {record} might overtake what is filed"
        queued = list(self._queue)
        ready = set(map(id, queued))
        assert len(ready) == len(queued), "I4: something is ready twice"
        is_open = self._queue.held_back is not None
        assert not (is_open and self.fresh), "I4: what is fresh is not held back"
        before, self._seen = self._seen, {}
        for table in self.by_partition.values():
            for key, entry in table.items():
                if isinstance(entry, Record):
                    assert entry._key == key, f"I4: {entry} is filed under {key!r}"
                    continue
                assert entry.key == key, f"I4: filed under {key!r}: {entry.story()}"
                assert not entry.detached, f"I4: given up, still takes records: {entry.story()}"
                assert (entry.state is READY) == (id(entry) in ready), (
                    f"I4: a lane is in the run queue while READY, only then: {entry.story()}"
                )
                entry.check_state(before.get(entry))
                offsets = [record._offset for record in records_of(entry)]
                assert offsets == sorted(offsets), f"I4: out of order: {entry.story()}"
                self._seen[entry] = entry.state
