"""`PairedOffsets`: an input makes any number of outputs; one commit counts both.

In: the inputs of a partition, in order. Out: their outputs in one partition, once, whatever is
killed. A commit says which input is next, and how many outputs those before it have made. Outputs
may be published between commits, so an input may make more of them than a transaction can hold.
After a fall the first n outputs are dropped: those that were published after the last commit. So
the same inputs have to make the same outputs again.

Rights: Read on the input, Read and Write on the output, Read on the group `name`, Write on the
transactional.id `name`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from assignors import TopicPartition
from coop_consumer.config import Settings
from coop_consumer.errors import LogConflictError, MisuseError
from coop_consumer.kafka.publish import Headers
from coop_consumer.patterns.going_on import Pair, PairMark, resumption
from coop_consumer.patterns.single_writer import SingleWriter, checked_number
from coop_consumer.patterns.stamp import Stamp


class PairedOffsets(SingleWriter):
    """The only reader of an input for an output, and the output's only writer.

    Args:
        config: One dict of dotted names, as for a consumer, without group.id.
        source: The partition to read; the commits are offsets of it.
        output: The partition to write; nobody else writes it, and it is not compacted.
        name: The transactional.id, and the group of the commits: one for each output.
        begin: The input's offset to go on at if the commit was forgotten, or if all records of the
            output were removed. Not used otherwise.

    Attributes:
        offset: The input's offset to go on at.
        outputs: How many outputs all inputs so far have made.
        drop: How many outputs are dropped from here on, because they are there already.

    Raises:
        LogConflictError: The output's last record is a stranger's, or commit and output do not fit
            each other.
        InputGoneError: The input does not have `offset` any more.
        ConfigError, MisuseError: A setting or an argument cannot be.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.

    Example::

        with PairedOffsets(config, texts_0, words_0, "splitter-0") as pair:
            for message in committed_records(config, texts_0, pair.offset):
                for word in message.value().split():
                    pair.put(word)
                pair.commit(message.offset() + 1)
    """

    def __init__(
        self,
        config: Settings | Mapping[str, object],
        source: TopicPartition,
        output: TopicPartition,
        name: str,
        *,
        begin: int | None = None,
    ) -> None:
        super().__init__(config, name, read=(source,), written=(output,), begin=begin)
        self._source, self._output = source, output
        self._unsent: list[tuple[bytes | None, bytes | None, Headers, int]] = []
        try:
            self._resume(begin)
        except BaseException:
            self.close()
            raise

    def _resume(self, begin: int | None) -> None:
        ids = f"{self._id_of(self._source)} {self._id_of(self._output)}"
        end = self._output_end(self._output)
        committed = self._committed()
        found = resumption(self.name, committed, end, ids, begin)
        self._ids, self.drop, self.outputs = ids, 0, 0
        if found is None:
            self.offset = self._begin_of(self._source)
        else:
            self.offset = self._within(self._source, found.pair.offset)
            # If inputs are gone, so are those whose outputs would be dropped.
            self.drop = found.drop if self.offset == found.pair.offset else 0
            self.outputs = found.pair.outputs + found.drop - self.drop
        pair = Pair(self.offset, self.outputs)
        if committed is None or committed[0] != pair:
            # Without it an output would be published while no commit says what it is an output of.
            self.commit(self.offset)

    def _committed(self) -> tuple[Pair, str] | None:
        marked = self._publisher.marks([self._source]).get(self._source)
        if marked is None:
            return None
        offset, text = marked
        mark = PairMark.parse(text)
        if mark is None:
            raise LogConflictError(
                self.name,
                f"{self._source} offset {offset}",
                f"the group {self.name} has committed an offset that is no pair",
                "Choose a name= that no consumer group has",
            )
        return Pair(offset, mark.outputs), mark.ids

    def put(
        self,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        *,
        timestamp_ms: int = 0,
    ) -> None:
        """Add an output of the input at hand, or drop it, if it is there already. O(1).

        It is kept in memory until the next `publish` or `commit`. 0 ms: the time is now.

        Raises:
            MisuseError: It is closed, or a transaction before has failed: nobody would ever see
                the output.
        """
        self._check_usable()
        self.outputs += 1
        if self.drop:
            self.drop -= 1
            return
        with suppress(TypeError):  # what are no headers is told by what writes them
            headers = tuple(headers)  # a caller may use its list again
        self._unsent.append((value, key, headers, timestamp_ms))

    def publish(self) -> None:
        """Make the outputs so far visible, together, without a commit.

        Raises:
            PublisherFencedError: Another one of this name has begun; they are not visible.
            MisuseError: A transaction before it has failed.
            CoopConsumerError: Kafka refuses; a new object finds out what was committed.
        """
        if self._unsent:
            with self._written():
                pass

    def commit(self, offset: int) -> None:
        """Make the outputs so far visible, and commit the pair with them, in one transaction.

        Args:
            offset: Of the next input.

        Raises:
            MisuseError: The offset lies below an earlier one, or above the input's end, or a
                transaction before it has failed.
            PublisherFencedError, CoopConsumerError: As `publish` does.
        """
        offset = checked_number(f"{self.name}: commit()", offset, "offset")
        if offset < self.offset:
            raise MisuseError(
                f"{self.name}: commit()",
                f"offset {offset} lies below {self.offset}, which is committed",
                "Commit the offset of the next input",
            )
        self._check_next("commit()", self._source, offset)
        with self._written():
            mark = PairMark(self.outputs, self._ids)
            self._publisher.mark(self._source, offset, mark.text())
        self.offset = offset

    @contextmanager
    def _written(self) -> Iterator[None]:
        with self._transaction():
            first = self.outputs - len(self._unsent)
            for number, (value, key, headers, time_ms) in enumerate(self._unsent, first):
                self._write(
                    "put()",
                    self._output.topic,
                    value,
                    key,
                    headers,
                    stamp=Stamp(self.name, number),
                    partition=self._output.partition,
                    timestamp_ms=time_ms,
                )
            yield
        self._unsent = []
