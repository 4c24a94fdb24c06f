"""The port of a log with transactions: what the rules of a conditional append ask of one partition.

In: records to produce, offsets to read beyond. Out: what is visible, where produced records lie,
and what a client says (`Said`). Implementations: `memory_log.MemoryClient`, `kafka_log.KafkaLog`.
One thread calls a client, and no call may be made while another one is under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from coop_consumer.core.transaction import Said
from coop_consumer.errors import CoopConsumerError
from coop_consumer.logs.records import LogToken, NewRecord, VisibleRecord


class StableRead(NamedTuple):
    """What one read of committed records has found.

    Attributes:
        records: All visible records above the offset asked for and below `position`, in order.
        position: Everything below it is decided, and visible records of it were read.
        stable_end: Below it every transaction was decided when the read was asked for.
        end: The end of the log, asked for after the stable end: what is decided or not lies below.
        first_offset: Of the first record that the log still has; what lay below was deleted.
        append_id: The `coop.append` header of the first of these records; b"" if it has none.
    """

    records: Sequence[VisibleRecord]
    position: int
    stable_end: int
    end: int
    first_offset: int = 0
    append_id: bytes = b""

    @property
    def is_complete(self) -> bool:
        """Whether all that was decided when the read was asked for has been read."""
        return self.position >= self.stable_end

    @property
    def is_undecided(self) -> bool:
        """Whether a transaction lies behind `position` that nobody has decided yet."""
        return self.position < self.end


class Landed(NamedTuple):
    """Where the records of a transaction lie.

    Attributes:
        said: DONE: all are acknowledged.
        first: Offset of the first one; -1 if it is not known.
        last: Offset of the last one; -1 if it is not known.
    """

    said: Said
    first: int = -1
    last: int = -1


class TransactionalLog(Protocol):
    """One partition, and a transactional client of it.

    Attributes:
        writer: The client's transactional.id.
        why: What went wrong last, for people; "": nothing.
        final: What makes each further append fail as well; None: nothing.
    """

    writer: str
    why: str
    final: CoopConsumerError | None

    @property
    def place(self) -> tuple[str, int]:
        """Topic and partition."""

    def empty(self) -> LogToken:
        """The token of this partition before its first record."""

    def end(self) -> int:
        """The end of the log now, decided or not: the offset of the next record."""

    def read(self, beyond: int) -> StableRead:
        """Visible records above an offset, up to a stable end that is asked for after the call.

        It may return a part of them, which may end in the midst of a transaction: it is complete
        only if `StableRead.is_complete` says so. It returns nothing beyond the stable end.

        Raises:
            CoopConsumerError: As `KafkaLog.read`; if it is a `RetriableError`, it may pass.
        """

    def renew(self) -> Said:
        """Begin a new epoch of the id: whatever the former one had open is over once it is DONE."""

    def produce(self, records: Sequence[NewRecord]) -> Landed:
        """Open a transaction, produce records, and wait until all are acknowledged.

        If the id's last transaction still waits for its markers, this waits for them.
        """

    def commit(self) -> Said:
        """Ask for the commit. AGAIN: it may be done, and the same call may be made again."""

    def abort(self) -> Said:
        """Abort the open transaction. Only DONE says that it is aborted."""

    def end_blocker(self, offset: int) -> bool:
        """End the undecided transaction that begins at this offset, if it was a client of ours.

        Its records name their writer; a new epoch of that id aborts what is open. False: nobody
        was found, or the right is missing, so brokers end it after its time-out.
        """

    def check_topic(self) -> None:
        """See that the topic is still the same one.

        Raises:
            LogRecreatedError: It was deleted, and made again under its name.
        """

    def blocked(self, offset: int, waited_s: float) -> CoopConsumerError:
        """The error of a call that has waited for an undecided transaction for so long."""

    def not_served(self) -> CoopConsumerError:
        """The error of an id that brokers do not begin to serve."""

    def close(self) -> None:
        """Use it no more."""
