"""Makes glimpses of a member, for a person who looks. Pure.

In: what a member knows, on its thread. Out: a `Glimpse`. It costs what a look for overdue handlers
costs, and is made only while somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignors import KeyRange, TopicPartition
from coop_consumer.core.glimpse import (
    FAILED_MAX,
    RUNNING_MAX,
    FailedRecord,
    Glimpse,
    HeldPartition,
    RunningRecord,
)
from coop_consumer.core.lane import RUNNING, Entry, Lane, hash_of
from coop_consumer.core.record import Record

if TYPE_CHECKING:
    from coop_consumer.core.claims import Claims
    from coop_consumer.core.state import MemberState
    from coop_consumer.core.tenure import Tenure

RecordPlace = tuple[TopicPartition, int]
"""A partition, and an offset."""


@dataclass(slots=True, eq=False)
class Glimpses:
    """Makes glimpses, and remembers between two of them since when records run."""

    state: MemberState
    claims: Claims
    _seen: dict[RecordPlace, tuple[Record, int]] = field(default_factory=dict)

    def now(self, overdue: Mapping[Record, int]) -> Glimpse:
        """How it is now. O(lanes).

        Args:
            overdue: What the watch over overdue handlers has seen run, and since when.
        """
        state = self.state
        with state.lock:  # executors end lanes meanwhile
            running = list(running_entries(state))
        seen, self._seen = self._seen, {}
        told = {
            (tenure.tp, doing.offset): doing.since_ms
            for partition in state.partitions.values()
            for tenure in partition.all_tenures()
            for doing in tenure.doings
        }
        found = []
        for entry, record in running:
            place = record._tenure.tp, record._offset
            known = seen.get(place)
            since_ms = known[1] if known is not None and known[0] is record else state.now_ms
            since_ms = min(since_ms, overdue.get(record, since_ms))
            if not known and place in told:
                since_ms = min(since_ms, told[place])
            self._seen[place] = record, since_ms
            is_given_up = entry in state.lanes.given_up
            key = record._key
            found.append(
                RunningRecord(
                    *place, key, record._key_hash, since_ms, int(record._attempt), is_given_up
                )
            )
        found.sort(key=lambda it: (it.since_ms, it.tp, it.offset))
        failed = self._failed({(it.tp, it.offset): it.key for it in found})
        return Glimpse(
            at_ms=state.now_ms,
            held=tuple(self._held()),
            running=tuple(found[:RUNNING_MAX]),
            running_count=len(found),
            failed=tuple(failed[:FAILED_MAX]),
            failed_count=len(failed),
        )

    def entry_at(self, tp: TopicPartition, offset: int) -> Entry | None:
        """What runs there, for `Executor.stack`; None: nothing does."""
        with self.state.lock:
            for entry, record in running_entries(self.state):
                if record._tenure.tp == tp and record._offset == offset:
                    return entry
        return None

    def _held(self) -> Iterator[HeldPartition]:
        for tp, partition in sorted(self.state.partitions.items()):
            begun = [it for it in partition.tenures if it.begun and it.ranges]
            if begun:
                yield HeldPartition(
                    tp,
                    tuple(sorted(key_range for it in begun for key_range in it.ranges)),
                    min(it.tracker.stable for it in begun),
                    max(partition.end_offset, partition.pace.end),
                    sum(len(it.pending) for it in begun),
                    tp in self.state.load.paused,
                    tp in self.state.load.walled,
                )

    def _failed(self, running: Mapping[RecordPlace, object]) -> list[FailedRecord]:
        """What failed. What runs has its key from there: a handler given up is filed nowhere."""
        attempts = [
            (tenure, attempt)
            for partition in self.state.partitions.values()
            for tenure in partition.all_tenures()
            for attempt in tenure.attempts.values()
            if attempt.offset in tenure.pending
        ]
        attempts.sort(key=lambda it: (not it[1].parked, it[1].since_ms, it[0].tp, it[1].offset))
        shown = {(its.tp, it.offset): it.key_hash for its, it in attempts[:FAILED_MAX]}
        keys = {**running, **dict(self._keys(shown))} if shown else {}
        return [
            FailedRecord(
                tenure.tp,
                it.offset,
                keys.get((tenure.tp, it.offset)),
                it.key_hash,
                (tenure.tp, it.offset) in keys,
                it.attempts,
                it.parked,
                it.error,
                it.since_ms,
                self._behind(tenure, it.key_hash),
            )
            for tenure, it in attempts
        ]

    def _behind(self, tenure: Tenure, key_hash: int) -> tuple[str, ...]:
        """Members that have not released a hash, so that nothing of it begins here."""
        if key_hash not in tenure.blocked.hashes:
            return ()
        alone, partition = (KeyRange(key_hash, key_hash),), self.state.partitions[tenure.tp]
        waits = tenure.blocked.waits
        held = (it.member for it in waits if self.claims.claimed(partition, (it,), alone))
        return tuple(sorted(set(held)))

    def _keys(self, wanted: Mapping[RecordPlace, int]) -> Iterator[tuple[RecordPlace, object]]:
        """The keys of records that are filed."""
        hashes = set(wanted.values())
        tables = self.state.lanes.tables
        for tp in {tp for tp, _ in wanted}:
            with self.state.lock:
                filed = [it for it in tables.of(tp).values() if hash_of(it) in hashes]
                records = [record for it in filed for record in _first_of(it)]
            for record in records:
                if (place := (tp, record._offset)) in wanted:
                    yield place, record._key


def running_entries(state: MemberState) -> Iterator[tuple[Entry, Record]]:
    """What has a running handler, and the record that each is at. Under the lock of the lanes."""
    lanes = state.lanes
    waiting = lanes.waiting()
    for tp in state.partitions:
        for entry in lanes.tables.of(tp).values():
            single = entry if isinstance(entry, Record) else entry.ahead
            if single is not None:
                if id(single) not in waiting and single._offset in single.tenure.pending:
                    yield single, single
            elif isinstance(entry, Lane) and entry.state is RUNNING and entry.begun:
                record = entry.current()
                if record is not None:
                    yield entry, record
    for entry in lanes.given_up:
        record = entry if isinstance(entry, Record) else entry.at
        if record is not None:
            yield entry, record


def _first_of(entry: Entry) -> Iterable[Record]:
    return (entry,) if isinstance(entry, Record) else entry.records[:1]
