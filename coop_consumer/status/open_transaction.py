"""A transaction that nobody has decided, and that readers of committed records wait for. Pure.

In: what brokers say of it. Out: a value, and sentences: where readers stop, since when, whose it
is, what ends it.
"""

from __future__ import annotations

from dataclasses import dataclass

from assignors import TopicPartition

_LONG_MS = 2_000


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The first undecided transaction of a partition: it begins at the last stable offset.

    Attributes:
        tp: The partition.
        offset: The last stable offset. Readers of committed records stop there.
        end: The offset its next record will get: what lies between is hidden from them.
        bootstrap: The brokers to ask first, for the command that ends it.
        since_ms: When it began, or was last written to; Unix time, 0 if that is not known.
        transactional_id: Of its writer; "" if that is not known.
        members: The members that have written it, as far as keys of the progress log tell.
        timeout_ms: So long after its beginning brokers abort it; 0 if that is not known.
        is_hanging: Whether brokers will never end it, because its coordinator has no such
            transaction any more (KAFKA-12671).
    """

    tp: TopicPartition
    offset: int
    end: int
    bootstrap: str = ""
    since_ms: int = 0
    transactional_id: str = ""
    members: tuple[str, ...] = ()
    timeout_ms: int = 0
    is_hanging: bool = False

    @property
    def place(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.tp.topic, self.tp.partition

    @property
    def whose(self) -> str:
        """Whose transaction it is, for people.

        >>> OpenTransaction(TopicPartition("orders", 0), 7, 9, members=("alpha",)).whose
        'member alpha'
        """
        member = f"member {' and '.join(self.members)}" if self.members else ""
        named = f"transactional.id {self.transactional_id}" if self.transactional_id else ""
        if member and named:
            return f"{member} ({named})"
        return member or named or "a writer that this user cannot see"

    def told(self, now_ms: int) -> str:
        """Where readers stop, since when and because of whom; without a full stop."""
        since = f" for {max(now_ms - self.since_ms, 0) // 1_000} s" if self.since_ms else ""
        return (
            f"{self.tp}: readers of committed records stop at offset {self.offset} of {self.end}, "
            f"where a transaction of {self.whose} has been undecided{since}"
        )

    def stands_for_long(self, now_ms: int) -> bool:
        """Whether it is worth a person's look: a writer usually takes some milliseconds."""
        return self.is_hanging or now_ms - self.since_ms > _LONG_MS

    @property
    def outlook(self) -> str:
        """What ends it, and when to end it by the command, as sentences."""
        if self.is_hanging:
            return (
                "Brokers will never end it, as its coordinator has no such transaction "
                "(KAFKA-12671). Only this command ends it."
            )
        after = "its transaction.timeout.ms (15 minutes at most, by their default)"
        if self.timeout_ms:
            after = f"{self.timeout_ms / 1_000:g} s and at most 10 s more"
        return (
            "Its writer decides it. If the writer is gone, brokers abort the transaction after "
            f"{after}. If it stays beyond that, only this command ends it."
        )

    @property
    def command(self) -> str:
        """The command by which an operator ends it."""
        return (
            f"kafka-transactions.sh --bootstrap-server {self.bootstrap} abort --topic "
            f"{self.tp.topic} --partition {self.tp.partition} --start-offset {self.offset}"
        )
