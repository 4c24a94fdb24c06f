"""A hold: ranges of one partition that only shrink, and what is done in them. Pure.

In: ranges to give up, handlers that end, new starts of the stream, facts of others. Out: facts, and
what is held, draining and released. A range that is given up splits in two: hashes with a running
handler *drain*, everything else is *released* at once. A draining hash is released when its handler
ends. If the user pauses or seeks, the *stream* of a hold begins anew. Hashes with a running handler
then *linger*: their lanes wait for that handler, as in a handover.
Upholds I2 and I4 across members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignors import KeyRange, Wait, subtract, union
from coop_consumer.core.hashes import singles, without
from coop_consumer.core.sought import Sought, clipped
from offsets import GapTracker, OffsetRange, RangeProgress, melted, range_progress

if TYPE_CHECKING:
    from assignors import TopicPartition


@dataclass(slots=True, eq=False)
class Blocked:
    """Hashes of a hold's ranges whose records wait, because a handler of their keys still runs.

    Written by the hold (its ranges shrink, its stream begins anew) and by `handover` (hashes become
    free, claims change).

    Attributes:
        hashes: All of them.
        waits: Other members' tenures that still claim some of `hashes`.
        foreign: Hashes that are blocked since the hold began. Our record omits them. The tenure
            that runs them reports their progress; otherwise its record could be cleared.
        unnotified: Hashes that were blocked when the user was notified of the ranges. The user is
            notified of each one once it is free.
        lingering: Handlers of ours that run since before the stream began anew, counted by hash.
        lingering_from: For each hash of such a handler its first offset that was not finished then.
            It stays when the hash drains, until that handler has ended.
    """

    hashes: set[int]
    waits: tuple[Wait, ...]
    foreign: set[int] = field(init=False)
    unnotified: set[int] = field(default_factory=set)
    lingering: Counter[int] = field(default_factory=Counter)
    lingering_from: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.foreign = set(self.hashes)

    def free(self, hashes: set[int]) -> None:
        """No handler is at these hashes any more."""
        self.hashes -= hashes
        if not self.hashes:
            self.waits = ()

    def linger(self, running: Iterable[int], pending: Mapping[int, int]) -> None:
        """Handlers of these hashes (once a handler) still run while the stream begins anew.

        Args:
            running: The hashes.
            pending: The hashes of the offsets that are not finished.
        """
        self.lingering.update(running)
        self.hashes |= set(self.lingering)
        for offset, key_hash in sorted(pending.items()) if self.lingering else ():
            if key_hash in self.lingering:
                self.lingering_from.setdefault(key_hash, offset)
        for key_hash in self.lingering:
            self.lingering_from.setdefault(key_hash, 0)

    def lingered(self, key_hash: int) -> bool:
        """A handler of a lingering hash has ended. True: it was the last one of that hash."""
        self.lingering[key_hash] -= 1
        if self.lingering[key_hash] > 0:
            return False
        del self.lingering[key_hash]
        self.lingering_from.pop(key_hash, None)
        return True


@dataclass(slots=True, eq=False)
class Hold:
    """Ranges of one partition that only shrink, with the tracker that knows what is done in them.

    Written by its own methods, with three exceptions: `intake` moves `tracker` and `pending` on,
    whoever changes what a record says sets `dirty`, and `commits` clears it.

    Attributes:
        tp: The partition.
        epoch: The progress history that its facts belong to.
        ranges: What is still held and processed.
        draining: Handlers that still run, counted by hash, of ranges given up.
        released: What is given up for good.
        blocked: Which hashes of the ranges wait for a running handler.
        tracker: What is admitted and not finished.
        pending: The tracker's pending offsets, at hand for the inner loop.
        dirty: Something has changed since its last record was built.
        sought: What is done in truth, if the user moved it by `seek`; None: the tracker knows.
    """

    tp: TopicPartition
    epoch: int
    ranges: tuple[KeyRange, ...]
    tracker: GapTracker
    blocked: Blocked
    pending: dict[int, int] = field(init=False)
    draining: Counter[int] = field(default_factory=Counter)
    released: tuple[KeyRange, ...] = ()
    dirty: bool = False
    sought: Sought | None = None
    _settled: tuple[RangeProgress, ...] = ()  # of what was released to an earlier tracker

    def __post_init__(self) -> None:
        self.pending = self.tracker.pending

    @property
    def held(self) -> tuple[KeyRange, ...]:
        """Ranges and draining hashes: all that nobody else may start."""
        return union([*self.ranges, *singles(self.draining)])

    def give_up(self, ranges: tuple[KeyRange, ...], running: Iterable[int]) -> None:
        """Stop holding `ranges`; hashes in `running` (once a handler) drain, the rest is released.

        The lanes of these ranges must have been given up before.
        """
        self.draining.update(running)
        blocked = self.blocked
        for hash_ in [h for h in blocked.lingering if any(h in r for r in ranges)]:
            self.draining[hash_] += blocked.lingering.pop(hash_)
        self._release(without(ranges, self.draining))
        self.ranges = subtract(self.ranges, ranges)
        blocked.free({h for h in blocked.hashes if not any(h in r for r in self.ranges)})

    def drained(self, key_hash: int) -> tuple[RangeProgress, ...]:
        """A handler of a given-up hash has ended; if it was the last, the hash is released.

        Returns what is done of that hash, or nothing while another handler of it runs.
        """
        self.draining[key_hash] -= 1
        if self.draining[key_hash] > 0:
            return ()
        del self.draining[key_hash]
        self.blocked.lingering_from.pop(key_hash, None)
        return self._release((KeyRange(key_hash, key_hash),))

    def _release(self, ranges: tuple[KeyRange, ...]) -> tuple[RangeProgress, ...]:
        if not ranges:
            return ()
        self.released = union([*self.released, *ranges])
        self.dirty = True
        return self._true(self.tracker.release(ranges))

    def forget_released(self) -> None:
        """Report released ranges no more: another record does, once for all."""
        self.released = self._settled = ()
        self.tracker.forget_released()
        self.dirty = True

    # ---- its stream begins anew ----------------------------------------------------------------

    def begin_anew(self, running: Iterable[int], offset: int | None) -> None:
        """Forget what is admitted; the stream has to start at `tracker.seen_to` again.

        The lanes of all its ranges must have been given up before; the hashes in `running` (once a
        handler) linger and are blocked.

        Args:
            running: Hashes of the lanes with a running handler.
            offset: None: go on with what is not done. Else every record at or above it is admitted
                once more, done or not, and none below.
        """
        self.blocked.linger(running, self.pending)
        facts = self.facts()
        if offset is None:
            inherited = clipped(self.tracker.facts(), self.held)
        else:
            inherited = tuple(RangeProgress(key_range, offset) for key_range in self.held)
            self.sought = Sought(offset, facts)
        self._settled = clipped(facts, self.released)
        self.tracker = GapTracker(inherited)
        self.pending = self.tracker.pending
        self.dirty = True

    def finished_late(self, offset: int) -> None:
        """A record that is not pending is finished: the stream began anew while it ran.

        A partition has one record at an offset, so the offset counts as done for all our hashes.
        """
        done = OffsetRange(offset, offset)
        facts = [range_progress(key_range, 0, [done]) for key_range in self.tracker.held]
        self.tracker.learn(facts)
        if self.sought is not None:
            self.sought.learn(facts)
        self.dirty = True

    def learn(self, facts: Iterable[RangeProgress]) -> None:
        """Add facts of predecessors. Records that they call done will not run, unless sought."""
        if self.sought is not None:
            self.sought.learn(facts)
        else:
            self.tracker.learn(facts)
        self.dirty = True  # its record has more facts, though nothing of its own was finished

    # ---- what is done --------------------------------------------------------------------------

    def _true(self, tracked: Iterable[RangeProgress]) -> tuple[RangeProgress, ...]:
        return tuple(tracked) if self.sought is None else self.sought.true(tracked)

    def facts(self) -> tuple[RangeProgress, ...]:
        """What is done of all hashes ever held."""
        if self.sought is None and not self._settled:
            return self.tracker.facts()
        return melted([*self._true(self.tracker.facts()), *self._settled])

    def own_facts(self) -> tuple[RangeProgress, ...]:
        """The same without foreign hashes, of which another tenure reports."""
        facts = self.facts()
        if not self.blocked.foreign:
            return facts
        return clipped(facts, without(union(fact.range for fact in facts), self.blocked.foreign))

    def check(self) -> None:
        """Assert that held and released ranges are apart, and the tracker agrees (I1, I2)."""
        assert not any(r.overlaps(h) for r in self.released for h in self.held), (
            f"I1: {self} holds what it has released"
        )
        assert set(self.blocked.lingering) <= self.blocked.hashes, f"I4: {self} runs a key twice"
        assert self.tracker.held == self.held, f"I2: {self} holds {self.held}, its tracker differs"
        self.tracker.check()
