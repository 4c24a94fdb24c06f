"""Chunks: what executors have taken and not begun, and how the member takes it back. Pure.

In: chunks that executors fill under the lanes' lock and empty without it. Out: entries that no
executor has begun. An entry is had by one of the two: whoever removes it from the chunk.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Protocol

from coop_consumer.core.lane import RUNNING, Lane
from coop_consumer.core.ready import snapshot

if TYPE_CHECKING:
    from coop_consumer.core.lane import Entry


class Chunk(Protocol):
    """What an executor has taken to run, and has not begun."""

    def append(self, entry: Entry, /) -> None:
        """One more."""

    def remove(self, entry: Entry, /) -> None:
        """Give one back; ValueError: it is too late."""

    def __iter__(self) -> Iterator[Entry]:
        """All of it."""
        ...


class Chunks:
    """The chunks of all executors. Every method is called with the lanes' lock held."""

    __slots__ = ("_chunks",)

    def __init__(self) -> None:
        self._chunks: dict[int, Chunk] = {}

    def add(self, chunk: Chunk) -> None:
        """An executor fills it; once it has been added, entries may be taken back from it."""
        self._chunks[id(chunk)] = chunk

    def empty(self, chunk: Chunk) -> list[Entry]:
        """Take all out of a chunk that its executor has left, and forget the chunk."""
        entries = snapshot(chunk)
        for entry in entries:
            chunk.remove(entry)
        self._chunks.pop(id(chunk), None)
        return entries

    def __iter__(self) -> Iterator[Entry]:
        """All that is taken and not begun, as it was at one moment."""
        for chunk in self._chunks.values():
            yield from snapshot(chunk)

    def take_back(self, heads: Container[int] | None) -> Iterator[Entry]:
        """Take out entries by their identity (None: all) that no executor begins before."""
        for chunk in self._chunks.values():
            for entry in snapshot(chunk):
                if heads is None or id(entry) in heads:
                    try:
                        chunk.remove(entry)
                    except (ValueError, IndexError):  # the executor got there first
                        continue
                    yield entry

    def check(self) -> None:
        """Assert that what is taken and not begun is in the state that says so (I4)."""
        for entry in self:
            if isinstance(entry, Lane):
                assert entry.state is RUNNING, f"I4: a lane is taken, not RUNNING: {entry.story()}"
                assert not entry.begun, f"I4: a lane is begun and can be taken: {entry.story()}"
