"""Where a query begins and ends in each partition: options and brokers, put together on the driver.

In: options, and what the brokers say of topics, ends and committed offsets. Out: offsets by
partition, or an error before any task starts.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from assignors import TopicPartition
from coop_consumer.admin.outside import commit_from_outside
from coop_consumer.config import Config
from coop_consumer.errors import ConfigError, TopicMissingError
from coop_consumer.kafka.patience import patiently
from coop_consumer.kafka.topics import EARLIEST, LATEST, TopicFacts, Topics, at_time
from coop_consumer.log_events import LogEvent
from offsets import Committed
from streams_adapter.source.errors import OffsetsGoneError
from streams_adapter.source.options import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    SourceOptions,
    When,
    Where,
)

log = logging.getLogger(__name__)

T = TypeVar("T")


def committed_offsets(config: Config) -> dict[TopicPartition, Committed]:
    """The group's committed offsets, with their metadata.

    Raises:
        AuthorizationError, BrokerUnreachableError: As they say.
    """
    # kafka-python takes as long to load as all the rest, and every task would wait for it.
    from coop_consumer.kafka import group_view  # noqa: PLC0415

    return group_view.committed_offsets(config)


@dataclass(frozen=True, slots=True)
class Extent:
    """What a partition holds: from the offset of its first record to the next that it will get."""

    begin: int
    end: int


def read_of(
    facts: Mapping[str, TopicFacts], options: SourceOptions, *, fewer: bool = False
) -> list[TopicPartition]:
    """The partitions that a query reads.

    Args:
        facts: Of the topics that are there.
        options: What is asked for.
        fewer: Whether some may be missing: of a topic that was made again.

    Raises:
        ConfigError: The user names one that does not exist.
    """
    only = options.partitions
    found = [
        TopicPartition(topic, partition)
        for topic, it in facts.items()
        for partition in range(it.partitions)
        if only is None or partition in only
    ]
    missing = sorted((only or frozenset()) - {tp.partition for tp in found})
    if missing and facts and not fewer:
        raise ConfigError(
            "partitions", f"names {missing[0]}, which {', '.join(facts)} has not", "Correct it"
        )
    return found


class Places:
    """Asks the brokers. One thread.

    Args:
        options: What is read, and how to reach it.

    Attributes:
        away_s: How long no broker may answer; 0: the query is only planned.

    Raises:
        BrokerUnreachableError, AuthorizationError: As they say.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.away_s = 0.0
        self._options = options
        self._topics = Topics(options.config)
        self._topics.check_broker()

    def topics(self, *, missing_ok: bool = False) -> dict[str, TopicFacts]:
        """Those that are read, as they are now; a pattern may match none.

        Args:
            missing_ok: Leave out topics that do not exist.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        return self._ask("topics", lambda: self._described(missing_ok=missing_ok))

    def _described(self, *, missing_ok: bool) -> dict[str, TopicFacts]:
        wanted = self._options.topics
        if wanted is None:
            pattern = re.compile(self._options.pattern or "")
            wanted = tuple(name for name in self._topics.names() if pattern.fullmatch(name))
            missing_ok = True  # deleted since
        if self._options.group is not None:  # it commits, so it must not read what that writes
            self._options.config.refuse_circles(wanted)
        names = list(wanted)
        while names:
            try:
                return self._topics.describe(names)
            except TopicMissingError as error:
                if not missing_ok or error.topic not in names:
                    raise
                names.remove(error.topic)
        return {}

    def extents(self, places: Collection[TopicPartition]) -> dict[TopicPartition, Extent]:
        """What each holds now; up to the last stable offset, if transactions count.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        committed = self._options.config.isolation_level.value == "read_committed"
        begins = self._offsets(places, EARLIEST)
        ends = self._offsets(places, LATEST, committed=committed)
        return {tp: Extent(begins[tp], max(begins[tp], ends[tp])) for tp in places}

    def log_ends(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where the log of each ends, behind what open transactions hold back.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        return self._offsets(places, LATEST)

    def holds(self, tp: TopicPartition, offset: int, extent: Extent) -> bool:
        """Whether an offset is in the log, or its end; an open transaction may hold it back.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        if offset <= extent.end:
            return extent.begin <= offset
        return offset <= self.log_ends([tp])[tp]

    def _offsets(
        self, places: Collection[TopicPartition], spec: Any, *, committed: bool = False
    ) -> dict[TopicPartition, int]:
        return self._ask("offsets", lambda: self._topics.offsets(places, spec, committed=committed))

    def _ask(self, what: str, ask: Callable[[], T]) -> T:
        """Ask again where a broker is not the leader now, or away: a stream would end of it."""
        of = ", ".join(self._options.topics or (self._options.pattern or "",))
        return patiently(ask, f"{what} of {of}", away_s=self.away_s)

    def since(
        self, since_ms: int, tps: Collection[TopicPartition]
    ) -> dict[TopicPartition, int | None]:
        """The first record of a time (Unix ms, 0 or later) or later; None: none is so young."""
        found = self._offsets(tps, at_time(since_ms))
        return {tp: None if at < 0 else at for tp, at in found.items()}

    def starts(
        self, extents: Mapping[TopicPartition, Extent], usual: Where
    ) -> dict[TopicPartition, int]:
        """Where a query begins.

        Args:
            extents: Of all partitions that it reads.
            usual: Where, if the user says nothing.

        Raises:
            ConfigError: What the user says fits the partitions not.
            OffsetsGoneError: An offset is gone.
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        options = self._options
        if options.since is not None:
            return self._since_or_refused(options.since, extents)
        where = options.starting or ("group" if options.group is not None else usual)
        if where != "group":
            return self.resolved("startingOffsets", where, extents)
        if options.group is None:
            raise ConfigError("startingOffsets", "=group needs a group", "Set group.id")
        known = committed_offsets(options.config)
        fallback = self.resolved("startingOffsets", usual, extents)
        return {
            tp: self._inside("group.id", tp, known[tp][0], extent) if tp in known else fallback[tp]
            for tp, extent in extents.items()
        }

    def ends(self, extents: Mapping[TopicPartition, Extent]) -> dict[TopicPartition, int]:
        """Where a query ends: a batch.

        Raises:
            ConfigError: What the user says fits the partitions not.
            OffsetsGoneError: An offset is gone.
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        options = self._options
        if options.until is None:
            return self.resolved("endingOffsets", options.ending, extents)
        found = self._first_at(_each("endingOffsetsByTimestamp", options.until, extents))
        return {
            tp: extent.end if (at := found[tp]) is None else min(at, extent.end)
            for tp, extent in extents.items()
        }

    def _first_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """As `since`, each partition by a time of its own."""
        asked: dict[int, list[TopicPartition]] = {}
        for tp, time_ms in times.items():
            asked.setdefault(time_ms, []).append(tp)
        found: dict[TopicPartition, int | None] = {}
        for time_ms, tps in asked.items():
            found |= self.since(time_ms, tps)
        return found

    def _since_or_refused(
        self, since: When, extents: Mapping[TopicPartition, Extent]
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        times = _each("startingOffsetsByTimestamp", since, extents)
        for tp, at in self._first_at(times).items():
            if at is None and not self._options.since_or_latest:
                raise ConfigError(
                    "startingTimestamp" if isinstance(since, int) else "startingOffsetsByTimestamp",
                    f"={times[tp]} is later than every record of {tp}",
                    "Choose an earlier one, or set startingOffsetsByTimestampStrategy=latest",
                )
            found[tp] = extents[tp].end if at is None else at
        return found

    def mirror(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit next offsets in the group's name.

        Raises:
            GroupInUseError: It has members.
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        group = self._options.config.group_id
        told = {tp: Committed(at) for tp, at in offsets.items()}
        self._ask(
            f"commit of group {group}", lambda: commit_from_outside(self._topics, group, told)
        )

    def resolved(
        self, option: str, where: Where, extents: Mapping[TopicPartition, Extent]
    ) -> dict[TopicPartition, int]:
        """Offsets, of ends of the log or of those that a user has named.

        Raises:
            ConfigError: Those are not of these partitions, or beyond them.
            OffsetsGoneError: One is gone.
        """
        if where == "earliest":
            return {tp: extent.begin for tp, extent in extents.items()}
        if where == "latest":
            return {tp: extent.end for tp, extent in extents.items()}
        assert isinstance(where, dict), "a group's offsets are not looked up here"
        remedy = f"Name each partition; {LATEST_OFFSET} and {EARLIEST_OFFSET} are its ends"
        named = _named(option, where, extents, remedy)
        return {tp: self._inside(option, tp, named[tp], extent) for tp, extent in extents.items()}

    def _inside(self, option: str, tp: TopicPartition, offset: int, extent: Extent) -> int:
        if offset == EARLIEST_OFFSET:
            return extent.begin
        if offset == LATEST_OFFSET:
            return extent.end
        is_held = self.holds(tp, offset, extent)
        if is_held and option == "endingOffsets" and offset > extent.end:
            raise ConfigError(
                option,
                f"says {offset} for {tp}: it can be read up to {extent.end} now, an open "
                "transaction holds back the rest",
                "Wait until it ends, choose an earlier offset, or set "
                "kafka.isolation.level=read_uncommitted",
            )
        if is_held:
            return offset
        if not self._options.fail_on_data_loss:
            inside = min(max(offset, extent.begin), extent.end)
            log.warning(
                "%s: offset %d of %s is not in the log (any more), which holds %d to %d: goes on "
                "at %d (failOnDataLoss=false)",
                option, offset, tp, extent.begin, extent.end, inside,
                extra=LogEvent.SPARK_OFFSET_GONE.extra(tp=tp, offset=offset),
            )  # fmt: skip
            return inside
        if offset < extent.begin:
            raise OffsetsGoneError(tp.topic, tp.partition, offset, extent.begin - 1)
        raise ConfigError(
            option,
            f"says {offset}: {tp} has no offset {offset}, it ends at {extent.end}",
            "Choose one inside, or set failOnDataLoss=false",
        )


def _each(
    option: str, when: When, extents: Mapping[TopicPartition, Extent]
) -> dict[TopicPartition, int]:
    """The time of each partition."""
    if isinstance(when, int):
        return dict.fromkeys(extents, when)
    return _named(option, when, extents, "Name each partition, with a time in Unix ms")


def _named(
    option: str,
    said: Mapping[str, Mapping[int, int]],
    extents: Mapping[TopicPartition, Extent],
    remedy: str,
) -> dict[TopicPartition, int]:
    """What the user says of each partition.

    Raises:
        ConfigError: One is left out, or not read.
    """
    named = {TopicPartition(t, p): it for t, places in said.items() for p, it in places.items()}
    for tp in sorted({*named} ^ {*extents}):
        problem = f"names {tp}, which is not read" if tp in named else f"does not name {tp}"
        raise ConfigError(option, problem, remedy)
    return named
