"""Data loss: records were removed or cut off, or a topic was made again. Pure.

In: positions out of range, batches of a younger leader, topics with new ids. Out: a report of what
is lost; `on.data.loss` says whether the member goes on. After a cut-off the partition begins again
in the next epoch. In a topic that was made again it inherits nothing. What retention removed counts
as done, so that it never stalls the stable offset. Upholds I2, I3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from assignors import hull
from coop_consumer.core.actions import Level
from coop_consumer.errors import DataLossError, TopicRecreatedError
from coop_consumer.log_events import LogEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assignors import TopicPartition
    from coop_consumer.core.closing import Closing
    from coop_consumer.core.events import OutOfRange, TopicsKnown
    from coop_consumer.core.handover import Handover
    from coop_consumer.core.state import MemberState, Partition
    from coop_consumer.core.streams import Streams
    from coop_consumer.core.tenure import Tenure
    from coop_consumer.errors import CoopConsumerError
    from coop_consumer.log_events import Facts


@dataclass(slots=True, eq=False)
class DataLoss:
    """Decides how a member goes on if data is gone."""

    state: MemberState
    streams: Streams
    handover: Handover
    closing: Closing

    def out_of_range(self, event: OutOfRange) -> None:
        """The partition does not hold what the stream wants next: report it, and go on or stop."""
        state = self.state
        partition = state.partitions.get(event.tp)
        stream = self.streams.stream_of(partition, event.stream) if partition else None
        if partition is None or stream is None:
            return
        position, policy = stream.next_offset, state.config.on_data_loss
        if position > event.high:
            self.cut_off(event.tp, event.high)
            return
        error = _lost(event.tp, stream.tenures, position, event.low - 1, policy)
        state.counters.lost_to_retention += event.low - position
        state.tally.of(event.tp.topic).lost_to_retention += event.low - position
        if not self._stops(error, LogEvent.DATA_LOST, tp=event.tp, offset=position):
            self.streams.skip_to(partition, stream, event.low)

    def cut_off(self, tp: TopicPartition, offset: int) -> None:
        """The partition was cut off at `offset`, below our progress: an unclean election."""
        state, partition = self.state, self.state.partitions[tp]
        policy = state.config.on_data_loss
        tops = [fact.next_offset for tenure in partition.tenures for fact in tenure.facts()]
        last = max([offset, *(top - 1 for top in tops)])
        error = _lost(tp, partition.tenures, offset, last, policy)
        more = " Progress from there on is dropped."
        if not self._stops(error, LogEvent.DATA_LOST, more, tp=tp, offset=offset):
            epoch = max(tenure.epoch for tenure in partition.tenures)
            partition.agreement.cut_off(epoch, offset)
            self.handover.begin_again(partition)

    def topics_known(self, event: TopicsKnown) -> None:
        """These are the topics now: a topic that was made again under its name has no past.

        If the member had left it before, nothing is lost by that: it has come, as a new one.
        """
        state, topics = self.state, event.topics
        state.topics_left |= event.left
        state.membership.patterns = event.patterns
        again = [
            t for t, (id_, _) in topics.items() if t in state.topics and id_ != state.topics[t][0]
        ]
        state.topics.update(topics)
        state.topics_missing = (state.topics_missing | event.missing) - topics.keys()
        had_left = state.topics_left & topics.keys()
        state.topics_left -= had_left
        for topic in sorted(again):
            partitions = [p for tp, p in sorted(state.partitions.items()) if tp.topic == topic]
            for partition in partitions:
                self._inherit_nothing(partition)
            if topic not in had_left:
                error = TopicRecreatedError(topic, state.config.on_data_loss)
                self._stops(error, LogEvent.TOPIC_RECREATED, topic=topic)

    def _stops(
        self, error: CoopConsumerError, event: LogEvent, /, more: str = "", **facts: Unpack[Facts]
    ) -> bool:
        """Report a loss; returns whether the member ends by it."""
        facts["error"] = error
        self.state.report(Level.ERROR, event, f"{error}{more}", **facts)
        is_end = self.state.config.on_data_loss == "stop"
        if is_end:
            self.closing.begin(error)
        return is_end

    def _inherit_nothing(self, partition: Partition) -> None:
        self.handover.begin_again(partition)
        partition.topic_id = self.state.topics[partition.tp.topic][0]
        partition.agreement.forget_topic()
        partition.end_offset = -1


def _lost(
    tp: TopicPartition, tenures: Iterable[Tenure], first: int, last: int, policy: str
) -> DataLossError:
    owned = hull(key_range for tenure in tenures for key_range in tenure.held)
    return DataLossError(tp.topic, tp.partition, owned, first, last, policy)
