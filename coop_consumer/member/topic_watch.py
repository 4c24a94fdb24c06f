"""The topic watch: notices topics that come, go, are made again, or get partitions. One thread.

In: time, doubts ("look now: a fetch failed"), the topics' present facts. Out: looks to make, and
the changes that they show. librdkafka fetches and produces by name. If a topic is created again, it
goes on at the old offset without an error: only the topic's id differs. The member's thread makes
all calls; `look` makes the look itself, and must not block.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol, Unpack

from coop_consumer.config import TopicChoice
from coop_consumer.errors import CoopConsumerError, ProgressLogLostError
from coop_consumer.kafka.topics import TopicFacts
from coop_consumer.log_events import Facts, LogEvent
from coop_consumer.plain_text import counted

log = logging.getLogger(__name__)

PAUSE_MS = 1_000
"""The shortest time between two looks, however many doubts come."""

Then = Callable[[], None]


class TopicListener(Protocol):
    """Notified about changes; on the thread that called `TopicWatch.seen`."""

    def on_topics_changed(self, topics: Mapping[str, TopicFacts]) -> None:
        """These topics have another id, more partitions, or exist again."""

    def on_matches_changed(self, came: Mapping[str, TopicFacts], gone: Collection[str]) -> None:
        """Topics have come that match a pattern, or have gone that matched one."""

    def on_topic_missing(self, topic: str) -> None:
        """This named topic does not exist any more; `on_topics_changed` comes if it does again."""

    def on_progress_lost(self, error: ProgressLogLostError) -> None:
        """The progress topic is another one; called once, as the last call."""


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class TopicWatch:
    """Looks at topics when it is time, and notifies a listener of changes.

    Args:
        known: The data topics as they were described.
        choice: Which topics are to be consumed.
        progress: The progress topic's name.
        progress_facts: The progress topic as it was described.
        interval_ms: Between two looks without doubts.
        look: Begins a look at topics; its outcome comes to `seen`.
        listener: Notified about changes.
        group: For messages.
        due_ms: When the next `step` is due; infinite while a look is under way.
    """

    known: dict[str, TopicFacts]
    choice: TopicChoice
    progress: str
    progress_facts: TopicFacts
    interval_ms: int
    look: Callable[[Collection[str]], None]
    listener: TopicListener
    group: str
    due_ms: float = float("-inf")
    _missing: set[str] = field(default_factory=set)
    _reported: set[str] = field(default_factory=set)  # topics reported as missing
    _former: set[bytes] = field(default_factory=set)  # former ids of topics that were created again
    _waiting: list[Then] = field(default_factory=list)
    _asked: list[Then] = field(default_factory=list)
    _begun_ms: float = float("-inf")
    _failed: bool = False
    _lost: bool = False

    def watch(self, topics: Mapping[str, TopicFacts], choice: TopicChoice) -> None:
        """Watch these data topics of a choice from now on, instead of the present ones."""
        self.known, self.choice = dict(topics), choice
        self._missing &= self.known.keys() | {self.progress}
        self._reported &= self._missing

    def step(self, now_ms: int) -> None:
        """Begin a look if one is due."""
        if now_ms >= self.due_ms and not self._lost:
            self._asked, self._waiting = self._waiting, []
            self._begun_ms, self.due_ms = now_ms, float("inf")
            self.look([*self.known, self.progress])

    def look_soon(self, then: Then | None = None) -> None:
        """Look soon, once the pause since the last look is over.

        Args:
            then: Called after a look that began after this call, even if the look failed.
        """
        if then is not None:
            self._waiting.append(then)
        self.due_ms = min(self.due_ms, self._begun_ms + PAUSE_MS)

    def seen(self, found: Mapping[str, TopicFacts | None] | CoopConsumerError) -> None:
        """Take in what a look has found (None: no such topic), or why it has failed."""
        again = bool(self._waiting)
        self.due_ms = self._begun_ms + (PAUSE_MS if again else self.interval_ms)
        if isinstance(found, CoopConsumerError):
            self._report_failure(found)
        else:
            self._failed = False
            self._compare(found)
        asked, self._asked = self._asked, []
        for then in asked:
            then()

    def _report_failure(self, error: CoopConsumerError) -> None:
        level = logging.DEBUG if self._failed else logging.WARNING
        told = (
            "topics cannot be described yet, and are looked at again: %s New partitions are found "
            "later, and nothing is lost"
        )
        log.log(level, told, error, extra=self._extra(LogEvent.TOPICS_UNKNOWN, error=error))
        self._failed = True

    def _compare(self, found: Mapping[str, TopicFacts | None]) -> None:
        changed, came, gone = {}, {}, []
        for name, facts in found.items():
            known = self.known.get(name)
            if name == self.progress:
                self._compare_progress(facts)
            elif known is None:
                if facts is not None and self._has_come(name, facts):
                    self.known[name] = came[name] = facts
            elif self._has_gone(name, facts, known):
                del self.known[name]
                gone.append(name)
                if facts is not None and self._has_come(name, facts):  # another one of the name
                    self.known[name] = came[name] = facts
            elif self._is_change(name, facts, known):
                assert facts is not None, "what is missing is no change yet"
                self._former |= {known.id} - {facts.id}
                self.known[name] = changed[name] = facts
        if changed:
            self.listener.on_topics_changed(changed)
        if came or gone:
            self.listener.on_matches_changed(came, gone)

    def _is_change(self, name: str, facts: TopicFacts | None, known: TopicFacts) -> bool:
        """Whether a topic has another id or more partitions, or exists again."""
        if facts is None:
            if self.choice.follows(name) is None:
                self._note_missing(name)
            return False
        if self._is_outdated(facts, known):
            return False
        is_other = (facts.id, facts.partitions) != (known.id, known.partitions)
        return self._is_back(name) or is_other

    def _has_come(self, name: str, facts: TopicFacts) -> bool:
        """Whether an unknown topic matches; a look may have been at topics of an earlier choice."""
        pattern = self.choice.follows(name)
        if pattern is None or facts.id in self._former:
            return False
        log.info(
            "group %s, topic %s: matches %s, and is consumed from now on",
            self.group, name, pattern,
            extra=LogEvent.TOPIC_MATCHES.extra(group=self.group, topic=name),
        )  # fmt: skip
        return True

    def _has_gone(self, name: str, facts: TopicFacts | None, known: TopicFacts) -> bool:
        """Whether a topic that matched is missing the second time, or is another one now.

        The first time another broker may know it.
        """
        pattern = self.choice.follows(name)
        if pattern is None:
            return False
        if facts is None and name not in self._missing:
            self._missing.add(name)
            self.due_ms = self._begun_ms + PAUSE_MS
            return False
        if facts is not None:
            if facts.id == known.id or self._is_outdated(facts, known):
                return False
            self._former.add(known.id)
        self._missing.discard(name)
        log.info(
            "group %s, topic %s: does not exist any more, and is consumed no more. It matched %s",
            self.group, name, pattern,
            extra=LogEvent.TOPIC_GONE.extra(group=self.group, topic=name),
        )  # fmt: skip
        return True

    def _is_outdated(self, facts: TopicFacts, known: TopicFacts) -> bool:
        """Whether a broker knows less than an earlier one: brokers learn one after the other."""
        is_smaller = facts.id == known.id and facts.partitions < known.partitions
        return is_smaller or facts.id in self._former

    def _note_missing(self, name: str) -> None:
        """Look once more for a topic that a broker does not know: another broker may know it."""
        if name not in self._missing:
            self._missing.add(name)
            self.due_ms = self._begun_ms + PAUSE_MS
        elif name not in self._reported:
            self._reported.add(name)
            log.warning(
                "group %s, topic %s: does not exist any more. Nothing of it is processed. If it is "
                "made again, it is consumed from its first record. Make it, or take it out of "
                "`topics`.",
                self.group,
                name,
                extra=self._extra(LogEvent.TOPIC_MISSING, topic=name),
            )
            self.listener.on_topic_missing(name)

    def _extra(self, event: LogEvent, **facts: Unpack[Facts]) -> dict[str, object]:
        facts["group"] = self.group
        return event.extra(**facts)

    def _is_back(self, name: str) -> bool:
        """Whether the topic was missing until now."""
        if name in self._reported:
            extra = self._extra(LogEvent.TOPIC_BACK, topic=name)
            log.warning("group %s, topic %s: exists again", self.group, name, extra=extra)
        is_back = name in self._missing
        self._missing.discard(name)
        self._reported.discard(name)
        return is_back

    def _compare_progress(self, facts: TopicFacts | None) -> None:
        name, known = self.progress, self.progress_facts
        if facts is None:
            if name in self._missing:
                self._report_loss("was deleted while members run")
            else:  # the broker asked may not know everything yet
                self._missing.add(name)
                self.due_ms = self._begun_ms + PAUSE_MS
            return
        self._missing.discard(name)
        if self._is_outdated(facts, known):
            return
        if facts.id != known.id:
            self._report_loss("was deleted and made again while members run")
        elif facts.partitions != known.partitions:
            self._report_loss(
                f"has {counted(facts.partitions, 'partition')}, and had {known.partitions}"
            )

    def _report_loss(self, problem: str) -> None:
        self._lost = True
        self.listener.on_progress_lost(ProgressLogLostError(self.progress, problem))
