"""The state of one partition in this process: its store, and writes on their way to the changelog.

In: writes of handlers, their acknowledgements, records of the changelog. Out: entries by key. A
write waits in memory until the changelog has it, and only then goes into the store. So the disk
never holds a state that the group does not know. All ranges of the partition in this process share
a store. Only the owner of a range writes its keys, so the store has all of the changelog for held
ranges.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from assignors import WHOLE, KeyRange, TopicPartition, intersect, key_hash, subtract, union
from coop_consumer.state import positions as at
from coop_consumer.state.entry import StateEntry, alone, decode, encode, place_of
from coop_consumer.state.store import Store


@dataclass(slots=True, eq=False)
class Write:
    """A change on its way to the changelog.

    Attributes:
        shard: Of its partition.
        key: The key whose state it is.
        value: The encoded entry; None: the key is deleted.
        is_alone: Log and store get it without the version before.
        losses: How often all ranges had been lost at the put; see `ChangelogWriter`.
        before: The write that it took the place of, while it may be undone; see `Shard.undo`.
        is_stored: The store has it.
    """

    shard: Shard
    key: bytes
    value: bytes | None
    losses: int = 0
    before: Write | None = None
    is_stored: bool = False
    is_alone: bool = False

    @property
    def logged(self) -> bytes | None:
        """What log and store get."""
        return alone(self.value) if self.is_alone and self.value is not None else self.value

    @property
    def size(self) -> int:
        """See `Effect`."""
        return 0

    def undo(self) -> None:
        """See `Effect`."""
        self.shard.undo(self)


@dataclass(frozen=True, slots=True)
class Reached:
    """Held ranges, and the end of what was acknowledged for the partition."""

    ranges: tuple[KeyRange, ...]
    offset: int


@dataclass(slots=True)
class Restoring:
    """What a restore must read, and has read.

    Attributes:
        pieces: Key ranges, each with the offset up to which it is valid; sorted, disjoint.
        first: The first offset to read.
        end: The offset to stop at.
        read: Records read, of all keys.
        applied: Those of them in the restored ranges.
        stale: Keys whose last record in the log is older than another one.
    """

    pieces: list[tuple[KeyRange, int, int]]
    first: int
    end: int
    read: int = 0
    applied: int = 0
    stale: set[bytes] = field(default_factory=set)
    _lows: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._lows = [piece[0].lo for piece in self.pieces]

    def wants(self, key: bytes, offset: int) -> bool:
        """Whether a record belongs to these ranges, and is new to the store."""
        hash_ = key_hash(key)
        number = bisect_right(self._lows, hash_) - 1
        return number >= 0 and hash_ in self.pieces[number][0] and offset >= self.pieces[number][1]

    def stale_in(self, ranges: tuple[KeyRange, ...]) -> list[bytes]:
        """The stale keys of these ranges."""
        return sorted(key for key in self.stale if any(key_hash(key) in it for it in ranges))


class Shard:
    """State of one partition.

    Args:
        tp: The partition.
        mark: Distinguishes its topic from others of the name, see `entry.mark_of`.
        store: Its store.

    Attributes:
        held: The ranges that are ours.
        lost: Ranges that the group gave away while this member was silent, and not back since.
    """

    def __init__(self, tp: TopicPartition, mark: int, store: Store) -> None:
        self.tp = tp
        self.mark = mark
        self.held: tuple[KeyRange, ...] = ()
        self.lost: tuple[KeyRange, ...] = ()
        self._store = store
        self._acknowledged = 0
        self._pending: dict[bytes, Write] = {}
        self._changing = threading.Lock()  # guards pending writes and lost ranges
        self._writing = threading.Lock()  # guards the store and its positions

    # ---- handlers ------------------------------------------------------------------------------

    def find(self, key: bytes) -> StateEntry | None:
        """The entry of a key. Takes no lock: no two handlers are at a key."""
        write = self._pending.get(key)
        data = self._store.get(key) if write is None else write.value
        return None if data is None else decode(data)

    def encoded(self, entry: StateEntry) -> bytes:
        """The entry as the changelog has it."""
        return encode(entry, self.mark)

    def put(self, write: Write) -> bool:
        """Make a write visible. False: others may have its key."""
        with self._changing:
            if self.is_lost(write.key):
                return False
            write.before = self._pending.get(write.key)
            self._pending[write.key] = write
        return True

    def undo(self, write: Write) -> None:
        """Let the key have the state again that a write took the place of: its record failed."""
        with self._changing:
            if self._pending.get(write.key) is write:
                if write.before is None or write.before.is_stored:
                    del self._pending[write.key]
                else:
                    self._pending[write.key] = write.before

    # ---- acknowledgements ----------------------------------------------------------------------

    def settle(self, writes: Sequence[tuple[Write, int]]) -> None:
        """Take in that the changelog has these writes, in this order, each at its offset."""
        changes = {write.key: write.logged for write, _ in writes}
        last = max(offset for _, offset in writes)
        with self._writing:
            self._store.write(changes)
            self._acknowledged = max(self._acknowledged, last + 1)
        with self._changing:
            for write, _ in writes:
                write.is_stored = True
                if self._pending.get(write.key) is write:
                    del self._pending[write.key]

    def reached(self) -> Reached:
        """Up to where the store would be valid, if the held ranges are really ours."""
        with self._writing:
            return Reached(self.held, self._acknowledged)

    def confirm(self, reached: Reached, now_s: int) -> None:
        """Move the positions: the ranges were ours at `now_s`, after `reached`, so nobody wrote."""
        with self._writing:
            ranges = intersect(self.held, reached.ranges)
            self._store.write({}, at.moved(self._store.positions, ranges, reached.offset, now_s))

    # ---- ranges --------------------------------------------------------------------------------

    def release(self, ranges: Iterable[KeyRange], *, lost: bool = False) -> None:
        """Note that these ranges are no longer ours.

        Args:
            ranges: The ranges.
            lost: Others may have them already. If not, their handlers' later writes still count.
        """
        ranges = union(ranges)
        with self._writing:
            self.held = subtract(self.held, ranges)
        if lost:
            with self._changing:
                self.lost = union([*self.lost, *ranges])
                pending = self._pending.items()  # the next owner of a key uses the changelog
                self._pending = {key: it for key, it in pending if not self.is_lost(key)}

    def begin_again(self) -> None:
        """Drop all ranges, and pending writes that the changelog may never have."""
        self.release((WHOLE,))
        with self._changing:
            self._pending = {}

    def is_lost(self, key: bytes) -> bool:
        """Whether others may have this key."""
        lost = self.lost
        return bool(lost) and any(key_hash(key) in it for it in lost)

    def begin(
        self, ranges: tuple[KeyRange, ...], log: tuple[int, int], now_s: int, age_max_s: float
    ) -> Restoring:
        """Plan a restore; delete the part of the store that it cannot start from.

        Single hashes between two of the ranges are read along: a handler elsewhere still has them,
        and they are assigned later, with little left to read then. Not if they are held: they have
        a tenure of their own here, which goes on.

        Args:
            ranges: The key ranges.
            log: Where the changelog begins and ends now.
            now_s: Unix time.
            age_max_s: The oldest usable position: the changelog may have forgotten deletions since.
        """
        begin, end = log
        ranges = union([*ranges, *subtract(single_holes(ranges), self.held)])
        self.release(ranges)
        with self._writing:
            known = self._store.positions
            useless = union(
                part
                for part, offset, seen_s in at.begins(known, ranges)
                if (offset or seen_s)  # nothing known: nothing there
                and not (begin <= offset <= end and abs(now_s - seen_s) <= age_max_s)
            )
            if useless:
                self._store.forget(useless, at.without(known, useless))
            pieces = at.begins(self._store.positions, ranges)
        first = max(begin, min((offset for _, offset, _ in pieces), default=end))
        return Restoring(pieces, first, end)

    def restore(
        self,
        restoring: Restoring,
        records: Collection[tuple[int, bytes, bytes | None]],
        next_offset: int,
        seen_s: int,
    ) -> None:
        """Take in records of the changelog, as (offset, key, value), in their order.

        Raises:
            EntryError: A record has a newer format.
        """
        changes: dict[bytes, bytes | None] = {}
        for offset, key, value in records:
            if not restoring.wants(key, offset):
                continue
            restoring.applied += 1
            if value is not None and not self._is_news(key, value, changes):
                restoring.stale.add(key)
                continue
            restoring.stale.discard(key)
            changes[key] = value
        restoring.read += len(records)
        with self._writing:
            positions = self._store.positions
            for part, offset, old_s in restoring.pieces:
                if offset < next_offset:
                    positions = at.moved(positions, [part], next_offset, max(seen_s, old_s))
            self._store.write(changes, positions)

    def _is_news(self, key: bytes, value: bytes, changes: dict[bytes, bytes | None]) -> bool:
        """Whether this is no late write of a process that was taken for dead."""
        mark, place = place_of(value)
        if mark != self.mark:
            return False
        known = changes[key] if key in changes else self._store.get(key)
        return known is None or place >= place_of(known)[1]

    def hold(
        self,
        ranges: tuple[KeyRange, ...],
        end: int,
        now_s: int,
        left: tuple[KeyRange, ...] = (WHOLE,),
    ) -> None:
        """Note that these ranges are complete up to `end` of the changelog; keep those in `left`.

        Pending writes of these ranges are dropped. Their records were not finished when the range
        was ours before. The next process of such a record uses the changelog.
        """
        with self._writing:
            self._store.write({}, at.moved(self._store.positions, ranges, end, now_s))
            held = intersect(ranges, left)
            self.held = union([*self.held, *held])
        with self._changing:
            self.lost = subtract(self.lost, held)
            waiting = self._pending.items()
            self._pending = {
                key: it for key, it in waiting if not any(key_hash(key) in r for r in held)
            }

    def stored(self, key: bytes) -> bytes | None:
        """The store's entry of a key."""
        return self._store.get(key)

    # ---- disk ----------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Begin to write to disk what is only in memory."""
        self._store.flush(wait=False)

    def close(self) -> None:
        """Write everything to disk and close; no call may follow."""
        with self._writing:
            self._store.close()


def single_holes(ranges: tuple[KeyRange, ...]) -> tuple[KeyRange, ...]:
    """The single hashes between two of these ranges.

    >>> [str(it) for it in single_holes((KeyRange(0, 4), KeyRange(6, 9), KeyRange(12, 13)))]
    ['[5, 5]']
    """
    return tuple(
        KeyRange(left.hi + 1, left.hi + 1)
        for left, right in pairwise(ranges)
        if left.hi + 2 == right.lo
    )
