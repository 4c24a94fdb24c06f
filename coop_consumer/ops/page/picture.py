"""The picture of a group: a bar for each partition, the hash space across it. Pure.

In: a `GroupStatus`, and how the page calls its members. Out: rows of rectangles and marks, in
percent of a bar's width, so that a bar is as wide as its reader's screen. Each range has a level:
how much of it is done. Below it lies its owner, by letter, colour and hatching. Marks say where
records stand. Words say all of it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignors import KEY_HASH_MAX, WHOLE, KeyRange
from coop_consumer.ops.page.shown import name_shown
from coop_consumer.plain_text import counted
from coop_consumer.status.words import owner_at, percent, share_done, short

if TYPE_CHECKING:
    from coop_consumer.ops.page.letters import Letters
    from coop_consumer.status.model import GroupStatus, PartitionStatus
    from offsets import RangeProgress

ROWS_SHOWN = 64
"""So many partitions are drawn: those that have trouble or most left, in their order."""
LEVEL_HEIGHT = 16
_NARROWEST = 0.35
"""Percent: a range of a single hash can be seen, too."""
_LETTER_MIN = 3.2
"""Percent: a narrower range has no room for its letter."""


@dataclass(frozen=True, slots=True)
class RangeLevel:
    """How far a range is.

    Attributes:
        x, width: Where it lies, in percent.
        done: The height of its level, from the bottom, in pixels.
        look: The class of its colour; "": nobody owns it.
        title: All of it in words.
    """

    x: float
    width: float
    done: float
    look: str
    title: str

    @property
    def top(self) -> float:
        """Where the level begins, from the top."""
        return LEVEL_HEIGHT - self.done


@dataclass(frozen=True, slots=True)
class OwnedPiece:
    """Ranges of one owner that lie side by side.

    Attributes:
        x, width: Where they lie, in percent.
        member: The owner as it is shown; "": nobody owns it.
        letter: How the page calls it; "": there is no room.
        look: The class of its colour; "": nobody owns it.
        hatch: Which hatching it has.
        waits: Whether another member still holds some of it.
        title: All of it in words.
    """

    x: float
    width: float
    member: str
    letter: str
    look: str
    hatch: int
    waits: bool
    title: str


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a record stands.

    Attributes:
        x: Where its key lies, in percent.
        kind: `parked`, `failing` or `holder`.
        title: All of it in words.
    """

    x: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class PictureRow:
    """A partition.

    Attributes:
        place: Its name.
        outcome: What is left of it.
        kind: The worst of its marks; `done`: nothing is left; "": it is at work.
        levels, owned, marks: What is drawn.
        words: All of it in words, for whoever sees no picture.
    """

    place: str
    outcome: str
    kind: str
    levels: tuple[RangeLevel, ...]
    owned: tuple[OwnedPiece, ...]
    marks: tuple[Mark, ...]
    words: str


@dataclass(frozen=True, slots=True)
class GroupPicture:
    """The picture of a group.

    Attributes:
        rows: The partitions that are drawn.
        left_out: How many are not.
        kinds: The kinds of marks that it has, for its legend.
        has_waits: Whether ranges wait for another member.
        has_unowned: Whether nobody owns some.
    """

    rows: tuple[PictureRow, ...]
    left_out: int
    kinds: tuple[str, ...]
    has_waits: bool
    has_unowned: bool


def picture_of(status: GroupStatus, letters: Letters) -> GroupPicture:
    """The picture. O(partitions x log partitions + rows x (ranges + failed records))."""
    shown = worst_partitions(status, ROWS_SHOWN)
    rows = tuple(_row(it, letters) for it in shown)
    return GroupPicture(
        rows,
        len(status.partitions) - len(rows),
        tuple(k for k in _KINDS if any(k == m.kind for row in rows for m in row.marks)),
        any(it.waits for row in rows for it in row.owned),
        any(not it.member for row in rows for it in row.owned),
    )


def worst_partitions(status: GroupStatus, most: int) -> Sequence[PartitionStatus]:
    """So many partitions, those with trouble or most left before others; in their order."""
    if len(status.partitions) <= most:
        return status.partitions
    worst = sorted(status.partitions, key=_badness, reverse=True)[:most]
    return sorted(worst, key=lambda it: it.tp)


def _badness(it: PartitionStatus) -> tuple[bool, bool, bool, int]:
    return (
        any(record.is_parked for record in it.failed),
        bool(it.walled),
        bool(it.failed or it.handovers),
        it.remaining.records,
    )


_KINDS = ("parked", "failing", "holder")
_MARK_WORDS = {
    "parked": "parked",
    "failing": "failing or overdue",
    "holder": "holds the stable offset",
}


