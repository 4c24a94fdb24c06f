"""The tenures of one data partition, as the progress log tells them. Pure; one thread.

In: records of tenures, in offset order. Out: tenures, oldest first, found by id or by key hash.
Values are decoded when somebody asks, and only the last of each key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import NamedTuple

from intervaltree import Interval, IntervalTree

from assignors.key_range import KeyRange, covers, union
from offsets.codec import decode_key, decode_value
from offsets.records import AnnounceRecord, Key, TenureId, TenureKey, TenureRecord, Value
from offsets.wire import CorruptRecordError, UnknownRecordVersionError


class Announced(NamedTuple):
    """A member's newest incarnation, and at which log offset it announced itself."""

    incarnation: int
    offset: int
    record: AnnounceRecord

    def ends(self, tenure: LoggedTenure) -> bool:
        """Whether that is a tenure of an earlier incarnation, which nobody processes any more."""
        is_other = tenure.id.incarnation != self.incarnation
        return is_other and tenure.first_offset < self.record.seen


@dataclass(frozen=True, slots=True)
class LoggedTenure:
    """A tenure as the log tells it.

    Attributes:
        id: Whose it is.
        record: Its record, with the facts of all parts.
        ranges: The key ranges it began with, released or not, as a range set.
        first_offset: The log offset of its first record, as that tells: tenures are ordered by it.
        last_offset: The log offset of its last record.
        parts: The numbers of its record's parts that are in the log.
        is_readable: Whether all of these parts could be decoded; the others are left out here.
    """

    id: TenureId
    record: TenureRecord
    ranges: tuple[KeyRange, ...]
    first_offset: int
    last_offset: int
    parts: tuple[int, ...]
    is_readable: bool

    @property
    def is_released(self) -> bool:
        """Whether it gave up all of its ranges."""
        return covers(self.record.released, self.ranges)


class UnreadableReason(StrEnum):
    """Why a record of the log cannot be read.

    CORRUPT_KEY, CORRUPT_VALUE: its bytes are no key, or no value, of ours. UNKNOWN_VERSION: a
    member of a newer version wrote it.
    """

    CORRUPT_KEY = "corrupt key"
    CORRUPT_VALUE = "corrupt value"
    UNKNOWN_VERSION = "unknown version"


@dataclass(slots=True)
class _Part:
    """The last record of one key, decoded at most once."""

    offset: int
    data: bytes
    record: TenureRecord | None = None
    is_decoded: bool = False


@dataclass(slots=True)
class Unreadable:
    """Decodes keys and values, and counts what cannot be read, by reason."""

    counts: Counter[str] = field(default_factory=Counter)

    def value(self, key: Key, data: bytes) -> Value | None:
        """The value, or None and a count."""
        try:
            return decode_value(key, data)
        except UnknownRecordVersionError:
            self.counts[UnreadableReason.UNKNOWN_VERSION] += 1
        except CorruptRecordError:
            self.counts[UnreadableReason.CORRUPT_VALUE] += 1
        return None

    def key(self, data: bytes) -> Key | None:
        """The key, or None and a count."""
        try:
            return decode_key(data)
        except UnknownRecordVersionError:
            self.counts[UnreadableReason.UNKNOWN_VERSION] += 1
        except CorruptRecordError:
            self.counts[UnreadableReason.CORRUPT_KEY] += 1
        return None


