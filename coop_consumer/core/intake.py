"""Intake: fetched messages become admitted records in lanes. Pure.

In: batches of a stream, ranges that move, hashes that are freed. Out: records in lanes, and what is
finished of them. A batch must start at or below what its ranges have seen, so a jump of the fetch
position is never taken for a hole (I10). `_admit` is the inner loop: a hash, a look-up, a tracker
step and a lane step a record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Hashable
from itertools import compress, groupby, islice, repeat
from operator import lt
from typing import TYPE_CHECKING

import mmh3

from assignors import PARTITION_HASH, KeyRange, block_hash, null_key_hash
from coop_consumer.core.actions import APART
from coop_consumer.core.lane import HELD, Entry, Lane, hash_of, records_of
from coop_consumer.core.measuring import Measuring
from coop_consumer.core.record import (
    LARGE,
    OFFSET,
    SIZE,
    TENURE,
    Message,
    Record,
    count_attempt,
    count_beside,
    count_no_more,
    sampled_beside,
)
from coop_consumer.core.streams import Streams

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from assignors import TopicPartition
    from coop_consumer.core.effects import Effects
    from coop_consumer.core.events import Fetched
    from coop_consumer.core.state import MemberState, Partition, Stream
    from coop_consumer.core.suspicion import Suspicion
    from coop_consumer.core.tenure import Tenure

_SLICE = 64
"""Messages admitted at a time: 0.2 ms, under one hold of the lanes' lock and of the interpreter.

