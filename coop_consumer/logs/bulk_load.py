"""A bulk load: a long list of records, each in the log once, however often its loader is killed.

In: records, in an order that stays the same at each start. Out: they are in the partition, one
behind the other. Each carries its number in a header. A loader that starts again reads the last
one, and goes on behind it. If the log has lost its beginning, and with it maybe the records of the
load, the loader cannot tell, and the caller says where to go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from coop_consumer.errors import (
    AppendInDoubtError,
    BulkLoadConflictError,
    LogConflictError,
    MisuseError,
)
from coop_consumer.logs.records import (
    Conflict,
    LogToken,
    NewRecord,
    TaggedRecord,
    VisibleRecord,
    size_of,
)
from coop_consumer.plain_text import counted

LOAD_HEADER = "coop.load"
"""Of each record of a load: its number, a colon, the loader's name."""
BATCH_RECORDS = 1_000
BATCH_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class BulkLoaded:
    """What a bulk load has come to.

    Attributes:
        count: Records of the load that are in the log, or were removed from it.
        found: How many of them were there when this loader began.
        token: Of the last one.
    """

    count: int
    found: int
    token: LogToken


class LoadTarget(Protocol):
    """What a load needs of its producer."""

    name: str

    @property
    def place(self) -> tuple[str, int]:
        """Topic and partition."""

    def take_over(self) -> None:
        """End what a predecessor of the name has open."""

    def last_tagged(self, header: str) -> tuple[LogToken, Iterator[TaggedRecord]]:
        """The token now, and visible records from the last one backwards, with a header each."""

    def first_offset(self) -> int:
        """Of the first record that the log still has."""

    def append(self, records: list[NewRecord], expected: LogToken) -> LogToken | Conflict:
        """Append records, if nobody else has."""


def bulk_load(
    target: LoadTarget, records: Iterable[NewRecord], begin: int | None = None
) -> BulkLoaded:
    """Append all records that are not in the log yet. See `ConditionalProducer.bulk_load`."""
    target.take_over()
    token, found = _loaded(target)
    waiting = iter(records)
    if found is not None:
        count = number_of(found.tag) + 1
        _check_same(target, list(islice(waiting, count - 1, count)), count, found.record)
    else:
        # Asked for behind the search: what was removed during the search counts, too.
        count = _begin_of(target, begin) if target.first_offset() > 0 else 0
        _pass_over(waiting, count)
    before, number = count, count
    while batch := _batch(waiting):
        tagged = [_tagged(it, number + i, target.name) for i, it in enumerate(batch)]
        try:
            end = target.append(tagged, token)
        except AppendInDoubtError as error:  # nobody has its batches, to send one again
            raise replace(error, load=target.name) from error
        if isinstance(end, Conflict):
            raise BulkLoadConflictError(*target.place, target.name, end.found.offset, number)
        token, number = end, number + len(batch)
    return BulkLoaded(number, before, token)


def number_of(tag: bytes) -> int:
    """The number of a record of a load."""
    return int(tag.partition(b":")[0])


def _tagged(record: NewRecord, number: int, name: str) -> NewRecord:
    header = (LOAD_HEADER, b"%d:%s" % (number, name.encode()))
    return NewRecord(record.key, record.value, (header, *record.headers))


def _loaded(target: LoadTarget) -> tuple[LogToken, TaggedRecord | None]:
    """The token now, and the last record of this load; None: it has not begun.

    Mostly it is the last one of the log. If others have written behind it, or the load has not
    begun, the log is searched backwards.
    """
    token, tagged = target.last_tagged(LOAD_HEADER)
    own = target.name.encode()
    return token, next((it for it in tagged if it.tag.partition(b":")[2] == own), None)


def _begin_of(target: LoadTarget, begin: int | None) -> int:
    """Where to go on in a log that has lost its beginning, and has no record of the load."""
    if begin is not None:
        return begin
    topic, partition = target.place
    raise LogConflictError(
        target.name,
        f"{topic}-{partition}",
        "the log has lost its beginning and has no record of this load, so nobody can tell how far "
        "it has got",
        "Keep its last record longer than the loader rests (retention.ms of the topic). For this "
        "start say at which number to go on: begin=, which is 0 for a load that has never begun",
    )


def _pass_over(waiting: Iterator[NewRecord], count: int) -> None:
    """Leave out the records before the one at which the caller has said to go on."""
    passed = sum(1 for _ in islice(waiting, count))
    if passed < count:
        raise MisuseError(
            "bulk_load()",
            f"begin={count}, and the load has {counted(passed, 'record')}",
            "Give all of its records, also those before begin",
            "Nothing was appended",
        )


def _check_same(
    target: LoadTarget, passed: list[NewRecord], count: int, last: VisibleRecord
) -> None:
    """Records that are in the log are passed over; the last of them must be the same."""
    if passed:
        size_of(passed[0])
    if not passed or (passed[0].key, passed[0].value) != (last.key, last.value):
        topic, partition = target.place
        raise MisuseError(
            "bulk_load()",
            f"its record number {count - 1} is not the one that {topic}-{partition} has at offset "
            f"{last.offset}, where a load of the name {target.name} has got to",
            "Give the same records in the same order, or choose another name",
        )


def _batch(waiting: Iterator[NewRecord]) -> list[NewRecord]:
    batch: list[NewRecord] = []
    size = 0
    for it in islice(waiting, BATCH_RECORDS):
        size += size_of(it)
        batch.append(it)
        if size >= BATCH_BYTES:
            break
    return batch
