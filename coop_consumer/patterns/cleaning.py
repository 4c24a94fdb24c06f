"""Cleaning: a partition is copied without repeats, each record at its first appearance.

In: a topic whose records carry, in headers, the place of their origin: their identity. Out: a topic
with as many partitions. Each has the records of the same partition in their order, with the same
keys, values, headers and times, but without records whose identity had come before.

Each partition has one task. The task fences the task before, reads in the *target* which records
are copied already, goes on in the source where copying stopped, and writes transactions that hold
records and the new place in the source. The target tells which records are copied: nothing can be
forgotten as long as the copies are there, however late a repeat comes.

A task may fall anywhere. The next attempt's fence aborts its open transaction, and finds in the
target what was committed. The same fence ends a commit that was not answered, and a task that lives
on. The place in the source only saves time: if brokers forget it, everything is read again and
nothing is copied again.

Three conditions must hold. An identity belongs to one output; an input that makes several outputs
needs one more header to tell them apart. Repeats are in the partition of the first record; the same
key puts them there as long as the number of partitions stays. Nobody else writes to the target, and
the target is not compacted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from assignors import TopicPartition
from coop_consumer import arguments
from coop_consumer.config import Config, IsolationLevel, checked_topics
from coop_consumer.config.setting import shown
from coop_consumer.errors import InputGoneError, MisuseError
from coop_consumer.kafka.log_end import offset_of
from coop_consumer.kafka.own_topics import for_batches_of
from coop_consumer.kafka.publish import Publisher
from coop_consumer.kafka.topics import EARLIEST, LATEST, Topics
from coop_consumer.patterns.messages import copy_to, headers_in
from coop_consumer.patterns.reading import slices
from coop_consumer.patterns.seen import IDENTITY, Seen, checked_identity, identity_of
from coop_consumer.patterns.seen_in import IF_GONE, note_records
from coop_consumer.plain_text import counted
from offsets import OffsetRange

TRANSACTION_RECORDS = 20_000

Unidentified = Literal["stop", "copy"]


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was done to a partition: how many records were read, copied, and left out as repeats."""

    partition: int
    read: int
    copied: int
    repeats: int


@dataclass(frozen=True, slots=True)
class CleaningOrder:
    """What the tasks of a cleaning need; made by `cleaning_order`. It pickles.

    Attributes:
        config: Of the clients.
        name: Of the group that keeps the places in the source.
        source: Has repeats.
        target: Gets the copies.
        ids: Of source and target, in hex: a place is one between these two.
        ends: Of each partition of the source; `clean_partition` copies what lies below.
    """

    config: Config
    name: str
    source: str
    target: str
    ids: str
    ends: tuple[int, ...]
    identity: tuple[str, ...]
    look_back: int | None
    unidentified: Unidentified


def cleaning_order(
    config: Config,
    source: str,
    target: str,
    *,
    identity: Sequence[str] = IDENTITY,
    look_back: int | None = None,
    unidentified: Unidentified = "stop",
) -> CleaningOrder:
    """Check a cleaning, and find out how far it goes: to the present end of what is committed.

    Args:
        config: Of the clients; its group keeps the places in the source.
        source: Has repeats.
        target: Gets the copies; exists, with as many partitions, and is not compacted.
        identity: The headers that tell what a record came of; the last is an offset in digits,
            the others any bytes.
        look_back: How many records of each partition of the target are read to know what it has;
            None: all. A repeat whose first is further back is copied.
        unidentified: What to do with a record without these headers: "copy" it (again and again,
            if it is repeated), or "stop".

    Raises:
        ConfigError: No topic can have such a name.
        MisuseError: The group, or an argument cannot be, or the topics do not fit each other.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """
    call = f"cleaning {shown(source)}"
    checked_topics([source, target])
    arguments.a_name(call, config.group_id)
    names = checked_identity(call, identity)
    if look_back is not None and (type(look_back) is not int or look_back < 1):
        remedy = "Choose a whole number from 1 on, or none to read all of the target"
        raise MisuseError(call, f"look_back={shown(look_back)}", remedy)
    if unidentified not in ("stop", "copy"):
        raise MisuseError(call, f"unidentified={unidentified!r}", 'Choose "stop" or "copy"')
    config = replace(config, isolation_level=IsolationLevel.READ_COMMITTED)
    config.refuse_output(target)
    topics = Topics(config)
    partitions, ids = _check_topics(topics, source, target, call)
    places = [TopicPartition(source, number) for number in range(partitions)]
    ends = topics.offsets(places, LATEST, committed=True)
    return CleaningOrder(
        config=for_batches_of(config, topics, target),
        name=config.group_id,
        source=source,
        target=target,
        ids=ids,
        ends=tuple(ends[place] for place in places),
        identity=names,
        look_back=look_back,
        unidentified=unidentified,
    )


