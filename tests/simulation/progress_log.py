"""The progress topic: a compacted log per partition, the producers that write it, and its readers.

In: appends and reads of members. Out: acknowledgements and records, late, in part, or lost. A
member's producer is idempotent: records arrive in the order in which they were sent. A record that
was reported as failed may still arrive, but never after a later one. A read is complete when it has
reached an end that the broker reported after the request. The log has no fence: a zombie's
records arrive like any others.

Records of a transaction are undecided until its marker comes. Nobody reads them, nor what lies
above the first of them. The end that a broker reports lies above all of them.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coop_consumer.core.blocked_read import WAIT_MS, BlockedRead, writers
from coop_consumer.core.events import Appended, AppendFailed, LogRead
from coop_consumer.errors import (
    BrokerUnreachableError,
    ProgressLogLostError,
    RecordTooLargeError,
)
from offsets import LogBatch, LogRecord, MemoryLog
from tests.simulation.scheduler import Call, Channel
from tests.simulation.situations import releases_anew, tells_facts

if TYPE_CHECKING:
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World

Entry = tuple[bytes, bytes | None]
ReplyLost = BrokerUnreachableError("simulated:9092", "the reply was lost")
TooLarge = RecordTooLargeError("progress", "simulated")
LogLost = ProgressLogLostError("progress", "the topic was deleted")

REFUSED_MAX = 20
"""Who halves what it sends is there after two refusals, and some that were under way by then."""


class SimLog(MemoryLog):
    """A log in memory that can lose its end, as if a broker lost its disk, or its beginning.

    Attributes:
        low: Everything below is deleted; a reader whose position is below learns it.
        has_lost: Whether somebody has deleted its beginning.
        undecided: The records of open transactions by offset, each with its transaction.
    """

    __slots__ = ("has_lost", "low", "undecided")

    def __init__(self) -> None:
        super().__init__()
        self.low = 0
        self.has_lost = False
        self.undecided: dict[int, tuple[object, LogRecord]] = {}

    @property
    def stable_end(self) -> int:
        """The last stable offset: below it all is decided."""
        return min(self.undecided, default=self.end_offset)

    def append_undecided(
        self, transaction: object, key: bytes, value: bytes | None, now_ms: int
    ) -> int:
        """Append a record of a transaction; its offset."""
        offset = self.end_offset
        self.undecided[offset] = transaction, LogRecord(offset, key, value, now_ms)
        self.end_offset += 1
        return offset

    def decide(self, transaction: object, *, committed: bool) -> None:
        """Write a transaction's marker, which takes an offset."""
        for offset, (it, record) in list(self.undecided.items()):
            if it is transaction:
                del self.undecided[offset]
                if committed:
                    insort(self._records, record, key=lambda other: other.offset)
        self.end_offset += 1

    def read_stable(self, offset: int, max_records: int) -> LogBatch:
        """As `read`, up to the last stable offset."""
        found, end = self.read(offset, max_records), self.stable_end
        records = [record for record in found.records if record.offset < end]
        return LogBatch(records, min(found.next_offset, max(end, offset)), end)

    def compact(self, end_offset: int | None = None, *, drop_tombstones: bool = False) -> None:
        """As `MemoryLog.compact`; what is undecided, and all above it, stays."""
        end = self.end_offset if end_offset is None else end_offset
        super().compact(min(end, self.stable_end), drop_tombstones=drop_tombstones)

    def cut(self, end_offset: int) -> None:
        """Remove everything at `end_offset` or above."""
        self._records = [record for record in self._records if record.offset < end_offset]
        self.end_offset = min(self.end_offset, end_offset)
        self.low = min(self.low, end_offset)

    def delete_below(self, low: int) -> None:
        """Delete everything below, as DeleteRecords does."""
        self._records = [record for record in self._records if record.offset >= low]
        self.low = max(self.low, low)
        self.has_lost = True


