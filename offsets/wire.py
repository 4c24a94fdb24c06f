"""Numbers, texts and gap ranges as bytes: what all codecs of this package share. Pure.

In: values, or bytes of any origin. Out: the other of the two. Bytes from a log are hostile input:
whatever they hold, reading raises nothing but `CorruptRecordError`, or its subclass
`UnknownRecordVersionError` if only the version is at fault.

Whole numbers are LEB128 varints, signed ones zigzag. Gap ranges are one block of distances, each
from the bound before it. A distance has 1, 2, 4 or 8 bytes, whichever makes the block smallest; the
few that do not fit follow the block. Typically a gap range takes 2 bytes, a sparse one 4, and none
more than 16. The block is made by bulk operations, as a loop in Python over 60,000 varints would
take too long for a commit.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import sub
from typing import Final, TypeVar

from offsets.offset_range import OFFSET_MAX, offset_ranges
from offsets.progress import Gaps

T = TypeVar("T")

GAPS_MAX: Final = 1_048_576
"""The most gap ranges of one record, repeated ones included: bounds what a reader may unfold."""

_TYPECODES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}


@dataclass(eq=False)
class CorruptRecordError(ValueError):
    """Bytes of a log that are no record.

    Attributes:
        what: What is wrong.
        position: The byte at which it was noticed, from 0.
    """

    what: str
    position: int

    def __str__(self) -> str:
        return f"corrupt record, byte {self.position}: {self.what}"


class UnknownRecordVersionError(CorruptRecordError):
    """A record of a version that this code does not know; a newer member wrote it."""


# ── Writing ──


def put_numbers(out: bytearray, *numbers: int) -> None:
    """Append whole numbers as varints.

    Raises:
        ValueError: If one is negative, or has more than 64 bits.
    """
    for number in numbers:
        if not 0 <= number < 2**64:
            raise ValueError(f"{number} is not a whole number of 64 bits")
        while number > 127:
            out.append(number & 127 | 128)
            number >>= 7  # noqa: PLW2901 -- a varint is written by shifting
        out.append(number)


def put_signed(out: bytearray, number: int) -> None:
    """Append a whole number of either sign."""
    put_numbers(out, number * 2 if number >= 0 else -number * 2 - 1)


def put_text(out: bytearray, text: str) -> None:
    """Append the length in bytes, and the text as UTF-8."""
    # An error's text may hold what no encoding knows: bytes of a file name, as lone surrogates.
    data = text.encode("utf-8", "surrogatepass")
    put_numbers(out, len(data))
    out += data


def put_gaps(out: bytearray, stable: int, gaps: Gaps) -> None:
    """Their number, and their distances: each bound from the one before it, first `stable - 1`."""
    put_numbers(out, len(gaps))
    if gaps:
        bounds = list(chain.from_iterable(gaps))
        _put_distances(out, list(map(sub, bounds, chain((stable - 1,), bounds))))


def _put_distances(out: bytearray, distances: list[int]) -> None:
    """A block of distances: width, those that fit, then the others at 8 bytes each."""
    width, others_count = 1, 0
    if max(distances) >= _escape(1):
        sizes = []
        for candidate in _TYPECODES:
            count = sum(map(_escape(candidate).__le__, distances))
            sizes.append((candidate * len(distances) + 8 * count, candidate, count))
            if 8 * count <= candidate * len(distances):
                break  # the wider ones take as much for those that fit alone
        _, width, others_count = min(sizes)
    escape = _escape(width)
    out.append(width)
    put_numbers(out, others_count)
    if others_count:
        others = [distance for distance in distances if distance >= escape]
        distances = [d if d < escape else escape for d in distances]  # noqa: FURB136 -- min() is slow
        out += swapped(array("Q", others)).tobytes()
    out += swapped(array(_TYPECODES[width], distances)).tobytes()


def _escape(width: int) -> int:
    """Stands for a distance that doesn't fit: the highest number of this width."""
    return (1 << 8 * width) - 1


