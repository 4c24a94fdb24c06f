"""`Checkpoint`: a small state that travels in the commit, with the outputs that it has led to.

In: the inputs of a partition, in order; outputs for any topics; a text of up to 4 KB. Out: outputs,
state and the next input's offset, visible together and once, whatever is killed. So nothing has to
be counted or dropped, and outputs need no headers.

Rights: Read on the input, Write on the outputs, Read on the group `name`, Write on the
transactional.id `name`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from assignors import TopicPartition
from coop_consumer.config import Settings
from coop_consumer.errors import MisuseError
from coop_consumer.patterns.any_output import WithOutputs
from coop_consumer.patterns.single_writer import checked_number

STATE_MAX_BYTES = 4_095
"""Brokers take 4,096 characters by default (`offset.metadata.max.bytes`); librdkafka adds a NUL."""


def checked_state(writer: str, state: str) -> str:
    """A state that a commit can hold. Pure.

    Raises:
        MisuseError: It is no text, or too large, or has a character that no commit holds.
    """
    if not isinstance(state, str):
        raise MisuseError(
            f"{writer}: commit()",
            f"the state is {type(state).__name__}, no text",
            "Write the state as text, say by json.dumps",
        )
    try:
        size = len(state.encode())
    except UnicodeEncodeError as error:
        raise MisuseError(
            f"{writer}: commit()",
            "the state has a lone surrogate, which no UTF-8 has",
            "Write the state as text, say by json.dumps",
        ) from error
    if "\0" in state:
        raise MisuseError(
            f"{writer}: commit()",
            "the state has a character NUL, which no commit holds",
            "Write the state as text, say by json.dumps",
        )
    if size > STATE_MAX_BYTES:
        raise MisuseError(
            f"{writer}: commit()",
            f"the state takes {size} bytes, and a commit holds {STATE_MAX_BYTES}",
            "Keep a larger state in an OffsetChangelog",
        )
    return state


class Checkpoint(WithOutputs):
    """The only reader of an input under this name; its commits carry a state.

    Args:
        config: One dict of dotted names, as for a consumer, without group.id.
        source: The partition to read; the commits are offsets of it.
        name: The transactional.id, and the group of the commits: one for each input.

    Attributes:
        offset: The input's offset to go on at.
        state: The state at that offset; "" before the first commit.

    Raises:
        InputGoneError: The input does not have `offset` any more.
        ConfigError, MisuseError: A setting or an argument cannot be.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.

    Example::

        with Checkpoint(config, TopicPartition("orders", 0), "counter-0") as checkpoint:
            count = int(checkpoint.state or 0)
            for message in committed_records(config, orders_0, checkpoint.offset):
                count += 1
                with checkpoint.transaction(message.offset() + 1, str(count)):
                    checkpoint.write("counts", b"%d" % count)
    """

    def __init__(
        self, config: Settings | Mapping[str, object], source: TopicPartition, name: str
    ) -> None:
        super().__init__(config, name, read=(source,))
        self._source = source
        try:
            marked = self._publisher.marks([source]).get(source)
            if marked is None:
                self.offset, self.state = self._begin_of(source), ""
            else:
                self.offset, self.state = self._within(source, marked[0]), marked[1]
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self, offset: int, state: str) -> Iterator[Self]:
        """Outputs, and the commit that makes them count: visible at the end of the block, together.

        Args:
            offset: Of the next input.
            state: As of that offset: at most 4,095 bytes.

        Raises:
            MisuseError: The state is too large, the offset lies below an earlier one or above the
                input's end, or a transaction before it has failed.
            PublisherFencedError: Another one of this name has begun; nothing of it is visible.
            CoopConsumerError: Kafka refuses; a new object finds out what was committed.
        """
        checked_state(self.name, state)
        offset = checked_number(f"{self.name}: transaction()", offset, "offset")
        if offset < self.offset:
            raise MisuseError(
                f"{self.name}: transaction()",
                f"offset {offset} lies below {self.offset}, which is committed",
                "Commit the offset of the next input",
            )
        self._check_next("transaction()", self._source, offset)
        with self._transaction():
            yield self
            self._publisher.mark(self._source, offset, state)
        self.offset, self.state = offset, state

    def commit(self, offset: int, state: str) -> None:
        """Commit without outputs; see `transaction`."""
        with self.transaction(offset, state):
            pass
