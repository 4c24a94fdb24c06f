"""The progress of one group, as one partition of the progress log tells it. Pure; one thread.

In: the log's records, in offset order. Out, for each data partition: its epoch, its progress, its
tenures, what of them is released, and which keys may be deleted. Records of other groups pass
unnoticed; unreadable ones are counted and kept from deletion. Upholds I3: other records contain the
facts of a record that may be deleted.

Before a question is asked, the log must be applied to an end that a broker reported after the
question arose: nobody acts on a prefix.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from assignors.key_range import KeyRange, covers, intersect, subtract, union
from offsets.history import Committed, Tag
from offsets.log import LogRecord
from offsets.progress import PartitionProgress
from offsets.records import (
    AnnounceKey,
    AnnounceRecord,
    Attempt,
    BaseKey,
    BaseRecord,
    DecisionKey,
    DecisionRecord,
    Key,
    LoadKey,
    LoadRecord,
    PolicyKey,
    PolicyRecord,
    ReleaseKey,
    ReleaseRecord,
    StopKey,
    StopRecord,
    TenureId,
    TenureKey,
    TopicStartKey,
    TopicStartRecord,
    Value,
)
from offsets.tenures import Announced, LoggedTenure, Tenures, Unreadable, age

_KEYS_MAX = 50_000
"""Decoded keys that are kept: other groups' and garbage come and go in the same log."""


@dataclass(frozen=True, slots=True)
class StopDecision:
    """A group's decision to stop, and at which log offset it was taken."""

    offset: int
    key: StopKey
    record: StopRecord