def _check_topics(topics: Topics, source: str, target: str, call: str) -> tuple[int, str]:
    if source == target:
        raise MisuseError(call, f"{source} is source and target", "Name another target")
    facts = topics.describe([source]) | topics.describe([target], verb="written")
    for topic in (source, target):
        topics.check_right(topic, "READ")  # of the target as of the source: the next call needs it
    topics.check_right(target, "WRITE")
    count = facts[source].partitions
    if facts[target].partitions != count:
        raise MisuseError(
            call,
            f"{target} has {counted(facts[target].partitions, 'partition')}, {source} has {count}: "
            "a record keeps its partition, so that its key's order stays",
            f"Create {target} with {counted(count, 'partition')}",
        )
    if "compact" in topics.settings_of(target).get("cleanup.policy", ""):
        raise MisuseError(
            call,
            f"{target} is compacted: it would forget what was copied, and repeats come back",
            "Set cleanup.policy=delete on it",
        )
    return count, f"{facts[source].id.hex()} {facts[target].id.hex()}"


_OTHER_NAME = (
    "To accept that, give another name (name=, --name): it begins at the first record that is "
    "there, and copies none again"
)
_NOT_COPIED = "This record and what follows in its partition is not copied; what was copied stays"
_OTHER_HEADERS = "Name the right headers (identity=, --identity)"
_remembered: dict[tuple[str, int, tuple[str, ...]], tuple[int, Seen]] = {}
"""The identities that this process has seen in a target's partition, and up to which offset."""


def clean_partition(order: CleaningOrder, number: int) -> Cleaned:
    """Copy what is new in one partition.

    Raises:
        InputGoneError: The source has lost records that were not copied.
        MisuseError: A record's headers do not tell what it came of.
        PublisherFencedError: Another attempt at this partition has begun.
        CoopConsumerError: Kafka refuses.
    """
    place = TopicPartition(order.source, number)
    topics = Topics(order.config)
    with Publisher(order.config, f"{order.name}-{number}", order.name) as publisher:
        first = _position(order, topics, publisher, place)
        read = copied = 0
        if first < order.ends[number]:
            key = (order.ids, number, order.identity)
            reached, seen = _seen(order, topics, number, _remembered.pop(key, (0, Seen())))
            offsets = OffsetRange(first, order.ends[number] - 1)
            where = (order.config, topics, place, offsets)
            found = slices(order.name, *where, remedy=_OTHER_NAME)
            for messages, next_offset in _gathered(found):
                with publisher.transaction():
                    for message in messages:
                        if _is_new(order, seen, message, f"{place} offset {message.offset()}"):
                            copy_to(publisher, TopicPartition(order.target, number), message)
                            copied += 1
                    publisher.mark(place, next_offset, order.ids)
                read += len(messages)
            _remembered[key] = (reached, seen)  # from there on the target has what was added here
        return Cleaned(number, read, copied, read - copied)


def _position(
    order: CleaningOrder, topics: Topics, publisher: Publisher, place: TopicPartition
) -> int:
    low = offset_of(topics, place, EARLIEST)
    marked, ids = publisher.marks([place]).get(place, (0, ""))
    if ids != order.ids:  # none, or of a topic that is gone: what is in the target is not copied
        return low
    end = order.ends[place.partition]
    now = end if marked <= end else offset_of(topics, place, LATEST)  # the mark may be newer
    if not low <= marked <= now:
        where = (order.name, place.topic, place.partition)
        raise InputGoneError(*where, marked, low, now, _OTHER_NAME)
    return marked


def _seen(
    order: CleaningOrder, topics: Topics, number: int, known: tuple[int, Seen]
) -> tuple[int, Seen]:
    """The identities in the target. Earlier tasks are fenced, so only this one adds more.

    Read to the very end, not to the last stable offset. If a stranger has a transaction open there,
    this waits for its end, or fails; it overlooks no record behind it.
    """
    reached, seen = known
    target = TopicPartition(order.target, number)
    low, end = offset_of(topics, target, EARLIEST), offset_of(topics, target, LATEST)
    begin = max(low, reached, 0 if order.look_back is None else end - order.look_back)
    if begin < end:
        offsets = OffsetRange(begin, end - 1)
        where = (order.config, topics, target, offsets)
        note_records(slices(order.name, *where, remedy=IF_GONE), order.identity, seen)
    return end, seen


def _is_new(order: CleaningOrder, seen: Seen, message: Any, where: str) -> bool:
    try:
        found = identity_of(headers_in(message), order.identity)
    except ValueError as error:
        raise MisuseError(
            f"cleaning {order.source}", f"{where}: {error}", _OTHER_HEADERS, _NOT_COPIED
        ) from error
    if found is not None:
        return seen.add(*found)
    if order.unidentified == "copy":
        return True
    raise MisuseError(
        f"cleaning {order.source}",
        f"{where} has not the headers {', '.join(order.identity)}",
        f"{_OTHER_HEADERS}, or have records without them copied "
        '(unidentified="copy", --unidentified copy)',
        _NOT_COPIED,
    )


def _gathered(slices: Iterator[tuple[list[Any], int]]) -> Iterator[tuple[list[Any], int]]:
    """The same in larger pieces: a transaction costs some milliseconds, however small it is."""
    gathered: list[Any] = []
    reached: int | None = None
    for messages, next_offset in slices:
        gathered += messages
        reached = next_offset
        if len(gathered) >= TRANSACTION_RECORDS:
            yield gathered, reached
            gathered, reached = [], None
    if reached is not None:
        yield gathered, reached
