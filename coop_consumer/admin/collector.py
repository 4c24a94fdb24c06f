"""Clears what groups that Kafka has forgotten have left in progress topics.

In: a configuration, an age. Out: what became of each such group. `Sweep` has the steps and why they
are safe; this carries them out, for many groups at a time. What is refused for one group ends
nothing for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, Self, TypeVar

from assignors import TopicPartition
from coop_consumer.admin.group_list import FORGOTTEN, HIDDEN, progress_topics, states_of
from coop_consumer.admin.remains import Inventory, Remains, owner_of
from coop_consumer.admin.sweep import Sweep, SweepState
from coop_consumer.admin.tombstones import Tombstones
from coop_consumer.config import Config
from coop_consumer.errors import AuthorizationError, ConfigError, CoopConsumerError, ExitCode
from coop_consumer.kafka.groups import EMPTY, Groups
from coop_consumer.kafka.log_scan import LogScan
from coop_consumer.kafka.topics import Topics
from coop_consumer.status.errors import GroupInUseError
from offsets import Committed, LogRecord, Tag

T = TypeVar("T")

_AT_ONCE = 100
"""Groups that are swept together: it takes a second from their look to their last tombstone."""
_ALIVE = "It woke up meanwhile, so nothing was cleared"
_BEHIND = (
    "It woke up just behind the end of its old history, and begins again at its stable offsets: no "
    "record is passed over, and what was done above them comes again"
)


class CollectOutcome(StrEnum):
    """What became of a group's records."""

    FOUND = "found"
    """They would be cleared (`--dry-run`)."""
    CLEARED = "cleared"
    """They are gone, as soon as the brokers compact."""
    WOKEN = "woken"
    """The group woke up meanwhile: they are left alone."""
    REFUSED = "refused"
    """They are left alone, for the reason given."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What became of what one group had in one progress topic.

    Attributes:
        group: The group.
        topic: The progress topic.
        outcome: What became of it.
        keys: How many keys got, or would get, a tombstone.
        size_bytes: Keys and values of the group's records there.
        last_ms: When the group wrote last, Unix time.
        detail: Sentences for people, or "".
        left: Topics that belonged to the group alone, and are left.
        exit_code: Of a command that meets it.
    """

    group: str
    topic: str
    outcome: CollectOutcome
    keys: int
    size_bytes: int
    last_ms: int
    detail: str = ""
    left: tuple[str, ...] = ()
    exit_code: ExitCode = ExitCode.OK


@dataclass(slots=True, eq=False)
class _Case:
    """One group in one topic, on its way through the steps."""

    remains: Remains
    sweep: Sweep
    names: Mapping[bytes, str] = field(default_factory=dict)
    retired: dict[TopicPartition, Committed] = field(default_factory=dict)
    result: Collected | None = None

    @property
    def group(self) -> str:
        return self.remains.group

    @property
    def topic(self) -> str:
        return self.remains.topic

    def end(self, outcome: CollectOutcome, detail: str = "", code: ExitCode = ExitCode.OK) -> None:
        it = self.remains
        told = (it.group, it.topic, outcome, self.sweep.keys, it.size_bytes, it.last_ms, detail)
        self.result = Collected(*told, exit_code=code)

    def fail(self, error: CoopConsumerError) -> None:
        self.end(CollectOutcome.REFUSED, str(error), error.exit_code)


