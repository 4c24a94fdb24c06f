"""The words of a status, as a terminal and a page show them. Pure.

In: counts, times, records. Out: short text for people. Nothing here escapes anything: errors, keys
and names are of strangers, and only the view knows what its reader would obey.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING

from coop_consumer.plain_text import counted, printable, shortened
from coop_consumer.status.standing import RecordState

if TYPE_CHECKING:
    from coop_consumer.status.model import PartitionStatus, RangeOwner, RecordStatus
    from offsets import RangeProgress

LETTERS = ascii_uppercase + ascii_lowercase
"""What members are called in a picture."""


def percent(share: float) -> str:
    """A part of something.

    >>> percent(0.5), percent(0.002)
    ('50%', 'under 1%')
    """
    return f"{share:.0%}" if share >= 0.01 else "under 1%"


def short(number: int) -> str:
    """A number in at most five characters.

    >>> [short(n) for n in (999, 12_345, 9_876_543, 4_000_000_000)]
    ['999', '12.3k', '9.9M', '4.0G']
    """
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= limit:
            return f"{number / (1e3 if unit == 'k' else limit):.1f}{unit}"
    return str(number)


def span(ms: int) -> str:
    """A length of time in its two largest units.

    >>> [span(ms) for ms in (400, 61_000, 3_700_000, 90_000_000)]
    ['0 s', '1 min 1 s', '1 h 1 min', '1 d 1 h']
    """
    seconds = max(ms, 0) // 1_000
    units = [("d", seconds // 86_400), ("h", seconds // 3_600 % 24), ("min", seconds // 60 % 60)]
    parts = [*units, ("s", seconds % 60)]
    first = next((i for i, (_, amount) in enumerate(parts) if amount), len(parts) - 1)
    shown = parts[first : first + 2]
    return " ".join(f"{n} {unit}" for i, (unit, n) in enumerate(shown) if n or not i)


def ago(ms: int) -> str:
    """How long ago something was."""
    return f"{span(ms)} ago"


_CLOCK_MS = 3_000
"""Clocks differ by a little, and a look takes a moment: so much ahead says nothing."""
AHEAD = "since when is not known: the clock of a member is ahead of this one"


def is_ahead(since_ms: int, now_ms: int) -> bool:
    """Whether a moment in the past lies in the future: the clock that it is of is ahead.

    A clock that is behind cannot be told from a long time.
    """
    return since_ms > now_ms + _CLOCK_MS


def for_span(since_ms: int, now_ms: int) -> str:
    """For how long, to be put behind a verb; "" if that is not known.

    Args:
        since_ms: Unix time by the clock of a member; 0: not known.
        now_ms: Unix time by this one.

    >>> for_span(1_000, 62_000), for_span(0, 62_000)
    (' for 1 min 1 s', '')
    >>> for_span(3_662_000, 62_000)
    ' (since when is not known: the clock of a member is ahead of this one)'
    """
    if not since_ms:
        return ""
    return f" ({AHEAD})" if is_ahead(since_ms, now_ms) else f" for {span(now_ms - since_ms)}"


def handler_time(us: float) -> str:
    """A handler's time; "": not known.

    >>> [handler_time(us) for us in (0, 30, 4_980, 61_000, 2_500_000)]
    ['', '30 µs', '5.0 ms', '61 ms', '2.5 s']
    """
    for limit, unit in ((1_000_000, "s"), (1_000, "ms")):
        if us >= limit:
            return f"{us / limit:.{1 if us < 10 * limit else 0}f} {unit}"
    return f"{us:.0f} µs" if us else ""


def key_text(record: RecordStatus) -> str:
    """A record's key as a person reads it: short, printable, and never like the lack of one."""
    if not record.is_read:
        return "key not read"
    if record.key is None:
        return "no key"
    text = printable(record.key.decode("utf-8", "backslashreplace"))
    return f"key {shortened(text, 40)}" if text else 'key ""'


def facts_of(record: RecordStatus, now_ms: int, name_of: Callable[[str], str]) -> Iterator[str]:
    """What is known of a record that is not done, in words; its error is not among them.

    Args:
        record: The record.
        now_ms: When it was seen, Unix time.
        name_of: How the view calls a member.
    """
    if record.timestamp_ms >= 0:
        yield f"produced {ago(now_ms - record.timestamp_ms)}"
    if record.is_overdue and record.behind:
        yield standing(record, now_ms, name_of)
        yield f"on.overdue decides there, the log of {name_of(record.behind)} has its stack"
        return
    if record.is_overdue:
        yield f"its handler runs{_since(record, now_ms)}, longer than max.processing.ms allows"
        yield "on.overdue decides, its member's log has its stack"
        return
    if record.standing is not RecordState.UNTOLD:
        yield standing(record, now_ms, name_of)
    if record.attempts:
        yield f"failing{for_span(record.since_ms, now_ms)}"


def standing(record: RecordStatus, now_ms: int, name_of: Callable[[str], str]) -> str:
    """What a record does, and since when; "" if its member says nothing of it."""
    holder = name_of(record.behind) if record.behind else "another member"
    since, tries = _since(record, now_ms), counted(record.attempts, "attempt")
    if record.is_overdue and record.behind:
        return f"waits{since} for its handler, which is overdue at {holder}"
    return {
        RecordState.PARKED: f"parked after {tries}",
        RecordState.BACKING_OFF: f"backs off after {tries}",
        RecordState.RETRYING: f"failed {counted(record.attempts, 'time')}, is tried again",
        RecordState.RUNNING: f"its handler runs{since}",
        RecordState.QUEUED: f"waits{since} for a worker",
        RecordState.WAITING: f"waits{since} for its range, which {holder} still holds",
        RecordState.PAUSED: f"its partition is paused{since}",
        RecordState.HELD_BACK: f"held back{since}, as most of what its member runs fails alike",
        RecordState.UNOWNED: "nobody owns its key",
        RecordState.UNTOLD: "",
    }[record.standing]


def _since(record: RecordStatus, now_ms: int) -> str:
    return for_span(record.standing_since_ms, now_ms)


def share_done(piece: RangeProgress, partition: PartitionStatus) -> float:
    """How much of a slice is done, of all it had to do since the epoch began; 1 only for all."""
    readable = partition.end - partition.hidden
    if piece.stable >= readable:
        return 1.0
    gaps = sum(gap.last - gap.first + 1 for gap in piece.gaps)
    done = piece.stable - partition.floor + gaps
    return max(done, 0) / (readable - partition.floor + 1)


def owner_at(owners: Iterable[RangeOwner], key_hash: int) -> str | None:
    """The owner of a hash; None: it has none."""
    return next((owner.member for owner in owners if key_hash in owner.range), None)
