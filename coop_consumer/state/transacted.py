"""Keyed state in the transactions of its records.

In: puts of handlers, filed with their records; transactions that are committed. Out: records of
changelogs, produced by the transactor in the transaction of the record that put them; stores with
what is committed. A store never holds what may be aborted, so nothing is wiped after a crash. A
member that was taken for dead cannot commit, so no late write of it needs repair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coop_consumer.core.blocked_read import RunId
from coop_consumer.state.filing import Filing
from coop_consumer.state.shard import Write

if TYPE_CHECKING:
    from confluent_kafka import Producer

    from coop_consumer.core.effects import Result
    from coop_consumer.core.record import Record
    from coop_consumer.kafka.acked import Delivered

RUN_HEADER = "coop.run"
"""Whose transaction a record of a changelog belongs to: `member/incarnation`, this in hex."""


def run_of(headers: object) -> RunId | None:
    """Whose transaction a record of a changelog belongs to, as its headers say.

    >>> run_of([(RUN_HEADER, b"m1/ff")])
    RunId(member='m1', incarnation=255)
    """
    stamps = headers if isinstance(headers, list) else []
    stamp = next((value for name, value in stamps if name == RUN_HEADER), b"") or b""
    member, _, number = stamp.decode(errors="replace").rpartition("/")
    try:
        return RunId(member, int(number, 16)) if member else None
    except ValueError:
        return None


class TransactedWriter(Filing):
    """Writes the changelogs of a pool in transactions."""

    _stamp: list[tuple[str, str | bytes | None]]

    def start(self, size_max: int) -> None:
        """Begin; no changelog takes a record above `size_max` bytes."""
        self._size_max = size_max

    def close(self) -> None:
        """End; the transactor has ended before."""

    def look_up(self, topic: str, timeout_s: float) -> None:
        """Nothing: the transactor's Producer looks up what it writes."""

    def stamp(self, run: RunId) -> None:
        """The run whose transactions follow."""
        self._stamp = [(RUN_HEADER, f"{run.member}/{run.incarnation:x}")]

    def put(self, record: Record, write: Write) -> None:
        """See `Filing`. What comes again was not committed, so no version before is kept."""
        write.is_alone = True
        super().put(record, write)

    def _may_be_lost(self, record: Record) -> bool:
        return record._tenure.is_void

    # ---- transactions; see `TransactedState` ---------------------------------------------------

    def last_of(self, results: Sequence[Result]) -> Sequence[tuple[Record, Write]]:
        """Of each key the last write among these, with its record."""
        last = {
            (it.shard, it.key): (record, it)
            for record, effects in results
            for it in effects
            if isinstance(it, Write)
        }
        return list(last.values())

    def topic_of(self, write: Write) -> str:
        """The changelog that gets a write."""
        return self.name(write.shard.tp.topic)

    def produce(self, producer: Producer, write: Write, delivered: Delivered) -> None:
        """Hand a write to a Producer, with what hears its report."""
        producer.produce(
            self.topic_of(write),
            write.logged,
            write.key,
            write.shard.tp.partition,
            on_delivery=delivered,
            headers=self._stamp,
        )

    def committed(self, written: Sequence[tuple[Write, int]]) -> None:
        """Take in what counts from now on, each at its offset."""
        try:
            self._settle(written)
        except Exception as error:
            raise self._store_fails(error) from error

    def served(self) -> None:
        """Time has passed."""
        self._checkpoint_due()

    # ---- restores ------------------------------------------------------------------------------

    def wait(self) -> None:
        """Nothing of a range is under way once its release is committed and read."""

    def repair(self, write: Write) -> None:
        """Never needed, see above."""
        raise AssertionError(f"I9: a late write of a key of {write.shard.tp}")
