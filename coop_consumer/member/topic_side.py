"""What a member knows of its topics, and hears when they change (see `TopicWatch`).

In: topics as they were described, looks at them, doubts of fetchers and log. Out: events in the
inbox. Only the member's thread calls `step` and takes in what a look has found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.core import events
from coop_consumer.errors import CoopConsumerError, ProgressLogLostError
from coop_consumer.kafka.topics import EARLIEST, LATEST, TopicFacts, Topics
from coop_consumer.member.inbox import After, Inbox
from coop_consumer.member.topic_watch import TopicWatch


class TopicSide:
    """The topics of one member.

    Args:
        config: The member's.
        inbox: The member's; it gets the topics at once.
        topics: Asks the broker.
        facts: The consumed topics, as described.
        progress: The progress topic, as described.
    """

    def __init__(
        self,
        config: Config,
        inbox: Inbox,
        topics: Topics,
        facts: Mapping[str, TopicFacts],
        progress: TopicFacts,
    ) -> None:
        self._inbox = inbox
        self._topics = topics
        self._facts = facts
        self._watch = TopicWatch(
            known=dict(facts),
            progress=config.progress_log,
            progress_facts=progress,
            interval_ms=config.topics_watch_interval_ms,
            look=self._look,
            listener=self,
            group=config.group_id,
        )
        self._look_beside: tuple[Callable[[], None], ...] = ()
        self._changed: Callable[[], None] | None = None
        self._tell(self._facts)

    def start(self, *look_beside: Callable[[], None], changed: Callable[[], None]) -> None:
        """Start to use these clients.

        Args:
            look_beside: Called with each look at topics.
            changed: Called when topics have changed, so that the group's leader looks, too.
        """
        self._look_beside, self._changed = look_beside, changed

    def partitions(self, topic: str) -> int:
        """How many partitions a subscribed topic had when it was described; 0: not subscribed."""
        facts = self._facts.get(topic)
        return facts.partitions if facts is not None else 0

    def all(self) -> list[TopicPartition]:
        """Every partition of every subscribed topic."""
        return [
            TopicPartition(topic, number)
            for topic, facts in self._facts.items()
            for number in range(facts.partitions)
        ]

    def bounds(self, tp: TopicPartition) -> tuple[int, int]:
        """The partition's first offset and its end, from the broker.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        return self._topics.offsets([tp], EARLIEST)[tp], self._topics.offsets([tp], LATEST)[tp]

    def learn(self, names: Collection[str]) -> None:
        """Describe topics that are new to us, send them to the core, and watch only these topics.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say; then all
                stays as it was.
        """
        new = sorted(set(names) - set(self._facts))
        facts = self._topics.describe(new) if new else {}
        self._facts = {**self._facts, **facts}
        wanted = {name: self._facts[name] for name in names}
        self._tell(facts, lambda: self._watch.watch(wanted))

    def _tell(self, topics: Mapping[str, TopicFacts], after: After | None = None) -> None:
        known = {name: (it.id, it.partitions) for name, it in topics.items()}
        self._inbox.tell(events.TopicsKnown(known), after)

    # ---- looks ---------------------------------------------------------------------------------

    @property
    def due_ms(self) -> float:
        """When the next `step` is due."""
        return self._watch.due_ms

    def step(self, now_ms: int) -> None:
        """Begin a look if one is due."""
        self._watch.step(now_ms)

    def doubt(self) -> None:
        """Look at the topics soon, because something does not fit. Any thread."""
        self._inbox.call(self._watch.look_soon)

    def _look(self, names: Collection[str]) -> None:
        def found(topics: Mapping[str, TopicFacts | None] | CoopConsumerError) -> None:
            self._inbox.call(lambda: self._watch.seen(topics))

        self._topics.look_later(names, found)
        for look in self._look_beside:
            look()

    def on_topics_changed(self, topics: Mapping[str, TopicFacts]) -> None:
        """Pass on to core and leader that topics were created again or have more partitions."""
        self._facts = {**self._facts, **topics}
        self._tell(topics)
        if self._changed is not None:
            self._changed()

    def on_progress_lost(self, error: ProgressLogLostError) -> None:
        """End the run: it can commit nothing any more."""
        self._inbox.tell(events.LogLost(error))

    # ---- what fetchers find --------------------------------------------------------------------

    def fetched(self, event: events.Fetched | events.OutOfRange, taken: After) -> None:
        """Pass on a batch, or the loss of its offset. Any thread."""
        if isinstance(event, events.OutOfRange):
            # A topic created again looks like a truncated one; only its id differs. So look first.
            self._inbox.call(lambda: self._watch.look_soon(lambda: self._inbox.tell(event, taken)))
        else:
            self._inbox.tell(event, taken)

    def log_read(self, event: events.LogRead) -> None:
        """Pass on records of the progress log. Any thread."""
        self._inbox.tell(event)
        if event.restart:
            self.doubt()