Handlers that return from a wait queue up behind longer bursts, and a queue of threads dissolves
slowly. Bursts of 1 ms in every 10 cost 64 sleeping threads 13 % of their time, these nothing.
"""


_MEAN_FOLLOWS = 0.2
"""How fast the mean size of keys and headers follows the sizes of fetched messages."""


def _leader_epoch(message: Message) -> int:
    epoch = message.leader_epoch()
    return -1 if epoch is None else epoch


class Intake:
    """Admits what streams bring, and files it in lanes.

    Args:
        state: The member.
        effects: Takes what finished records have left behind.

    Attributes:
        streams: Where batches come from.
        parked: Partitions of which records were filed that are parked, and that waited until what
            comes before them was done; whoever applies decisions to them clears it.
    """

    def __init__(self, state: MemberState, effects: Effects) -> None:
        self.streams = Streams(state)
        self.parked: set[TopicPartition] = set()
        self._held_back: dict[Tenure, dict[Hashable, list[Record]]] = {}
        self._state = state
        self._load = state.load
        self._effects = effects
        self._measuring = Measuring(state)
        self._lanes = state.lanes
        self._tables = state.lanes.tables

    # ---- batches -------------------------------------------------------------------------------

    def fetched(self, event: Fetched) -> int | None:
        """Admit a batch of a stream that is still wanted.

        Returns:
            The first offset that an unclean leader election made the brokers write anew, below what
            tenures have inherited; None, the usual case: there is none.
        """
        state = self._state
        partition = state.partitions.get(event.tp)
        stream = self.streams.stream_of(partition, event.stream) if partition else None
        if partition is None or stream is None:
            return None
        cut_at = self._cut_at(stream, event.messages)
        if cut_at is not None:
            return cut_at
        assert event.start == stream.next_offset, (
            f"I10: {event.tp} stream {stream.number} jumped from {stream.next_offset} "
            f"to {event.start}"
        )
        state.counters.fetched += len(event.messages)
        state.tally.of(event.tp.topic).fetched += len(event.messages)
        is_large = self._look_beside(event.messages)
        for first in range(0, len(event.messages), _SLICE):
            if first:
                state.breathe()
            seen = self._measuring.due(stream)
            with state.lock:
                some = event.messages[first : first + _SLICE]
                admitted = self._admit(partition, stream, some, is_large)
                # A record's predecessor may have ended meanwhile, after its thread last looked.
                self._lanes.settle()
            if seen:
                self._measuring.count(seen, event.messages, first, first + len(some), admitted)
        stream.next_offset = max(stream.next_offset, event.end)
        self._cover(stream, event)
        if event.log_end >= 0 or event.at_end:
            partition.pace.told(max(event.log_end, event.end), state.now_ms)
        if event.at_end:
            partition.end_offset = event.end
        elif event.end > partition.end_offset:
            partition.end_offset = -1
        if len(partition.streams) > 1 or stream.consumer >= APART:
            self.streams.rearrange(partition)
        return None

    def _cover(self, stream: Stream, event: Fetched) -> None:
        """Nothing else of the batch's offsets will come."""
        for tenure in stream.tenures:
            if event.messages:
                tenure.came.note(event.end, self._state.now_ms)
            if tenure.tracker.seen_to < event.end:
                tenure.tracker.cover(event.start, event.end)
                tenure.dirty = True

    @staticmethod
    def _cut_at(stream: Stream, messages: Sequence[Message]) -> int | None:
        """The first offset below the end of inherited facts that a later leader wrote."""
        newest = _leader_epoch(messages[-1]) if messages else -1
        for tenure in stream.tenures:
            if newest > tenure.leader_epoch >= 0 and tenure.tracker.ahead:
                first = next(m for m in messages if _leader_epoch(m) > tenure.leader_epoch)
                offset = first.offset() or 0
                if any(fact.next_offset > offset for fact in tenure.facts()):
                    return offset
            tenure.leader_epoch = max(tenure.leader_epoch, newest)
        return None

    def _admit(
        self, partition: Partition, stream: Stream, messages: Sequence[Message], is_large: bool
    ) -> list[int] | None:
        """Admit a slice; returns the hashes taken in, if that is known without another look."""
        spans = sorted((r.lo, r.hi, tenure) for tenure in stream.tenures for r in tenure.ranges)
        if not spans:
            return None
        draining = [tenure for tenure in stream.tenures if tenure.draining]
        plain = self._state.config.ordering == "key"
        if len(spans) == 1 and plain:
            lo, hi, tenure = spans[0]
            inherited = tenure.tracker.ahead or tenure.attempts or tenure.falls.suspicion
            special = inherited or tenure.blocked.hashes or draining
            if not special:
                hashes = self._admit_plain(tenure, lo, hi, messages, is_large)
                if hashes is not None:
                    return hashes
        los = [span[0] for span in spans]
        for message in messages:
            offset = message.offset()
            assert offset is not None, "I10: a message without an offset"
            if offset < stream.next_offset:  # some resumes hand records out twice
                continue
            stream.next_offset = offset + 1
            key = message.key()
            lane_key, key_hash = self._place(partition, offset, key)
            at = bisect_right(los, key_hash) - 1
            if at >= 0 and key_hash <= spans[at][1]:
                tenure = spans[at][2]
                if offset >= tenure.tracker.seen_to and tenure.tracker.admit(offset, key_hash):
                    record = Record(tenure, offset, key, key_hash, message)
                    if is_large:
                        count_beside(record)
                    self._enqueue(tenure, lane_key, record)
            for tenure in draining:
                # Nothing more of a draining hash runs here. The tracker must not take its records
                # for done (I2).
                if key_hash in tenure.draining and offset >= tenure.tracker.seen_to:
                    tenure.tracker.admit(offset, key_hash)
        return None

    def _look_beside(self, messages: Sequence[Message]) -> bool:
        """Whether keys and headers are so large that each is counted; else update their mean."""
        if not messages:
            return False
        sizes = sampled_beside(messages)
        if max(sizes) > LARGE:
            return True
        load = self._load
        follows = _MEAN_FOLLOWS if load.beside_bytes else 1.0
        load.beside_bytes += (sum(sizes) / len(sizes) - load.beside_bytes) * follows
        return False

    def _admit_plain(
        self,
        tenure: Tenure,
        lo: int,
        hi: int,
        messages: Sequence[Message],
        is_large: bool,
    ) -> list[int] | None:
        """Admit all messages at once: one range, order by key, nothing inherited lies ahead.

        Returns:
            The hashes of those in the range; None if a record has no key, or comes for the second
            time: then nothing is changed.
        """
        kind = type(messages[0])
        keys: list[bytes] = list(map(kind.key, messages))  # type: ignore[arg-type]
        offsets: list[int] = list(map(kind.offset, messages))  # type: ignore[arg-type]
        ascend = all(map(lt, offsets, islice(offsets, 1, None)))
        if None in keys or offsets[0] < tenure.tracker.seen_to or not ascend:
            return None
        seen_to, digest = offsets[-1] + 1, mmh3.mmh3_x64_128_uintdigest
        hashes = [digest(key) >> 65 for key in keys]
        if min(hashes) < lo or max(hashes) > hi:
            ours = [lo <= key_hash <= hi for key_hash in hashes]
            keys, offsets = list(compress(keys, ours)), list(compress(offsets, ours))
            hashes, messages = list(compress(hashes, ours)), list(compress(messages, ours))
        records = list(map(Record, repeat(tenure), offsets, keys, hashes, messages))
        if is_large:
            for record in records:
                count_beside(record)
        tenure.tracker.admit_many(offsets, hashes, seen_to)
        self._load.bytes_waiting += sum(map(SIZE, records))
        if first := tenure.falls.first:
            tenure.falls.first = max(first - len(records), 0)
        self._tables.add(tenure.tp, keys, records, first=first)
        tenure.dirty = True
        return hashes

    def _place(self, partition: Partition, offset: int, key: bytes | None) -> tuple[Hashable, int]:
        """The lane and the hash of a record, by the group's ordering."""
        config, number = self._state.config, partition.tp.partition
        if config.ordering == "none":
            return offset, block_hash(number, offset, config.ordering_block_size)
        if config.ordering == "partition":
            return None, PARTITION_HASH
        if key is None:
            return offset, null_key_hash(number, offset)
        return key, mmh3.mmh3_x64_128_uintdigest(key) >> 65

    def _enqueue(self, tenure: Tenure, lane_key: Hashable, record: Record) -> None:
        self._load.bytes_waiting += record._size
        falls = tenure.falls
        if falls.suspicion is None:
            self.file(tenure, lane_key, record, first=falls.first > 0)
            falls.first -= falls.first > 0
        else:
            falls.suspicion.take(lane_key, record, tenure.attempts.get(record._offset))

    def file(
        self, tenure: Tenure, lane_key: Hashable, record: Record, *, first: bool = False
    ) -> None:
        """Put an admitted record into the lane of its key. The lanes' lock has to be held.

        Args:
            tenure: The tenure that admitted it.
            lane_key: The key of its lane.
            record: The record.
            first: Whether a new lane for it runs before all others.
        """
        attempt = tenure.attempts.get(record._offset)
        if attempt is not None:
            count_attempt(record, attempt.attempts + 1)
        table = self._tables.of(tenure.tp)
        filed = table.get(lane_key)
        parked = attempt is not None and attempt.parked
        if self._held_back and lane_key in self._held_back.get(tenure, ()):
            self._held_back[tenure][lane_key].append(record)
            return
        if filed is not None and parked:
            # What was done before it and not committed is done again, see `refused_outputs`.
            self._held_back.setdefault(tenure, {})[lane_key] = [record]
            return
        if filed is not None:
            self._tables.follow(table, record, filed)
            return
        lane = table[lane_key] = Lane(tenure, table, lane_key, record)
        if parked or record._key_hash in tenure.blocked.hashes:
            lane.move(HELD)
        else:
            self._lanes.make_ready(lane, first=first)

    def file_held_back(self) -> None:
        """File parked records, and what follows them, once nothing comes before them any more."""
        if not self._held_back:
            return
        with self._state.lock:
            self._lanes.settle()
            for tenure, held in list(self._held_back.items()):
                table = self._tables.of(tenure.tp)
                for lane_key in [it for it in held if it not in table]:
                    self.parked.add(tenure.tp)
                    for record in held.pop(lane_key):
                        self.file(tenure, lane_key, record)
                if not held:
                    del self._held_back[tenure]

    def _forget_held_back(self, tenure: Tenure, ranges: tuple[KeyRange, ...]) -> None:
        """Forget what was kept back of these ranges."""
        held = self._held_back.get(tenure, {})
        for lane_key, (first, *others) in list(held.items()):
            if any(first._key_hash in it for it in ranges):
                del held[lane_key]
                for record in (first, *others):
                    self._load.bytes_waiting -= record._size
                    count_no_more(record)

    def file_held(self, tenure: Tenure, lane_key: Hashable, record: Record) -> Lane:
        """Put a record into a new lane, which is HELD. The lanes' lock has to be held."""
        table = self._tables.of(tenure.tp)
        lane = table[lane_key] = Lane(tenure, table, lane_key, record)
        lane.move(HELD)
        return lane

    # ---- hashes and ranges that change hands ---------------------------------------------------

    def free(self, partition: Partition, tenure: Tenure, hashes: Iterable[int]) -> None:
        """Hashes are not blocked any more: drop records that others have done, run the rest.

        A parked record waits on for a decision, and a suspect for its turn.
        """
        state, freed, careful = self._state, set(hashes), tenure.falls.suspicion
        with state.lock:
            table = self._tables.of(partition.tp)
            for lane in [entry for entry in table.values() if hash_of(entry) in freed]:
                if isinstance(lane, Record) or lane.tenure is not tenure or lane.state is not HELD:
                    continue
                for record in lane.records:
                    if record._offset not in tenure.pending:
                        state.load.bytes_waiting -= record._size
                        tenure.attempts.pop(record._offset, None)
                lane.records = [r for r in lane.records if r._offset in tenure.pending]
                head = lane.records[0] if lane.records else None
                attempt = tenure.attempts.get(head._offset) if head else None
                if head is not None and attempt is not None:
                    count_attempt(head, attempt.attempts + 1)
                is_suspect = head is not None and careful is not None and careful.awaits_turn(head)
                if not is_suspect and (attempt is None or not attempt.parked):
                    state.lanes.release_hold(lane)

    def give_up(self, tenure: Tenure, ranges: tuple[KeyRange, ...]) -> list[Entry]:
        """Forget what is filed of these ranges; returns the entries with a running handler."""
        state = self._state
        los = [r.lo for r in ranges]
        if tenure.falls.suspicion is not None:
            self._forget_waiting(tenure.falls.suspicion, ranges)
        self._forget_held_back(tenure, ranges)
        with state.lock:
            state.lanes.settle()
            entries: list[Entry] = []
            for entry in self._tables.of(tenure.tp).values():
                if entry.tenure is tenure:
                    at = bisect_right(los, hash_of(entry)) - 1
                    if at >= 0 and hash_of(entry) <= ranges[at].hi:
                        entries.append(entry)
            for entry in entries:
                is_held = isinstance(entry, Lane) and entry.state is HELD
                for record in records_of(entry):
                    # A finished record was counted before; in a held lane it is counted when freed.
                    if is_held or record._offset in tenure.pending:
                        state.load.bytes_waiting -= record._size
                        count_no_more(record)  # one that still runs is counted only once
            running = state.lanes.give_up_all(entries)
        self.collect()
        return running

    def _forget_waiting(self, careful: Suspicion, ranges: tuple[KeyRange, ...]) -> None:
        """Forget records of these ranges that wait to be filed."""
        for record in careful.forget(ranges):
            self._load.bytes_waiting -= record._size
            count_no_more(record)

    def begin_anew(self, partition: Partition, tenure: Tenure, offset: int | None) -> None:
        """Forget a tenure's queued records; a stream has to bring them again, see `Hold`.

        Its partition must have no streams. Running records stay with their executors.
        """
        running = self.give_up(tenure, tenure.ranges)
        tenure.begin_anew(map(hash_of, running), offset)
        assert not partition.streams, f"I10: {partition.tp} is fetched while it begins anew"

    def drop_void(self) -> None:
        """Drop what was collected of tenures that are void since."""
        self._effects.drop_void()

    def collect(self) -> int:
        """Take from the trackers what executors have finished; returns how many records."""
        finished, count = self._lanes.finished, 0
        taken = list(map(deque.popleft, repeat(finished, len(finished))))
        self._load.bytes_waiting -= sum(map(SIZE, taken))
        for tenure, records in groupby(taken, TENURE):
            ended = list(records)
            offsets = list(map(OFFSET, ended))
            late = tenure.tracker.done_many(offsets)
            done = len(offsets) - len(late)
            if done:
                count += done
                tenure.finished += done
                tenure.dirty = True
                self._tell_tally(tenure, ended[-1], done)
            for offset in late:
                tenure.finished_late(offset)
            if tenure.effects:
                self._effects.collect(tenure, ended)
            if tenure.attempts:
                for offset in offsets:
                    tenure.attempts.pop(offset, None)
        self._state.counters.finished += count
        return count

    def _tell_tally(self, tenure: Tenure, last: Record, count: int) -> None:
        """Count what was finished of a tenure; the last record stands for all of it."""
        state = self._state
        tally, now_ms = state.tally.of(tenure.tp.topic), state.now_ms
        tally.finished += count
        kind, timestamp_ms = last._message.timestamp()
        if kind:
            tally.age.observe((now_ms - timestamp_ms) / 1_000, count)
        fetched_ms = tenure.came.of(last._offset)
        if fetched_ms is not None:
            handler_s = state.lanes.work.cost_ps / 10**12
            tally.queue.observe((now_ms - fetched_ms) / 1_000 - handler_s, count)