def _row(partition: PartitionStatus, letters: Letters) -> PictureRow:
    marks = tuple(_marks(partition))
    owned = tuple(_owned(partition, letters))
    left = partition.remaining
    outcome = f"{'' if left.is_exact else 'about '}{short(left.records)} left"
    kind = marks[-1].kind if marks else ""
    if not left.records:
        outcome, kind = "caught up", kind or "done"
    return PictureRow(
        str(partition.tp),
        outcome,
        kind,
        tuple(_levels(partition, letters)),
        owned,
        marks,
        _words(partition, outcome, owned, marks),
    )


def _levels(partition: PartitionStatus, letters: Letters) -> Iterator[RangeLevel]:
    for piece in partition.progress:
        owner = owner_at(partition.owners, piece.range.lo)
        done = share_done(piece, partition)
        height = float(LEVEL_HEIGHT) if done >= 1 else round(min(done, 0.8) * LEVEL_HEIGHT, 1)
        x, width = _place(piece.range)
        yield RangeLevel(
            x, width, height, letters.look(owner), _level_title(piece, done, owner, letters)
        )


def _level_title(piece: RangeProgress, done: float, owner: str | None, letters: Letters) -> str:
    whose = f"{letters.letter(owner)}: " if owner is not None else "nobody: "
    state = "all done" if done >= 1 else f"done up to {piece.stable:,}"
    gaps = f", and {counted(len(piece.gaps), 'stretch', 'stretches')} above" if piece.gaps else ""
    return f"{whose}{_part(piece.range)}, {state}{gaps}"


def _owned(partition: PartitionStatus, letters: Letters) -> Iterator[OwnedPiece]:
    """The whole hash space, by owners: neighbours of one owner are one piece."""
    waits = [r for it in partition.handovers for r in it.ranges]
    pieces: list[tuple[KeyRange, str | None]] = [(it.range, it.member) for it in partition.owners]
    pieces += [(it, None) for it in partition.unowned]
    pieces.sort(key=lambda it: (it[0], it[1] or ""))
    joined: list[tuple[int, int, str | None]] = []
    for key_range, member in pieces:
        if joined and joined[-1][2] == member and joined[-1][1] + 1 == key_range.lo:
            joined[-1] = (joined[-1][0], key_range.hi, member)
        else:
            joined.append((key_range.lo, key_range.hi, member))
    for lo, hi, member in joined:
        key_range = KeyRange(lo, hi)
        x, width = _place(key_range)
        is_waiting = any(it.lo <= hi and lo <= it.hi for it in waits)
        letter = letters.letter(member) if member is not None else ""
        said = f"{letter} ({name_shown(member)})" if member is not None else "nobody"
        title = f"{said}: {_part(key_range)}"
        if is_waiting:
            title += ", waits for another member"
        yield OwnedPiece(
            x,
            width,
            "" if member is None else name_shown(member),
            letter if width >= _LETTER_MIN else "",
            letters.look(member),
            letters.hatch(member),
            is_waiting,
            title,
        )


def _marks(partition: PartitionStatus) -> Iterator[Mark]:
    """The marks, the worst last: it lies on top. Marks at one place are one."""
    found: dict[float, tuple[int, Mark]] = {}

    def note(key_hash: int, kind: str, offset: int) -> None:
        x = round(100 * key_hash / KEY_HASH_MAX, 1)
        rank = _KINDS.index(kind)
        if x not in found or rank < found[x][0]:
            found[x] = rank, Mark(x, kind, f"offset {offset:,} {_MARK_WORDS[kind]}")

    if partition.holder is not None and partition.gaps:
        note(partition.holder.key_hash, "holder", partition.holder.offset)
    for record in partition.failed:
        note(record.key_hash, "parked" if record.is_parked else "failing", record.offset)
    for _, mark in sorted(found.values(), key=lambda it: -it[0]):
        yield mark


def _words(
    partition: PartitionStatus,
    outcome: str,
    owned: Sequence[OwnedPiece],
    marks: Sequence[Mark],
) -> str:
    sizes: dict[str, float] = {}
    for it in owned:
        letter = it.title.partition(" ")[0] if it.member else "nobody"
        sizes[letter] = sizes.get(letter, 0.0) + it.width
    shares = ", ".join(f"{who} {percent(size / 100)}" for who, size in sizes.items())
    counts = {kind: sum(m.kind == kind for m in marks) for kind in _KINDS[:2]}
    told = [f"{number} {_MARK_WORDS[kind]}" for kind, number in counts.items() if number]
    return "; ".join([f"{partition.tp}: {outcome}", shares or "nobody owns it", *told])


def _place(key_range: KeyRange) -> tuple[float, float]:
    x = round(100 * key_range.lo / (KEY_HASH_MAX + 1), 2)
    width = round(max(100 * key_range.size / WHOLE.size, _NARROWEST), 2)
    return min(x, 100 - _NARROWEST), width


def _part(key_range: KeyRange) -> str:
    if key_range.size == 1:
        return "a single key"
    return f"{percent(key_range.size / WHOLE.size)} of the keys"
