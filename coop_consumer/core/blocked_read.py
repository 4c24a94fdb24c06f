"""A read of the progress log that an undecided transaction holds up, and who is to be fenced. Pure.

In: where the last stable offset and the end of a partition lie, the keys between them, who is in
the group. Out: the members whose transactions nobody will decide, because they are not in the group
any more. A member of the group is never among them: it decides its transaction itself.

To fence a member that lives after all is harmless: its transaction is aborted, and goes again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from offsets import CorruptRecordError, TenureKey, UnknownRecordVersionError, decode_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

WAIT_MS = 100
"""So long an end is waited for: a member that lives takes some 15 ms for a transaction."""


class RunId(NamedTuple):
    """A run of a member: what its transactional.id is made of."""

    member: str
    incarnation: int


class Blockage(NamedTuple):
    """A read of one partition of the log that an undecided transaction holds up.

    Attributes:
        log_partition: Which.
        offset: The last stable offset, where the transaction begins.
        waited_ms: For how long it has stood there.
        runs: Whose transactions are undecided, as far as keys of records tell.
    """

    log_partition: int
    offset: int
    waited_ms: int
    runs: Collection[RunId]


class BlockedRead:
    """Watches how far one partition can be read."""

    def __init__(self) -> None:
        self._at = -1
        self._since_ms = self._due_ms = 0

    def looked(self, stable_offset: int, now_ms: int) -> int:
        """The read cannot get past this last stable offset.

        Returns:
            For how many milliseconds it was so, if it is time to look whose transactions hold it
            up, which is every 100 ms; else 0.
        """
        if stable_offset != self._at:
            self._at, self._since_ms = stable_offset, now_ms
            self._due_ms = now_ms + WAIT_MS
        if now_ms < self._due_ms:
            return 0
        self._due_ms = now_ms + WAIT_MS
        return now_ms - self._since_ms


def writers(keys: Iterable[bytes]) -> set[RunId]:
    """Whose transactions these undecided records of the log are of, as far as their keys tell."""
    found = set()
    for data in keys:
        try:
            key = decode_key(data)
        except (CorruptRecordError, UnknownRecordVersionError):
            continue
        if isinstance(key, TenureKey):
            found.add(RunId(key.tenure.member, key.tenure.incarnation))
    return found


def to_fence(undecided: Collection[RunId], members: Collection[RunId] | None) -> list[RunId]:
    """The runs whose transactions nobody will decide.

    Args:
        undecided: See `writers`.
        members: Who is in the group, asked after the read; None: the group is not stable, so nobody
            can tell.
    """
    return [] if members is None else sorted(set(undecided) - set(members))
