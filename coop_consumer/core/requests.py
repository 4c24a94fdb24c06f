"""Requests: what a user asks between events, and when it is answered. Pure.

In: `events.Request`s, complete reads of the progress log, acknowledged commits. Out: one `Answer`
a request. No request changes what is done. A pause or a seek changes what is handed out, so the log
hears nothing of it. Upholds I2, I3 and I10 with `Tenure` and `Intake`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from coop_consumer.core import events
from coop_consumer.core.actions import Answer, Level
from coop_consumer.core.committed import committed_offset
from coop_consumer.log_events import LogEvent
from offsets import of_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from assignors import KeyRange, TopicPartition
    from coop_consumer.core.commits import Commits
    from coop_consumer.core.committed import CommittedOffset
    from coop_consumer.core.handover import Handover
    from coop_consumer.core.log_reading import LogReading
    from coop_consumer.core.state import LogView, MemberState
    from offsets import Committed


@dataclass(frozen=True, slots=True)
class _ProgressRequest:
    """A question for the progress of partitions, as of reads from these numbers on."""

    committed: Mapping[TopicPartition, Committed | None]
    views: Sequence[tuple[LogView, int]]

    @property
    def is_complete(self) -> bool:
        return all(view.complete >= number for view, number in self.views)


@dataclass(slots=True, eq=False)
class Requests:
    """Serves the user's requests."""

    state: MemberState
    reading: LogReading
    handover: Handover
    commits: Commits
    _readings: dict[int, _ProgressRequest] = field(default_factory=dict)

    def handle(self, event: events.Request) -> None:
        """Begin to serve a request; `answer_due` answers those that take time."""
        match event:
            case events.CommitNow():
                self.commits.commit_now(event.token)
            case events.TellProgress():
                self._read(event)
            case events.Pause():
                self._pause(event.partitions)
                self._answer(event.token, None)
            case events.Resume():
                self._resume(event.partitions)
                self._answer(event.token, None)
            case events.Seek():
                self._answer(event.token, self._seek(event.tp, event.offset))
            case _:
                assert_never(event)

    def answer_due(self) -> None:
        """Answer what has become known."""
        self.commits.answer_due()
        if not self._readings:
            return
        for token in [t for t, reading in self._readings.items() if reading.is_complete]:
            reading = self._readings.pop(token)
            self._answer(
                token, {tp: self._progress_of(tp, it) for tp, it in reading.committed.items()}
            )

    def _answer(self, token: int, value: object) -> None:
        self.state.actions.append(Answer(token, value))

    def _read(self, event: events.TellProgress) -> None:
        views = {id(view): view for view in map(self.state.view_of, event.committed)}
        for view in views.values():
            self.reading.read(view)
        asked = [(view, view.asked) for view in views.values()]
        self._readings[event.token] = _ProgressRequest(event.committed, asked)

    def _progress_of(
        self, tp: TopicPartition, committed: Committed | None
    ) -> CommittedOffset | None:
        topic_id, _ = self.state.topics[tp.topic]
        store = self.state.view_of(tp).store.partition(topic_id, tp.partition)
        return committed_offset(store, of_topic(committed, topic_id))

    def _pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching and forget the queue, which would fill bounds that others need (I8)."""
        state = self.state
        for tp in partitions:
            if tp not in state.load.paused:
                state.load.paused.add(tp)
                if tp in state.partitions:
                    self.handover.begin_anew(state.partitions[tp], None)

    def _resume(self, partitions: Iterable[TopicPartition]) -> None:
        state = self.state
        for tp in partitions:
            if tp in state.load.paused:
                state.load.paused.discard(tp)
                if tp in state.partitions:
                    self.handover.feed(state.partitions[tp])

    def _seek(self, tp: TopicPartition, offset: int) -> tuple[KeyRange, ...]:
        state = self.state
        partition = state.partitions.get(tp)
        if partition is None or not any(tenure.begun for tenure in partition.tenures):
            return ()
        ranges = self.handover.begin_anew(partition, offset)
        self.handover.feed(partition)
        state.report(
            Level.INFO,
            LogEvent.RANGE_SOUGHT,
            f"{tp} keys {' '.join(map(str, ranges))}: goes on at offset {offset} by seek; "
            "progress is what it was",
            tp=tp,
            offset=offset,
        )
        return ranges
