"""`ExclusiveProducer`: one input, one output; the output's end says where to go on.

In: records, each with the position of its input. Out: the same in one partition, once, whatever is
killed. Nothing else is kept: each record carries its position in its headers, and the last one is
read at the start. Rights: Read and Write on the output, Write on the transactional.id `name`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from assignors import TopicPartition
from coop_consumer.config import Settings
from coop_consumer.errors import MisuseError
from coop_consumer.kafka.publish import Headers
from coop_consumer.patterns.going_on import next_number
from coop_consumer.patterns.single_writer import SingleWriter, checked_number
from coop_consumer.patterns.stamp import Stamp


class ExclusiveProducer(SingleWriter):
    """The only writer of a partition; it fences those of its name that came before.

    A position is a number that grows from input to input: an offset, the number of a line. An input
    makes one output or none. (For more, see `PairedOffsets`.)

    Args:
        config: One dict of dotted names, as for a consumer, without group.id.
        output: The partition to write; nobody else writes it, and it is not compacted.
        name: The transactional.id: one for each partition.
        begin: The position to go on at if all records of the output were removed, so that its end
            tells nothing. Not used otherwise.

    Attributes:
        position: The position to go on at: 0 in a new output, else that of the last record and 1.

    Raises:
        LogConflictError: The output's last record is a stranger's, or all its records are gone.
        ConfigError, MisuseError: A setting or an argument cannot be.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.

    Example::

        with ExclusiveProducer(config, TopicPartition("copies", 0), "copier-0") as producer:
            for message in committed_records(config, orders_0, producer.position):
                with producer.transaction():
                    producer.put(message.offset(), message.value(), message.key())
    """

    def __init__(
        self,
        config: Settings | Mapping[str, object],
        output: TopicPartition,
        name: str,
        *,
        begin: int | None = None,
    ) -> None:
        super().__init__(config, name, written=(output,), begin=begin)
        self._output = output
        try:
            self.position = next_number(name, self._output_end(output), begin)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """A transaction: what is put in it becomes visible at its end, together.

        Raises:
            PublisherFencedError: Another producer of this name has begun; nothing of it is visible.
            MisuseError: A transaction before it has failed.
            CoopConsumerError: Kafka refuses; a new producer finds out what was committed.
        """
        with self._transaction():
            yield self

    def put(
        self,
        position: int,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        *,
        timestamp_ms: int = 0,
    ) -> None:
        """Add the output of an input to the transaction; 0 ms: the time is now.

        Raises:
            MisuseError: The position lies below `position`: its output is there already. No
                transaction is open. No record can be made of the arguments.
            CoopConsumerError: This record or one before it is refused.
        """
        position = checked_number(f"{self.name}: put()", position, "position")
        if position < self.position:
            raise MisuseError(
                f"{self.name}: put()",
                f"position {position} comes after {self.position - 1}, and positions grow",
                f"Go on at position {self.position}; if an input makes several outputs, use "
                "PairedOffsets",
            )
        self._write(
            "put()",
            self._output.topic,
            value,
            key,
            headers,
            stamp=Stamp(self.name, position),
            partition=self._output.partition,
            timestamp_ms=timestamp_ms,
        )
        self.position = position + 1
