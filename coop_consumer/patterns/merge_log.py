"""`MergeLog`: several inputs as they come, in an order that is recorded before anybody sees it.

In: inputs, a partition for the orders, a position in it. Out: batches of records, with the position
behind each. From the same position on, the same records come in the same order, whatever was killed
in between: first in the recorded order, then as they arrive. So whatever is computed of the batches
may be restored to a commit and computed again, as if there were one input. The position is an
offset of the merge log: `PairedOffsets`, `Checkpoint` and `OffsetChangelog` take it as that of
their input, with the merge log's partition as the source.

Rights: Read on the inputs, Read and Write on the merge log, Write on the transactional.id `name`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from assignors import TopicPartition
from coop_consumer import arguments
from coop_consumer.config import Settings
from coop_consumer.errors import LogConflictError, MisuseError
from coop_consumer.kafka.log_end import log_end
from coop_consumer.kafka.tail import Tail
from coop_consumer.patterns.held import HeldRecords
from coop_consumer.patterns.merging import InputRun, Order, differences, runs_of
from coop_consumer.patterns.messages import headers_in
from coop_consumer.patterns.reading import slices
from coop_consumer.patterns.single_writer import SingleWriter, SingleWriterState, checked_number
from coop_consumer.patterns.stamp import Stamp, own_number, stamp_in, stamped
from offsets import OffsetRange

if TYPE_CHECKING:
    from confluent_kafka import Message

BATCH_RECORDS = 1_000
"""The most records of a batch: their order is one record of the merge log, of 50 KB at most."""
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class MergedBatch:
    """Records of several inputs in their order.

    Attributes:
        messages: Each says its topic and partition.
        next_offset: The position in the merge log behind the batch: to be committed with it.
    """

    messages: tuple[Message, ...]
    next_offset: int


class MergeLog(SingleWriter):
    """The only one who merges inputs under this name.

    Args:
        config: One dict of dotted names, as for a consumer, without group.id.
        inputs: The partitions to merge, one or more. Later some may be added.
        merge_log: The partition of the orders; nobody else writes it, and it is not compacted.
        name: The transactional.id: one for each merge log.
        position: Where to go on, as committed with a batch; 0: at the beginning of the merge log.

    Raises:
        LogConflictError: The merge log has a stranger's record, is about other topics, or ends
            below the position.
        InputGoneError: An input, or the merge log, does not have what comes next any more.
        ConfigError, MisuseError: A setting or an argument cannot be.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.

    Example::

        with MergeLog(config, [orders_0, payments_0], merged_0, "merger-0", position) as merge:
            while True:
                if batch := merge.next_batch():
                    handle(batch.messages)      # and commit batch.next_offset with what it made
    """

    def __init__(
        self,
        config: Settings | Mapping[str, object],
        inputs: Sequence[TopicPartition],
        merge_log: TopicPartition,
        name: str,
        position: int = 0,
    ) -> None:
        inputs = tuple(arguments.places(f"MergeLog {name}", inputs))
        if checked_number(f"MergeLog {name}", position, "position") < 0:
            raise MisuseError(f"MergeLog {name}", f"position={position} is negative", "Begin at 0")
        if not inputs or len(set(inputs)) < len(inputs) or merge_log in inputs:
            raise MisuseError(
                f"MergeLog {name}",
                "inputs= are none, or one is named twice, or one is the merge log",
                "Name each input once",
            )
        self._inputs, self._merge_log = inputs, merge_log
        super().__init__(config, name, read=inputs, written=(merge_log,))
        self._orders: deque[tuple[int, Order]] = deque()
        self._held: HeldRecords[Message] = HeldRecords()
        self._is_awaited = False  # whether an order of ours is not readable yet
        self._is_broken = False  # whether a call has ended with an error
        try:
            position, begin = self._begin(position)
            self._tail = Tail(self._config, name, {**begin, merge_log: position})
        except BaseException:
            self._publisher.close()
            raise
        self._next = dict(begin)

    def _begin(self, position: int) -> tuple[int, dict[TopicPartition, int]]:
        """The position to go on at, and where each input goes on then."""
        end = log_end(self._config, self._topics, self._merge_log, self.name)
        if position > end.end:
            raise LogConflictError(
                self.name,
                str(self._merge_log),
                f"position={position} lies above its end, {end.end}: it is none of this merge log",
                "Give the next_offset of a batch that was committed, or 0 to begin at its first "
                "order. If it was made again, give the merge a new name=, too",
            )
        position = self._within(self._merge_log, position)
        self._tip = end.end
        found: dict[TopicPartition, int] = {}
        if end.last is not None:
            found = self._order_in(end.last).after()
        if end.last is not None and (end.last.offset() or 0) >= position:
            offsets = OffsetRange(position, end.last.offset() or 0)
            where = (self._config, self._topics, self._merge_log)
            for messages, _ in slices(self.name, *where, offsets):
                if messages:
                    found = dict(self._order_in(messages[0]).begin)
                    break
        kept = {tp: found.get(tp, -1) for tp in self._inputs}
        return position, {
            tp: self._begin_of(tp) if offset < 0 else self._within(tp, offset)
            for tp, offset in kept.items()
        }

    def next_batch(self, timeout_s: float | None = 1.0) -> MergedBatch | None:
        """The next records of the inputs, at most 1,000; None: none have come in time.

        Without a time-out it waits until some come.

        Raises:
            PublisherFencedError: Another one of this name has begun.
            LogConflictError: An input has not the records any more whose order is recorded.
            InputGoneError: Records were removed before they were read.
            MisuseError: It is closed, or a call before this one has ended with an error.
            CoopConsumerError: Kafka refuses; a new object goes on at the last commit.
        """
        if self._state is SingleWriterState.CLOSED:
            raise MisuseError(f"MergeLog {self.name}", "it is closed", "Make a new MergeLog")
        if self._is_broken:
            raise MisuseError(
                f"MergeLog {self.name}",
                "a call of it has ended with an error, so records that it had read may be missing",
                "Make a new MergeLog at the position that was committed last",
            )
        wait_s = arguments.seconds(f"{self.name}: next_batch()", timeout_s)
        try:
            return self._next_batch(inf if wait_s is None else monotonic() + wait_s)
        except BaseException:  # also Ctrl-C: what the Consumer has just returned is gone with it
            self._is_broken = True
            raise

    def _next_batch(self, until_s: float) -> MergedBatch | None:
        while True:
            if self._orders:
                batch = self._taken(*self._orders[0])
                if batch is not None:
                    self._orders.popleft()
                    return batch
            elif not self._is_awaited and self._is_at_tip() and self._held:
                self._record_order()
            left_s = until_s - monotonic()
            if left_s <= 0:
                return None
            self._pause_what_is_full()
            self._take_in(self._tail.messages(min(left_s, _POLL_S)))

    def _is_at_tip(self) -> bool:
        """Whether all orders are read that were there at the start; nobody else writes more."""
        return self._tail.positions[self._merge_log] >= self._tip

    def _take_in(self, messages: list[Message]) -> None:
        for message in messages:
            tp = TopicPartition(message.topic() or "", message.partition() or 0)
            if tp == self._merge_log:
                self._orders.append((message.offset() or 0, self._order_in(message)))
                self._is_awaited = False
            else:
                self._held.add(tp, message)

    def _pause_what_is_full(self) -> None:
        missing = self._missing(self._orders[0][1]) if self._orders else set()
        self._tail.keep_paused(self._held.full(self._tail.paused) - missing)

    def _missing(self, order: Order) -> set[TopicPartition]:
        """The inputs of an order whose records have not all come yet."""
        return {run.tp for run in order.runs if self._tail.positions.get(run.tp, 0) <= run.last}

    def _record_order(self) -> None:
        places = self._held.oldest(BATCH_RECORDS)
        ids = {tp.topic: self._id_of(tp) for tp in self._inputs}
        order = Order(self._next, runs_of(places), ids)
        with self._transaction():
            headers = stamped((), Stamp(self.name, len(places)))
            topic, partition = self._merge_log.topic, self._merge_log.partition
            self._publisher.write(topic, order.encode(), None, headers, partition=partition)
        self._is_awaited = True

    def _taken(self, offset: int, order: Order) -> MergedBatch | None:
        """The records of an order; None if some of them have not come yet."""
        after = order.after()
        unknown = sorted(str(tp) for tp in after if tp not in self._next)
        if unknown:
            raise LogConflictError(
                self.name,
                f"{self._merge_log} offset {offset}",
                f"records of {', '.join(unknown)} come next, which inputs= does not name",
                f"Name {', '.join(unknown)} until all recorded orders are done",
            )
        if self._missing(order):
            return None
        messages = [message for run in order.runs for message in self._run(offset, run)]
        self._next.update(after)
        return MergedBatch(tuple(messages), offset + 1)

    def _run(self, offset: int, run: InputRun) -> list[Message]:
        found = self._held.take(run)
        problem = differences(run, [message.offset() or 0 for message in found])
        if problem:
            raise LogConflictError(
                self.name,
                f"{self._merge_log} offset {offset}",
                f"{problem}: it was compacted, or its records were removed",
                "Merge inputs that are not compacted, and keep them longer than commits are old",
            )
        return found

    def _order_in(self, message: Any) -> Order:
        place = f"{self._merge_log} offset {message.offset()}"
        try:
            stamp = stamp_in(headers_in(message))
            order = Order.decode(message.value())
        except ValueError:
            stamp, order = None, None
        own_number(stamp, self.name, place)
        assert order is not None, "what has our stamp is an order"
        for topic, was in order.ids.items():
            now = self._facts.get(topic)
            if now is not None and now.id.hex() != was:
                raise LogConflictError(
                    self.name,
                    place,
                    f"it is about another topic {topic} (id {was}): that one was deleted and made "
                    "again",
                    "Give the merge a new name= and a new merge log, to begin anew",
                )
        return order

    def close(self) -> None:
        """Close the clients; an open transaction is aborted."""
        self._tail.close()
        super().close()