@dataclass(slots=True, eq=False)
class Tenures:
    """The tenures of one data partition. Fed by `PartitionStore`.

    Args:
        place: Group, topic id and number of the data partition.
        unreadable: Decodes their records.
    """

    place: tuple[str, bytes, int]
    unreadable: Unreadable
    _parts: dict[TenureId, dict[int, _Part]] = field(default_factory=dict)
    _made: dict[TenureId, LoggedTenure | None] = field(default_factory=dict)  # unchanged since
    _tenures: dict[TenureId, LoggedTenure] | None = None  # these two: made when asked for
    _by_range: IntervalTree | None = None

    def put(self, key: TenureKey, offset: int, data: bytes | None) -> None:
        """Take a record, or a tombstone. O(1): nothing is decoded."""
        self._tenures = self._by_range = None
        self._made.pop(key.tenure, None)
        parts = self._parts.setdefault(key.tenure, {})
        if data is not None:
            parts[key.part] = _Part(offset, data)
            return
        parts.pop(key.part, None)
        if not parts:
            del self._parts[key.tenure]

    def ids(self) -> Iterable[TenureId]:
        """The ids of those that have a record in the log, readable or not."""
        return self._parts.keys()

    def by_id(self) -> dict[TenureId, LoggedTenure]:
        """Those that can be read at least in part, by id, oldest first; the caller changes none."""
        if self._tenures is None:
            for id_ in self._parts.keys() - self._made.keys():
                self._made[id_] = self._tenure(id_, self._parts[id_])
            in_order = sorted((tenure for tenure in self._made.values() if tenure), key=age)
            self._tenures = {tenure.id: tenure for tenure in in_order}
        return self._tenures

    def damaged(self) -> TenureId | None:
        """One of which something cannot be read, for whatever reason; None: there is none.

        O(tenures).
        """
        self.by_id()
        for id_, parts in self._parts.items():
            if any(part.record is None for part in parts.values()):
                return id_
        return None

    def at(self, key_hash: int) -> tuple[LoggedTenure, ...]:
        """Those that began with this hash, oldest first. O(log tenures + found)."""
        return self._found(self._tree().at(key_hash))

    def overlapping(self, ranges: Iterable[KeyRange]) -> tuple[LoggedTenure, ...]:
        """Those that began with a hash of these ranges, oldest first. O(log tenures + found)."""
        # The tree's intervals are half-open, ours are closed: hence + 1, here and in _tree.
        tree = self._tree()
        return self._found(chain.from_iterable(tree.overlap(r.lo, r.hi + 1) for r in ranges))

    def keys(self, tenure: LoggedTenure) -> list[TenureKey]:
        """The keys of its record: parts before part 0, which tells what was released."""
        return [TenureKey(*self.place, tenure.id, part) for part in reversed(tenure.parts)]

    def _decoded(self, id_: TenureId, number: int, part: _Part) -> TenureRecord | None:
        if not part.is_decoded:
            key = TenureKey(*self.place, id_, number)
            value = self.unreadable.value(key, part.data)
            part.record = value if isinstance(value, TenureRecord) else None
            part.is_decoded = True
        return part.record

    def records(self) -> Iterator[TenureRecord]:
        """Every part's record that can be read."""
        for id_, parts in self._parts.items():
            for number, part in parts.items():
                record = self._decoded(id_, number, part)
                if record is not None:
                    yield record

    def _tree(self) -> IntervalTree:
        """Tenure ids by key range: from some hundreds of tenures on faster than a look at each."""
        if self._by_range is None:
            self._by_range = IntervalTree.from_tuples(
                (r.lo, r.hi + 1, tenure.id)
                for tenure in self.by_id().values()
                for r in tenure.ranges
            )
        return self._by_range

    def _found(self, entries: Iterable[Interval]) -> tuple[LoggedTenure, ...]:
        tenures = self.by_id()
        return tuple(sorted((tenures[id_] for id_ in {e.data for e in entries}), key=age))

    def _tenure(self, id_: TenureId, parts: dict[int, _Part]) -> LoggedTenure | None:
        records: dict[int, TenureRecord] = {}
        for number, part in sorted(parts.items()):
            record = self._decoded(id_, number, part)
            if record is not None:
                records[number] = record
        if not records:
            return None
        epoch = max(record.epoch for record in records.values())
        facts = tuple(chain.from_iterable(r.facts for r in records.values() if r.epoch == epoch))
        # Without part 0, which is written last, nothing is released. It tells which others count:
        # in those of earlier records are attempts at what is done since.
        head = records.get(0, TenureRecord(epoch, -1, ()))
        newest = (0, *range(head.others, head.others + head.parts - 1))
        attempts = tuple(
            attempt
            for number, record in records.items()
            if record.epoch == epoch and number in newest
            for attempt in record.attempts
        )
        released = union(head.released)
        return LoggedTenure(
            id_,
            replace(head, epoch=epoch, facts=facts, released=released, attempts=attempts),
            union(fact.range for fact in facts),
            min(_first(record, parts[number].offset) for number, record in records.items()),
            max(part.offset for part in parts.values()),
            tuple(sorted(parts)),
            len(records) == len(parts),
        )


def age(tenure: LoggedTenure) -> tuple[int, TenureId]:
    """Sorts tenures by their first record in the log."""
    return tenure.first_offset, tenure.id


def _first(record: TenureRecord, offset: int) -> int:
    """The log offset of the tenure's first record, as told by a part found at `offset`."""
    return record.first_offset if record.first_offset >= 0 else offset
