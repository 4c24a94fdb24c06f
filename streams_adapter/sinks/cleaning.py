"""Cleaning: a topic with repeats, copied once; the copy has each record's first appearance only.

In: a topic whose records carry, in headers, the place of their origin: their identity. Out: a topic
with as many partitions. Each has the records of the same partition in their order, with the same
keys, values, headers and times, but without records whose identity had come before.

Each partition has one task. The task fences the task before, reads in the *target* which records
are copied already, goes on in the source where copying stopped, and writes transactions that hold
records and the new place in the source. The target tells which records are copied: nothing can be
forgotten as long as the copies are there, however late a repeat comes. Identities are kept as bits,
one for each offset of the records' origin, so a billion of them take some 160 MB.

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

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from assignors import WHOLE, TopicPartition
from coop_consumer.config import Config, IsolationLevel, checked_topics
from coop_consumer.config.setting import shown
from coop_consumer.core.record import UNREADABLE, headers_of
from coop_consumer.errors import DataLossError, MisuseError
from coop_consumer.kafka.own_topics import for_batches_of
from coop_consumer.kafka.publish import Headers, Publisher
from coop_consumer.kafka.slice_reader import read_slice
from coop_consumer.kafka.topics import EARLIEST, LATEST, Topics
from offsets import OffsetRange
from streams_adapter.cluster import check_connect, use_own_python
from streams_adapter.patience import AWAY_S, patiently

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

IDENTITY = ("source.partition", "source.offset")
TRANSACTION_RECORDS = 20_000

_CALL = "cleanup()"
_PAGE_OFFSETS = 8_192

Unidentified = Literal["stop", "copy"]
RecordOrigin = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was done to a partition: how many records were read, copied, and left out as repeats."""

    partition: int
    read: int
    copied: int
    repeats: int


