"""The calls of `CooperativeConsumer`. It holds no state beyond `ConsumerLife`'s.

Progress is a set of facts that only `done` (or `on.failure`) adds to. Pause and seek change which
records are handed out, never which are done. Upholds I2 and I4 by what it passes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from assignors import WHOLE, KeyRange, TopicPartition, union
from coop_consumer.arguments import (
    a_place,
    a_record,
    an_error,
    instance,
    places,
    seconds,
    shares,
    whole,
)
from coop_consumer.config import Config, TopicNames, checked_topics
from coop_consumer.consumer.block import ConsumerTransaction
from coop_consumer.consumer.consumption import Consumption
from coop_consumer.consumer.life import ConsumerLife
from coop_consumer.consumer.listener import RangeListener
from coop_consumer.core import events
from coop_consumer.core.record import Record, place_of
from coop_consumer.errors import (
    ConfigError,
    ConsumerRangeFetchNotAcceptedError,
    IndividualCommitNotAllowedError,
    MisuseError,
)
from coop_consumer.owners import Owner, owner_of, refuse_unknown

if TYPE_CHECKING:
    from coop_consumer.core.committed import CommittedOffset
    from coop_consumer.core.outputs import SentHeaders, Text

_ONE_OF_BOTH = "Use one consumer that subscribes, and another one that assigns"


class CooperativeConsumer(ConsumerLife):
    """Hands out the records of the key ranges that it owns.

    A record handed out belongs to the caller, and so does its key: no later record of that key (and
    partition) is handed out before `done(record)` or `failed(record, error)`. Records of other keys
    are, in no promised order among keys. Any number of threads may call any method. Progress is
    committed in the background; `commit` waits for it.

    Args:
        config: One dict of dotted names, librdkafka's and ours, or a `Config`. The consumer's
            weight in the group is `capacity`, 1 unless set.

    Raises:
        ConfigError: For a bad setting. No broker is asked before `subscribe` or `assign`.

    Example::

        config = {"bootstrap.servers": "b:9092", "group.id": "billing"}
        with CooperativeConsumer(config) as consumer:
            consumer.subscribe(["orders"])
            for record in consumer:
                bill(record)
                consumer.done(record)
    """

    # ---- what to consume -----------------------------------------------------------------------

    def subscribe(self, topics: TopicNames, listener: RangeListener | None = None) -> None:
        """Join the group; ranges of these topics come while polling. Returns before they do.

        Called again, it replaces the topics: ranges of those no longer named are handed over, and
        progress is kept.

        Args:
            topics: A list of names, at least one.
            listener: Hears which ranges come and go; the one before stays if none is given.

        Raises:
            MisuseError: If `assign` was called, or the consumer is closed.
            ConfigError: If `topics` are no names; patterns are not followed.
            CoopConsumerError: Where the broker, a topic or a right is missing; nothing has changed.
        """
        names = checked_topics(topics)
        if listener is not None:
            instance("subscribe()", listener, RangeListener)
        self.config.refuse_circles(names)
        with self._lock:
            self._refuse_if_closed("subscribe()")
            if self._running is None:
                listener = listener or RangeListener()
                self._running = Consumption(self.config, names, listener, alone=False)
            elif self._alone:
                raise MisuseError("subscribe()", "assign() was called before", _ONE_OF_BOTH)
            else:
                self._running.refuse_if_ended("subscribe()")
                self._running.subscribe(names, listener)

    def assign(
        self,
        ranges: Mapping[TopicPartition, Sequence[KeyRange]],
        listener: RangeListener | None = None,
    ) -> None:
        """Consume these ranges without being a member of the group; replaces the last assignment.

        Progress is kept in the group's name, so the same ranges go on where they stopped, here or
        in a group. Nothing keeps two processes apart: assign a range to one process only. If the
        log shows that another member holds a range, or crashed while it held one, a warning names
        that member. A group that has members is refused.

        Args:
            ranges: For each partition its key ranges; an empty list means the whole partition, an
                empty dict nothing at all.
            listener: Hears which ranges come and go; only that of the first call counts.

        Raises:
            MisuseError: After `subscribe`, for a partition that does not exist, if the consumer is
                closed, or with `processing.guarantee=exactly_once`.
            ConfigError: For ranges smaller than a partition where `ordering=partition`.
            ConsumerRangeFetchNotAcceptedError: For such where `allow.individual.commit=false`.
            IndividualCommitNotAllowedError: For such where `accept.individual.commit=false`.
            ForeignProtocolError: If the group has members.
            CoopConsumerError: Where the broker, a topic or a right is missing.
        """
        if self.config.exactly_once:
            raise MisuseError(
                "assign()",
                "processing.guarantee=exactly_once needs a group, whose coordinator refuses the "
                "results of members that are gone",
                "Call subscribe(), or set at_least_once",
            )
        wanted = {tp: union(own) or (WHOLE,) for tp, own in shares("assign()", ranges).items()}
        if listener is not None:
            instance("assign()", listener, RangeListener)
        self.config.refuse_circles({tp.topic for tp in wanted})
        for tp, own in sorted(wanted.items()):
            _refuse_shares(self.config, tp, own)
        with self._lock:
            self._refuse_if_closed("assign()")
            if self._running is None:
                topics = sorted({tp.topic for tp in wanted})
                self._running = Consumption(
                    self.config, topics, listener or RangeListener(), alone=True
                )
                self._alone = True
            elif not self._alone:
                raise MisuseError("assign()", "subscribe() was called before", _ONE_OF_BOTH)
            self._running.refuse_if_ended("assign()")
            self._running.assign(wanted)

    def assignment(self) -> dict[TopicPartition, tuple[KeyRange, ...]]:
        """The ranges whose records are handed out here now; those that still wait are not in it.

        Raises:
            MisuseError: Before `subscribe` or `assign`, or if the consumer is closed.
        """
        return dict(self._started("assignment()").snapshot().assignment)

    # ---- records -------------------------------------------------------------------------------

    def poll(self, timeout: float | None = None) -> Record | None:
        """The next record of a key that nobody has in hand; also calls the listener.

        Args:
            timeout: How long to wait, in seconds; None or negative: until there is one.

        Returns:
            A record that is the caller's until `done` or `failed`; None if none came in time. One
            thread gets some 60,000 records a second through `poll` and `done`, and half as many
            again by `consume` (measured on two busy cores).

        Raises:
            MisuseError: Before `subscribe` or `assign`, or if the consumer is closed.
            ProgressLogLostError: The progress topic is lost, and without a `timeout` this thread
                would wait for ever: the next run begins once it is through with what it has in
                hand. Do that, and go on polling.
            CoopConsumerError: What ended the consumer, if it was not `close`.
        """
        if timeout is not None and type(timeout) is not float:
            timeout = seconds("poll()", timeout)
        has_limit = timeout is not None and timeout >= 0
        running = self._started("poll()", may_wait=True)
        while (record := running.executor.take(timeout if has_limit else None)) is None:
            self._started("poll()", may_wait=has_limit)  # raises if the end is why
            if has_limit:
                break
        return record

    def consume(self, num_messages: int = 1, timeout: float | None = None) -> list[Record]:
        """Up to `num_messages` records, at most one of a key: the first that comes, and what waits.

        Unlike confluent-kafka's, it does not wait until the list is full: if every key has a record
        in hand, no more records would come.

        Args:
            num_messages: At most so many.
            timeout: How long to wait for the first, as in `poll`.

        Raises:
            MisuseError, CoopConsumerError: As `poll`.
        """
        num_messages = whole("consume()", num_messages, "number of messages")
        if num_messages > 1:
            self._started("consume()", may_wait=True).executor.expect(num_messages)
        first = self.poll(timeout) if num_messages > 0 else None
        if first is None:
            return []
        records, take = [first], self._started("consume()", may_wait=True).executor.take
        while len(records) < num_messages and (record := take(0)) is not None:
            records.append(record)
        return records

    def __iter__(self) -> Iterator[Record]:
        """Records as they come, until the consumer is closed. Each has to be `done`.

        Raises:
            CoopConsumerError: What ended the consumer, if it was not `close`.
        """
        while True:
            try:
                record = self.poll()
            except MisuseError:
                if not self._closed or self._is_fork:
                    raise
                return
            if record is not None:
                yield record

    def done(self, record: Record) -> None:
        """The record is processed: the next commit says so, and its key's next record may come.

        Send its output by `send`, or flush what you have buffered *before* this call: nothing
        flushes it later, unlike in a pool, which calls `Worker.flush`. It is fine to flush once,
        and then call `done` for many records.

        A record whose range has moved away meanwhile can be `done`, too.

        Raises:
            MisuseError: If the record is not in hand: done or failed before, given back by `close`,
                a copy (pickled, or from another process), or no record of this consumer.
        """
        a_record("done()", record)
        if not self._started("done()", closed_too=True).executor.finish(record):
            raise _not_in_hand("done()", record)

    def failed(self, record: Record, error: BaseException) -> None:
        """The record could not be processed: it comes again after its back-off, its key waits.

        After `max.attempts` failures `on.failure` decides, as in a pool: park, skip, dead letter or
        stop.

        Raises:
            MisuseError: As `done`.
        """
        a_record("failed()", record)
        an_error("failed()", error)
        if not self._started("failed()", closed_too=True).executor.fail(record, error):
            raise _not_in_hand("failed()", record)

    def send(
        self,
        record: Record,
        topic: str,
        key: Text,
        value: Text,
        headers: SentHeaders = (),
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Send an output of a record in hand. It goes to Kafka once the record is `done`.

        It does so before the record's progress, so nothing is lost, or with exactly once together
        with it. If the record is `failed`, its outputs are dropped. Otherwise as `Context.send`;
        the topic is named in the setting `output.topics`.

        Raises:
            MisuseError: The record is not in hand; or as `Context.send`.
            RecordTooLargeError: The topic takes no record of this size.
            CoopConsumerError: As `poll`.
        """
        a_record("send()", record)
        running = self._started("send()", closed_too=True)
        if not running.executor.has(record):
            raise _not_in_hand("send()", record)
        running.outputs.send(
            record, topic, key, value, headers, partition=partition, timestamp_ms=timestamp_ms
        )

    def transaction(
        self, *, wait: bool = False, timeout: float | None = None
    ) -> ConsumerTransaction:
        """A block whose outputs and records count as a whole: in one Kafka transaction, or not.

            with consumer.transaction() as t:
                t.send(first, "totals", key, value)
                t.done(first)
                t.done(second)

        If the block raises, its records stay in hand, and its outputs are dropped. If the member is
        put out of its group before the commit, all of the records come again, here or elsewhere.

        Args:
            wait: Return from the block once it is committed.
            timeout: How long to wait for that, in seconds; None: until it is.

        Raises:
            MisuseError: With `processing.guarantee=at_least_once`; or as `poll`.
            CoopConsumerError: As `poll`.
        """
        if not self.config.exactly_once:
            raise MisuseError(
                "transaction()",
                "the group works with processing.guarantee=at_least_once",
                "Set it to exactly_once, or use send and done",
            )
        timeout = seconds("transaction()", timeout)
        running = self._started("transaction()", closed_too=True)
        committed = (lambda: self.commit(timeout)) if wait else None
        return ConsumerTransaction(running, committed, _not_in_hand)

    # ---- progress ------------------------------------------------------------------------------

    def commit(self, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Wait until everything that was done before this call is in the progress log.

        Args:
            timeout: How long to wait, in seconds; None: until it is there.

        Returns:
            For each partition assigned here the stable offset of our ranges: the first offset in
            them that is not done. Gap ranges above it are committed too (see `committed`).

        Raises:
            TimeoutError: It is not there yet; the commit goes on in the background.
            MisuseError, CoopConsumerError: As `poll`.
        """
        timeout = seconds("commit()", timeout)
        answer = self._started("commit()").ask(events.CommitNow, timeout)
        return cast("dict[TopicPartition, int]", answer)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """What is committed in the group's name, by all its members, as the broker has it now.

        Reads the progress log to its end: O(what was written since the last call).

        Args:
            partitions: Of topics subscribed to or assigned.
            timeout: How long to wait, in seconds; None: until it is known.

        Returns:
            For each partition its stable offset with the gap ranges above; None if the group has
            never committed there.

        Raises:
            TimeoutError, MisuseError, CoopConsumerError: As `commit`.
        """
        timeout = seconds("committed()", timeout)
        running, asked = self._started("committed()"), places("committed()", partitions)
        refuse_unknown("committed()", running.member, asked)
        return running.committed(asked, timeout)

    def position(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """How far the partitions are fetched: all our records below are handed out, or wait to be.

        None where nothing is assigned here.

        Raises:
            MisuseError, CoopConsumerError: As `poll`.
        """
        asked = places("position()", partitions)
        positions = self._started("position()").snapshot().positions
        return {tp: positions.get(tp) for tp in asked}

    # ---- what is handed out --------------------------------------------------------------------

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these partitions, and fetch nothing, until `resume`.

        It holds for partitions that are not assigned, too, and over rebalances. Records that wait
        to be handed out are dropped and fetched again later, so that they take no room from other
        partitions. Records in hand stay in hand.

        Raises:
            MisuseError, CoopConsumerError: As `poll`.
        """
        named = places("pause()", partitions)
        self._started("pause()").ask(partial(events.Pause, partitions=named))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with partitions that were paused; others are left as they are.

        Raises:
            MisuseError, CoopConsumerError: As `poll`.
        """
        named = places("resume()", partitions)
        self._started("resume()").ask(partial(events.Resume, partitions=named))

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Go on with every record of our ranges at or above `offset`, done before or not.

        It changes what is handed out, here and in this run. It does not change what is done:

        - *back*: records come again, in the order of their keys, though they are done. They stay
          done: the next owner of the range does not get them, nor does this one after a restart.
        - *forward*: the skipped records are not done. The stable offset stays below them, records
          done above become gap ranges, and the next owner of the range gets the skipped records. To
          drop them for good, use `coop-consumer reset`, or get them and call `done`.

        It moves only ranges held now. Other members of a shared partition go on as they were, and a
        range that comes later begins at its progress. Records in hand stay in hand, and come again
        only if they fail: to have a record again, use `failed`.

        In `on_ranges_assigned` it moves a range before its first record.

        Raises:
            MisuseError: If nothing of `tp` is held here, or `offset` is not in the partition's log
                (nor its end): there the policy for lost data would have to decide.
            CoopConsumerError: As `poll`.
        """
        a_place("seek()", tp)
        running, offset = self._started("seek()"), whole("seek()", offset, "offset")
        refuse_unknown("seek()", running.member, [tp])
        running.seek(tp, offset)

    # ---- the group -----------------------------------------------------------------------------

    def owner_of(self, topic: str, key: bytes, partition: int | None = None) -> Owner | None:
        """Which member of the group processes a key, by its present assignment.

        Args:
            topic: A topic subscribed to or assigned.
            key: The key's bytes.
            partition: Where the key's records lie; None: where Kafka's own clients put them by
                default (murmur2 of the key). librdkafka's do so with `partitioner=murmur2_random`.

        Returns:
            The owner; None while nobody has the range. Asks the broker each time.

        Raises:
            MisuseError: Where `ordering=none`, as any member may get any record of a key; else as
                `poll`.
            CoopConsumerError: As `poll`.
        """
        running = self._started("owner_of()")
        return owner_of(self.config, running.member, topic, key, partition)


def _refuse_shares(config: Config, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
    """Raise if these are smaller than the partition, and the configuration forbids that."""
    if ranges == (WHOLE,):
        return
    key_range, *_ = ranges
    where = (config.group_id, config.client_id, tp.topic, tp.partition, key_range)
    if config.ordering == "partition":
        raise ConfigError(
            "ordering",
            f"=partition keeps the order of whole partitions, and {tp} was to be shared",
            "Assign the whole partition, or set ordering=key",
        )
    if not config.allow_individual_commit:
        raise ConsumerRangeFetchNotAcceptedError(*where)
    if not config.accept_individual_commit:
        raise IndividualCommitNotAllowedError(*where)


def _not_in_hand(call: str, record: Record) -> MisuseError:
    return MisuseError(
        call,
        f"{place_of(record)} is not in hand (it was done or failed before, given back by "
        "close, or comes from another consumer)",
        "Call done or failed once for each record that poll or consume returned",
    )
