"""A person decides about parked records: which of them are chosen, and the decisions in the log.

In: an inspector, one place or a rule. Out: the chosen records, decided about, unless it is a trial.
Both the commands `retry` and `skip` and the page's buttons come here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from coop_consumer.admin.amend import Amender
from coop_consumer.plain_text import counted
from coop_consumer.status.errors import GroupMissingError, NotParkedError, PartitionMissingError
from coop_consumer.status.model import GroupStatus, PartitionStatus, RecordStatus, group_status
from coop_consumer.status.standing import RecordState
from coop_consumer.status.words import standing

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.admin.inspect import Inspector
    from coop_consumer.status.seen import GroupSeen

Decision = Literal["retry", "skip"]

OUTCOMES: Mapping[Decision, str] = {
    "retry": "is tried again, with all its attempts before it",
    "skip": "counts as done without having been processed, and the next of its key follows",
}
_ERRORS_SHOWN = 5
"""Of each partition; the number of each of them is shown."""

Chosen = Mapping["TopicPartition", Sequence[RecordStatus]]


def decide_one(
    inspector: Inspector,
    place: TopicPartition,
    offset: int,
    decision: Decision,
    *,
    is_trial: bool = False,
) -> RecordStatus:
    """Decide about the parked record at a place; returns what is known of it.

    Args:
        inspector: Of its group.
        place: Its partition.
        offset: Its offset.
        decision: What becomes of it.
        is_trial: Decide nothing.

    Raises:
        GroupMissingError, PartitionMissingError: There is none.
        NotParkedError: The record is not parked.
        AuthorizationError, BrokerUnreachableError: As they say.
    """
    seen = inspector.see([place.topic])
    refuse_unknown(seen)
    record = _parked(group_status(seen), place, offset)
    if not is_trial:
        partition = next(it for it in seen.partitions if it.tp == place)
        Amender(inspector).decide([(partition, [offset])], decision)
    return record


def decide_many(
    inspector: Inspector,
    fits: Callable[[TopicPartition, RecordStatus], bool],
    decision: Decision,
    *,
    topics: Iterable[str] = (),
    is_trial: bool = False,
) -> Chosen:
    """Decide about all parked records that fit; returns them.

    Args:
        inspector: Of their group.
        fits: Whether a parked record is chosen.
        decision: What becomes of them.
        topics: Topics to look at besides those of the group.
        is_trial: Decide nothing.

    Raises:
        GroupMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """
    seen = inspector.see(topics, records=False)
    refuse_unknown(seen)
    chosen = {
        partition.tp: records
        for partition in group_status(seen).partitions
        if (records := [it for it in partition.parked if fits(partition.tp, it)])
    }
    if not is_trial:
        partitions = {partition.tp: partition for partition in seen.partitions}
        Amender(inspector).decide(
            [(partitions[tp], [it.offset for it in them]) for tp, them in chosen.items()],
            decision,
        )
    return chosen


def in_words(chosen: Chosen) -> Iterator[str]:
    """A line for each partition and each of its most frequent errors."""
    for tp, records in chosen.items():
        for error, count in Counter(record.error for record in records).most_common(_ERRORS_SHOWN):
            yield f"{tp}: {count_of(count)}, {error}"


def count_of(records: int) -> str:
    """How many parked records, in words."""
    return counted(records, "parked record")


def refuse_unknown(seen: GroupSeen) -> None:
    """See that somebody knows the group; a topic that was named proves nothing.

    Raises:
        GroupMissingError: Nobody does.
    """
    known = bool(seen.members or seen.topics_committed)
    stores = [partition.store for partition in seen.partitions]
    if not known and all(store.epoch is None and not store.tenures() for store in stores):
        raise GroupMissingError(seen.group)


def _parked(status: GroupStatus, place: TopicPartition, offset: int) -> RecordStatus:
    """The parked record.

    Raises:
        PartitionMissingError: The partition does not exist.
        NotParkedError: The record is not parked; the text says what it is instead.
    """
    partitions = {it.tp: it for it in status.partitions}
    PartitionMissingError.check(place, partitions)
    partition = partitions[place]
    record = next((it for it in partition.failed if it.offset == offset), None)
    if record is None or not record.is_parked:
        problem = _actual_standing(partition, offset, record, status.at_ms)
        raise NotParkedError(place.topic, place.partition, offset, problem)
    return record


def _actual_standing(
    partition: PartitionStatus, offset: int, record: RecordStatus | None, now_ms: int
) -> str:
    if record is not None:
        if record.standing in (RecordState.PARKED, RecordState.UNTOLD):  # told before a `retry`
            record = replace(record, standing=RecordState.RETRYING)
        return f"is not parked: {standing(record, now_ms, str)}"
    if offset >= partition.end:
        return f"is not there yet, the partition ends at {partition.end}"
    if partition.stable is not None and offset < partition.stable:
        return f"is done already, the stable offset is {partition.stable}"
    return "has not failed: it is done, or waits its turn"
