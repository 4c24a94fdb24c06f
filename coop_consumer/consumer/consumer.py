"""`CooperativeConsumer`: what to consume, and who has what.

In: topics, or ranges. Out: a member at work. It holds no state beyond `ConsumerLife`'s. Its bases
have the calls about records and progress. Progress is a set of facts that only `done` (or
`on.failure`) adds to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from assignors import WHOLE, KeyRange, TopicPartition, union
from coop_consumer.arguments import instance, shares
from coop_consumer.config import Config, TopicNames, chosen_topics
from coop_consumer.consumer.consumption import Consumption
from coop_consumer.consumer.listener import RangeListener
from coop_consumer.consumer.records import ConsumerRecords
from coop_consumer.errors import (
    ConfigError,
    ConsumerRangeFetchNotAcceptedError,
    IndividualCommitNotAllowedError,
    MisuseError,
)
from coop_consumer.owners import Owner, owner_of

if TYPE_CHECKING:
    from coop_consumer.core.metrics import MemberMetrics

_ONE_OF_BOTH = "Use one consumer that subscribes, and another one that assigns"


class CooperativeConsumer(ConsumerRecords):
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
            topics: A list of names, at least one. A name that begins with ^ is a pattern: topics
                that match it come and go while the member runs.
            listener: Hears which ranges come and go; the one before stays if none is given.

        Raises:
            MisuseError: If `assign` was called, or the consumer is closed.
            ConfigError: If `topics` are no names.
            CoopConsumerError: Where the broker, a topic or a right is missing; nothing has changed.
        """
        names = chosen_topics(topics)
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

    # ---- figures -------------------------------------------------------------------------------

    def metrics(self) -> MemberMetrics:
        """What the member counts, and how it stands now: typed values, made for an exporter.

        Counters go on over new runs of the member, and stay once the consumer is closed.
        docs/metrics.md has the same figures by their names in Prometheus.

        Raises:
            MisuseError: Before `subscribe` or `assign`.
            MemberSilentError: The member's thread has not answered within 5 seconds.
        """
        return self._started("metrics()", closed_too=True).metrics()

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