class ProgressLog:
    """All partitions of the progress topic.

    Args:
        partitions: How many.
        watch: Gets every record when it is appended.

    Attributes:
        is_deleted: Somebody has deleted the topic: it takes and returns nothing any more.
    """

    def __init__(self, partitions: int, watch: Callable[[int, LogRecord], None]) -> None:
        self.partitions = [SimLog() for _ in range(partitions)]
        self._watched_to = [0] * partitions
        self.is_deleted = False
        self._watch = watch
        self._followers: list[list[Call]] = [[] for _ in range(partitions)]

    def has_lost(self, partition: int) -> bool:
        """Whether its beginning was deleted."""
        return self.partitions[partition].has_lost

    def tell_when_more(self, partition: int, call: Call) -> None:
        """Make `call` at the next append."""
        self._followers[partition].append(call)

    def append(self, partition: int, entries: Sequence[Entry], now_ms: int) -> list[int]:
        """Write records; returns their offsets."""
        log, offsets = self.partitions[partition], []
        self._watched_to[partition] = min(self._watched_to[partition], log.end_offset)
        for key, value in entries:
            offsets.append(log.append(key, value, now_ms))
            self._grown(partition)
        self._tell(partition)
        return offsets

    def append_undecided(
        self, partition: int, transaction: object, entries: Sequence[Entry], now_ms: int
    ) -> list[int]:
        """Write records of a transaction; returns their offsets."""
        log = self.partitions[partition]
        return [log.append_undecided(transaction, key, value, now_ms) for key, value in entries]

    def decide(self, partition: int, transaction: object, *, committed: bool) -> None:
        """Write a transaction's marker."""
        self.partitions[partition].decide(transaction, committed=committed)
        self._grown(partition)
        self._tell(partition)

    def _grown(self, partition: int) -> None:
        """Show what can be read now to whoever watches."""
        log = self.partitions[partition]
        while self._watched_to[partition] < log.stable_end:
            found = log.read_stable(self._watched_to[partition], 1)
            self._watched_to[partition] = found.next_offset
            for record in found.records:
                self._watch(partition, record)

    def _tell(self, partition: int) -> None:
        followers, self._followers[partition] = self._followers[partition], []
        for call in followers:
            call()

    def records(self, partition: int) -> Sequence[LogRecord]:
        """The records that a reader from the beginning finds now."""
        return self.partitions[partition].read_stable(0, max_records=1_000_000).records


