"""Changes a group from outside: a new epoch for a partition, a decision on a parked record.

In: a group as the inspector saw it, and a person's decision. Out: records in the progress log, and
their tagged commits. The log is written first: a crash in between leaves the log ahead of the tag,
and the next lead corrects the tag (`coop_consumer.core.lead`). The module touches nothing else, and
never joins the group.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from assignors import WHOLE, KeyRange, TopicPartition, union
from coop_consumer.admin.inspect import Inspector
from coop_consumer.admin.outside import append_from_outside, commit_from_outside
from coop_consumer.admin.target import Target
from coop_consumer.config import Config
from coop_consumer.core.placement import log_partition_of
from coop_consumer.errors import ConfigError
from coop_consumer.kafka.membership import leave_for
from coop_consumer.kafka.own_topics import progress_topic, record_max_bytes, writer_settings
from coop_consumer.kafka.topics import TopicFacts, Topics, at_time
from coop_consumer.status.errors import GroupInUseError
from coop_consumer.status.model import PendingHandover, progress_of
from coop_consumer.status.seen import MemberSeen, PartitionSeen
from offsets import (
    BaseKey,
    BaseRecord,
    DecisionKey,
    DecisionRecord,
    Meaning,
    OffsetRange,
    ReleaseKey,
    ReleaseRecord,
    TenureId,
    encode_key,
    encode_value,
    newest_epoch,
)


@dataclass(frozen=True, slots=True)
class Reset:
    """What a reset does to one partition.

    Attributes:
        seen: The present partition.
        stable: Its present stable offset, or None.
        epoch: Its present epoch; 0: none.
        offset: Where the new epoch begins.
        new_epoch: The epoch after the reset.
        is_in_log: Whether the log has it already, as after an interrupted reset.
        is_tagged: Whether the committed offset has it already.
        is_lost: Whether the log has lost what was done: only the committed offset tells.
    """

    seen: PartitionSeen
    stable: int | None
    epoch: int
    offset: int
    new_epoch: int
    is_in_log: bool
    is_tagged: bool
    is_lost: bool = False

    @property
    def unknown(self) -> OffsetRange | None:
        """Offsets that come, though some of them may be done; None: what is done is known."""
        first = max(self.offset, self.stable or 0)
        is_known = not self.is_lost or first >= self.seen.end
        return None if is_known else OffsetRange(first, self.seen.end - 1)

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return not (self.is_in_log and self.is_tagged)


class Amender:
    """Plans and carries out changes to one group. Use it inside the inspector's context.

    Args:
        inspector: Sees the group; its configuration names the topic to write to.
    """

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector
        self._topics: Topics = inspector.topics

    @property
    def _config(self) -> Config:
        """As the group works: a look may have found another progress log."""
        return self._inspector.config

    # ---- reset ---------------------------------------------------------------------------------

    def plan_reset(self, partitions: Iterable[PartitionSeen], target: Target) -> list[Reset]:
        """Plan a reset to `target`. Changes nothing.

        A partition without a committed offset is left out if that is the target.

        Raises:
            ConfigError: An offset lies outside a partition.
        """
        partitions = list(partitions)
        offsets = self._offsets(partitions, target)
        return [_reset(seen, offsets[seen.tp]) for seen in partitions if seen.tp in offsets]

    def _offsets(
        self, partitions: Sequence[PartitionSeen], target: Target
    ) -> dict[TopicPartition, int]:
        match target.kind:
            case "earliest":
                return {seen.tp: seen.begin for seen in partitions}
            case "latest":
                return {seen.tp: seen.end for seen in partitions}
            case "committed":
                return {
                    seen.tp: min(max(seen.committed.offset, seen.begin), seen.end)
                    for seen in partitions
                    if seen.committed is not None
                }
            case "time":
                found = self._topics.offsets([p.tp for p in partitions], at_time(target.value))
                # No record is so young: the broker answers -1, which means the end.
                ends = {seen.tp: seen.end for seen in partitions}
                return {tp: ends[tp] if at < 0 else at for tp, at in found.items()}
            case "offset":
                return {seen.tp: _checked_offset(seen, target.value) for seen in partitions}

    def reset(self, resets: Iterable[Reset]) -> None:
        """Begin the new epochs: base records first, then the tagged commits.

        Raises:
            GroupInUseError: A member has joined meanwhile; then nothing is committed.
            ProgressTopicError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        needed = [reset for reset in resets if reset.is_needed]
        if not needed:
            return
        self.check_empty()
        writer = f"coop-consumer reset/{secrets.token_hex(8)}"
        self.append({r.seen.tp: [self._base(r, writer)] for r in needed if not r.is_in_log})
        commit_from_outside(
            self._topics,
            self._config.group_id,
            {r.seen.tp: r.seen.store.mirrored(r.offset, r.new_epoch) for r in needed},
        )

    def _base(self, reset: Reset, writer: str) -> tuple[bytes, bytes]:
        key = BaseKey(
            self._config.group_id,
            reset.seen.topic_id,
            reset.seen.tp.partition,
            reset.new_epoch,
            writer,
        )
        return encode_key(key), encode_value(BaseRecord(reset.new_epoch, reset.offset))

    def check_empty(self) -> None:
        """Check that the group has no members.

        Raises:
            GroupInUseError: The group has members.
        """
        members = self._inspector.group.described().members
        if members:
            raise GroupInUseError(self._config.group_id, tuple(m.place for m in members))

    # ---- decisions -----------------------------------------------------------------------------

    def decide(
        self,
        parked: Iterable[tuple[PartitionSeen, Iterable[int]]],
        action: Literal["retry", "skip"],
    ) -> None:
        """Append decisions on parked records; their members follow the log and carry them out.

        Args:
            parked: Partitions, each with the offsets of its records.
            action: The decision for all of them.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say. Some may be decided about then.
        """
        value = encode_value(DecisionRecord(action, time.time_ns() // 1_000_000))
        group = self._config.group_id
        self.append(
            {
                seen.tp: [
                    (encode_key(DecisionKey(group, seen.topic_id, seen.tp.partition, at)), value)
                    for at in offsets
                ]
                for seen, offsets in parked
            }
        )

    def release(self, seen: PartitionSeen, handovers: Iterable[PendingHandover]) -> None:
        """Append that nobody waits for these tenures any more; members that wait follow the log.

        Earlier releases by a person stay in force.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        ranges: dict[TenureId, list[KeyRange]] = {}
        for handover in handovers:
            before = seen.store.forced(handover.tenure, [WHOLE])
            ranges.setdefault(handover.tenure, [*before]).extend(handover.ranges)
        for tenure, released in sorted(ranges.items()):
            key = ReleaseKey(self._config.group_id, seen.topic_id, seen.tp.partition, tenure)
            value = ReleaseRecord(union(released), time.time_ns() // 1_000_000)
            self.append({seen.tp: [(encode_key(key), encode_value(value))]})

    def put_out(self, member: MemberSeen) -> None:
        """Put a member out of the group: nothing that it has not committed by now ever counts.

        With exactly once, a member that goes on would pass its fence and commit what the next owner
        does again. A member that lives joins again, and gets ranges like a new one.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        leave_for(self._config.membership(), member.member_id)

    # ---- the log -------------------------------------------------------------------------------

    def record_max_bytes(self) -> int:
        """The largest value to append; a larger one must be split.

        Raises:
            ProgressTopicError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        return record_max_bytes(self._progress_topic(), self._config)

    def append(
        self, entries: Mapping[TopicPartition, Sequence[tuple[bytes, bytes | None]]]
    ) -> None:
        """Append entries of each data partition to its log partition, and wait for all.

        Raises:
            ProgressTopicError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        if not entries:
            return
        progress = self._progress_topic()
        by_number: dict[int, list[tuple[bytes, bytes | None]]] = {}
        for tp, told in entries.items():
            place = self._config.group_id, tp.topic, tp.partition
            number = log_partition_of(*place, progress.partitions)
            by_number.setdefault(number, []).extend(told)
        append_from_outside(self._config, writer_settings(progress, self._config), by_number)

    def _progress_topic(self) -> TopicFacts:
        return progress_topic(self._topics, self._config)


def _checked_offset(seen: PartitionSeen, offset: int) -> int:
    if not seen.begin <= offset <= seen.end:
        raise ConfigError(
            "--to",
            f"={offset} lies outside {seen.tp}, which holds offsets {seen.begin} to {seen.end}",
            "Give an offset inside, earliest or latest; --partition picks partitions",
        )
    return offset


def _reset(seen: PartitionSeen, offset: int) -> Reset:
    """Compare a partition with its target; an epoch that is already there is not begun again."""
    progress, log, log_epoch = progress_of(seen), seen.store.progress(), seen.store.epoch or 0
    tag = seen.store.tagged_epoch(seen.committed)
    is_lost = newest_epoch(seen.store, seen.committed).meaning is Meaning.LOST
    is_in_log = log_epoch > 0 and not is_lost and log.stable == log.next_offset == offset
    new_epoch = log_epoch if is_in_log else seen.store.next_epoch(tag)
    return Reset(
        seen=seen,
        stable=None if progress is None else progress.stable,
        epoch=tag if is_lost else log_epoch,
        offset=offset,
        new_epoch=new_epoch,
        is_in_log=is_in_log,
        is_tagged=seen.committed == seen.store.mirrored(offset, new_epoch),
        is_lost=is_lost,
    )