class Collector:
    """Finds and clears what forgotten groups have left. Use it as a context; one thread.

    Args:
        config: Names the brokers, and the shared progress topic; its group is not used.
        before_ms: Groups that have written at this time (Unix) or later are left alone.

    Attributes:
        hidden_topics: Progress topics that this user may not read.

    Raises:
        AuthorizationError, BrokerUnreachableError: As they say.
    """

    def __init__(self, config: Config, before_ms: int) -> None:
        self._config = config
        self._before_ms = before_ms
        self._topics = Topics(config)
        self._topics.check_broker()
        self._partitions, self.hidden_topics = progress_topics(config, self._topics)
        self._groups = Groups(config)
        self._rights: dict[tuple[str, str], AuthorizationError | None] = {}
        self._all_topics: frozenset[str] | None = None

    def __enter__(self) -> Self:
        """Return the collector: it is ready."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._groups.close()

    # ---- the look ------------------------------------------------------------------------------

    def found(self) -> tuple[tuple[Remains, ...], tuple[Collected, ...]]:
        """What can be cleared, and what cannot, though it is as old. Changes nothing.

        Raises:
            AuthorizationError, BrokerUnreachableError: As they say.
        """
        inventory = Inventory()
        with closing(LogScan(self._config, self._topics, self._partitions)) as scan:
            scan.read_on(lambda tp, record: inventory.take(tp.topic, tp.partition, record))
        old = [it for it in inventory.remains() if self._is_old(it)]
        states = states_of(self._groups, {it.group for it in old})
        for name, state in states.items():
            # A `gc` that was killed has left retirements, by which Kafka knows the group again.
            if state == EMPTY and self._has_only_retirements(name):
                states[name] = FORGOTTEN
        forgotten, refused = [], []
        for it in old:
            if states[it.group] == HIDDEN:
                where = f"group {it.group}"
                refused.append(_refused(it, AuthorizationError(where, "describe", self._user)))
            elif states[it.group] == FORGOTTEN:
                error = self._denied(it.topic, "WRITE")
                if error is None:
                    forgotten.append(it)
                else:
                    refused.append(_refused(it, error))
        return tuple(forgotten), tuple(refused)

    @property
    def _user(self) -> str:
        return self._config.user

    def _is_old(self, it: Remains) -> bool:
        own_topic = f"{self._config.progress_topic}-{it.group}"
        is_its_own = it.topic in (self._config.progress_topic, own_topic)
        return is_its_own and it.keys > 0 and it.last_ms < self._before_ms

    def _has_only_retirements(self, group: str) -> bool:
        try:
            return _are_retirements(self._groups.all_committed(group).result())
        except AuthorizationError:
            return False

    def _denied(self, topic: str, right: Literal["READ", "WRITE"]) -> AuthorizationError | None:
        """Why this user has not this right, if so; brokers are asked once."""
        if (topic, right) not in self._rights:
            self._rights[topic, right] = None
            try:
                self._topics.check_right(topic, right)
            except AuthorizationError as error:
                self._rights[topic, right] = error
        return self._rights[topic, right]

    # ---- the sweeps ----------------------------------------------------------------------------

    def collect(self, found: Collection[Remains]) -> Iterator[Collected]:
        """Clear these; yields what became of each.

        Raises:
            ProgressTopicError, AuthorizationError, BrokerUnreachableError: As they say. What was
                not yielded is to be collected again.
        """
        # A group with records in both kinds of topics is swept twice, one after the other.
        shared = [it for it in found if it.topic == self._config.progress_topic]
        for some in (shared, [it for it in found if it.topic != self._config.progress_topic]):
            if some:
                yield from self._collect(some)

    def _collect(self, found: list[Remains]) -> Iterator[Collected]:
        """Clear these, of which each is another group's."""
        cases = [self._case(it) for it in found]
        by_place = {(case.topic, case.group): case.sweep for case in cases}

        def take(tp: TopicPartition, record: LogRecord) -> None:
            sweep = by_place.get((tp.topic, owner_of(record.key).group))
            if sweep is not None:
                sweep.take(tp.partition, record)

        partitions = {case.topic: self._partitions[case.topic] for case in cases}
        with (
            closing(LogScan(self._config, self._topics, partitions)) as scan,
            closing(Tombstones(self._config)) as tombstones,
        ):
            for first in range(0, len(cases), _AT_ONCE):
                yield from self._sweep(cases[first : first + _AT_ONCE], scan, take, tombstones)

    def _case(self, it: Remains) -> _Case:
        is_shared = it.topic == self._config.progress_topic
        tag = Tag.AT_LEAST_ONCE if is_shared else Tag.EXACTLY_ONCE
        return _Case(it, Sweep(it.group, tag, self._partitions[it.topic]))

    def _sweep(
        self,
        cases: list[_Case],
        scan: LogScan,
        take: Callable[[TopicPartition, LogRecord], None],
        tombstones: Tombstones,
    ) -> Iterator[Collected]:
        try:
            scan.read_on(take)
            self._look(cases, scan)
            self._retire(cases, scan)
            scan.read_on(take)
            self._look_again(cases, scan)
        except BaseException:
            self._take_back(cases)
            raise
        self._take_back([case for case in cases if case.result is not None])
        cleared = [case for case in cases if case.result is None]
        keys: dict[TopicPartition, list[bytes]] = {}
        for case in cleared:
            for number, found in case.sweep.clear().items():
                keys.setdefault(TopicPartition(case.topic, number), []).extend(found)
        tombstones.append(keys)
        self._forget(cleared)
        for case in cases:
            assert case.result is not None, f"{case.group} was left in the middle"
            yield replace(case.result, left=self._left(case))

    def _look(self, cases: list[_Case], scan: LogScan) -> None:
        """Leave out who cannot be swept, before anything is changed."""
        for case in cases:
            self._leave_undecided(case, scan)
            if case.sweep.last_ms >= self._before_ms:
                case.end(CollectOutcome.WOKEN, _ALIVE)
        for case, known in self._asked(cases, lambda it: self._groups.all_committed(it.group)):
            if not _are_retirements(known):
                case.end(CollectOutcome.WOKEN, _ALIVE)
        named = self._asked(cases, lambda it: self._groups.topic_names(it.sweep.topic_ids))
        for case, names in named:
            case.names = names
            # Without the right for one of them, a part of a commit would be taken.
            for error in filter(None, (self._denied(it, "READ") for it in sorted(names.values()))):
                case.fail(error)

    def _leave_undecided(self, case: _Case, scan: LogScan) -> None:
        behind = {it.partition for it in scan.undecided if it.topic == case.topic}
        if case.topic == self._config.progress_topic:
            behind &= case.sweep.log_numbers
        if behind and case.result is None:
            case.end(
                CollectOutcome.REFUSED,
                f"{case.topic}-{min(behind)}: a transaction is undecided, so nobody knows "
                "what the group has done. Nothing was changed. `coop-consumer status` names the "
                "transaction, and the command that ends it",
                ExitCode.UNAVAILABLE,
            )

    def _retire(self, cases: list[_Case], scan: LogScan) -> None:
        ends = scan.ends
        for case in cases:
            if case.result is None:
                read_to = {
                    it: ends[TopicPartition(case.topic, it)] for it in case.sweep.log_numbers
                }
                # Nobody can go on with a deleted topic. But the coordinator is to say in any case
                # that the group has no members.
                place = TopicPartition(case.topic, min(read_to))
                nothing = Committed.retired(0, 0, bytes(16), case.sweep.tag, ends[place])
                case.retired = case.sweep.retire(read_to, case.names) or {place: nothing}
        self._asked(cases, lambda it: self._groups.commit(it.group, it.retired))

    def _look_again(self, cases: list[_Case], scan: LogScan) -> None:
        """See whether anybody came between the look and the retirement."""
        for case, known in self._asked(cases, lambda it: self._groups.all_committed(it.group)):
            self._leave_undecided(case, scan)
            if known != case.retired:
                case.end(CollectOutcome.WOKEN, f"Nothing was cleared. {_BEHIND}")
            elif case.sweep.state is SweepState.WOKEN:
                case.end(CollectOutcome.WOKEN, _ALIVE)

    def _take_back(self, cases: Iterable[_Case]) -> None:
        """Leave in Kafka what was there, or what the groups' own leads would have left.

        Nothing depends on it: a member that finds a void retirement knows that it is void.
        """
        for case in [case for case in cases if case.retired]:
            with suppress(CoopConsumerError):
                known = self._groups.all_committed(case.group).result()
                ours = {tp: it for tp, it in known.items() if case.retired.get(tp) == it}
                if ours == known and case.sweep.state is not SweepState.WOKEN:
                    self._groups.delete(case.group).result()
                    continue
                mirrored = case.sweep.taken_back(case.names)
                instead = {tp: it for tp, it in mirrored.items() if tp in ours}
                if instead:
                    self._groups.commit(case.group, instead).result()

    def _forget(self, cases: list[_Case]) -> None:
        """Delete the retirements, by which Kafka knows the groups again."""
        asked = [(case, self._groups.delete(case.group)) for case in cases]
        for case, answer in asked:
            try:
                answer.result()
            except GroupInUseError:
                case.end(CollectOutcome.CLEARED, _BEHIND)
            except CoopConsumerError as error:
                left = f"Kafka keeps its committed offsets until they expire: {error}"
                case.end(CollectOutcome.CLEARED, left, error.exit_code)
            else:
                case.end(CollectOutcome.CLEARED)

    def _asked(
        self, cases: Iterable[_Case], ask: Callable[[_Case], Future[T]]
    ) -> list[tuple[_Case, T]]:
        """The answers about those that go on; who is refused does not."""
        answers = [(case, ask(case)) for case in cases if case.result is None]
        found = []
        for case, answer in answers:
            try:
                found.append((case, answer.result()))
            except GroupInUseError:
                case.end(CollectOutcome.WOKEN, _ALIVE)
            except CoopConsumerError as error:
                case.fail(error)
        return found

    def _left(self, case: _Case) -> tuple[str, ...]:
        """The topics that only this group used, as far as they are known."""
        if case.result is None or case.result.outcome is not CollectOutcome.CLEARED:
            return ()
        names = []
        if case.topic != self._config.progress_topic:
            names.append(case.topic)
        config = replace(self._config, group_id=case.group)
        for source in sorted(case.names.values()):
            with suppress(ConfigError):  # no topic can have that name
                names.append(config.changelog_for(source))
        if self._all_topics is None:
            self._all_topics = frozenset(self._topics.names_that_begin(""))
        return tuple(name for name in names if name in self._all_topics)


def _refused(it: Remains, error: CoopConsumerError) -> Collected:
    told = (it.group, it.topic, CollectOutcome.REFUSED, it.keys, it.size_bytes, it.last_ms)
    return Collected(*told, str(error), exit_code=error.exit_code)


def _are_retirements(committed: Mapping[TopicPartition, Committed]) -> bool:
    """Whether nothing is committed but what another `gc` has left."""
    return all(it.retirement is not None for it in committed.values())
