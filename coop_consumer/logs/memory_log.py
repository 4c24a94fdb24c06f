"""A partition in memory with transactions, and clients of it. Pure.

In: what clients of `port.TransactionalLog` are asked. Out: what a broker would answer. It keeps
what makes transactions hard. A record is undecided until its transaction's marker is written. The
marker comes later than the answer to the commit. Offsets are taken by markers and by aborted
records, too. An id is busy until its markers are written, and a new epoch fences the former one. So
whoever gets along with this log gets along with a broker, up to time-outs and lost answers.

`tests/contract/test_transactional_log.py` holds the promises that both logs keep.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum, auto
from typing import NamedTuple, Self

from coop_consumer.core.transaction import Said
from coop_consumer.errors import AppendAbortedError, CoopConsumerError, LogBlockedError
from coop_consumer.logs.port import Landed, StableRead
from coop_consumer.logs.records import (
    APPEND_HEADER,
    TOPIC_ID_BYTES,
    LogToken,
    NewRecord,
    VisibleRecord,
)


class Fate(Enum):
    """What has become of an offset: a record, visible or not, or a marker."""

    UNDECIDED = auto()
    VISIBLE = auto()
    ABORTED = auto()
    MARKER = auto()


class Phase(Enum):
    """Where the transaction of an id stands. COMMITTING, ABORTING: its marker is on the way."""

    IDLE = auto()
    OPEN = auto()
    COMMITTING = auto()
    ABORTING = auto()


class StoredRecord(NamedTuple):
    """An offset of the log; `writer` is "" outside of transactions, `record` None for a marker."""

    record: NewRecord | None
    fate: Fate
    writer: str = ""


class WriterState(NamedTuple):
    """What the coordinator knows of a transactional.id."""

    epoch: int = 0
    phase: Phase = Phase.IDLE


_NOBODY = WriterState()


class MemoryPartition:
    """One partition, and the coordinator of its writers.

    Args:
        topic_id: 16 bytes.
        number: Of the partition.
        lock: Held during each call of a client, if threads share it.
        late_markers: Write a marker only when `write_marker` is called. Else a marker comes before
            the next call of its writer, or before the next read.

    Attributes:
        stored: By offset.
        writers: By transactional.id.
    """

    def __init__(
        self,
        topic_id: bytes = bytes(TOPIC_ID_BYTES),
        number: int = 0,
        *,
        lock: AbstractContextManager[object] | None = None,
        late_markers: bool = False,
    ) -> None:
        self.lock = nullcontext() if lock is None else lock
        self.late_markers = late_markers
        self.stored: list[StoredRecord] = []
        self.writers: dict[str, WriterState] = {}
        self._token = LogToken(topic_id, number, -1)

    def copied(self) -> Self:
        """The same once more, for whoever tries out what may happen next."""
        it = copy.copy(self)
        it.stored, it.writers = self.stored.copy(), self.writers.copy()
        return it

    @property
    def token(self) -> LogToken:
        """The token of the partition before its first record."""
        return self._token

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return len(self.stored)

    @property
    def stable_end(self) -> int:
        """Below it every transaction is decided."""
        for offset, it in enumerate(self.stored):
            if it.fate is Fate.UNDECIDED:
                return offset
        return len(self.stored)

    def visible(self, beyond: int = -1) -> list[tuple[int, NewRecord]]:
        """The visible records above an offset and below the stable end, with their offsets."""
        self.write_markers()
        return [
            (offset, it.record)
            for offset, it in enumerate(self.stored[: self.stable_end])
            if offset > beyond and it.fate is Fate.VISIBLE and it.record is not None
        ]

    def append_plainly(self, record: NewRecord) -> int:
        """Append a record outside of transactions, as any producer may; its offset."""
        self.stored.append(StoredRecord(record, Fate.VISIBLE))
        return len(self.stored) - 1

    # ---- the coordinator -----------------------------------------------------------------------

    def state_of(self, writer: str) -> WriterState:
        """What is known of an id."""
        return self.writers.get(writer, _NOBODY)

    def is_busy(self, writer: str) -> bool:
        """Whether the id's last transaction waits for its marker."""
        return self.state_of(writer).phase in (Phase.COMMITTING, Phase.ABORTING)

    def next_epoch(self, writer: str) -> int:
        """Fence the id's former epoch, and abort what it has open; the new epoch."""
        epoch, phase = self.state_of(writer)
        phase = Phase.ABORTING if phase is Phase.OPEN else phase
        self.writers[writer] = WriterState(epoch + 1, phase)
        return epoch + 1

    def add(self, writer: str, epoch: int, records: Sequence[NewRecord]) -> int | None:
        """Append records to the id's transaction; the first one's offset. None: it is fenced."""
        if self.state_of(writer).epoch != epoch:
            return None
        self.writers[writer] = WriterState(epoch, Phase.OPEN)
        first = len(self.stored)
        self.stored += [StoredRecord(record, Fate.UNDECIDED, writer) for record in records]
        return first

    def decide(self, writer: str, epoch: int, *, is_commit: bool) -> bool:
        """Decide the id's transaction, if one is open; its marker follows. False: it is fenced."""
        known = self.state_of(writer)
        if known.epoch != epoch:
            return False
        if known.phase is Phase.OPEN:
            phase = Phase.COMMITTING if is_commit else Phase.ABORTING
            self.writers[writer] = WriterState(epoch, phase)
        return True

    def write_marker(self, writer: str) -> None:
        """Write the marker that is on its way: from now on the id's records are decided."""
        epoch, phase = self.state_of(writer)
        assert self.is_busy(writer), f"{writer}: no marker is on its way"
        fate = Fate.VISIBLE if phase is Phase.COMMITTING else Fate.ABORTED
        self.stored = [
            it._replace(fate=fate) if it.writer == writer and it.fate is Fate.UNDECIDED else it
            for it in self.stored
        ]
        self.stored.append(StoredRecord(None, Fate.MARKER, writer))
        self.writers[writer] = WriterState(epoch, Phase.IDLE)

    def write_markers(self) -> None:
        """Write all markers that are on their way, unless they are to come late."""
        if not self.late_markers:
            for writer in [it for it in self.writers if self.is_busy(it)]:
                self.write_marker(writer)


