"""Single hashes as key ranges: what of a range a running handler holds back. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignors import KeyRange, subtract, union

if TYPE_CHECKING:
    from collections.abc import Iterable


def singles(hashes: Iterable[int]) -> tuple[KeyRange, ...]:
    """These hashes as ranges, sorted and melted."""
    return union(KeyRange(hash_, hash_) for hash_ in hashes)


def without(ranges: tuple[KeyRange, ...], hashes: Iterable[int]) -> tuple[KeyRange, ...]:
    """Ranges less single hashes."""
    return subtract(ranges, singles(hashes))