@dataclass(slots=True, eq=False)
class PartitionStore:
    """What the log tells about one data partition. Made and fed by `ProgressStore`.

    Attributes:
        tag: Of offsets that members of the group commit.
        place: Group, topic id and number of the partition.
        announced: The newest announcement of each member, in the whole log partition.
        unreadable: Decodes values.
        epoch: The highest epoch that has a base; None before the first.
    """

    tag: Tag
    place: tuple[str, bytes, int]
    announced: Mapping[str, Announced]
    unreadable: Unreadable
    _bases: dict[BaseKey, tuple[int, BaseRecord]] = field(default_factory=dict)
    epoch: int | None = None
    _tenures: Tenures = field(init=False)
    _decisions: dict[int, tuple[int, DecisionRecord]] = field(default_factory=dict)
    _forced: dict[TenureId, tuple[KeyRange, ...]] = field(default_factory=dict)
    _progress: PartitionProgress | None = None  # made when asked for

    def __post_init__(self) -> None:
        self._tenures = Tenures(self.place, self.unreadable)

    # ── Committed offsets ──

    def tagged_epoch(self, committed: Committed | None) -> int:
        """The epoch that the tag of a committed offset names; 0: none, or of another guarantee."""
        tag, epoch = (None, 0) if committed is None else committed.tagged
        return epoch if tag is self.tag else 0

    def mirrored(self, offset: int, epoch: int) -> Committed:
        """A stable offset of an epoch, as it is committed."""
        return Committed.mirror(offset, epoch, self.place[1], self.tag)

    # ── What is done ──

    def next_epoch(self, *known: int) -> int:
        """The number of the next epoch: above all that the log tells of, and above `known`.

        Everybody who begins an epoch numbers it by this: members, resets, plans. The log may have
        lost the base of an epoch and keep tenures of it: if its number were given again, their
        facts would count for records that somebody has asked for anew (I2). O(tenures).

        Args:
            known: Epochs that the caller knows of from elsewhere, as from committed offsets.
        """
        told = [tenure.record.epoch for tenure in self.tenures()]
        return max([self.epoch or 0, *known, *told]) + 1

    @property
    def base_offset(self) -> int:
        """Every record below it counts as done in the current epoch; 0 without an epoch.

        Of several base records of an epoch the first in the log holds: its writer and whoever came
        too late read the same log, and so agree.
        """
        epoch = self.epoch
        bases = [base for base in self._bases.values() if base[1].epoch == epoch]
        return min(bases, key=lambda base: base[0])[1].offset if bases else 0

    def is_newer_than(self, log_offset: int) -> bool:
        """Whether a record of the newest epoch lies at a log offset or above. O(tenures)."""
        epoch = self.epoch
        based = [at for at, base in self._bases.values() if base.epoch == epoch]
        told = [tenure.last_offset for tenure in self._current()]
        return any(at >= log_offset for at in (*based, *told))

    def progress(self) -> PartitionProgress:
        """The union of base and facts of the current epoch; the caller's own copy.

        O(tenures x gap ranges) after new records, else O(pieces).
        """
        if self._progress is None:
            self._progress = PartitionProgress(self.base_offset)
            for record in self._tenures.records():
                if record.epoch == self.epoch:
                    for fact in record.facts:
                        self._progress.merge(fact)
        return self._progress.copy()

    # ── Tenures ──

    def damaged(self) -> TenureId | None:
        """A tenure whose record is damaged: nobody can tell what it had done. O(tenures)."""
        return self._tenures.damaged()

    def tenures(self) -> tuple[LoggedTenure, ...]:
        """All tenures of all epochs that can be read at least in part, oldest first."""
        return tuple(self._tenures.by_id().values())

    def unreleased(self, tenure: TenureId, ranges: Iterable[KeyRange]) -> tuple[KeyRange, ...]:
        """The part of these ranges that the tenure may still process, as far as the log tells.

        A tenure unknown to the log may process all of it: it has begun, or nobody would have listed
        it, and it has released nothing. A tenure of an earlier incarnation processes nothing any
        more: its member's last announcement is by another incarnation, which had read the tenure's
        first record before the group let it in.
        """
        known = self._tenures.by_id().get(tenure)
        announced = self.announced.get(tenure.member)
        if known and announced and announced.ends(known):
            return ()
        released = known.record.released if known else ()
        return subtract(union(ranges), union((*released, *self._forced.get(tenure, ()))))

    def forced(self, tenure: TenureId, ranges: Iterable[KeyRange]) -> tuple[KeyRange, ...]:
        """The part of these ranges that a person has released for a tenure that has not."""
        known = self._tenures.by_id().get(tenure)
        forced = intersect(union(ranges), union(self._forced.get(tenure, ())))
        return subtract(forced, known.record.released if known else ())

    def held_by_others(self, member: str) -> tuple[KeyRange, ...]:
        """The ranges that other members hold in the newest epoch, as a range set.

        Of each hash the tenure that began last counts: those before have released it, or their
        members are gone.
        """
        held: list[KeyRange] = []
        later: tuple[KeyRange, ...] = ()
        for tenure in reversed(self._current()):
            if tenure.id.member != member:
                held += subtract(self.unreleased(tenure.id, tenure.ranges), later)
            later = union((*later, *tenure.ranges))
        return union(held)

    def last_holders(
        self, ranges: Iterable[KeyRange]
    ) -> list[tuple[LoggedTenure, tuple[KeyRange, ...]]]:
        """The tenure of the newest epoch that last began with each of these ranges, and which."""
        found, left = [], union(ranges)
        for tenure in reversed(self._current()):
            if share := intersect(tenure.ranges, left):
                found.append((tenure, share))
                left = subtract(left, share)
        return found

    def members(self) -> set[str]:
        """The names of members of which a tenure is in the log, readable or not."""
        return {id_.member for id_ in self._tenures.ids()}

    # ── Failed records ──

    def attempts(self) -> dict[int, Attempt]:
        """The failed, unfinished records by offset, as told by the tenure that holds their hash.

        A tenure does not count if another one began with the hash after its last record, also if it
        never released the hash because its member crashed. Of the other tenures, the one counts
        that wrote last and has not released the hash, and so do those that have written since,
        though they have released it. (The first record of an evicted owner may come after its
        successor's, so the order of beginnings alone misleads; and it never releases.) If all have
        released it, each of them counts: a parked record must not run again without a decision. Of
        several that tell of one record, the one that knows most attempts is right.
        """
        found: dict[int, Attempt] = {}
        for tenure in self._current():
            for attempt in tenure.record.attempts:
                if not self._tells_of(tenure, attempt.key_hash):
                    continue
                if attempt.knows_more(found.setdefault(attempt.offset, attempt)):
                    found[attempt.offset] = attempt
        return found

    def _tells_of(self, tenure: LoggedTenure, key_hash: int) -> bool:
        """Whether a tenure counts for the failures of a hash; see `attempts`."""
        at = (KeyRange(key_hash, key_hash),)
        tenures = self._tenures.at(key_hash)
        holders = [it for it in tenures if it.record.epoch == self.epoch]
        began = max((it.first_offset for it in holders), default=0)
        newest = [it for it in holders if it.last_offset >= began]
        open_ = [it for it in newest if not covers(it.record.released, at)]
        since = max((it.last_offset for it in open_), default=began)
        return not newest or (tenure in newest and tenure.last_offset >= since)

    @property
    def decisions(self) -> Mapping[int, DecisionRecord]:
        """People's decisions on parked records of the current epoch, by offset.

        Those that lie before the epoch's base were about records of an earlier history.
        """
        bases = [at for at, base in self._bases.values() if base.epoch == self.epoch]
        begin = min(bases, default=-1)
        return {offset: record for offset, (at, record) in self._decisions.items() if at > begin}

    # ── Cleaning ──

    def superseded(
        self, live_names: Collection[str], end_offset: int, settled_offset: int | None = None
    ) -> tuple[Key, ...]:
        """The keys that may get a tombstone now, at log offset `end_offset` or above.

        A tenure of the current epoch may go if all of this holds:

        - It is over, its last record lies below `settled_offset`, and all parts are readable.
        - Later tenures cover its ranges: they began after its last record, or hold them still.
        - The records of later tenures, below `end_offset`, contain its facts.

        A tenure of an earlier epoch needs the first two only. These may go, too: bases of earlier
        epochs, and bases that came too late; decisions on records that are done; what a person
        released of a tenure that is gone. Parts come before part 0, which tells what was released.

        Ranges and facts both matter. Without the facts, work would be repeated. Without the ranges,
        a member may wait for ever. Example: M1 holds [0, 9], finishes nothing in [5, 9] and
        releases all. M2 gets [0, 4]; its first record contains M1's facts, as M1 has none in
        [5, 9]. If M1's record goes now, M3 gets [5, 9] with M1's tenure on its wait list, and reads
        the log only then. M3 finds a tenure unknown to the log, which counts as unreleased.
        (Attempts at records of [5, 9] would be lost, too.)

        Args:
            live_names: The names of the group's members.
            end_offset: The end of the log up to which records were applied.
            settled_offset: The end of the log some time ago: members that wait for a release below
                it have read that release. Default: `end_offset`.
        """
        epoch = self.epoch
        if epoch is None:
            return ()
        settled = end_offset if settled_offset is None else settled_offset
        winner = min(at for at, base in self._bases.values() if base.epoch == epoch)
        keys: list[Key] = sorted(key for key, (at, _) in self._bases.items() if at != winner)
        stable, attempts = self.progress().stable, self.attempts()
        keys += [
            DecisionKey(*self.place, offset)
            for offset, (at, _) in sorted(self._decisions.items())
            if at < winner or (offset < stable and offset not in attempts)
        ]
        keys += [
            ReleaseKey(*self.place, id_)
            for id_ in sorted(self._forced.keys() - self._tenures.ids())
        ]
        facts = PartitionProgress()  # of the tenures later than the one looked at
        for tenure in reversed(self.tenures()):
            if tenure.last_offset >= end_offset or tenure.record.epoch > epoch:
                continue
            is_over = tenure.is_readable and not self._is_live(tenure, live_names)
            may_go = (
                is_over
                and tenure.last_offset < settled
                and covers(self._taken_over(tenure, live_names, end_offset), tenure.ranges)
            )
            if tenure.record.epoch < epoch:
                keys += self._tenures.keys(tenure) if may_go else ()
                continue
            if may_go and all(map(facts.contains, tenure.record.facts)):
                keys += self._tenures.keys(tenure)
            # Also when it goes: what contained its facts contains what they contained.
            for fact in tenure.record.facts:
                facts.merge(fact)
        return tuple(keys)

    def check(self) -> None:
        """Assert that the progress contains every fact of the epoch, and the base."""
        progress = self.progress()
        progress.check()
        assert progress.stable >= self.base_offset, "I3: progress is never below the base"
        for tenure in self._current():
            assert all(map(progress.contains, tenure.record.facts)), "I3: a fact is missing"

    # ── Folding ──

    def _put(
        self, key: TenureKey | BaseKey | DecisionKey | ReleaseKey, offset: int, data: bytes | None
    ) -> None:
        self._progress = None
        match key:
            case TenureKey():
                self._tenures.put(key, offset, data)
            case BaseKey():
                value = self._value(key, data)
                first_offset, _ = self._bases.pop(key, (offset, None))
                if isinstance(value, BaseRecord) and value.epoch == key.epoch:
                    self._bases[key] = first_offset, value
                epochs = (base.epoch for _, base in self._bases.values())
                self.epoch = max(epochs, default=None)
            case ReleaseKey():
                value = self._value(key, data)
                self._forced.pop(key.tenure, None)
                if isinstance(value, ReleaseRecord):
                    self._forced[key.tenure] = value.ranges
            case DecisionKey():
                value = self._value(key, data)
                self._decisions.pop(key.offset, None)
                if isinstance(value, DecisionRecord):
                    self._decisions[key.offset] = offset, value

    def _value(self, key: Key, data: bytes | None) -> Value | None:
        return None if data is None else self.unreadable.value(key, data)

    def _current(self) -> list[LoggedTenure]:
        tenures = self._tenures.by_id().values()
        return [tenure for tenure in tenures if tenure.record.epoch == self.epoch]

    def _is_live(self, tenure: LoggedTenure, live_names: Collection[str]) -> bool:
        """Whether somebody may still process its records, or write its key."""
        return (
            tenure.id.member in live_names
            and not tenure.is_released
            and bool(self.unreleased(tenure.id, tenure.ranges))
        )

    def _taken_over(
        self, tenure: LoggedTenure, live_names: Collection[str], end_offset: int
    ) -> tuple[KeyRange, ...]:
        """The hashes that other tenures have begun with since its last record, or hold still.

        A later first record alone proves nothing: the first record of an evicted owner may come
        after its successor's, and its hold may be over before its successor releases (019).
        """
        ranges: list[KeyRange] = []
        for other in self._tenures.overlapping(tenure.ranges):
            if other.record.epoch != self.epoch or other.last_offset >= end_offset:
                continue
            if other.first_offset > tenure.last_offset:
                ranges += other.ranges
            elif age(other) > age(tenure) and self._is_live(other, live_names):
                ranges += subtract(other.ranges, other.record.released)
        return union(ranges)


