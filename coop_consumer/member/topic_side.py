"""What a member knows of its topics, and hears when they change (see `TopicWatch`).

In: topics as they were described, looks at them, doubts of fetchers and log. Out: events in the
inbox. Only the member's thread calls `step` and takes in what a look has found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from assignors import TopicPartition
from coop_consumer.config import Config, TopicChoice
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
        choice: Which topics are to be consumed.
        facts: These topics, as described.
        progress: The progress topic, as described.
    """

    def __init__(
        self,
        config: Config,
        inbox: Inbox,
        topics: Topics,
        *,
        choice: TopicChoice,
        facts: Mapping[str, TopicFacts],
        progress: TopicFacts,
    ) -> None:
        self._inbox = inbox
        self._topics = topics
        self._facts = facts
        self._watch = TopicWatch(
            known=dict(facts),
            choice=choice,
            progress=config.progress_log,
            progress_facts=progress,
            interval_ms=config.topics_watch_interval_ms,
            look=self._look,
            listener=self,
            group=config.group_id,
        )
        self._look_beside: tuple[Callable[[], None], ...] = ()
        self._changed: Callable[[], None] | None = None
        self._follow: Callable[[Sequence[str]], None] | None = None
        self._tell(self._facts, choice)

    def start(
        self,
        *look_beside: Callable[[], None],
        changed: Callable[[], None],
        follow: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        """Start to use these clients.

        Args:
            look_beside: Called with each look at topics.
            changed: Called when topics have changed, so that the group's leader looks, too.
            follow: Subscribes to these topics instead of the present ones; None: there is no
                subscription.
        """
        self._look_beside, self._changed, self._follow = look_beside, changed, follow

    @property
    def names(self) -> list[str]:
        """The topics that are consumed now."""
        return sorted(self._watch.known)

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

    def learn(self, choice: TopicChoice) -> None:
        """Consume the topics of this choice, and watch only these.

        Topics that are new to us are described, and the core hears of them before the group does.

        Raises:
            TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say; then all
                stays as it was.
        """
        watched, had = self._watch.known, self._facts
        unknown = choice.named - had.keys()
        facts = self._topics.chosen(replace(choice, named=frozenset(unknown)))
        self._facts = {**had, **facts}
        wanted = {name: self._facts[name] for name in (*choice.named, *facts)}
        new = {name: it for name, it in wanted.items() if watched.get(name) != it}
        left = watched.keys() - wanted.keys()
        self._tell(new, choice, left, partial(self._learned, wanted, choice))

    def _learned(self, wanted: Mapping[str, TopicFacts], choice: TopicChoice) -> None:
        self._watch.watch(wanted, choice)
        self._subscribe()

    def _subscribe(self) -> None:
        if self._follow is not None:
            self._follow(sorted(self._watch.known))

    def _tell(
        self,
        topics: Mapping[str, TopicFacts],
        choice: TopicChoice,
        left: Collection[str] = (),
        after: After | None = None,
    ) -> None:
        known = {name: (it.id, it.partitions) for name, it in topics.items()}
        event = events.TopicsKnown(known, frozenset(left), choice.patterns)
        self._inbox.tell(event, after)

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

        self._topics.look_later(names, self._watch.choice, found)
        for look in self._look_beside:
            look()

    def on_topics_changed(self, topics: Mapping[str, TopicFacts]) -> None:
        """Pass on to core and leader that topics were created again or have more partitions."""
        self._facts = {**self._facts, **topics}
        self._tell(topics, self._watch.choice)
        if self._changed is not None:
            self._changed()

    def on_matches_changed(self, came: Mapping[str, TopicFacts], gone: Collection[str]) -> None:
        """Subscribe to what matches now, once the core knows it."""
        stay = {name: it for name, it in self._facts.items() if name not in gone}
        self._facts = {**stay, **came}
        self._tell(came, self._watch.choice, gone, self._subscribe)
        if self._changed is not None and came.keys() & set(gone):
            self._changed()  # the subscription stays the same

    def on_topic_missing(self, topic: str) -> None:
        """Let the core know that no plan can have this topic."""
        patterns = self._watch.choice.patterns
        self._inbox.tell(events.TopicsKnown({}, patterns=patterns, missing=frozenset({topic})))

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
