"""A group's work as a job plans it: what is left to do, and what the job has finished of it.

In: a configuration; later, which offsets are done for which keys. Out: for each partition the work
left, and its size in bytes; facts in the progress log and tagged commits, like those of a member
(`coop_consumer.core.lead`), so that the next member or plan continues with the rest. It joins no
group. It refuses one that has members, or works with exactly once. All decisions are made in
`coop_consumer.status`.
"""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType
from typing import NamedTuple, Self

from assignors import WHOLE, KeyRange, TopicPartition, key_hash
from coop_consumer.admin.amend import Amender
from coop_consumer.admin.inspect import Inspector
from coop_consumer.admin.outside import commit_from_outside
from coop_consumer.config import Config, Guarantee, OffsetReset
from coop_consumer.core.commits import entries_of
from coop_consumer.errors import DataLossError, MisuseError, TopicMissingError
from coop_consumer.kafka.slice_reader import read_slice
from coop_consumer.kafka.topics import LATEST
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted
from coop_consumer.status.errors import (
    GroupInUseError,
    GroupJoinedError,
    PartitionMissingError,
    PlanOutdatedError,
)
from coop_consumer.status.history import (
    History,
    beginning,
    done_within,
    history_of,
    rectangle,
    told_at_once,
    topic_start,
)
from coop_consumer.status.load import load_of
from coop_consumer.status.seen import GroupSeen, PartitionSeen
from offsets import (
    BaseKey,
    BaseRecord,
    Committed,
    OffsetRange,
    PartitionProgress,
    RangeProgress,
    TenureId,
    TenureKey,
    TopicStartKey,
    encode_key,
    encode_value,
)

log = logging.getLogger(__name__)

_CALL = "plan()"
_SAMPLE_OFFSETS = 200
_SAMPLES_OF_ONE = 3
_SAMPLES_MAX = 192
_HEAVY_SHARE, _HEAVY_RECORDS = 0.02, 8
_SAMPLING_THREADS = 8
_SAMPLING_BYTES = 65_536
"""Bytes fetched at a time: a sample needs few."""


@dataclass(frozen=True, slots=True)
class Pending:
    """What a partition has left to do.

    Attributes:
        tp: The partition.
        topic_id: The id of its topic, 16 bytes.
        epoch: The number of its progress history.
        base: Where the epoch begins.
        done: What is done in it, over the whole hash space.
        offsets: The offsets in which something may be left; None: nothing is.
        lost: Offsets that are left and no longer in the topic.
        leader_epoch: Of the leader who wrote its newest record; -1: not known.
        whole_because: Why it must not be shared, or "".
        heavy: What members have last reported of its heavy hashes: their shares of its work.
    """

    tp: TopicPartition
    topic_id: bytes
    epoch: int
    base: int
    done: tuple[RangeProgress, ...]
    offsets: OffsetRange | None
    lost: OffsetRange | None = None
    leader_epoch: int = -1
    whole_because: str = ""
    heavy: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finished:
    """Every record of these keys at these offsets is done.

    Attributes:
        range: The keys.
        offsets: The offsets.
        known: The part that was done before, as the plan knew it.
    """

    range: KeyRange
    offsets: OffsetRange
    known: tuple[RangeProgress, ...] = ()


class Measured(NamedTuple):
    """What samples say of what is pending in a partition.

    Attributes:
        bytes_each: Bytes for each offset.
        heavy: Hashes of keys that have 2 % of the bytes or more: their shares, by hash.
    """

    bytes_each: float
    heavy: Mapping[int, float] = MappingProxyType({})


def measured(offsets: int, records: Sequence[tuple[int | None, int]]) -> Measured:
    """What samples of so many offsets say: of each record found the hash of its key, and its bytes.

    A few records of one key may be chance, so a heavy hash has eight of them.

    >>> measured(20, [(1, 10), (2, 10)] * 5 + [(3, 10)] * 8).heavy
    {3: 0.4444444444444444}
    """
    total = sum(size for _, size in records)
    counts = Counter(hash_ for hash_, _ in records if hash_ is not None)
    own: Counter[int] = Counter()
    for hash_, size in records:
        if hash_ is not None and counts[hash_] >= _HEAVY_RECORDS:
            own[hash_] += size
    heavy = {it: size / total for it, size in own.items() if size >= _HEAVY_SHARE * total}
    return Measured(total / offsets, heavy)