@dataclass(slots=True, eq=False)
class ProgressStore:
    """The fold of one group's records in one partition of the progress log.

    Args:
        group: The group id.
        tag: Of offsets that members of the group commit.

    Attributes:
        group: The group id.
        next_offset: The first log offset not applied.
        policies: The policies of topics and of this group.
        loads: How busy members are, by name, each with the log offset of the record.
    """

    group: str
    tag: Tag = Tag.AT_LEAST_ONCE
    next_offset: int = 0
    policies: dict[PolicyKey, PolicyRecord] = field(default_factory=dict)
    loads: dict[str, tuple[int, LoadRecord]] = field(default_factory=dict)
    _announced: dict[str, Announced] = field(default_factory=dict)
    _stops: dict[StopKey, StopDecision] = field(default_factory=dict)
    _topic_starts: dict[TopicStartKey, tuple[int, TopicStartRecord]] = field(default_factory=dict)
    _partitions: dict[tuple[bytes, int], PartitionStore] = field(default_factory=dict)
    _unreadable: Unreadable = field(default_factory=Unreadable)
    # Decoded once, as long as there is room; None: another group's, or unreadable.
    _keys: dict[bytes, Key | None] = field(default_factory=dict)

    @property
    def unreadable(self) -> dict[str, int]:
        """How many records could not be read, by reason; a tenure's count once asked for."""
        return dict(self._unreadable.counts)

    def apply(self, record: LogRecord) -> None:
        """Take the log's next record; one that was applied already is ignored.

        O(1), except for values other than tenures', which are small and decoded at once.
        """
        if record.offset < self.next_offset:
            return
        self.next_offset = record.offset + 1
        if record.key not in self._keys:
            if len(self._keys) >= _KEYS_MAX:
                self._keys.clear()
            self._keys[record.key] = self._own_key(record.key)
        key = self._keys[record.key]
        match key:
            case TenureKey() | BaseKey() | DecisionKey() | ReleaseKey():
                self.partition(key.topic_id, key.partition)._put(key, record.offset, record.value)
            case AnnounceKey() | StopKey() | TopicStartKey() | PolicyKey() | LoadKey():
                self._put(key, record.offset, record.value)
            case None:
                pass

    def partition(self, topic_id: bytes, number: int) -> PartitionStore:
        """What the log tells about a data partition; of an unknown one, nothing."""
        place = topic_id, number
        if place not in self._partitions:
            self._partitions[place] = PartitionStore(
                self.tag, (self.group, *place), self._announced, self._unreadable
            )
        return self._partitions[place]

    def partitions(self) -> tuple[tuple[bytes, int], ...]:
        """Topic id and number of the data partitions asked for or told about."""
        return tuple(sorted(self._partitions))

    def announced(self, member: str) -> Announced | None:
        """The incarnation of this member that announced itself last, if one did."""
        return self._announced.get(member)

    def gone(self, live_names: Collection[str], below: int) -> tuple[AnnounceKey, ...]:
        """The announcements that may get a tombstone.

        They lie below a log offset, their member is not alive, and no tenure of that name is left
        which they might end.
        """
        named = {name for store in self._partitions.values() for name in store.members()}
        return tuple(
            AnnounceKey(self.group, member)
            for member, announced in sorted(self._announced.items())
            if announced.offset < below and member not in live_names and member not in named
        )

    def loads_gone(self, live_names: Collection[str], below: int) -> tuple[LoadKey, ...]:
        """The loads below a log offset of members that are not alive: they may get a tombstone."""
        return tuple(
            LoadKey(self.group, member)
            for member, (offset, _) in sorted(self.loads.items())
            if offset < below and member not in live_names
        )

    def stop(self, after_offset: int) -> StopDecision | None:
        """The first decision to stop above this log offset: older ones were for earlier runs."""
        stops = (stop for stop in self._stops.values() if stop.offset > after_offset)
        return min(stops, key=lambda stop: stop.offset, default=None)

    def topic_start(self, topic: str) -> TopicStartRecord | None:
        """How the group began to read a topic of this name: the first record in the log counts.

        It is in the log partition of the topic's partition 0, and never deleted.
        """
        told = [it for key, it in self._topic_starts.items() if key.topic == topic]
        return min(told, key=lambda it: it[0])[1] if told else None

    def check(self) -> None:
        """Assert what must hold of every partition."""
        for store in self._partitions.values():
            store.check()

    def _own_key(self, data: bytes) -> Key | None:
        key = self._unreadable.key(data)
        match key:
            case PolicyKey(scope, name):
                return key if scope == "topic" or name == self.group else None
            case None:
                return None
            case _:
                return key if key.group == self.group else None

    def _put(
        self,
        key: AnnounceKey | StopKey | TopicStartKey | PolicyKey | LoadKey,
        offset: int,
        data: bytes | None,
    ) -> None:
        value = None if data is None else self._unreadable.value(key, data)
        match key, value:
            case AnnounceKey(), AnnounceRecord():
                self._announced[key.member] = Announced(value.incarnation, offset, value)
            case AnnounceKey(), _:
                self._announced.pop(key.member, None)
            case StopKey(), StopRecord():
                self._stops[key] = StopDecision(offset, key, value)
            case StopKey(), _:
                self._stops.pop(key, None)
            case TopicStartKey(), TopicStartRecord():
                self._topic_starts[key] = offset, value
            case TopicStartKey(), _:
                self._topic_starts.pop(key, None)
            case PolicyKey(), PolicyRecord():
                self.policies[key] = value
            case PolicyKey(), _:
                self.policies.pop(key, None)
            case LoadKey(), LoadRecord():
                self.loads[key.member] = offset, value
            case LoadKey(), _:
                self.loads.pop(key.member, None)
