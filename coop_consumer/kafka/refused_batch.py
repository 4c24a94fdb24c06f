"""Finds the record for which a broker has refused a batch.

librdkafka tells such a refusal of all records of the batch. In: those. Out: behind which of them a
writer waits for all acknowledgements when it sends them again, so that fewer are in a batch with
the guilty one. Three more attempts do for a batch of 10,000 records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

_PIECES = 30


class RefusedBatch(Generic[T]):
    """Records of which one is refused, told apart by identity."""

    def __init__(self) -> None:
        self._items: dict[int, T] = {}  # holds them, so that no other one gets such an identity
        self._ends: set[int] = set()

    def refused(self, items: Sequence[T]) -> T | None:
        """A broker has refused these, in the order in which they were sent, one at least.

        Returns:
            The one whose fault it is, or None: send them again.
        """
        known = [it for it in items if id(it) in self._items] or list(items)
        if len(known) == 1:
            return known[0]
        self._items = {id(it): it for it in known}
        size = -(-len(known) // _PIECES)
        self._ends = {id(it) for it in (*known[size - 1 :: size], known[-1])}
        return None

    def ends_piece(self, item: T) -> bool:
        """Whether all acknowledgements are waited for behind this one."""
        return id(item) in self._ends

    def clear(self) -> None:
        """All are written."""
        self._items, self._ends = {}, set()
