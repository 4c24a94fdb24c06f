"""Inspects a group from outside: what status, reset and decisions need from the broker.

In: a configuration, whose `group.id` names the group. Out: a `GroupSeen`. It never joins the group
and writes nothing. It reads the group's partitions of the progress log to their ends, as a member
does before it starts. Of the data topics it reads only the records that status names. A `GroupView`
shows it the group's members.

    look_clients   the clients, its own ones or those that looks at many groups share
    own_log        which progress log is the group's
    log_view       the group's share of the progress log, folded
    record_reader  single records of data topics
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from assignors import TopicPartition
from coop_consumer.admin.log_view import GroupLog
from coop_consumer.admin.look_clients import LookClients, SharedClients
from coop_consumer.admin.own_log import config_at_work
from coop_consumer.config import Config, IsolationLevel
from coop_consumer.core.blocked_read import Blockage
from coop_consumer.errors import AuthorizationError, ConfigError
from coop_consumer.kafka.group_view import CoordinatorView
from coop_consumer.kafka.open_transactions import open_transactions
from coop_consumer.kafka.topics import EARLIEST, LATEST, TopicFacts, Topics
from coop_consumer.log_events import LogEvent
from coop_consumer.status.errors import GroupMissingError, LogUndecidedError
from coop_consumer.status.model import progress_of
from coop_consumer.status.open_transaction import OpenTransaction
from coop_consumer.status.seen import GroupDescription, GroupSeen, Hashing, PartitionSeen
from offsets import Committed, of_topic

if TYPE_CHECKING:
    from coop_consumer.member.ports import GroupView

log = logging.getLogger(__name__)

_SWEEP_MS = 15_000
"""Brokers look every 10 s for transactions that have timed out, and take a moment to end one."""
_SHOWN_AFTER_MS = 1_000
"""How long a look waits for a transaction before it shows what is below: members take 15 ms."""
_LOOKED_UP_AFTER_MS = 2_000
"""How long a look waits for a transaction before it asks whose it is, and says so."""
_FAILED_READ_MAX = 20
"""Failed records read for each partition, to show their keys; others are shown without a key."""


class Inspector:
    """Sees one group, as often as asked. Use it as a context; one thread.

    Args:
        config: The configuration of a member of that group.
        shared: Lends it clients for each `see`, which is all that it can then be asked; None: it
            has its own ones.

    Attributes:
        config: The configuration by which the group works, as of the last look.

    Raises:
        BrokerUnreachableError: If no broker answers.
    """

    def __init__(self, config: Config, shared: SharedClients | None = None) -> None:
        self.config = self._asked = config
        self._shared = shared
        self._open = LookClients(config) if shared is None else None
        self._log: GroupLog | None = None
        self._waits = True
        # By log partition and offset: whose transaction a warning has named.
        self._named: dict[tuple[int, int], OpenTransaction] = {}

    def __enter__(self) -> Self:
        """Return the inspector: it is ready."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close all clients of its own."""
        self._close_log()
        if self._open is not None:
            self._open.close()

    def _close_log(self) -> None:
        if self._log is not None:
            self._log.end()
            self._log = None

    @property
    def topics(self) -> Topics:
        """The cluster's topics."""
        return self._clients.topics

    @property
    def group(self) -> GroupView:
        """Shows the group's members and committed offsets."""
        clients = self._clients
        return CoordinatorView(self._asked, lambda: clients.topics.admin, clients.describer)

    @property
    def _clients(self) -> LookClients:
        assert self._open is not None, "clients are lent for a look only"
        return self._open

    # ---- the group -----------------------------------------------------------------------------

    def see(
        self, topics: Iterable[str] = (), *, records: bool = True, waits: bool = True
    ) -> GroupSeen:
        """The group now: about 50 to 500 ms, and the time to read new records of its log.

        Args:
            topics: Topics to inspect besides those it subscribes to or has committed. Without any,
                a group without members also gets its topics from the whole progress log.
            records: Whether to read the records that status names.
            waits: Whether to wait until all transactions in the group's log are decided. If not,
                what is behind one that stands for long is left out, and told.

        Raises:
            GroupMissingError: The group does not exist.
            LogUndecidedError: A transaction hangs, or was waited for too long.
            TopicMissingError: If one of `topics` does not exist.
            AuthorizationError, BrokerUnreachableError: As they say.
            ClientsClosedError: Nobody lends clients any more.
        """
        if self._shared is None:
            return self._seen(topics, records=records, waits=waits)
        with self._shared.lent(self._asked) as lent:
            self._open = lent
            try:
                return self._seen(topics, records=records, waits=waits)
            finally:
                self._open = None
                if self._log is not None:
                    self._log.end()

    def _seen(self, topics: Iterable[str], *, records: bool, waits: bool) -> GroupSeen:
        self._waits = waits
        described, committed = self.look()
        facts = self._facts(described, committed, frozenset(topics))
        if not (described.members or topics):
            facts = dict(sorted((facts | self._topics_without_commits(facts)).items()))
        if not (described.exists or committed or facts):
            raise GroupMissingError(self.config.group_id)
        places = [TopicPartition(t, p) for t, f in facts.items() for p in range(f.partitions)]
        begins = self.topics.offsets(places, EARLIEST)
        ends = self.topics.offsets(places, LATEST)
        readable = self._readable(ends)
        log = self._log_view()
        stores = log.stores(places)
        policies = log.policies()
        undecided = [
            self._named.get((it.log_partition, it.offset)) or self._looked_up(it)
            for it in log.undecided.values()
        ]
        if waits and undecided:
            waited_ms = max(it.waited_ms for it in log.undecided.values())
            raise _undecided_error(undecided[0], waited_ms)
        starts = {topic: stores[TopicPartition(topic, 0)].topic_start(topic) for topic in facts}
        partitions = [
            PartitionSeen(
                tp=tp,
                topic_id=facts[tp.topic].id,
                begin=begins[tp],
                end=ends[tp],
                committed=of_topic(committed.get(tp), facts[tp.topic].id),
                store=stores[tp].partition(facts[tp.topic].id, tp.partition),
                hidden=ends[tp] - readable[tp],
            )
            for tp in places
        ]
        hashing = Hashing(self.config.ordering.value, self.config.ordering_block_size).agreed_by(
            described.members
        )
        return GroupSeen(
            group=self.config.group_id,
            state=described.state,
            protocol=described.protocol,
            members=described.members,
            partitions=(self._with_records(partitions, hashing) if records else tuple(partitions)),
            policies=policies,
            guarantee=self.config.processing_guarantee.value,
            open_transactions=(*undecided, *self._above(readable, ends, facts)),
            unreadable=log.unreadable(),
            loads=log.loads(),
            at_ms=time.time_ns() // 1_000_000,
            topics_committed=frozenset(tp.topic for tp in committed),
            topic_starts={topic: start for topic, start in starts.items() if start is not None},
        )

    def look(self) -> tuple[GroupDescription, dict[TopicPartition, Committed]]:
        """The group's members and committed offsets; `config` is as the group works from now on.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        described, committed = self.group.described(), self._committed()
        self._work_as(config_at_work(self._asked, self.topics, described, list(committed.values())))
        return described, committed

    def _committed(self) -> dict[TopicPartition, Committed]:
        """The group's committed offsets, but for those by which its transactions are fenced."""
        own = self.config.own_progress_log
        return {tp: it for tp, it in self.group.committed().items() if tp.topic != own}

    def _facts(
        self,
        described: GroupDescription,
        committed: Iterable[TopicPartition],
        asked: frozenset[str],
    ) -> dict[str, TopicFacts]:
        """Ids and partition counts; a topic of the group that was deleted is left out."""
        known = {tp.topic for tp in committed}
        known |= {topic for member in described.members for topic in member.topics}
        facts = self.topics.describe(sorted(asked), verb="done")
        found = {topic: self.topics.find(topic) for topic in sorted(known - asked)}
        facts |= {topic: it for topic, it in found.items() if it is not None}
        return dict(sorted(facts.items()))

    def _topics_without_commits(self, known: Mapping[str, TopicFacts]) -> dict[str, TopicFacts]:
        """Topics with progress in the log, and without a committed offset in Kafka's own store.

        Only a group without members can lose its committed offsets.
        """
        unknown = self._log_view().topic_ids() - {facts.id for facts in known.values()}
        return self.topics.by_ids(unknown)

    # ---- the progress log ----------------------------------------------------------------------

    def log_partitions(self) -> int:
        """How many partitions the progress topic has; 0: there is none."""
        facts = self.topics.find(self.config.progress_log)
        return 0 if facts is None else facts.partitions

    def _work_as(self, config: Config) -> None:
        """Go by this configuration; a group that was changed over has another log."""
        if config.progress_log != self.config.progress_log:
            self._close_log()
        self.config = config

    def _log_view(self) -> GroupLog:
        if self._log is None or self._log.partitions == 0:
            self._log = GroupLog(self.config, self.log_partitions(), self._warn_of_wait)
        self._log.begin(self._clients.logs)
        longest_ms = self.config.transaction_timeout_ms + _SWEEP_MS
        self._log.patience_ms = longest_ms if self._waits else _SHOWN_AFTER_MS
        return self._log

    # ---- undecided transactions ----------------------------------------------------------------

    def _readable(self, ends: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """How far members can read partitions: to the last stable offset, or to the end."""
        if self.config.isolation_level is IsolationLevel.READ_UNCOMMITTED:
            return ends
        found = self.topics.offsets(ends, LATEST, committed=True)
        return {tp: min(offset, ends[tp]) for tp, offset in found.items()}

    def _above(
        self,
        readable: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        topics: Iterable[str],
    ) -> list[OpenTransaction]:
        """What holds up readers of the data partitions, of changelogs and of outputs."""
        held = {tp: (at, ends[tp]) for tp, at in readable.items() if at < ends[tp]}
        if self.config.exactly_once:
            beside = self._written(topics)
            ends = self.topics.offsets(beside, LATEST)
            readable = self._readable(ends)
            held |= {tp: (at, ends[tp]) for tp, at in readable.items() if at < ends[tp]}
        return sorted(open_transactions(self.config, held).values(), key=lambda it: it.tp)

    def _written(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Where the group's transactions write besides its log, as far as this user may see it."""
        names = set(self.config.output_names)
        for topic in topics:
            with suppress(ConfigError):  # the name would not be valid, so there is none
                names.add(self.config.changelog_for(topic))
        found = []
        for name in sorted(names - set(topics)):
            with suppress(AuthorizationError):
                facts = self.topics.find(name)
                count = 0 if facts is None else facts.partitions
                found += [TopicPartition(name, number) for number in range(count)]
        return found

    def _looked_up(self, blocked: Blockage) -> OpenTransaction:
        """Whose transaction holds up a read of the progress log."""
        tp = TopicPartition(self.config.progress_log, blocked.log_partition)
        [end] = self.topics.offsets([tp], LATEST).values()
        found = open_transactions(self.config, {tp: (blocked.offset, end)})[tp]
        members = tuple(sorted({run.member for run in blocked.runs}))
        since_ms = found.since_ms or time.time_ns() // 1_000_000 - blocked.waited_ms
        return replace(found, members=members, since_ms=since_ms)

    def _warn_of_wait(self, blocked: Blockage) -> None:
        """Say, once, whose transaction a look waits for.

        Raises:
            LogUndecidedError: Nobody will decide it.
        """
        place = blocked.log_partition, blocked.offset
        if not self._waits or blocked.waited_ms < _LOOKED_UP_AFTER_MS or place in self._named:
            return
        found = self._named[place] = self._looked_up(blocked)
        if found.is_hanging:
            raise _undecided_error(found, blocked.waited_ms)
        now_ms = time.time_ns() // 1_000_000
        log.warning(
            "%s. This command waits for it. %s\n    %s",
            found.told(now_ms), found.outlook, found.command,
            extra=LogEvent.READ_WAITS.extra(tp=found.tp, offset=blocked.offset),
        )  # fmt: skip

    # ---- records -------------------------------------------------------------------------------

    def _with_records(
        self, partitions: Sequence[PartitionSeen], hashing: Hashing
    ) -> tuple[PartitionSeen, ...]:
        """Read the records that status shows: failed ones, and the one at the stable offset."""
        progress = {seen.tp: progress_of(seen) for seen in partitions}
        behind = {
            seen.tp: (known, max(known.stable, seen.begin))
            for seen in partitions
            if (known := progress[seen.tp]) is not None and known.stable < seen.readable
        }
        if not behind:
            return tuple(partitions)
        reader = self._clients.records(self.config, hashing)
        found = reader.first(
            {tp: offset for tp, (_, offset) in behind.items()},
            lambda tp, record: not behind[tp][0].is_done(record.key_hash, record.offset),
        )
        failed = {
            seen.tp: sorted(seen.store.attempts())[:_FAILED_READ_MAX]
            for seen in partitions
            if seen.tp in behind
        }
        read = reader.at(failed)
        reader.rest()
        if len(found) < len(
            behind
        ):  # perhaps it knows no broker any more: the next look has a new one
            self._clients.drop_records(self.config)
        records = {tp: {record.offset: record} for tp, record in found.items()}
        for tp, more in read.items():
            records[tp] = records.get(tp, {}) | more
        return tuple(replace(seen, records=records.get(seen.tp, {})) for seen in partitions)


def _undecided_error(found: OpenTransaction, waited_ms: int) -> LogUndecidedError:
    remedy = f"{found.outlook} {found.command}"
    return LogUndecidedError(*found.place, found.offset, found.whose, waited_ms, remedy)