def swapped(numbers: array[int]) -> array[int]:
    """Little-endian numbers, on any machine."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


# ── Reading ──


class WireReader:
    """Takes values off bytes, from the left; each failure is a `CorruptRecordError`."""

    __slots__ = ("at", "data", "gaps")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.gaps = 0  # gap ranges unfolded so far

    def fail(self, what: str) -> CorruptRecordError:
        """The error to raise: what is wrong at this byte."""
        return CorruptRecordError(what, self.at)

    def version(self, known: int) -> None:
        """Take the version byte; this code knows one."""
        found = self.byte()
        if found != known:
            raise UnknownRecordVersionError(f"version {found} is unknown, {known} is known", 0)

    def end(self) -> None:
        """Nothing may be left."""
        if self.at != len(self.data):
            raise self.fail(f"{len(self.data) - self.at} bytes too many")

    def take(self, count: int) -> bytes:
        """So many bytes."""
        data = self.data[self.at : self.at + count]
        if len(data) != count:
            raise self.fail(f"{count} bytes expected, {len(data)} left")
        self.at += count
        return data

    def byte(self) -> int:
        """One byte."""
        if self.at >= len(self.data):
            raise self.fail("1 byte expected, 0 left")
        self.at += 1
        return self.data[self.at - 1]

    def number(self) -> int:
        """A varint."""
        number = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            number |= (byte & 127) << shift
            if byte < 128:
                if number >= 2**64:
                    break
                return number
        raise self.fail("a number of more than 64 bits")

    def signed(self) -> int:
        """A whole number of either sign."""
        number = self.number()
        return -(number + 1 >> 1) if number & 1 else number >> 1

    def offset(self) -> int:
        """An offset that Kafka can count."""
        offset = self.number()
        if offset > OFFSET_MAX:
            raise self.fail(f"{offset} is above the highest offset")
        return offset

    def text(self) -> str:
        """A length, and UTF-8."""
        data = self.take(self.number())
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise self.fail(f"text that is not UTF-8 ({error.reason})") from error

    def one_of(self, choices: Sequence[T]) -> T:
        """The choice that a byte names."""
        index = self.byte()
        if index >= len(choices):
            raise self.fail(f"{index} is none of {len(choices)} choices")
        return choices[index]

    def list_of(self, item: Callable[[], T]) -> list[T]:
        """A count, then the items; each takes a byte or more, which bounds a false count."""
        count = self.number()
        if count > len(self.data) - self.at:
            raise self.fail(f"{count} items expected, {len(self.data) - self.at} bytes left")
        return [item() for _ in range(count)]

    def own_gaps(self, stable: int) -> Gaps:
        """What `put_gaps` has written for this stable offset."""
        count = self.number()
        if not count:
            return ()
        self.count_gaps(count)
        distances = self.distances(2 * count)
        bounds = list(accumulate(distances, initial=stable - 1))[1:]
        if min(distances[::2]) < 2 or bounds[-1] > OFFSET_MAX:
            raise self.fail("gap ranges that touch, or lie above the highest offset")
        return offset_ranges(bounds[::2], bounds[1::2])

    def count_gaps(self, count: int) -> None:
        """Note that so many more gap ranges are unfolded."""
        self.gaps += count
        if self.gaps > GAPS_MAX:
            raise self.fail(f"more than {GAPS_MAX} gap ranges")

    def distances(self, count: int) -> Sequence[int]:
        """A block of so many distances."""
        width = self.byte()
        if width not in _TYPECODES:
            raise self.fail(f"{width} is no width of a number")
        others = self.numbers(8, self.number())
        fitting = self.numbers(width, count)
        escape = _escape(width)
        if not others:
            return fitting
        if fitting.count(escape) != len(others):
            raise self.fail(f"{len(others)} large distances, but not as many places for them")
        rest = iter(others)
        return [next(rest) if number == escape else number for number in fitting]

    def numbers(self, width: int, count: int) -> array[int]:
        """So many numbers of one width."""
        return swapped(array(_TYPECODES[width], self.take(width * count)))