class PlannedGroup:
    """Inspects a group that has no members, and commits for it. Use it as a context; one thread.

    Args:
        config: The configuration of a member of that group.

    Raises:
        BrokerUnreachableError: If no broker answers.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._inspector = Inspector(config)
        self._topics = self._inspector.topics
        self._amender = Amender(self._inspector)

    def __enter__(self) -> Self:
        """Return the view: it is ready."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the reader of the progress log."""
        self._inspector.close()

    # ---- what is left --------------------------------------------------------------------------

    def look(
        self, topics: Collection[str], until: Mapping[TopicPartition, int]
    ) -> tuple[Pending, ...]:
        """What each partition of these topics has left to do. Changes nothing.

        Args:
            topics: The topics.
            until: Where to end, as next offsets; other partitions end where their records end now.

        Raises:
            ConfigError: A topic would feed itself.
            MisuseError: The group works with exactly once.
            GroupInUseError: The group has members.
            TopicMissingError, PartitionMissingError, MisuseError: `topics` and `until` do not fit.
            DataLossError: Offsets are gone, and `on.data.loss` is "stop"; or the partition was
                truncated below what is done.
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        self._config.refuse_circles(topics)
        group = self._see(topics)
        if group.members:
            raise GroupInUseError(group.group, tuple(m.place for m in group.members))
        seen = [partition for partition in group.partitions if partition.tp.topic in topics]
        ends = self._ends(seen)
        _check_until(until, ends)
        epochs = self._topics.leader_epochs(ends)
        if group.unreadable:
            log.warning(
                "group %s: %s of the progress log cannot be read: what is told there is planned "
                "again, so records may be processed twice. If members of a newer version have "
                "written them, upgrade this program",
                group.group,
                counted(sum(group.unreadable.values()), "record"),
                extra=LogEvent.PLAN_UNREADABLE.extra(group=group.group),
            )
        for partition in seen:
            _warn_of_others(partition)
        load = load_of(group.loads, (), {it.tp: it.topic_id for it in seen})
        return tuple(
            replace(
                self._pending(group, partition, until.get(partition.tp, ends[partition.tp])),
                leader_epoch=epochs[partition.tp],
                whole_because=self._whole_because(group, partition.tp.topic),
                heavy=load.shares(partition.tp),
            )
            for partition in seen
        )

    def _pending(self, group: GroupSeen, seen: PartitionSeen, end: int) -> Pending:
        reset = beginning(group, seen, self._config.auto_offset_reset)
        found, policy = pending(seen, history_of(seen, reset), end), self._config.on_data_loss.value
        if found.lost is not None:
            error = DataLossError(seen.tp.topic, seen.tp.partition, WHOLE, *found.lost, policy)
            if policy == "stop":
                raise error
            extra = LogEvent.DATA_LOST.extra(group=group.group, tp=seen.tp, error=error)
            log.error("%s", error, extra=extra)
        return found

    def _ends(self, seen: Iterable[PartitionSeen]) -> dict[TopicPartition, int]:
        """The present end of the readable records."""
        if self._config.isolation_level == "read_committed":
            return self._topics.offsets([it.tp for it in seen], LATEST, committed=True)
        return {it.tp: it.end for it in seen}

    def _whole_because(self, group: GroupSeen, topic: str) -> str:
        config = self._config
        if config.ordering == "partition":
            return "ordering=partition keeps the order of all records of a partition"
        if not (config.allow_individual_commit and config.accept_individual_commit):
            return "the configuration forbids individual commits"
        if group.policies.group:
            return f"the policy of group {group.group} is accept.individual.commit=false"
        if topic in group.policies.topics:
            return f"the policy of topic {topic} is accept.range.fetch=false"
        return ""

    # ---- how much it is ------------------------------------------------------------------------

    def measure(self, pendings: Iterable[Pending]) -> dict[TopicPartition, Measured]:
        """Bytes of what is pending, and its heavy hashes, by samples: at most 192 of 200 offsets.

        With more partitions, only some are sampled; their mean stands for the others, and none of
        their hashes is known as heavy. What members have reported of a partition's hashes counts
        before samples do: it is by work, not by bytes.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
            DataLossError: Retention has deleted records to sample.
        """
        at_work = [it for it in pendings if it.offsets is not None]
        left = {it.tp: it.offsets for it in at_work if it.offsets is not None}
        stride = ceil(len(left) / _SAMPLES_MAX) or 1
        chosen = sorted(left)[::stride]
        count = max(1, min(_SAMPLES_OF_ONE, _SAMPLES_MAX // max(len(chosen), 1)))
        places = [(tp, part) for tp in chosen for part in sample_places(left[tp], count)]
        with ThreadPoolExecutor(_SAMPLING_THREADS, "coop-sample") as pool:
            samples = list(pool.map(lambda place: self._sample(*place), places))
        found: dict[TopicPartition, Measured] = {}
        for tp in chosen:
            own = [
                (part.size, sample)
                for (at, part), sample in zip(places, samples, strict=True)
                if at == tp
            ]
            found[tp] = measured(
                sum(size for size, _ in own), [it for _, some in own for it in some]
            )
        middle = sum(it.bytes_each for it in found.values()) / max(len(found), 1)
        by_samples = {tp: found.get(tp, Measured(middle)) for tp in left}
        by_work = {it.tp: it.heavy for it in at_work if it.heavy}
        return {
            tp: Measured(size, by_work.get(tp, heavy)) for tp, (size, heavy) in by_samples.items()
        }

    def _sample(self, tp: TopicPartition, offsets: OffsetRange) -> list[tuple[int | None, int]]:
        """Of each record there: the hash of its key, if it has one that keeps order; its bytes."""
        passed = dict(self._config.passed) | {"max.partition.fetch.bytes": _SAMPLING_BYTES}
        frugal = replace(self._config, passed=tuple(sorted(passed.items())))
        is_by_key = self._config.ordering == "key"
        found = []
        for messages, _ in read_slice(frugal, tp, offsets):
            for message in messages:
                key = message.key()
                hash_ = key_hash(key) if is_by_key and key is not None else None
                found.append((hash_, len(message) + len(key or b"")))
        return found

    # ---- what was finished ---------------------------------------------------------------------

    def commit(
        self,
        writer: str,
        pendings: Iterable[Pending],
        finished: Mapping[TopicPartition, Sequence[Finished]],
    ) -> None:
        """Append what was finished, and move the committed offsets. A repeated call is harmless.

        The order: base and tag of new epochs, then the facts, then the committed offsets.

        Args:
            writer: Names the plan; all its records carry this name.
            pendings: All partitions of the plan.
            finished: What was finished of them.

        Raises:
            MisuseError: The group works with exactly once now.
            GroupJoinedError: The group has members now.
            PlanOutdatedError: A partition's history has changed since `look`. The finished part
                of all other partitions is committed.
            ProgressTopicError, AuthorizationError, BrokerUnreachableError: As they say.
        """
        plan = {it.tp: it for it in pendings}
        joined = self._begin(plan, self._existing_group(plan), writer)
        now = self._now(plan, self._existing_group(plan))
        self._append_facts(plan, now, finished, writer)
        if joined is None:
            last = self._now(plan, self._existing_group(plan))
            joined = self._mirror(last)
            if joined is None:
                self._clear(last)
        if joined is not None:
            raise joined
        told = {tp for tp, (_, history) in now.items() if history.is_tagged}
        if outdated := sorted(str(tp) for tp in plan.keys() - told):
            raise PlanOutdatedError(self._config.group_id, tuple(outdated))

    @staticmethod
    def _now(
        plan: Mapping[TopicPartition, Pending], group: GroupSeen | None
    ) -> dict[TopicPartition, tuple[PartitionSeen, History]]:
        """The partitions whose history has not changed since the plan."""
        found = {}
        for seen in group.partitions if group is not None else ():
            planned = plan.get(seen.tp)
            if planned is not None and planned.topic_id == seen.topic_id:
                history = history_of(seen, planned.base)
                if history.is_same(planned.epoch, planned.base):
                    found[seen.tp] = seen, history
        return found

    def _see(self, topics: Collection[str]) -> GroupSeen:
        """The group now; nothing was changed if it is refused."""
        group = self._inspector.see(topics, records=False)
        if group.guarantee == Guarantee.EXACTLY_ONCE:
            raise MisuseError(
                _CALL,
                f"group {group.group} works with processing.guarantee=exactly_once: a job appends "
                "its progress outside of transactions, so results and progress would not become "
                "visible together",
                "Run the group's members (launch_workers runs them on Spark), or plan for a group "
                "with at_least_once",
            )
        return group

    def _existing_group(self, plan: Iterable[TopicPartition]) -> GroupSeen | None:
        """The group with the plan's topics that still exist; None: none does."""
        topics = {tp.topic for tp in plan}
        while topics:
            try:
                return self._see(topics)
            except TopicMissingError as error:
                topics.discard(error.topic)
        return None

    def _begin(
        self,
        plan: Mapping[TopicPartition, Pending],
        group: GroupSeen | None,
        writer: str,
    ) -> GroupJoinedError | None:
        """Begin epochs on which log and committed offset do not agree; the error if refused."""
        now = self._now(plan, group)
        late = {tp: found for tp, found in now.items() if not found[1].is_tagged}
        if members := self._inspector.group.described().members:
            return GroupJoinedError(self._config.group_id, tuple(m.place for m in members))
        entries = self._topic_starts(plan, group, writer)
        for tp, (_, history) in late.items():
            if not history.is_based:
                entries.setdefault(tp, []).append(self._base(plan[tp], writer))
        self._amender.append(entries)
        stables = {
            tp: seen.store.mirrored(history.progress.stable, history.epoch)
            for tp, (seen, history) in late.items()
        }
        return self._commit(stables)

    def _topic_starts(
        self, plan: Mapping[TopicPartition, Pending], group: GroupSeen | None, writer: str
    ) -> dict[TopicPartition, list[tuple[bytes, bytes | None]]]:
        """How the group begins with topics, if the log does not say it yet (038)."""
        if group is None or self._config.auto_offset_reset is not OffsetReset.LATEST:
            return {}
        counts = Counter(tp.topic for tp in plan)
        return {
            TopicPartition(topic, 0): [
                (
                    encode_key(TopicStartKey(self._config.group_id, topic, writer)),
                    encode_value(topic_start(group, topic, counts[topic])),
                )
            ]
            for topic in sorted({seen.tp.topic for seen in group.partitions} & counts.keys())
            if topic not in group.topic_starts
        }

    def _base(self, planned: Pending, writer: str) -> tuple[bytes, bytes]:
        key = BaseKey(
            self._config.group_id, planned.topic_id, planned.tp.partition, planned.epoch, writer
        )
        return encode_key(key), encode_value(BaseRecord(planned.epoch, planned.base))

    def _append_facts(
        self,
        plan: Mapping[TopicPartition, Pending],
        now: Mapping[TopicPartition, tuple[PartitionSeen, History]],
        finished: Mapping[TopicPartition, Sequence[Finished]],
        writer: str,
    ) -> None:
        """Append facts of partitions whose tag and log agree on the epoch."""
        entries = {}
        max_bytes = self._amender.record_max_bytes()
        for tp, (seen, history) in now.items():
            if not history.is_tagged:
                continue
            done, lost = finished.get(tp, ()), plan[tp].lost
            _warn_of_repeats(seen, history, done, writer)
            facts = [rectangle(it.range, it.offsets) for it in done]
            if lost is not None:
                facts.append(rectangle(WHOLE, lost))
            record = told_at_once(seen, history, facts, plan[tp].leader_epoch)
            if record is not None:
                tenure = TenureId(writer, secrets.randbits(64), 1)
                key = TenureKey(self._config.group_id, seen.topic_id, tp.partition, tenure)
                entries[tp] = entries_of(key, record, max_bytes)
        self._amender.append(entries)

    def _mirror(
        self, now: Mapping[TopicPartition, tuple[PartitionSeen, History]]
    ) -> GroupJoinedError | None:
        """Move committed offsets up to the stable offsets; the error if refused."""
        return self._commit(
            {
                tp: seen.store.mirrored(history.progress.stable, history.epoch)
                for tp, (seen, history) in now.items()
                if history.is_tagged
                and (seen.committed is None or history.progress.stable > seen.committed.offset)
            }
        )

    def _clear(self, now: Mapping[TopicPartition, tuple[PartitionSeen, History]]) -> None:
        """Delete records of the log that younger ones contain: without members, nobody else does.

        Only released tenures are deleted: members detect a crashed tenure by its record.
        """
        entries = {}
        for tp, (seen, _) in now.items():
            store = seen.store
            end = max((tenure.last_offset for tenure in store.tenures()), default=-1) + 1
            keys = store.superseded(store.members(), end)
            if keys:
                entries[tp] = [(encode_key(key), None) for key in keys]
        self._amender.append(entries)

    def _commit(self, offsets: Mapping[TopicPartition, Committed]) -> GroupJoinedError | None:
        if offsets:
            try:
                commit_from_outside(self._topics, self._config.group_id, offsets)
            except GroupInUseError as error:
                return GroupJoinedError(error.group, error.members)
        return None