class MemoryClient:
    """A transactional client of a partition in memory; see `port.TransactionalLog`.

    Args:
        partition: It may have other clients.
        writer: The transactional.id.
    """

    def __init__(self, partition: MemoryPartition, writer: str) -> None:
        self.partition = partition
        self.writer = writer
        self.why = ""
        self.final: CoopConsumerError | None = None
        self.epoch = 0

    @property
    def place(self) -> tuple[str, int]:
        """A name, and the partition's number."""
        return "memory", self.partition.token.partition

    def empty(self) -> LogToken:
        """The token of the partition before its first record."""
        return self.partition.token

    def end(self) -> int:
        """The offset of the next record."""
        with self.partition.lock:
            return self.partition.end

    def read(self, beyond: int) -> StableRead:
        """Visible records above an offset."""
        at = self.partition
        with at.lock:
            at.write_markers()
            found = at.visible(beyond)
            records = [VisibleRecord(offset, it.key, it.value) for offset, it in found]
            headers = found[0][1].headers if found else ()
            append_id = next((it for name, it in headers if name == APPEND_HEADER), b"")
            stable_end = at.stable_end
            return StableRead(records, stable_end, stable_end, at.end, 0, append_id)

    def renew(self) -> Said:
        """Begin a new epoch; AGAIN while the id waits for its marker."""
        at = self.partition
        with at.lock:
            if not at.is_busy(self.writer):
                self.epoch = at.next_epoch(self.writer)
            at.write_markers()
            return Said.AGAIN if at.is_busy(self.writer) else Said.DONE

    def produce(self, records: Sequence[NewRecord]) -> Landed:
        """Append records to a transaction; AGAIN if the id still waits for its marker."""
        at = self.partition
        with at.lock:
            at.write_markers()
            if at.is_busy(self.writer):
                return Landed(Said.AGAIN)
            first = at.add(self.writer, self.epoch, records)
            if first is None:
                return Landed(Said.BROKEN)
            return Landed(Said.DONE, first, first + len(records) - 1)

    def commit(self) -> Said:
        """Decide it; the marker follows."""
        return self._decide(is_commit=True)

    def abort(self) -> Said:
        """Abort it; the marker follows."""
        return self._decide(is_commit=False)

    def _decide(self, *, is_commit: bool) -> Said:
        with self.partition.lock:
            is_known = self.partition.decide(self.writer, self.epoch, is_commit=is_commit)
            return Said.DONE if is_known else Said.BROKEN

    def end_blocker(self, offset: int) -> bool:
        """End the transaction at this offset, whoever writes it."""
        at = self.partition
        with at.lock:
            if offset >= at.end or at.stored[offset].fate is not Fate.UNDECIDED:
                return False
            at.next_epoch(at.stored[offset].writer)
            at.write_markers()
            return True

    def check_topic(self) -> None:
        """It is the same one as ever."""

    def blocked(self, offset: int, waited_s: float) -> CoopConsumerError:
        """The error of a call that has waited for an undecided transaction."""
        whose = self.partition.stored[offset].writer
        return LogBlockedError(
            *(*self.place, offset, whose, round(waited_s)),
            *("Its writer decides it.", "write_markers() of the partition"),
        )

    def not_served(self) -> CoopConsumerError:
        """The error of an id that waits for its marker for too long."""
        return AppendAbortedError(*self.place, f"{self.writer} waits for its marker")

    def close(self) -> None:
        """Nothing is to be closed."""
