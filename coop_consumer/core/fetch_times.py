"""When the records of a tenure were fetched: noted once a batch, looked up once a chunk. Pure.

In: the end of each batch, and time. Out: when the batch came that had an offset. Nothing is noted
for a single record. A tenure whose stable offset stands still keeps a bounded number of notes: of
old ones every other goes, so an old record may seem to have come a little later than it did.
"""

from __future__ import annotations

from bisect import bisect_right

_NOTES_MAX = 256


class FetchTimes:
    """Of one tenure; on the member's thread."""

    __slots__ = ("_at_ms", "_ends")

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._at_ms: list[int] = []

    def note(self, end: int, now_ms: int) -> None:
        """A batch has come; the next offset is `end`. If that is a step back, later ones go."""
        ends, at_ms = self._ends, self._at_ms
        while ends and ends[-1] >= end:
            ends.pop()
            at_ms.pop()
        if at_ms and at_ms[-1] == now_ms:
            ends[-1] = end
            return
        ends.append(end)
        at_ms.append(now_ms)
        if len(ends) > _NOTES_MAX:
            # The later note of each pair stays, as its batch has the offsets of both.
            half = _NOTES_MAX // 2
            ends[:half], at_ms[:half] = ends[1:half:2], at_ms[1:half:2]

    def of(self, offset: int) -> int | None:
        """When the record at this offset was fetched, Unix time in ms; None: it is not known."""
        number = bisect_right(self._ends, offset)
        return self._at_ms[number] if number < len(self._ends) else None
