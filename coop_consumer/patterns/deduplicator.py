"""`Deduplicator`: reads a partition with repeats as if it had none.

In: records whose headers name their origin (`with_source`). Out: whether a record is the first of
its origin. Bits are kept, not the largest offset: outputs of a group come key by key, so a lower
offset may come later and be new. Right: Read on the partition, for `catch_up`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assignors import TopicPartition
from coop_consumer.config import Settings
from coop_consumer.config.setting import shown
from coop_consumer.errors import MisuseError
from coop_consumer.kafka.log_end import offset_of
from coop_consumer.kafka.topics import EARLIEST, LATEST
from coop_consumer.patterns.messages import headers_in
from coop_consumer.patterns.reading import reader_of, slices
from coop_consumer.patterns.seen import IDENTITY, Seen, checked_identity, identity_of
from coop_consumer.patterns.seen_in import IF_GONE, note_records
from coop_consumer.patterns.single_writer import checked_number
from offsets import OffsetRange


class Deduplicator:
    """What a reader of one partition has seen. For one thread.

    Args:
        identity: The headers that tell what a record came of; the last is an offset in digits, the
            others any bytes.

    Example::

        dedup = Deduplicator()
        dedup.catch_up(config, totals_0, committed)     # what was read before this start
        for message in committed_records(config, totals_0, committed):
            if dedup.is_new(message):
                handle(message)
    """

    def __init__(self, identity: Sequence[str] = IDENTITY) -> None:
        self._names = checked_identity("Deduplicator()", identity)
        self._seen = Seen()

    def is_new(self, message: Any) -> bool:
        """Note a record. True: it is the first of its origin. O(headers).

        Raises:
            MisuseError: Its headers do not tell its origin, or it is no message.
        """
        try:
            found = identity_of(headers_in(message), self._names)
        except AttributeError as error:
            raise MisuseError(
                "Deduplicator.is_new()",
                f"{shown(message)} is no message",
                "Give it what a confluent Consumer, or committed_records, has returned",
            ) from error
        except ValueError as error:
            problem = str(error)
        else:
            if found is not None:
                return self._seen.add(*found)
            problem = f"it has not the headers {', '.join(self._names)}"
        raise MisuseError(
            "Deduplicator.is_new()",
            f"{message.topic()}-{message.partition()} offset {message.offset()}: {problem}",
            "Write outputs with the headers of with_source(), or name other headers, identity=",
        )

    def catch_up(
        self,
        config: Settings | Mapping[str, object],
        place: TopicPartition,
        offset: int,
        *,
        look_back: int | None = None,
    ) -> None:
        """Note the records below an offset: those that were read before this process began.

        Args:
            config: One dict of dotted names, as for a consumer; no group is needed.
            place: The partition.
            offset: Where the reader goes on.
            look_back: How many offsets below are read; None: all that are there. A repeat whose
                first is further back is taken for new.

        Raises:
            InputGoneError: Records were removed while they were read.
            MisuseError: There is no such partition or offset, or the partition ends below it: then
                it was cut off, or made again.
            ConfigError: For a bad setting.
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        call = "Deduplicator.catch_up()"
        parsed, topics = reader_of(call, config, place)
        offset = checked_number(call, offset, "offset")
        if offset < 0:
            raise MisuseError(call, f"offset {offset} is negative", "Begin at 0")
        if look_back is not None and checked_number(call, look_back, "number of records") < 0:
            raise MisuseError(call, f"look_back={look_back} is negative", "Give 0 or more")
        low, end = offset_of(topics, place, EARLIEST), offset_of(topics, place, LATEST)
        if offset > end:
            raise MisuseError(
                call,
                f"offset {offset} lies above the end of {place}, which is {end}",
                "If the partition was cut off or made again, begin at 0 with a new Deduplicator",
            )
        first = low if look_back is None else max(low, offset - look_back)
        if first < offset:
            offsets = OffsetRange(first, offset - 1)
            found = slices(call, parsed, topics, place, offsets, remedy=IF_GONE)
            note_records(found, self._names, self._seen)
