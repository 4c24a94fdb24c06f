"""What a sink has written, and what it may write next. Pure.

In: marks, as they lie in Kafka beside committed offsets; a batch. Out: how the batch is to be cut
into parts, whether a part is written already; or a `BatchConflictError` where going on could lose
or double records.

Two kinds of marks. A *plan*, of the whole sink: which batch of which query is being written, in how
many parts. A *part's* mark, in one transaction with its records: which batch, and the fingerprint
of what it was. A batch that comes again is finished in the parts in which it was begun.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

from coop_consumer.errors import BatchConflictError
from coop_consumer.plain_text import counted

_OTHER_NAME = "Give every query a name= of its own, and a query with a new checkpoint a new name"


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """A batch, and into how many parts it is cut. `query` is "" outside of streams."""

    query: str
    batch: int
    parts: int

    def text(self) -> str:
        """For `parse`."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError for what is no plan."""
        found = _known(text, ("query", "batch", "parts"))
        return cls(str(found["query"]), _number(found, "batch"), _number(found, "parts"))


@dataclass(frozen=True, slots=True)
class Written:
    """A part of a batch that is written: how many rows, and the sum of their fingerprints."""

    query: str
    batch: int
    rows: int
    digest: int

    def text(self) -> str:
        """For `parse`."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError for what is no mark of a part."""
        found = _known(text, ("query", "batch", "rows", "digest"))
        numbers = (_number(found, name) for name in ("batch", "rows", "digest"))
        return cls(str(found["query"]), *numbers)


def next_plan(name: str, was: BatchPlan | None, wanted: BatchPlan, first_batch: int) -> BatchPlan:
    """How to write a batch.

    Args:
        name: The sink's.
        was: What it wrote last; None: nothing, or so long ago that the broker has forgotten it.
        wanted: The batch, and in how many parts it would be written if it is new.
        first_batch: The sink has no marks yet when this one comes.

    Returns:
        `was`, if it is the same batch: begun, and maybe complete; else `wanted`.

    Raises:
        BatchConflictError: Nobody can tell whether the batch is written, or it is another's.
    """
    batch = wanted.batch
    if was is None:
        if batch <= first_batch:
            return wanted
        raise BatchConflictError(
            name,
            batch,
            "there is no mark of a batch before it, so it may be written already: the sink was "
            "idle for longer than the brokers keep offsets (offsets.retention.minutes), or is new "
            "to a query that has run before, or was not called for batches before",
            f"Look into the topic; if batch {batch} is not there, set first_batch={batch}, else "
            f"first_batch={batch + 1} and leave this one out",
        )
    if was.query != wanted.query:
        if batch <= first_batch:
            return wanted
        raise BatchConflictError(
            name,
            batch,
            f"query {was.query} took this name, and wrote batch {was.batch}",
            _OTHER_NAME,
        )
    if batch < was.batch:
        raise BatchConflictError(
            name,
            batch,
            f"batch {was.batch} is written already: this is a driver that was replaced, or the "
            "checkpoint is older than the topic",
            f"End this driver, or restore the newest checkpoint. {_OTHER_NAME}",
        )
    return was if batch == was.batch else wanted


def check_current(name: str, plan: BatchPlan, now: BatchPlan | None) -> None:
    """See that a plan is still the sink's, in a task that may have been left behind.

    Raises:
        BatchConflictError: It is not.
    """
    if now != plan:
        raise BatchConflictError(
            name,
            plan.batch,
            f"the sink is at {now.text() if now else 'no batch'} now, this task is left over from "
            f"{plan.text()}",
            "Nothing is to be done if another driver has taken over",
        )


def has_written(name: str, plan: BatchPlan, was: Written | None) -> bool:
    """Whether a part's mark is of this very batch.

    Raises:
        BatchConflictError: It is of a later one.
    """
    if was is None or was.query != plan.query or was.batch < plan.batch:
        return False
    if was.batch > plan.batch:
        raise BatchConflictError(
            name, plan.batch, f"a part of batch {was.batch} is written already", _OTHER_NAME
        )
    return True


def check_same(name: str, part: int, was: Written, again: Written) -> None:
    """See that a part that comes again is what it was.

    Raises:
        BatchConflictError: It has other rows: some of them may be written, by this or other parts.
    """
    if was != again:
        raise BatchConflictError(
            name,
            was.batch,
            f"part {part} was written with {counted(was.rows, 'row')}, and now has {again.rows} "
            "others or changed ones: the batch does not come again as it was (rand(), a "
            "lookup that moves, a source that does not replay)",
            "Make the query deterministic, or write with writers=1, where a batch that is written "
            "needs not be the same again",
        )


def _known(text: str, names: tuple[str, ...]) -> dict[str, object]:
    found = json.loads(text)
    if not isinstance(found, dict) or set(found) != set(names):
        raise ValueError(f"{text!r} has not {', '.join(names)}")
    return found


def _number(found: dict[str, object], name: str) -> int:
    value = found[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name}={value!r} is no count")
    return value