class ProgressProducer:
    """A member's producer."""

    def __init__(self, world: World, shell: MemberShell) -> None:
        self._world = world
        self._shell = shell
        self._log = world.log
        self._requests: dict[int, Channel] = {}
        self._replies = Channel(world.scheduler)
        self._arrived: dict[int, int] = {}
        self._sent = 0
        self._is_purged = False
        self._refused = 0

    def purge(self) -> None:
        """Let nothing that is under way arrive any more."""
        self._is_purged = True

    def append(self, partition: int, entries: Sequence[Entry], token: int) -> None:
        """Send records."""
        self._sent += 1
        number, world = self._sent, self._world
        scheduler, weather = world.scheduler, world.weather
        if any(len(value or b"") > world.scenario.log_bytes for _, value in entries):
            self._refuse(partition, entries, token, number)
            return
        if scheduler.chance(weather.lost):
            self._lose(partition, entries, token, number)
            return
        requests = self._requests.setdefault(partition, Channel(scheduler))
        requests.send(
            world.brokers.reach(scheduler.between(1, weather.append_ms)),
            lambda: self._arrive(partition, entries, token, number),
        )

    def _refuse(self, partition: int, entries: Sequence[Entry], token: int, number: int) -> None:
        """Refuse a record that is too large. Records before it may be written, none behind it."""
        world = self._world
        world.happened("record refused for its size")
        self._refused += 1
        assert self._refused <= REFUSED_MAX, "stuck: it sends again what is refused for its size"
        fits = [len(value or b"") <= world.scenario.log_bytes for _, value in entries]
        written = entries[: fits.index(False)]

        def arrive() -> None:
            if self._is_purged:
                return
            self._arrived[partition] = number
            if self._log.is_deleted:
                self._reply(lambda: self._shell.handle(AppendFailed(token, LogLost, is_final=True)))
                return
            self._log.append(partition, written, world.scheduler.now_ms)
            self._reply(lambda: self._shell.handle(AppendFailed(token, TooLarge)))

        requests = self._requests.setdefault(partition, Channel(world.scheduler))
        delay_ms = world.scheduler.between(1, world.weather.append_ms)
        requests.send(world.brokers.reach(delay_ms), arrive)

    def _arrive(self, partition: int, entries: Sequence[Entry], token: int, number: int) -> None:
        if self._is_purged:
            return
        self._arrived[partition] = number
        if self._log.is_deleted:
            self._reply(lambda: self._shell.handle(AppendFailed(token, LogLost, is_final=True)))
            return
        self._note_zombie(entries)
        offsets = self._log.append(partition, entries, self._world.scheduler.now_ms)
        self._reply(lambda: self._shell.handle(Appended(token, offsets)))

    def _lose(self, partition: int, entries: Sequence[Entry], token: int, number: int) -> None:
        """Lose the reply. The records may be written, before or after the member learns of it."""
        world, scheduler = self._world, self._world.scheduler
        world.happened("lost reply")
        if releases_anew(entries, world.checker.truth.stores[partition]):
            world.happened("lost release")

        def arrive() -> None:
            is_next = self._arrived.get(partition, 0) < number and not self._is_purged
            if is_next and not self._log.is_deleted:
                self._arrived[partition] = number
                self._note_zombie(entries)
                self._log.append(partition, entries, scheduler.now_ms)

        if scheduler.chance(0.7):
            requests = self._requests.setdefault(partition, Channel(scheduler))
            delay_ms = scheduler.between(1, 3 * world.weather.append_ms)
            requests.send(world.brokers.reach(delay_ms), arrive)
        self._reply(lambda: self._shell.handle(AppendFailed(token, ReplyLost)))

    def _note_zombie(self, entries: Sequence[Entry]) -> None:
        seat = self._shell.seat
        if seat is not None and seat.lost and tells_facts(entries):
            self._world.happened("zombie commit")

    def _reply(self, call: Callable[[], None]) -> None:
        delay_ms = self._world.scheduler.between(1, self._world.weather.append_ms)
        delay_ms = self._world.brokers.reach(delay_ms)
        self._replies.send(delay_ms, lambda: self._shell.receive(call))


@dataclass(slots=True)
class _Reading:
    """One partition, and how far a member has read it."""

    position: int = 0
    ends: list[tuple[int, int]] = field(default_factory=list)  # (number of the read, its end)
    complete: int = 0
    following: bool = False
    fetching: bool = False
    low: int = -1
    blocked: BlockedRead = field(default_factory=BlockedRead)
    is_watched: bool = False


