"""Topic starts: at which end a new partition begins if `auto.offset.reset` is `latest`. Pure.

The setting is for a topic that is new to the group. A partition that is added later, and a topic
that is made again under its name, begin at their first record. So the log tells for each topic
which partitions were there when the group began to read it. The lead of a partition without
progress and without a committed offset looks for that record, and appends it if there is none. The
first one in the log counts for all. Upholds I2. See decision 038.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignors import TopicPartition
from coop_consumer.config import OffsetReset
from coop_consumer.core.actions import FetchCommitted
from offsets import TopicStartKey, TopicStartRecord, encode_key, encode_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from coop_consumer.core.log_reading import LogReading
    from coop_consumer.core.outbox import Outbox
    from coop_consumer.core.state import LogView, MemberState, Partition
    from coop_consumer.errors import CoopConsumerError

_ASK_AGAIN_MS = 100
_ANSWER_MS = 30_000


@dataclass(slots=True)
class _TopicLook:
    """What the group has committed of a topic, as far as we have asked.

    Attributes:
        is_asked: An answer is under way.
        is_read: Whether the group has committed anything of it; None: not known yet.
    """

    is_asked: bool = False
    again_ms: int = 0
    is_read: bool | None = None


@dataclass(slots=True, eq=False)
class TopicStarts:
    """Finds, or appends, the record of which partitions a topic had when the group began."""

    state: MemberState
    outbox: Outbox
    reading: LogReading
    _looks: dict[str, _TopicLook] = field(default_factory=dict)
    _appending: dict[int, str] = field(default_factory=dict)

    def policy(self, partition: Partition) -> str | None:
        """To which end the beginning of this partition resolves; None: not known yet."""
        state, tp = self.state, partition.tp
        if state.config.auto_offset_reset is not OffsetReset.LATEST:
            return state.config.auto_offset_reset
        view = self._view(tp.topic)
        start = view.store.topic_start(tp.topic)
        if start is not None:
            is_old = start.had(partition.topic_id, tp.partition)
            return OffsetReset.LATEST if is_old else OffsetReset.EARLIEST
        if not view.asked:
            self.reading.read(view)
        elif view.current and tp.topic not in self._appending.values():
            look = self._looks.setdefault(tp.topic, _TopicLook())
            if look.is_read is None:
                self._ask(tp.topic, look)
            else:
                # If the group has read the topic, no partition of it begins at its end any more.
                count = max(state.topics[tp.topic][1], tp.partition + 1)
                self._append(tp.topic, 0 if look.is_read else count)
        return None

    def note(self, led: Iterable[Partition]) -> None:
        """Append that the group reads the topics of these partitions, which have begun.

        The group may have begun without the record: from offsets that were committed before. The
        lead of partition 0 does it: it reads the record's partition of the log anyway.
        """
        if self.state.config.auto_offset_reset is not OffsetReset.LATEST:
            return
        for topic, view in [(p.tp.topic, p.view) for p in led if not p.tp.partition]:
            is_sent = topic in self._appending.values()
            if view.current and not is_sent and view.store.topic_start(topic) is None:
                self._append(topic, 0)

    def _view(self, topic: str) -> LogView:
        return self.state.view_of(TopicPartition(topic, 0))

    def _places(self, topic: str) -> list[TopicPartition]:
        _, count = self.state.topics[topic]
        return [TopicPartition(topic, number) for number in range(count)]

    def _ask(self, topic: str, look: _TopicLook) -> None:
        """Ask for all committed offsets of a topic, at most every 100 ms."""
        now_ms = self.state.now_ms
        if now_ms >= look.again_ms + (_ANSWER_MS if look.is_asked else 0):
            look.is_asked, look.again_ms = True, now_ms + _ASK_AGAIN_MS
            self.state.actions.append(FetchCommitted(self._places(topic)))

    def _append(self, topic: str, partitions: int) -> None:
        state, view = self.state, self._view(topic)
        self._looks.pop(topic, None)
        token = state.token()
        self._appending[token] = topic
        key = TopicStartKey(state.group, topic, f"{state.name}/{state.incarnation:x}/{token}")
        value = TopicStartRecord(state.topics[topic][0], partitions)
        entry = encode_key(key), encode_value(value)
        self.outbox.append(view, [entry], self, token=token)

    # ---- answers -------------------------------------------------------------------------------

    def committed(self, offsets: Mapping[TopicPartition, object | None]) -> None:
        """Committed offsets have come, maybe those of a whole topic.

        An offset whose tag is of a deleted topic of the name counts, too: the group has read it.
        """
        for topic, look in self._looks.items():
            places = self._places(topic)
            if offsets.keys() >= set(places):
                look.is_asked = False
                look.is_read = any(offsets[tp] is not None for tp in places)

    def committed_unknown(self, partitions: Iterable[TopicPartition]) -> None:
        """They could not be read; `policy` asks again."""
        for topic in {tp.topic for tp in partitions} & self._looks.keys():
            self._looks[topic].is_asked = False

    def appended(self, token: int, offsets: Sequence[int]) -> None:
        """Read the log: another member's record may lie before ours and count."""
        del offsets
        self.reading.read(self._view(self._appending.pop(token)))

    def append_failed(self, token: int, error: CoopConsumerError) -> None:
        """Read the log: the record may be in it all the same."""
        del error
        self.reading.read(self._view(self._appending.pop(token)))
