"""Doings: what records do that are unfinished for long, so that `status` shows it. Pure.

In: time, trackers and lanes. Out: the `doings` of tenures, which go into their progress records.
They concern the record at the stable offset, and records that failed: each runs, waits for a
worker, backs off or is parked, and since when. A record costs nothing here. The member looks every
two seconds, and only where a stable offset has not moved or something has failed.
"""

from __future__ import annotations

from itertools import compress, islice
from operator import attrgetter
from typing import TYPE_CHECKING

from coop_consumer.core.lane import HELD, RUNNING, Entry, Lane, hash_of
from coop_consumer.core.record import Record
from offsets import Act, Doing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coop_consumer.core.state import MemberState
    from coop_consumer.core.tenure import Tenure

_KEY_HASH = attrgetter("key_hash")  # of lanes and records
_LOOK_MS = 2_000
_FAILED_MAX = 20
"""So many failed records of a tenure are looked at; `status` lists fewer."""


class Doings:
    """Looks at records that are unfinished for long."""

    def __init__(self, state: MemberState) -> None:
        self._state = state
        self._due_ms = 0
        self._stood: dict[Tenure, tuple[int, int]] = {}  # the stable offset, since when

    def next_due_ms(self) -> int | None:
        """When to look again; None: there is nothing to look at."""
        return self._due_ms if self._state.pending() else None

    def look_due(self) -> None:
        """Look, if it is time."""
        state = self._state
        if state.now_ms < self._due_ms:
            return
        self._due_ms = state.now_ms + _LOOK_MS
        before, self._stood = self._stood, {}
        for partition in state.partitions.values():
            for tenure in partition.all_tenures():
                if not tenure.begun:
                    continue
                stable, stood = tenure.tracker.stable, before.get(tenure)
                since_ms = stood[1] if stood and stood[0] == stable else state.now_ms
                self._stood[tenure] = stable, since_ms
                is_new = since_ms == state.now_ms
                wanted = set(islice(tenure.attempts, _FAILED_MAX)) | (set() if is_new else {stable})
                self._note(tenure, wanted, stable, since_ms)

    def _note(self, tenure: Tenure, wanted: set[int], stable: int, since_ms: int) -> None:
        before = {doing.offset: doing for doing in tenure.doings}
        doings = []
        for offset, (key_hash, act) in sorted(self._acts(tenure, wanted).items()):
            known = before.get(offset)
            if act is Act.HELD_BACK:
                known = Doing(offset, key_hash, act, self._state.load.held_back_since_ms)
            elif known is None or known.act is not act:
                began_ms = since_ms if known is None and offset == stable else self._state.now_ms
                known = Doing(offset, key_hash, act, began_ms)
            doings.append(known)
        if tuple(doings) != tenure.doings:
            tenure.doings, tenure.dirty = tuple(doings), True

    def _acts(self, tenure: Tenure, wanted: set[int]) -> dict[int, tuple[int, Act]]:
        """The key hashes of these offsets, as far as they are unfinished, and what each does."""
        state, pending = self._state, tenure.pending
        found = {offset: (pending[offset], Act.UNKNOWN) for offset in wanted if offset in pending}
        if not found:
            if wanted and tenure.held and tenure.tp in state.load.paused:
                return {tenure.tracker.stable: (tenure.held[0].lo, Act.PAUSED)}
            return {}
        hashes = {key_hash for key_hash, _ in found.values()}
        with state.lock:  # executors end lanes meanwhile
            filed = list(state.lanes.tables.of(tenure.tp).values())
            apart = [entry for entry in state.lanes.given_up if hash_of(entry) in hashes]
        # There may be thousands of entries: filter them without the lock.
        filed = list(compress(filed, map(hashes.__contains__, map(_KEY_HASH, filed))))
        state.breathe()
        with state.lock:
            waiting = state.lanes.waiting()
            for entry in filed:
                record, act = self._at(entry, tenure, waiting)
                if record is not None and record._offset in found:
                    found[record._offset] = record._key_hash, act
            for record in self._given_up(apart):
                if record._offset in found:
                    found[record._offset] = record._key_hash, Act.RUNS
        if state.load.held_back_since_ms:
            for at, (key_hash, act) in found.items():
                if act in {Act.QUEUED, Act.BACKS_OFF}:
                    found[at] = key_hash, Act.HELD_BACK
        return {at: it for at, it in found.items() if it[1] is not Act.UNKNOWN}

    def _at(self, entry: Entry, tenure: Tenure, waiting: set[int]) -> tuple[Record | None, Act]:
        """The first unfinished record of a key, and what it does."""
        single = entry if isinstance(entry, Record) else entry.ahead
        if single is not None:
            return single, Act.QUEUED if id(single) in waiting else Act.RUNS
        assert isinstance(entry, Lane)
        record = entry.current() if entry.state is RUNNING else _first(entry)
        if record is None:
            return None, Act.UNKNOWN
        if entry.state is RUNNING:
            return record, Act.RUNS if entry.begun else Act.QUEUED
        attempt = tenure.attempts.get(record._offset)
        is_blocked = record._key_hash in tenure.blocked.hashes
        if entry.state is not HELD or (attempt is None and not is_blocked):
            return record, Act.QUEUED  # or a suspect, whose turn comes
        if is_blocked:
            return record, Act.BLOCKED
        return record, Act.PARKED if attempt is not None and attempt.parked else Act.BACKS_OFF

    @staticmethod
    def _given_up(entries: Iterable[Entry]) -> Iterable[Record]:
        for entry in entries:
            record = entry if isinstance(entry, Record) else entry.at
            if record is not None:
                yield record


def _first(lane: Lane) -> Record | None:
    return lane.records[lane.done] if lane.done < len(lane.records) else None