def pending(seen: PartitionSeen, history: History, end: int) -> Pending:
    """What a partition has left below `end`. Pure.

    Raises:
        DataLossError: The partition ends below what is done: it was truncated. A member would begin
            a new epoch and repeat records. A plan stops, whatever `on.data.loss` says.
    """
    progress, tp = history.progress, seen.tp
    if progress.next_offset > seen.end:
        last = progress.next_offset - 1
        raise DataLossError(tp.topic, tp.partition, WHOLE, seen.end, last, "stop")
    stable, lost = progress.stable, None
    if stable < min(seen.begin, end):
        lost = OffsetRange(stable, min(seen.begin, end) - 1)
    first = max(stable, seen.begin)
    return Pending(
        tp=tp,
        topic_id=seen.topic_id,
        epoch=history.epoch,
        base=history.base,
        done=progress.clip(WHOLE),
        offsets=OffsetRange(first, end - 1) if first < end else None,
        lost=lost,
    )


def sample_places(offsets: OffsetRange, count: int) -> list[OffsetRange]:
    """At most so many short offset ranges, spread evenly; all offsets if these are few.

    >>> [str(place) for place in sample_places(OffsetRange(1_000, 9_999), 3)]
    ['[1000-1199]', '[5400-5599]', '[9800-9999]']
    """
    if offsets.size <= count * _SAMPLE_OFFSETS:
        return [offsets]
    room, gaps = offsets.size - _SAMPLE_OFFSETS, max(count - 1, 1)
    firsts = [offsets.first + room * i // gaps for i in range(count)]
    return [OffsetRange(first, first + _SAMPLE_OFFSETS - 1) for first in firsts]


def _check_until(until: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
    topics = {tp.topic for tp in ends}
    for tp, offset in sorted(until.items()):
        if tp.topic not in topics:
            raise MisuseError(
                _CALL, f"until names {tp.topic}, which is not planned", "Name it in topics, too"
            )
        PartitionMissingError.check(tp, ends)
        if not 0 <= offset <= ends[tp]:
            raise MisuseError(
                _CALL,
                f"until={offset} lies outside {tp}, whose records end at {ends[tp]} now",
                "Give an offset up to there: the first one that is not to be processed",
            )


def _warn_of_others(seen: PartitionSeen) -> None:
    """Warn of unreleased tenures: a consumer without the group may run, or a member has crashed."""
    held = sorted(
        {
            tenure.id.member
            for tenure in seen.store.tenures()
            if tenure.record.epoch == seen.store.epoch
            and seen.store.unreleased(tenure.id, tenure.ranges)
        }
    )
    if held:
        log.warning(
            "%s: %s did not release what they held. They may have crashed; if one runs without "
            "its group, it and this job process the same keys.",
            seen.tp,
            ", ".join(held),
            extra=LogEvent.RANGE_HELD_ELSEWHERE.extra(tp=seen.tp),
        )


def _warn_of_repeats(
    seen: PartitionSeen, history: History, done: Iterable[Finished], writer: str
) -> None:
    """Warn if others have finished some of the plan's records since it was planned."""
    ours = PartitionProgress()
    for tenure in seen.store.tenures():
        if tenure.id.member == writer:
            for fact in tenure.record.facts:
                ours.merge(fact)
    for it in done:
        known = PartitionProgress()
        for fact in it.known:
            known.merge(fact)
        pieces = [done_within(piece, it.offsets) for piece in history.progress.clip(it.range)]
        told = ours.contains(rectangle(it.range, it.offsets))
        if not told and not all(map(known.contains, pieces)):
            log.warning(
                "%s keys %s offsets %s: since this was planned, somebody else has finished some of "
                "them, too. These records were processed twice.",
                seen.tp,
                it.range,
                it.offsets,
                extra=LogEvent.PLAN_REPEATED.extra(tp=seen.tp, offset=it.offsets.first),
            )