class Seen:
    """Which identities have come: a bit for each offset, in pages of a kilobyte.

    >>> seen = Seen()
    >>> seen.add((b"0",), 42), seen.add((b"0",), 42), seen.add((b"1",), 42)
    (True, False, True)
    """

    def __init__(self) -> None:
        self._pages: dict[tuple[RecordOrigin, int], bytearray] = {}

    def add(self, origin: RecordOrigin, offset: int) -> bool:
        """Note an identity. True: it is new. O(1)."""
        page, bit = divmod(offset, _PAGE_OFFSETS)
        bits = self._pages.get((origin, page))
        if bits is None:
            bits = self._pages[origin, page] = bytearray(_PAGE_OFFSETS // 8)
        place, mask = bit >> 3, 1 << (bit & 7)
        if bits[place] & mask:
            return False
        bits[place] |= mask
        return True


def identity_of(headers: Headers, names: Sequence[str]) -> tuple[RecordOrigin, int] | None:
    """Where a record came from, or None if a header is missing. Of several of a name, the last.

    Raises:
        ValueError: The last header is no offset in digits.

    >>> identity_of([("source.partition", b"3"), ("source.offset", b"42")], IDENTITY)
    ((b'3',), 42)
    """
    named = dict(headers)
    values = [named.get(name) for name in names]
    if any(value is None for value in values):
        return None
    *origin, offset = (value or b"" for value in values)
    if not offset.isdigit():
        raise ValueError(f"{names[-1]}={offset!r:.60} is no offset in digits")
    return tuple(origin), int(offset)


@dataclass(frozen=True, slots=True)
class CleaningOrder:
    """What the tasks of a cleaning are told.

    Attributes:
        ids: Of source and target, in hex: a place is one between these two.
        ends: Of each partition of the source.
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


def cleanup(
    spark: SparkSession,
    config: Mapping[str, object],
    source_topic: str,
    target_topic: str,
    *,
    name: str = "",
    identity: Sequence[str] = IDENTITY,
    look_back: int | None = None,
    unidentified: Unidentified = "stop",
) -> list[Cleaned]:
    """Copy what is new in a topic to another one, each record once; a batch job.

    It ends at the end that the source had at its beginning (of what is committed), and goes on from
    there when it is called again. The copies are exactly once, whatever falls.

    Args:
        spark: A classic session.
        config: One dict of dotted names; no group is needed.
        source_topic: Has repeats.
        target_topic: Gets the copies; exists, with as many partitions, and is not compacted.
        name: Of the group that keeps the places in the source; by default the target's with
            ".cleanup".
        identity: The headers that tell what a record came of; the last is an offset in digits,
            the others any bytes.
        look_back: How many records of each partition of the target are read to know what it has;
            None: all. A repeat whose first is further back is copied.
        unidentified: What to do with a record without these headers: "copy" it (again and again,
            if it is repeated), or "stop".

    Returns:
        What was done, by partition.

    Raises:
        ConfigError: For a bad setting.
        MisuseError: The topics do not fit each other.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        Exception: What Spark makes of a task's error, such as a `DataLossError`: the source has
            lost records that were not copied.

    Example::

        cleanup(spark, {"bootstrap.servers": "b:9092"}, "totals", "totals.clean")
    """
    check_connect(spark, _CALL, "RDDs, by which partitions are copied")
    names = () if isinstance(identity, str | bytes) else tuple(identity)
    if not names or not all(isinstance(it, str) for it in names):
        remedy = f"Give the names of one header or more, such as {IDENTITY!r}"
        raise MisuseError(_CALL, f"identity={shown(identity)}", remedy)
    if look_back is not None and (type(look_back) is not int or look_back < 1):
        raise MisuseError(
            _CALL, f"look_back={shown(look_back)}", "Choose a whole number from 1 on, or None"
        )
    checked_topics([source_topic, target_topic])
    if unidentified not in ("stop", "copy"):
        raise MisuseError(_CALL, f"unidentified={unidentified!r}", 'Choose "stop" or "copy"')
    group = name or f"{target_topic}.cleanup"
    parsed = replace(
        Config.from_dict({**config, "group.id": group}, both_clients=False),
        isolation_level=IsolationLevel.READ_COMMITTED,
    )
    topics = Topics(parsed)
    parsed.refuse_output(target_topic)
    partitions, ids = _check_topics(topics, source_topic, target_topic)
    parsed = for_batches_of(parsed, topics, target_topic)
    places = [TopicPartition(source_topic, number) for number in range(partitions)]
    ends = topics.offsets(places, LATEST, committed=True)
    order = CleaningOrder(
        config=parsed,
        name=group,
        source=source_topic,
        target=target_topic,
        ids=ids,
        ends=tuple(ends[place] for place in places),
        identity=names,
        look_back=look_back,
        unidentified=unidentified,
    )
    context = spark.sparkContext
    use_own_python(context)

    def task(number: int, _: Iterable[int]) -> Iterator[Cleaned]:
        yield clean_partition(order, number)

    numbers = context.parallelize(range(partitions), partitions)
    found: list[Cleaned] = numbers.mapPartitionsWithIndex(task).collect()
    log.info("%s: %d of %d copied", group, sum(c.copied for c in found), sum(c.read for c in found))
    return found


def cleaner(
    config: Mapping[str, object], source_topic: str, target_topic: str, **settings: Any
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch`: whenever a batch comes, the target is brought up to date.

    A batch's rows are not used, only its coming, so any stream on the source will do. Python
    processes that Spark uses again remember what was seen, and read in the target only what is new.

    Args:
        config: As for `cleanup`.
        source_topic: As there.
        target_topic: As there.
        settings: The other arguments there.
    """

    def clean(batch: DataFrame, _: int) -> None:
        cleanup(batch.sparkSession, config, source_topic, target_topic, **settings)

    return clean


def _check_topics(topics: Topics, source: str, target: str) -> tuple[int, str]:
    if source == target:
        raise MisuseError(_CALL, f"{source} is source and target", "Name another target")
    facts = topics.describe([source]) | topics.describe([target], verb="written")
    count = facts[source].partitions
    if facts[target].partitions != count:
        raise MisuseError(
            _CALL,
            f"{target} has {facts[target].partitions} partitions, {source} has {count}: a record "
            "keeps its partition, so that its key's order stays",
            f"Create {target} with {count} partitions",
        )
    if "compact" in topics.settings_of(target).get("cleanup.policy", ""):
        raise MisuseError(
            _CALL,
            f"{target} is compacted: it would forget what was copied, and repeats come back",
            "Set cleanup.policy=delete on it",
        )
    return count, f"{facts[source].id.hex()} {facts[target].id.hex()}"


_NO_TIME_MS = -1
_remembered: dict[tuple[str, int, Sequence[str]], tuple[int, Seen]] = {}
"""The identities that this process has seen in a target's partition, and up to which offset."""


def clean_partition(order: CleaningOrder, number: int) -> Cleaned:
    """Copy what is new in one partition.

    Raises:
        DataLossError: The source has lost records that were not copied.
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
            found = read_slice(order.config, place, offsets, patience_s=AWAY_S)
            for messages, next_offset in _gathered(found):
                with publisher.transaction():
                    for message in messages:
                        if _is_new(order, seen, message, f"{place} offset {message.offset()}"):
                            _copy(publisher, order.target, number, message)
                            copied += 1
                    publisher.mark(place, next_offset, order.ids)
                read += len(messages)
            _remembered[key] = (reached, seen)  # from there on the target has what was added here
        return Cleaned(number, read, copied, read - copied)


def _position(
    order: CleaningOrder, topics: Topics, publisher: Publisher, place: TopicPartition
) -> int:
    low = _offset(topics, place, EARLIEST)
    marked, ids = publisher.marks([place]).get(place, (0, ""))
    if ids != order.ids:  # none, or of a topic that is gone: what is in the target is not copied
        return low
    end = order.ends[place.partition]
    if marked < low:
        raise DataLossError(place.topic, place.partition, WHOLE, marked, low - 1, "stop")
    if marked > end and marked > _offset(topics, place, LATEST):
        raise DataLossError(place.topic, place.partition, WHOLE, end, marked - 1, "stop")
    return marked


def _offset(topics: Topics, place: TopicPartition, spec: Any) -> int:
    return patiently(lambda: topics.offsets([place], spec), f"offsets of {place}")[place]


def _seen(
    order: CleaningOrder, topics: Topics, number: int, known: tuple[int, Seen]
) -> tuple[int, Seen]:
    """The identities in the target. Earlier tasks are fenced, so only this one adds more.

    Read to the very end, not to the last stable offset. If a stranger has a transaction open there,
    this waits for its end, or fails; it overlooks no record behind it.
    """
    reached, seen = known
    target = TopicPartition(order.target, number)
    low, end = _offset(topics, target, EARLIEST), _offset(topics, target, LATEST)
    begin = max(low, reached, 0 if order.look_back is None else end - order.look_back)
    if begin < end:
        for messages, _ in read_slice(order.config, target, OffsetRange(begin, end - 1)):
            for message in messages:
                found = identity_of(_headers(message), order.identity)
                if found is not None:
                    seen.add(*found)
    return end, seen


def _is_new(order: CleaningOrder, seen: Seen, message: Any, where: str) -> bool:
    try:
        found = identity_of(_headers(message), order.identity)
    except ValueError as error:
        raise MisuseError(
            _CALL, f"{where}: {error}", "Name the right headers, identity="
        ) from error
    if found is not None:
        return seen.add(*found)
    if order.unidentified == "copy":
        return True
    raise MisuseError(
        _CALL,
        f"{where} has not the headers {', '.join(order.identity)}",
        'Name the right ones, identity=, or have such records copied, unidentified="copy"',
    )


def _copy(publisher: Publisher, topic: str, number: int, message: Any) -> None:
    publisher.write(
        topic,
        message.value(),
        message.key(),
        _headers(message),
        partition=number,
        timestamp_ms=_time_ms(message),
    )


def _time_ms(message: Any) -> int:
    """What to write as a copy's time. To a producer 0 means now, so the first ms of 1970 is 1."""
    kind, time_ms = message.timestamp()
    return (time_ms or 1) if kind else _NO_TIME_MS


def _headers(message: Any) -> Headers:
    """As they are.

    Raises:
        ValueError: They cannot be had, see `headers_of`.
    """
    found = headers_of(message)
    if found == [UNREADABLE]:
        raise ValueError("the name of a header is not UTF-8")
    return found


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