class ProgressReader:
    """A member's reader; it delivers records without omission."""

    def __init__(self, world: World, shell: MemberShell) -> None:
        self._world = world
        self._shell = shell
        self._log = world.log
        self._readings: dict[int, _Reading] = {}
        self._deliveries = Channel(world.scheduler)
        self._dead = False

    def die(self) -> None:
        """Deliver nothing any more, without an error."""
        self._dead = True

    def read(self, partition: int, number: int) -> None:
        """Read to an end observed from now on."""
        world = self._world
        delay_ms = world.scheduler.between(1, world.weather.read_ms) + world.faults.stall_ms()
        world.scheduler.after(world.brokers.reach(delay_ms), lambda: self._ask(partition, number))

    def follow(self, partition: int, *, follow: bool) -> None:
        """Deliver new records, or stop doing so."""
        self._readings.setdefault(partition, _Reading()).following = follow
        self._fetch_later(partition)

    def _ask(self, partition: int, number: int) -> None:
        reading = self._readings.setdefault(partition, _Reading())
        log = self._log.partitions[partition]
        self._look_at(partition, reading)
        reading.ends.append((number, log.end_offset))
        self._fetch_later(partition)

    def look(self) -> None:
        """Check whether the records that were read still exist."""
        for partition, reading in self._readings.items():
            if reading.complete and not self._dead:
                self._look_at(partition, reading)

    def _look_at(self, partition: int, reading: _Reading) -> None:
        low = self._log.partitions[partition].low
        if 0 <= reading.low < low:
            self._start_over(partition, reading)
            end = self._log.partitions[partition].end_offset
            reading.ends.append((reading.complete, end))
            self._fetch_later(partition)
        reading.low = low

    def _fetch_later(self, partition: int) -> None:
        reading = self._readings[partition]
        if not reading.fetching and (reading.ends or reading.following) and self._shell.alive:
            world, log = self._world, self._log
            it = log.partitions[partition]
            is_blocked = bool(it.undecided) and all(
                upto > it.stable_end for _, upto in reading.ends
            )
            if reading.position == it.stable_end and (is_blocked or not reading.ends):
                log.tell_when_more(partition, lambda: self._fetch_later(partition))
                if reading.ends and not reading.is_watched:
                    self._watch_blocked(partition, reading)
                return
            reading.fetching = True
            delay_ms = world.scheduler.between(1, world.weather.read_ms)
            delay_ms = world.brokers.reach(delay_ms)
            world.scheduler.after(delay_ms, lambda: self._fetch(partition, reading))

    def _watch_blocked(self, partition: int, reading: _Reading) -> None:
        """A read waits for undecided transactions: see whether somebody will decide them."""
        scheduler, shell = self._world.scheduler, self._shell
        reading.is_watched = True

        def look() -> None:
            log = self._log.partitions[partition]
            reading.is_watched = False
            if not reading.ends or reading.position != log.stable_end or self._dead:
                return
            if reading.blocked.looked(log.stable_end, scheduler.now_ms):
                found = writers(record.key for _, record in log.undecided.values())
                shell.send(lambda: self._world.transactions.fence_absent(found))
            self._watch_blocked(partition, reading)

        scheduler.after(scheduler.between(WAIT_MS // 4, WAIT_MS), lambda: shell.receive(look))

    def _fetch(self, partition: int, reading: _Reading) -> None:
        if self._dead or self._log.is_deleted:
            return
        reading.fetching = False
        world, log = self._world, self._log.partitions[partition]
        if reading.position > log.end_offset or 0 < reading.position < log.low:
            self._start_over(partition, reading)
            reading.low = log.low
        found = log.read_stable(reading.position, world.scheduler.rng.choice((1, 3, 10, 100)))
        reading.position = found.next_offset
        if reading.low < 0 and found.records:
            reading.low = found.records[0].offset
        reached = [number for number, end in reading.ends if reading.position >= end]
        reading.ends = [item for item in reading.ends if item[1] > reading.position]
        reading.complete = max([reading.complete, *reached])
        complete = 0 if reading.ends else reading.complete
        if found.records or reached:
            self._deliver(LogRead(partition, found.records, complete, found.end_offset))
        self._fetch_later(partition)

    def _start_over(self, partition: int, reading: _Reading) -> None:
        """Read the log again, from its beginning to its present end: our position is gone."""
        end = self._log.partitions[partition].end_offset
        reading.ends = [(number, min(end, upto)) for number, upto in reading.ends]
        reading.position = 0
        self._deliver(LogRead(partition, [], 0, 0, restart=True))

    def _deliver(self, event: LogRead) -> None:
        self._deliveries.send(
            self._world.scheduler.between(0, self._world.weather.read_ms),
            lambda: self._shell.receive(lambda: self._shell.handle(event)),
        )
