"""Where a single writer goes on, from what its logs and its commit say. Pure.

In: the end of an output, a commit, offsets of an input. Out: the position or the pair to go on
with; or an error where to go on could lose or double records.

    8 records in the output                  go on at the ninth input
    commit at (4, 7), 8 records written      go on at input 4, drop 1 output
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from coop_consumer.errors import InputGoneError, LogConflictError
from coop_consumer.patterns.stamp import Stamp, own_number
from coop_consumer.plain_text import counted

_KEEP = (
    "Keep the last record longer than the writer rests (retention.ms of the topic). For this start "
    "say where to go on: begin="
)


@dataclass(frozen=True, slots=True)
class OutputEnd:
    """The end of an output partition, as its writer finds it.

    Attributes:
        place: Topic and partition, for errors.
        low: Its first offset: above 0 records were removed.
        offset: Of its last visible record; -1: there is none.
        stamp: Of its last visible record; None: none, or of a stranger.
    """

    place: str
    low: int
    offset: int = -1
    stamp: Stamp | None = None

    @property
    def is_emptied(self) -> bool:
        """Whether it had records that tell where to go on, and has none now."""
        return self.offset < 0 and self.low > 0


@dataclass(frozen=True, slots=True)
class Pair:
    """An input's next offset, and the number of outputs of all inputs before it."""

    offset: int
    outputs: int


@dataclass(frozen=True, slots=True)
class PairMark:
    """A committed pair as text: the outputs, and the ids of the topics that it is about."""

    outputs: int
    ids: str

    def text(self) -> str:
        """For `parse`."""
        return json.dumps({"outputs": self.outputs, "ids": self.ids}, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> PairMark | None:
        """None for what is no pair."""
        try:
            found = json.loads(text)
            outputs, ids = found["outputs"], found["ids"]
        except (ValueError, LookupError, TypeError):
            return None
        if type(outputs) is not int or outputs < 0 or not isinstance(ids, str):
            return None
        return cls(outputs, ids)


@dataclass(frozen=True, slots=True)
class Resumption:
    """Where to go on: from a pair, with so many outputs that are there already."""

    pair: Pair
    drop: int


def next_number(writer: str, end: OutputEnd, begin: int | None = None) -> int:
    """The number of the next record: 0 in a new output, else that of the last record and 1.

    Args:
        writer: Its name.
        end: Of its output.
        begin: Where to go on if the output was emptied; not used otherwise.

    Raises:
        LogConflictError: The last record is a stranger's, or there is none any more.

    >>> next_number("copier", OutputEnd("copies-0", 0, 15, Stamp("copier", 7)))
    8
    """
    if end.offset >= 0:
        return own_number(end.stamp, writer, f"{end.place} offset {end.offset}") + 1
    if not end.is_emptied:
        return 0
    if begin is None:
        raise LogConflictError(
            writer, end.place, "all its records were removed, so its end tells nothing", _KEEP
        )
    return begin


def resumption(
    writer: str,
    committed: tuple[Pair, str] | None,
    end: OutputEnd,
    ids: str,
    begin: int | None = None,
) -> Resumption | None:
    """Where to go on, and how many outputs to drop.

    Args:
        writer: Its name.
        committed: The pair, and the ids of the topics that it is about; None: there is none.
        end: Of its output.
        ids: Of the topics now.
        begin: The input's offset to go on at, where commit and output cannot tell; all outputs that
            are there are of inputs before it. Not used otherwise.

    Returns:
        None: nothing was ever done. The caller commits a first pair before the first output.

    Raises:
        LogConflictError: The end is a stranger's, or commit and output do not fit each other.

    >>> end = OutputEnd("lines-0", 0, 15, Stamp("splitter", 7))
    >>> resumption("splitter", (Pair(4, 7), "a b"), end, "a b")
    Resumption(pair=Pair(offset=4, outputs=7), drop=1)
    """
    if committed is not None and committed[1] != ids:
        raise LogConflictError(
            writer,
            end.place,
            f"the commit is about topics with other ids ({committed[1]}, now {ids}): input or "
            "output was deleted and made again",
            "Give the writer a new name=, to begin anew",
        )
    written = next_number(writer, end, 0)
    outputs = 0 if committed is None else committed[0].outputs
    problem = ""
    if end.is_emptied:
        problem, written = "all its records were removed, so its end tells nothing", outputs
    elif committed is None:
        if not written:
            return None
        has = counted(written, "output")
        problem = f"it has {has}, and there is no commit: the brokers have forgotten it"
    elif written < outputs:
        problem = (
            f"the commit is about {counted(outputs, 'output')}, and only {written:,} are there"
        )
    if not problem:
        assert committed is not None, "without a commit there is a problem"
        return Resumption(committed[0], written - outputs)
    if begin is None:
        remedy = f"{_KEEP}, and keep commits as long (offsets.retention.minutes of the brokers)"
        raise LogConflictError(writer, end.place, problem, remedy)
    return Resumption(Pair(begin, max(written, outputs)), 0)


def within_input(
    writer: str, place: tuple[str, int], offset: int, low: int, end: int, *, is_lenient: bool
) -> int:
    """The offset to go on at: as given, if the input has what follows it.

    Args:
        writer: Its name.
        place: The input's topic and partition.
        offset: The next one to process.
        low: The input's first offset.
        end: The offset of the input's next record.
        is_lenient: Whether to go on at the nearest offset that is there (on.data.loss=warn).

    Raises:
        InputGoneError: The input does not have it, and `is_lenient` is false.
    """
    if low <= offset <= end:
        return offset
    if not is_lenient:
        raise InputGoneError(writer, *place, offset, low, end)
    return min(max(offset, low), end)
