"""Effects: what handlers leave behind of their records, and what of it a commit takes along. Pure.

A handler files effects with its record while it runs: outputs, and puts of keyed state. Each
attempt at a record has a `Record` of its own, and so files by itself. When the record is finished,
what its attempt has filed is *collected*. A commit takes along all that is collected: it is made
durable before the log tells that the records are done. When an attempt fails or is abandoned, what
it has filed is undone. So nothing of a record that still runs, or that failed, leaves with the
progress of another one. A record without effects costs nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple, Protocol

from coop_consumer.core.record import again, is_sealed, seal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from coop_consumer.core.record import Record
    from coop_consumer.core.tenure import Tenure


class Effect(Protocol):
    """What it is, only its maker and the committer know.

    Attributes:
        size: Bytes of an output; 0: it is none.
    """

    @property
    def size(self) -> int:
        """See the class."""

    def undo(self) -> None:
        """Its attempt has failed or was abandoned. Any thread."""


class Output(NamedTuple):
    """A record that a handler sends.

    Attributes:
        topic: Where to.
        key: Its key.
        value: Its value; None: a tombstone.
        headers: Name and value of each, in their order.
        partition: Of the topic; -1: chosen by the key.
        timestamp_ms: Unix time in milliseconds; 0: when it is produced.
        size: Bytes that it takes, with what Kafka adds.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, str | bytes | None]] = ()
    partition: int = -1
    timestamp_ms: int = 0
    size: int = 0

    def undo(self) -> None:
        """See `Effect`; nobody has seen it."""


class Filed(list[Effect]):
    """What an attempt at a record has filed so far, in its order.

    Attributes:
        outputs: How many of it are outputs.
        size: Their bytes.
        block: Equal for records that count together or not at all; None: it counts by itself.
    """

    __slots__ = ("block", "outputs", "size")
    outputs: int
    size: int
    block: object

    @classmethod
    def empty(cls) -> Filed:
        """Nothing so far: a constructor would cost more than all else here."""
        filed = cls()
        filed.size = filed.outputs = 0
        filed.block = None
        return filed

    def put(self, effect: Effect, bytes_max: int) -> None:
        """Add one; BufferError: it would be more than so many bytes of outputs."""
        if added := effect.size:
            size = self.size + added
            if size > bytes_max:
                raise BufferError
            self.size = size
            self.outputs += 1
        self.append(effect)


class Result(NamedTuple):
    """A finished record that has left something behind.

    Attributes:
        record: The attempt that has finished it.
        effects: What that has filed, in its order.
    """

    record: Record
    effects: Filed


def file(record: Record, effect: Effect, bytes_max: int = sys.maxsize) -> bool:
    """File what an attempt at a record leaves behind. The handler's thread, or its helpers'.

    Returns:
        False if the attempt is over: its effects are collected or undone, and no commit would take
        this one. Or the record is a copy.

    Raises:
        BufferError: The outputs of this attempt would take more than `bytes_max`.
    """
    tenure = record._tenure
    if tenure.is_void:
        return False
    filed = tenure.effects
    mine = filed.get(record)
    if mine is None:
        mine = filed.setdefault(record, Filed.empty())
    mine.put(effect, bytes_max)
    # Filed first, looked at then: the member's thread notes the end before it takes the effects.
    if is_open(record) and filed.get(record) is mine:
        return True
    for other in reversed(filed.pop(record, ())):  # of a tenure that has become void
        if other is not effect:
            other.undo()
    return False


def file_together(outputs: Mapping[Record, Sequence[Output]]) -> None:
    """File what records leave behind that count together or not at all; they are open."""
    block = object()
    for record, sent in outputs.items():
        filed = record._tenure.effects.setdefault(record, Filed.empty())
        filed.block = block
        for output in sent:
            filed.put(output, sys.maxsize)


def is_open(record: Record) -> bool:
    """Whether the attempt goes on: what it files will count once its record is finished."""
    tenure, offset = record._tenure, record._offset
    if is_sealed(record) or tenure.is_void:
        return False
    begun_from = tenure.blocked.lingering_from.get(record._key_hash)
    if begun_from is None:
        return offset in tenure.pending
    # Its handler runs since before the stream began anew; earlier records of its key are finished.
    return offset >= begun_from


def drop(record: Record) -> None:
    """The attempt has failed or was abandoned: undo what it has filed. Any thread."""
    seal(record)
    for effect in reversed(record._tenure.effects.pop(record, ())):
        effect.undo()


def new_attempt(record: Record) -> Record:
    """End an attempt that failed or was abandoned; returns the record for the next one."""
    drop(record)
    return again(record)


class Effects:
    """The results of one member, in the order in which their records were finished.

    Args:
        outputs_max: So many outputs may wait.
        bytes_max: So many bytes of outputs may wait.

    Attributes:
        outputs: How many wait: they are collected, or on their way, and Kafka may not have them.
        output_bytes: The same in bytes.
    """

    def __init__(self, outputs_max: int, bytes_max: int) -> None:
        self._outputs_max = outputs_max
        self._bytes_max = bytes_max
        self._collected: list[Result] = []
        self.outputs = self.output_bytes = 0

    def fills(self, share: float) -> bool:
        """Whether the outputs that wait take this share of their bounds."""
        return (
            self.outputs >= self._outputs_max * share
            or self.output_bytes >= self._bytes_max * share
        )

    def collect(self, tenure: Tenure, records: Iterable[Record]) -> None:
        """These records of a tenure that has effects are finished."""
        if tenure.is_void:
            for record in records:
                drop(record)
            return
        filed = tenure.effects
        for record in records:
            if (mine := filed.pop(record, None)) is not None:
                self._collected.append(Result(record, mine))
                self.outputs += mine.outputs
                self.output_bytes += mine.size

    def blocks(self) -> Iterable[tuple[Tenure, object]]:
        """The tenure and the block of each result that is collected, see `Filed`."""
        return ((record._tenure, filed.block) for record, filed in self._collected)

    def settled(self, results: Sequence[Result]) -> None:
        """These do not wait any more: Kafka has them, or they are dropped."""
        for _, mine in results:
            self.outputs -= mine.outputs
            self.output_bytes -= mine.size

    def take(self) -> Sequence[Result]:
        """Take what is collected, for the commit that is built now."""
        taken, self._collected = self._collected, []
        return taken

    def put_back(self, results: Sequence[Result]) -> None:
        """A commit has not taken these along after all: the next one does, before all others."""
        self._collected = [*results, *self._collected]
        self.drop_void()

    def drop_void(self) -> None:
        """Undo what was left behind in tenures that have become void."""
        kept, collected = [], self._collected
        for result in collected:
            if not result.record._tenure.is_void:
                kept.append(result)
                continue
            for effect in reversed(result.effects):
                effect.undo()
            self.settled((result,))
        self._collected = kept
