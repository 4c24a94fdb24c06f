"""The judge of outputs: what is visible of them against what one single thread would have made.

Pure. In: the topic's records, the outputs that a reader of committed records finds, those of a
partition in its order, the last state of each key, and who was a zombie since when. Out: which
records have too many outputs or none, which outputs are behind a later one of their key, or are not
byte for byte what they have to be, and the same of states.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from zlib import crc32

from tests.chaos.absence import Absence
from tests.support.journal import Place

ON_ITS_WAY_NS = 1_000_000_000
"""What was produced before its member was put out may be appended a moment later."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An output that is visible.

    Attributes:
        appended_ns: When its topic got it, by the monotonic clock.
        run: The process whose handler sent it.
        generation: The newest that this process knew then.
    """

    key: bytes
    value: bytes
    appended_ns: int
    run: int
    generation: int

    @property
    def place(self) -> Place:
        """Of its record."""
        partition, _, offset = self.value.split()[0].partition(b"/")
        return int(partition), int(offset)

    def __str__(self) -> str:
        return f"{self.key.decode()}: {self.value.decode()!r} of run {self.run}"


@dataclass(frozen=True, slots=True)
class OutputsVerdict:
    """What came of the outputs of a run; what is listed, is listed as lines to read.

    Attributes:
        outputs: How many are visible.
        duplicates: Outputs of a record that has one already.
        missing: The records without any.
        out_of_order: Outputs behind one of a later record of their key.
        wrong: Outputs and states that differ from those of a single thread.
        of_zombies: Outputs that a member sent after it was put out.
        longest_stop_s: The longest time from a record's making to the moment when a reader of
            committed records found its output.
        slowest: Whose that is, and when it was made; None: nothing was seen.
        transactions: How many have ended, by the name of their `Outcome`.
    """

    outputs: int
    duplicates: tuple[str, ...]
    missing: tuple[Place, ...]
    out_of_order: tuple[str, ...]
    wrong: tuple[str, ...]
    of_zombies: tuple[str, ...]
    longest_stop_s: float
    slowest: tuple[Place, int] | None
    transactions: Mapping[str, int]

    @property
    def in_doubt(self) -> int:
        """How many transactions nobody knew the fate of, until the log told it."""
        return self.transactions.get("IN_DOUBT", 0)

    @property
    def is_clean(self) -> bool:
        """Whether all is as one single thread would have left it."""
        found = (self.duplicates, self.missing, self.out_of_order, self.wrong, self.of_zombies)
        return not any(found)


def fold(places: Iterable[Place]) -> list[bytes]:
    """What the records of a key come to, one after the other.

    >>> fold([(0, 7), (0, 9)])
    [b'1 718ba1e0', b'2 f2a78b36']
    """
    found, checksum = [], 0
    for number, (partition, offset) in enumerate(places, 1):
        checksum = crc32(b"%d/%d" % (partition, offset), checksum)
        found.append(b"%d %x" % (number, checksum))
    return found


def judge_outputs(
    keys: Mapping[Place, bytes],
    made_ns: Mapping[Place, int],
    outputs: Collection[Seen],
    *,
    seen_ns: Mapping[Place, int],
    states: Mapping[bytes, bytes] | None,
    zombies: Collection[Absence],
    transactions: Mapping[str, int],
) -> OutputsVerdict:
    """Judge the outputs of a run.

    Args:
        keys: The key of every record.
        made_ns: When each was made.
        outputs: Those that are visible at the end; those of a key in their order.
        seen_ns: When a reader first found an output of each record.
        states: The state of each key; None: its workers keep none.
        zombies: Who was put out of the group.
        transactions: How many have ended, by the name of their `Outcome`.
    """
    by_key: dict[bytes, list[Place]] = defaultdict(list)
    for place in sorted(keys):
        by_key[keys[place]].append(place)
    right: dict[Place, bytes] = {}
    for places in by_key.values():
        for place, total in zip(places, fold(places), strict=True):
            right[place] = b"%d/%d" % place + (b"" if states is None else b" " + total)
    wrong = [
        f"{it}, and not {right.get(it.place, b'nothing').decode()!r}"
        for it in outputs
        if it.value != right.get(it.place) or it.key != keys.get(it.place)
    ]
    for key, places in by_key.items() if states is not None else ():
        total, state = fold(places)[-1], (states or {}).get(key, b"")
        if state != total:
            wrong.append(f"state of {key.decode()}: {state!r}, and not {total!r}")
    seen: Counter[Place] = Counter()
    duplicates = []
    orders: dict[bytes, list[Seen]] = defaultdict(list)
    for it in outputs:
        seen[it.place] += 1
        if seen[it.place] > 1:
            duplicates.append(str(it))
        else:
            orders[it.key].append(it)
    waits_ns = {place: at - made_ns[place] for place, at in seen_ns.items() if place in made_ns}
    slowest = max(waits_ns, key=lambda place: waits_ns[place], default=None)
    return OutputsVerdict(
        outputs=len(outputs),
        duplicates=tuple(duplicates),
        missing=tuple(sorted(keys.keys() - seen.keys())),
        out_of_order=tuple(
            f"{later} behind {earlier}"
            for own in orders.values()
            for earlier, later in pairwise(own)
            if later.place < earlier.place
        ),
        wrong=tuple(wrong),
        of_zombies=tuple(
            f"{it}, at {it.appended_ns / 1e9:.3f} s"
            for it in outputs
            if any(is_of_zombie(it, absence) for absence in zombies)
        ),
        longest_stop_s=waits_ns[slowest] / 1e9 if slowest else 0.0,
        slowest=(slowest, made_ns[slowest]) if slowest else None,
        transactions=dict(transactions),
    )


def is_of_zombie(it: Seen, absence: Absence) -> bool:
    """Whether a member sent this after it was put out, and before it knew of a later generation."""
    return (
        it.run == absence.run
        and it.generation <= absence.generation
        and it.appended_ns > absence.since_ns + ON_ITS_WAY_NS
    )
