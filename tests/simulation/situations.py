"""Situations that must happen often enough, so that a run of many seeds proves anything.

In: what members append, plan and hold. Out: whether it is one of the situations that the promises
are about. A situation is counted where it really happens, not where a fault tried to cause it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from assignors import AssignmentData, KeyRange, TopicPartition, Wait, covers, intersect
from offsets import (
    BaseKey,
    LogRecord,
    ProgressStore,
    TenureKey,
    TenureRecord,
)
from tests.simulation.decoded import decode_key, decode_value

if TYPE_CHECKING:
    from tests.simulation.shell import MemberShell

Entries = Iterable[tuple[bytes, bytes | None]]
Ranges = Mapping[TopicPartition, tuple[KeyRange, ...]]

REQUIRED = {
    "chain of moves": "a range goes to a third member before the second one ever began it, while "
    "the first one still holds it",
    "zombie commit": "facts of a member that the group has evicted reach the log",
    "compaction in a handover": "records of a log partition are compacted away while a member "
    "waits for a release there",
    "lost release": "the reply to a release is lost, or the release itself",
    "static restart while draining": "a static member crashes while handlers of ranges that it "
    "gave up are at work, and is started again",
    "epoch reset": "a partition's progress begins anew, in the next epoch",
    "catch-up stream": "a range far behind its neighbours is fetched by itself",
    "hot key": "a key has most of what waits, and is fetched by itself",
    "rewind": "a partition's next epoch begins below what was done",
    "record in parts": "a progress record is larger than a record of the log may be",
    "probe": "a member whose circuit is open begins nothing but a probe",
    "killer": "the handler of a record ends its process, whoever begins it",
    "kept thread": "a handler keeps the member's own thread; another one goes on with the member",
    "caught up": "a member says that all it was assigned is processed",
    "stop at lost data": "a member ends by `on.data.loss=stop`",
    "policy": "a policy changes what a group may share while its members live",
    "capacity": "a member can process more or less than when it joined",
    "seek ahead": "a user skips records that nobody has processed",
    "undecided": "a record stays parked while ranges move and the group comes to rest",
    "abandoned handler": "a handler runs for too long, its record is tried again, and it goes on",
    "standalone move": "a user takes ranges from one process and assigns them to another",
    "plain commit": "a plain member, beside ours or before them, commits an offset",
    "new run": "a member has lost its progress topic, and begins again with another",
    "rest": "the group has nothing left to do, and is watched",
    "events together": "a member takes in several events before it decides what to do",
    "load": "a member reports its load in the progress log",
    "load of a claim": "a member that joins tells the load of what it holds",
    "brokers away": "no broker answers anything, and a member has noticed it",
    "leaves unheard": "a member ends while brokers are away, as the log has all that it did",
}
"""What each means."""

WITH_TRANSACTIONS = {
    "chain of moves": REQUIRED["chain of moves"],
    "compaction in a handover": REQUIRED["compaction in a handover"],
    "catch-up stream": REQUIRED["catch-up stream"],
    "hot key": REQUIRED["hot key"],
    "record in parts": REQUIRED["record in parts"],
    "undecided": REQUIRED["undecided"],
    "load": REQUIRED["load"],
    "brokers away": REQUIRED["brokers away"],
    "leaves unheard": REQUIRED["leaves unheard"],
    "events together": REQUIRED["events together"],
    "zombie": "a member goes on that the group has put out meanwhile",
    "transaction aborted": "a transaction is aborted for certain",
    "transaction stale": "a transaction is refused, as the group is in another generation",
    "transaction in doubt": "nobody says whether a transaction was committed: the log does",
    "transaction timed out": "a transaction is open for so long that its coordinator aborts it",
    "commit again": "a transaction is asked to commit once more, as no answer has come",
    "output refused": "a topic refuses what a record has left behind, for good",
    "block": "records of different tenures count together or not at all",
    "outputs wait": "a transaction waits for a topic of outputs, as long as a session or longer",
    "fence": "a member fences another one, whose open transaction holds up its read of the log",
    "restore waits": "the state of a range is read to where others' transactions are undecided",
    "stores of a former process": "a process finds stores that another one has left",
}
"""What each means where output and progress leave in transactions."""

REQUIRED_SHARE = 0.05
"""In so many of the seeds each must occur."""


def too_rare(shares: Mapping[str, float], required: Iterable[str] = REQUIRED) -> list[str]:
    """The situations that occur in too few seeds."""
    return [name for name in required if shares.get(name, 0.0) < REQUIRED_SHARE]


def _tenures(entries: Entries) -> Iterator[tuple[TenureKey, TenureRecord]]:
    for data, value in entries:
        key = decode_key(data)
        if isinstance(key, TenureKey) and value is not None:
            record = decode_value(key, value)
            assert isinstance(record, TenureRecord)
            yield key, record


def is_base(record: LogRecord) -> bool:
    """Whether this record of the log begins an epoch."""
    return record.value is not None and isinstance(decode_key(record.key), BaseKey)


def tells_facts(entries: Entries) -> bool:
    """Whether these records contain facts."""
    return any(record.facts for _, record in _tenures(entries))


def releases_anew(entries: Entries, store: ProgressStore) -> bool:
    """Whether these records release something that is not released in the log."""
    for key, record in _tenures(entries):
        known = store.partition(key.topic_id, key.partition).tenures()
        told = next((t.record.released for t in known if t.id == key.tenure), ())
        if not covers(told, record.released):
            return True
    return False


def is_chain(before: Mapping[str, Ranges], now: Mapping[str, AssignmentData]) -> bool:
    """Whether a range was assigned to one member, and now is another's, while a third holds it.

    A member that had begun it would claim it, and so be on the wait list.

    Args:
        before: What each member, by name, was assigned in the generation before.
        now: What each member is assigned now.
    """
    return any(
        _passed_over(name, wait, own, before, data.waits)
        for name, data in now.items()
        for wait in data.waits
        for own in intersect(wait.ranges, data.ranges[wait.partition])
    )


def _passed_over(
    name: str, wait: Wait, own: KeyRange, before: Mapping[str, Ranges], waits: Iterable[Wait]
) -> bool:
    """Whether some of `own` was meant for a member that is neither `name` nor on the wait list."""
    holders = {w.member for w in waits if w.partition == wait.partition and _meet(w.ranges, own)}
    return any(
        other != name and other not in holders and _meet(ranges.get(wait.partition, ()), own)
        for other, ranges in before.items()
    )


def _meet(ranges: Iterable[KeyRange], own: KeyRange) -> bool:
    return any(map(own.overlaps, ranges))


def waits_for_release(shell: MemberShell, log_partition: int) -> bool:
    """Whether a member waits for another one's records in this log partition."""
    return any(
        any(item.waits for item in partition.waiting)
        or any(tenure.blocked.hashes for tenure in partition.tenures)
        for partition in shell.core.state.partitions.values()
        if partition.view.log_partition == log_partition
    )
