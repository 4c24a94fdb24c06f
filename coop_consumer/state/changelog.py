"""Keyed state and Kafka: a pool's changelogs, written as state changes, and read as ranges come.

In: ranges that come and go; changelogs: compacted topics, with a partition for each data partition,
never split by range. Out: stores that hold the changelogs' state of our ranges. A range's state is
read before its first record. A handler's puts are filed with their records. They are sent with the
commit of these records, after the worker's flush (`ChangelogWriter`). So a changelog has nothing of
a record whose output might still get lost, and a commit follows only after its state is
acknowledged.

Only the owner of a range writes its keys. So while it is the owner, its keys' state is what it read
before it began, and what was acknowledged to it since. Only the group knows who the owner is. So a
store's positions move by what is read, and when the group has confirmed the held ranges. A member
taken for dead sends no more. Its unsent state belongs to records that it has not committed, and its
run ends without a commit. A write of such a member may still be under way. A restore detects such a
late write by the places of entries, which only grow, and has the newer state written again. If
compaction has left only the late write, a restore cannot detect it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from time import monotonic, time
from typing import TYPE_CHECKING, Protocol

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from assignors import WHOLE, KeyRange, TopicPartition
from coop_consumer.config import Config
from coop_consumer.core.blocked_read import BlockedRead, RunId
from coop_consumer.core.metrics import KeyedStateMetrics
from coop_consumer.errors import ChangelogError, RetriableError
from coop_consumer.kafka.clients import log as client_log
from coop_consumer.kafka.clients import making
from coop_consumer.kafka.own_topics import CHANGELOG_KEEPS_MS
from coop_consumer.kafka.own_topics import changelog as make_changelog
from coop_consumer.kafka.slice_reader import read_slice
from coop_consumer.kafka.token_login import logged_in
from coop_consumer.kafka.topics import EARLIEST, LATEST, TopicFacts, Topics
from coop_consumer.kafka.undecided import records_between
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted
from coop_consumer.state.entry import EntryError, mark_of
from coop_consumer.state.filing import Standing
from coop_consumer.state.folder import Folder
from coop_consumer.state.grants import Grant, Grants
from coop_consumer.state.keyed import KeyedState
from coop_consumer.state.shard import Reached, Restoring, Shard, Write
from coop_consumer.state.store import Memory, Store
from coop_consumer.state.transacted import TransactedWriter, run_of
from coop_consumer.state.writer import MESSAGE_MAX_BYTES, ChangelogWriter
from offsets import OffsetRange

if TYPE_CHECKING:
    from coop_consumer.member.range_calls import RangeCallbacks

log = logging.getLogger(__name__)

_REPORT_S = 5.0
_AGAIN_S = 1.0
_ANSWER_S = 5.0
_LOOK_MAX_S = 1.0
_LAST_CHECKPOINT_S = 1.0


class Run(Standing, Protocol):
    """What the changelog asks of a member's run; see `coop_consumer.member.member.MemberRun`."""

    def confirm(
        self,
        read: Callable[[], dict[Shard, Reached]],
        done: Callable[[dict[Shard, Reached]], None],
    ) -> None:
        """Read now, and pass the result on if the group later confirms the member."""

    def run_id(self) -> RunId:
        """What its transactions are named by."""

    def fence(self, undecided: Collection[RunId]) -> None:
        """End the transactions of those of these runs that are not in the group any more."""


class CallsWithState:
    """The calls into a user's code about ranges, with the state's own calls around them.

    Args:
        calls: The user's.
        changelog: The state's.
    """

    def __init__(self, calls: RangeCallbacks, changelog: Changelog) -> None:
        self._calls, self._changelog = calls, changelog

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """Restore the ranges' state, then notify the user."""
        self._changelog.restore(tp, ranges)
        self._calls.on_ranges_assigned(tp, ranges)

    def on_ranges_revoked(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """Notify the user; the state was notified before."""
        self._calls.on_ranges_revoked(tp, ranges)

    def on_ranges_lost(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """As above."""
        self._calls.on_ranges_lost(tp, ranges)


class Changelog:
    """The state of all partitions of a pool. One range is restored at a time.

    Args:
        config: The member's.

    Attributes:
        writer: Takes what handlers put.

    Raises:
        ConfigError: Without the package rocksdict.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._memory = Memory()
        self._shards: dict[TopicPartition, Shard] = {}
        self._ids: dict[TopicPartition, bytes] = {}
        self._open: list[Shard] = []
        writer = TransactedWriter if config.exactly_once else ChangelogWriter
        self.writer = writer(config, lambda: self._checkpoint(lambda: None))
        self._state = KeyedState(self._shards, self.writer.put)
        self._grants = Grants(config, self._shards)
        self._run: Run | None = None
        self._busy = threading.Lock()  # held while ranges are restored or let go
        self._stopping = threading.Event()
        self._closing = False
        self._started = False

    @property
    def effects(self) -> ChangelogWriter | None:
        """Writes what handlers put before each commit; None: it goes along with the commit."""
        return self.writer if isinstance(self.writer, ChangelogWriter) else None

    @property
    def transacted(self) -> TransactedWriter | None:
        """Writes what handlers put in transactions; None: it is written before the commit."""
        return self.writer if isinstance(self.writer, TransactedWriter) else None

    # ---- the pool ------------------------------------------------------------------------------

    def start(self, topics: Collection[str]) -> KeyedState:
        """Create missing changelogs, and open the folder of stores.

        Raises:
            ConfigError: The changelog's name would not be valid.
            ChangelogError: One is missing and may not be created, or is not compacted.
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        config = self._config
        self._topics = Topics(config)
        limit = int(config.producer().get("message.max.bytes", MESSAGE_MAX_BYTES))
        for name, facts in self._topics.describe(topics).items():
            made = make_changelog(self._topics, config, name, facts)
            self._topics.check_right(self.writer.name(name), "READ")
            self._topics.check_right(self.writer.name(name), "WRITE")
            limit = min(limit, made.message_max_bytes or limit)
        self._folder = Folder(config.state_dir, config.group_id, config.group_instance_id)
        self.writer.start(limit)
        self._started = True
        return self._state

    def stop_restoring(self) -> None:
        """Note that the member will end: nobody waits for a range any more."""
        self._stopping.set()

    def close(self) -> None:
        """End everything; unwritten state belongs to records that come again."""
        if not self._started:
            return
        self._started = False
        self._stopping.set()
        self._closing = True
        self.writer.close()
        with self._busy:
            for shard in self._open:
                shard.close()
        self._folder.close()

    def metrics(self) -> KeyedStateMetrics:
        """What was restored, and how much lies on disk. Any thread; O(files)."""
        counters = self._state.counters
        return KeyedStateMetrics(
            restores=counters.restores,
            restore=counters.restore.now(),
            records_read=counters.read,
            bytes=self._folder.size() if self._started else 0,
        )

    # ---- checkpoints ---------------------------------------------------------------------------

    def _checkpoint(self, done: Callable[[], None]) -> None:
        """Move the stores' positions, if the group confirms that their ranges are ours."""
        if self._run is None:
            return
        now_s = int(time())

        def confirmed(found: dict[Shard, Reached]) -> None:
            if not self._closing:
                for shard, reached in found.items():
                    shard.confirm(reached, now_s)
                    shard.checkpoint()
            done()

        self._run.confirm(lambda: {shard: shard.reached() for shard in list(self._open)}, confirmed)

    def about_to_leave(self) -> None:
        """Move the positions, so that a restart finds all committed state; at most one second."""
        done = threading.Event()
        self._checkpoint(done.set)
        done.wait(_LAST_CHECKPOINT_S)

    # ---- ranges --------------------------------------------------------------------------------

    def coming(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """Note that a call of `restore` follows. On the member's thread, as the calls below."""
        self._grants.coming(tp, ranges)

    def leaving(
        self, tp: TopicPartition, ranges: tuple[KeyRange, ...], *, lost: bool = False
    ) -> None:
        """Note that these ranges are no longer ours, restored or not."""
        self._grants.leaving(tp, ranges, lost=lost)
        if lost:
            self.writer.lose_all()

    def begin_again(self, run: Run) -> None:
        """A run of the member begins: nothing is ours yet, and unsent state is dropped.

        The records of that state were not committed: they come again, here or elsewhere.
        """
        self._grants.begin_again(self._open)
        self._run = run
        self.writer.serve_run(run)
        if isinstance(self.writer, TransactedWriter):
            self.writer.stamp(run.run_id())

    def restore(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """Restore all state of these ranges, as their former owners have left it.

        If brokers do not answer, ask again for as long as the ranges are ours.

        Raises:
            CoopConsumerError: The state cannot be restored.
        """
        grant = self._grants.granted(tp, ranges)
        with self._busy:
            while grant.ranges and not (self._stopping.is_set() or self._is_settled(grant)):
                self._stopping.wait(_AGAIN_S)
        self._grants.end(grant)

    def _is_settled(self, grant: Grant) -> bool:
        """Restore; False if the brokers do not answer, so that it must be repeated."""
        try:
            self._restore(grant)
        except RetriableError as error:
            if not grant.left:
                return True
            log.warning(
                "group %s: %s: its state is restored again in %g s, and its range waits; nothing "
                "is lost. %s",
                self._config.group_id,
                grant.tp,
                _AGAIN_S,
                error,
                extra=LogEvent.STATE_RESTORE_AGAIN.extra(
                    group=self._config.group_id, tp=grant.tp, error=error
                ),
            )
            return False
        return True

    def _restore(self, grant: Grant) -> None:
        self.writer.wait()  # a write of ours under way would come behind what is read now
        tp = grant.tp
        name, now_s = self.writer.name(tp.topic), int(time())
        shard, age_max_s = self._shard(tp, name)
        place = TopicPartition(name, tp.partition)
        offsets = self._topics.offsets
        bounds = offsets([place], EARLIEST)[place], offsets([place], LATEST)[place]
        began_s = monotonic()
        restoring = shard.begin(grant.ranges, bounds, now_s, age_max_s)
        is_whole = restoring.first >= restoring.end or self._read(shard, place, restoring)
        counters = self._state.counters
        counters.restores += 1
        counters.restore.observe(monotonic() - began_s)
        counters.read += restoring.read
        counters.applied += restoring.applied
        if is_whole:  # else the member will end, and no record of these ranges comes
            self._grants.restored(grant, shard, restoring, now_s)
            self._repair(shard, restoring, grant)

    def _shard(self, tp: TopicPartition, name: str) -> tuple[Shard, float]:
        """The partition's state, and how old what is on disk may be, in seconds."""
        data = self._topics.describe([tp.topic])[tp.topic]
        facts = make_changelog(self._topics, self._config, tp.topic, data)
        keeps_ms = int(self._topics.settings_of(name).get("delete.retention.ms", 0))
        if self._ids.get(tp) != data.id + facts.id:
            self._shards[tp] = shard = self._new_shard(tp, data, facts)
            self._open.append(shard)
            self._ids[tp] = data.id + facts.id
        return self._shards[tp], (keeps_ms or CHANGELOG_KEEPS_MS) / 2_000

    def _new_shard(self, tp: TopicPartition, data: TopicFacts, facts: TopicFacts) -> Shard:
        former = self._shards.get(tp)
        if former is not None:
            former.checkpoint()
        self.writer.look_up(tp.topic, _ANSWER_S)  # the partition may be new
        path = self._folder.store(tp.topic, tp.partition, data.id + facts.id)
        return Shard(tp, mark_of(data.id), Store(path, self._memory, facts.id))

    def _read(self, shard: Shard, place: TopicPartition, restoring: Restoring) -> bool:
        """Read what a restore needs. False: it was interrupted."""
        began_s = reported_s = monotonic()
        size, first, end = 0, restoring.first, restoring.end
        reached = first
        blocked, due_s = BlockedRead(), 0.0

        def is_over() -> bool:
            nonlocal due_s
            waited_ms = blocked.looked(reached, int(monotonic() * 1_000))
            if self._config.exactly_once and waited_ms and monotonic() >= due_s:
                self._fence_between(place, reached, end)
                # A look makes a client, so the next one comes after as long again.
                due_s = monotonic() + min(waited_ms / 1_000, _LOOK_MAX_S)
            return self._stopping.is_set()

        slices = read_slice(self._config, place, OffsetRange(first, end - 1), is_over=is_over)
        try:
            for messages, next_offset in slices:
                records = [(it.offset() or 0, it.key() or b"", it.value()) for it in messages]
                size += sum(len(key) + len(value or b"") for _, key, value in records)
                seen_s = messages[-1].timestamp()[1] // 1_000 if messages else 0
                shard.restore(restoring, records, next_offset, seen_s)
                reached = next_offset
                if monotonic() - reported_s > _REPORT_S:
                    reported_s = monotonic()
                    self._report(shard, restoring, size, reported_s - began_s, reached)
        except EntryError as error:
            raise ChangelogError(place.topic, str(error), "Upgrade this member") from error
        self._report(shard, restoring, size, monotonic() - began_s, reached)
        return reached >= end

    def _fence_between(self, place: TopicPartition, first: int, end: int) -> None:
        """A restore waits for open transactions: end those of members that are gone."""
        with making(self._config):
            consumer = Consumer(logged_in(self._config.progress_reader()), logger=client_log)
        try:
            at = Place(place.topic, place.partition, first)
            hidden = records_between(consumer, at, end, _ANSWER_S)
        finally:
            consumer.close()
        runs = {run for message in hidden if (run := run_of(message.headers())) is not None}
        if runs and self._run is not None:
            self._run.fence(runs)

    def _report(self, shard: Shard, it: Restoring, size: int, seconds: float, reached: int) -> None:
        log.info(
            "group %s: %s: state restored from %d of %s: %d of %s, %.1f MB, %.1f s",
            self._config.group_id,
            shard.tp,
            reached - it.first,
            counted(it.end - it.first, "offset"),
            it.applied,
            counted(it.read, "record"),
            size / 1e6,
            seconds,
            extra=LogEvent.STATE_RESTORED.extra(group=self._config.group_id, tp=shard.tp),
        )

    def _repair(self, shard: Shard, restoring: Restoring, grant: Grant) -> None:
        """Write state again that a late write of another process hides from the next restore."""
        # With exactly once nothing comes late. But a handler of ours may have run on for a hash
        # between the ranges, and what it put was stored meanwhile, behind the end of the read.
        ranges = grant.ranges if self._config.exactly_once else (WHOLE,)
        for key in restoring.stale_in(ranges):
            value = shard.stored(key)
            if value is not None:
                self._state.counters.repaired += 1
                self.writer.repair(Write(shard, key, value))
