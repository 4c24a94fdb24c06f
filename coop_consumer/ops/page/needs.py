"""What needs a person: what is stuck in a group, why, since when, and what helps. Pure.

In: a `GroupStatus`. Out: `Need`s, the worst first, the oldest first among these. Each has its
command, ready to paste. What passes by itself within moments is left out: a handover of a second,
say.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from assignors import WHOLE, TopicPartition
from coop_consumer.ops.page.own_page import PageHost, own_page
from coop_consumer.ops.page.shown import error_shown, key_shown, name_shown
from coop_consumer.plain_text import command, counted
from coop_consumer.status.model import (
    SETTLED,
    decided_warning,
    unowned_warning,
    walled_warning,
)
from coop_consumer.status.standing import Command, RecordState, commands_for, look_at
from coop_consumer.status.words import (
    AHEAD,
    ago,
    for_span,
    is_ahead,
    percent,
    span,
    standing,
)
from offsets import Meaning

if TYPE_CHECKING:
    from coop_consumer.status.model import (
        GroupStatus,
        PartitionStatus,
        PendingHandover,
        RecordStatus,
    )

NEEDS_SHOWN = 20
"""So many are shown; the rest is counted."""
_SAME_SHOWN = 8
"""So many of one kind are shown, so that none hides the others."""
_WAIT_MIN_MS = 3_000
_LONG_WAIT_MS = 30_000
_SLOW_MS = 60_000
"""A handler of the record that holds the stable offset runs for long."""
_PLACES_SHOWN = 4
_NONE: Mapping[tuple[NeedKind, Urgency], int] = MappingProxyType({})


class NeedKind(StrEnum):
    """What is up."""

    NO_MEMBERS = "no_members"
    PARKED = "parked"
    OVERDUE = "overdue"
    WALLED = "walled"
    UNDECIDED = "undecided"
    WAITS = "waits"
    HELD_BACK = "held_back"
    FAILING = "failing"
    UNOWNED = "unowned"
    WARNING = "warning"
    PAUSED = "paused"
    SLOW = "slow"


class Urgency(StrEnum):
    """How bad it is.

    BAD: nothing goes on there without a person. WARN: perhaps it does. NOTE: for whoever asks.
    """

    BAD = "bad"
    WARN = "warn"
    NOTE = "note"


_URGENCIES = tuple(Urgency)
_HAVE_STACKS = {NeedKind.OVERDUE, NeedKind.SLOW}
"""Their handlers run: the stack says where."""


@dataclass(frozen=True, slots=True)
class ActionLink:
    """What a person may do by a button, where that is allowed.

    Attributes:
        action: Which one.
        label: The same for people.
        href: Where it is confirmed.
    """

    action: str
    label: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One thing that needs a person.

    Attributes:
        kind: What is up.
        urgency: How bad.
        place: A record, a partition or a member: unique among the needs of a kind.
        title: What is up, in a few words.
        facts: What is known of it.
        error: What a handler raised; "": nothing.
        remedy: What helps, as a sentence; "": the command says it.
        since_ms: Since when, Unix time; 0: not known.
        since: The same in words; "": not known.
        commands: To paste.
        actions: The same by buttons.
    """

    kind: NeedKind
    urgency: Urgency
    place: str
    title: str
    facts: tuple[str, ...] = ()
    error: str = ""
    remedy: str = ""
    since_ms: int = 0
    since: str = ""
    commands: tuple[Command, ...] = ()
    actions: tuple[ActionLink, ...] = ()

    @property
    def id(self) -> str:
        """Names it within a page."""
        return f"need-{self.kind}-{quote(self.place, safe='')}"


@dataclass(frozen=True, slots=True)
class Needs:
    """All of them.

    Attributes:
        shown: The worst.
        more: The rest, by kind.
        counts: How many there are, by urgency.
        all_parked: The commands for all parked records at once, where there are many.
    """

    shown: tuple[Need, ...]
    more: tuple[tuple[str, int], ...]
    counts: dict[Urgency, int]
    all_parked: tuple[Command, ...] = ()

    @property
    def total(self) -> int:
        """How many there are."""
        return sum(self.counts.values())

    @property
    def worst(self) -> Urgency | None:
        """How bad the worst one is; None: there is none."""
        return next((it for it in _URGENCIES if self.counts.get(it)), None)


def needs_of_group(status: GroupStatus, letter: Callable[[str], str], here: PageHost) -> Needs:
    """What needs a person. O(partitions + failed records).

    Args:
        status: The group.
        letter: How the page calls a member.
        here: Where the page is served.
    """
    finder = _Finder(status, letter, here)
    found = list(finder.all())
    is_many = sum(it.kind is NeedKind.PARKED for it in found) > 1
    return sorted_needs(found, _all_parked(status) if is_many else (), finder.untold)


def sorted_needs(
    found: list[Need],
    all_parked: tuple[Command, ...] = (),
    untold: Mapping[tuple[NeedKind, Urgency], int] = _NONE,
) -> Needs:
    """The worst first, and of each kind no more than there is room for.

    Args:
        found: What needs a person.
        all_parked: The commands for all parked records at once.
        untold: How many more there are.
    """
    counts = {it: sum(need.urgency is it for need in found) for it in _URGENCIES}
    found = sorted(found, key=_rank)
    shown: list[Need] = []
    of_kind: Counter[NeedKind] = Counter()
    more: Counter[NeedKind] = Counter()
    for (kind, urgency), number in untold.items():
        counts[urgency] += number
        more[kind] += number
    for need in found:
        if len(shown) < NEEDS_SHOWN and of_kind[need.kind] < _SAME_SHOWN:
            shown.append(need)
            of_kind[need.kind] += 1
        else:
            more[need.kind] += 1
    return Needs(
        tuple(shown),
        tuple((kind.value, number) for kind, number in sorted(more.items())),
        counts,
        all_parked,
    )


def _rank(need: Need) -> tuple[int, int, float, str]:
    kinds = tuple(NeedKind)
    since = float(need.since_ms) if need.since_ms else float("inf")
    return _URGENCIES.index(need.urgency), kinds.index(need.kind), since, need.place


def _all_parked(status: GroupStatus) -> tuple[Command, ...]:
    words = ("retry", status.group, "--all")
    return (
        Command(
            "see all parked records, by error",
            command(*words, "--dry-run", options=status.options),
        ),
        Command("try all of them again", command(*words, options=status.options)),
    )


@dataclass(frozen=True, slots=True)
class _Finder:
    status: GroupStatus
    letter: Callable[[str], str]
    here: PageHost
    untold: Counter[tuple[NeedKind, Urgency]] = field(default_factory=Counter)

    def all(self) -> Iterator[Need]:
        yield from self._without_members()
        for partition in self.status.partitions:
            yield from self._records(partition)
            yield from self._walls(partition)
        yield from self._held_back()
        yield from self._waits()
        yield from self._transactions()
        yield from self._unowned()
        yield from self._decided()
        yield from self._warnings()

    # ---- records -------------------------------------------------------------------------------

    def _records(self, partition: PartitionStatus) -> Iterator[Need]:
        """Of thousands, no more are told than could be shown; the rest is counted."""
        holder, told = partition.holder, list(partition.failed)
        if len(told) > _SAME_SHOWN:
            told.sort(key=lambda it: (not it.is_parked, it.since_ms, it.offset))
        of_kind: Counter[NeedKind] = Counter()
        for record in told:
            found = self._kind_of(record)
            if found is not None:
                of_kind[found[0]] += 1
                if of_kind[found[0]] > _SAME_SHOWN:
                    self.untold[found] += 1
                else:
                    holds = holder is not None and record.offset == holder.offset
                    yield self._record(partition, record, found, holds=holds)
        if holder is not None and all(it.offset != holder.offset for it in told):
            found = self._kind_of(holder)
            if found is not None:
                yield self._record(partition, holder, found, holds=True)

    def _record(
        self,
        partition: PartitionStatus,
        record: RecordStatus,
        found: tuple[NeedKind, Urgency],
        *,
        holds: bool,
    ) -> Need:
        kind, urgency = found
        status, tp = self.status, partition.tp
        place = f"{tp}@{record.offset}"
        since_ms = record.standing_since_ms or record.since_ms
        if kind in {NeedKind.PARKED, NeedKind.FAILING} or record.behind:
            since_ms = record.since_ms or since_ms
        member, host = self._where(record)
        return Need(
            kind=kind,
            urgency=urgency,
            place=place,
            title=f"The handler of {place} runs"
            if kind is NeedKind.SLOW and self._is_ahead(since_ms)
            else title_of(kind, place),
            facts=tuple(self._facts(partition, record, holds=holds)),
            error="" if kind is NeedKind.OVERDUE else error_shown(record.error),
            remedy=remedy_for(kind, name_shown(member), name_shown(host)),
            since_ms=since_ms,
            since=self._since(since_ms),
            commands=(
                *(self._own_page(member, host) if kind in _HAVE_STACKS else ()),
                *self._commands_for(tp, record),
            ),
            actions=decisions(status.group, tp, record.offset) if record.is_parked else (),
        )

    def _own_page(self, member: str, host: str) -> Iterator[Command]:
        """What brings the member's own page, where no link leads to it."""
        work = self.status.load.of(member)
        page = None if work is None else own_page(work.ops_address, host, self.here)
        if page is not None and page.command:
            yield Command(f"bring its own page to {page.local}", page.command)

    def _where(self, record: RecordStatus) -> tuple[str, str]:
        """The member that has a record's handler, and its host."""
        if not record.behind:
            return record.member, record.host
        hosts = (it.host for it in self.status.members if it.name == record.behind)
        return record.behind, next(hosts, "")

    def _commands_for(self, tp: TopicPartition, record: RecordStatus) -> tuple[Command, ...]:
        group, options = self.status.group, self.status.options
        found, look = commands_for(group, tp, record, options), look_at(tp, record.offset, options)
        return found if look in found else (*found, look)

    def _kind_of(self, record: RecordStatus) -> tuple[NeedKind, Urgency] | None:
        """None: it needs nobody, or that is told once for all such records."""
        if record.is_parked or record.standing is RecordState.PARKED:
            return NeedKind.PARKED, Urgency.BAD
        if record.is_overdue:
            return NeedKind.OVERDUE, Urgency.BAD
        since_ms = record.standing_since_ms
        is_long = self._stood_ms(since_ms) >= _SLOW_MS or self._is_ahead(since_ms)
        match record.standing:
            case RecordState.HELD_BACK | RecordState.UNOWNED:
                found = None
            case RecordState.WAITING:  # for another's range: that is told, too
                found = None if record.behind or not is_long else NeedKind.WAITS
            case _ if record.attempts:
                return NeedKind.FAILING, Urgency.WARN
            case RecordState.PAUSED:
                found = NeedKind.PAUSED
            case RecordState.RUNNING:
                found = NeedKind.SLOW if is_long else None
            case _:
                found = None
        return None if found is None else (found, Urgency.NOTE)

    def _facts(
        self, partition: PartitionStatus, record: RecordStatus, *, holds: bool
    ) -> Iterator[str]:
        now_ms = self.status.at_ms
        yield _key_told(record)
        if told := standing(record, now_ms, self.letter):
            yield told
        name, host = self._where(record)
        if name:
            on = f" on {name_shown(host)}" if host else ""
            yield f"at {self.letter(name)}, {name_shown(name)}{on}"
        if record.behind and record.member:
            yield f"{self.letter(record.member)} waits for it"
        if holds:
            yield "holds the stable offset"
        if record.timestamp_ms >= 0:
            yield f"produced {ago(now_ms - record.timestamp_ms)}"
        if record.is_parked and (behind := partition.remaining.records - 1) > 0:
            yield f"{counted(behind, 'other record')} left in its partition"

    # ---- members and ranges --------------------------------------------------------------------

    def _without_members(self) -> Iterator[Need]:
        status = self.status
        left = sum(it.remaining.records for it in status.partitions)
        if status.members or not status.partitions:
            return
        topics = sorted({it.tp.topic for it in status.partitions})
        words = [word for topic in topics[:_PLACES_SHOWN] for word in ("--topics", topic)]
        start = command(
            "run", "MODULE:WORKER", *words, "--group", status.group, options=status.options
        )
        yield Need(
            kind=NeedKind.NO_MEMBERS,
            urgency=Urgency.BAD if left else Urgency.NOTE,
            place=status.group,
            title="Nobody works: the group has no member",
            facts=(f"{counted(left, 'record')} left",),
            remedy="Start members, or find out why they have ended: their logs say it. Planned "
            "jobs, and consumers that call assign, are no members.",
            commands=(Command("start one", start),),
        )

    def _walls(self, partition: PartitionStatus) -> Iterator[Need]:
        tp, group = partition.tp, self.status.group
        for member, unfinished in partition.walled:
            first = _first_of(member, partition)
            is_parked = first is not None and first.is_parked
            yield Need(
                kind=NeedKind.WALLED,
                urgency=Urgency.BAD,
                place=f"{tp} {name_shown(member)}",
                title=f"{tp} is fetched no further by {self.letter(member)}",
                facts=(
                    name_shown(member),
                    f"holds {counted(unfinished, 'unfinished record')}, as many as it may",
                    "the bound is max.num.ranges.held",
                    *(() if first is None else self._first(partition, first)),
                ),
                remedy=WALLED_REMEDY,
                commands=(self._status_command(),)
                if first is None
                else self._commands_for(tp, first),
                actions=decisions(group, tp, first.offset) if first and is_parked else (),
            )

    def _first(self, partition: PartitionStatus, record: RecordStatus) -> Iterator[str]:
        """The record before which the others pile up, and since when it stands."""
        now_ms, holder = self.status.at_ms, partition.holder
        holds = holder is not None and holder.offset == record.offset
        role = "holds the stable offset" if holds else "stands first there"
        since_ms = record.since_ms or record.standing_since_ms
        yield f"{partition.tp}@{record.offset} {role}{for_span(since_ms, now_ms)}"
        if told := standing(record, now_ms, self.letter):
            yield told

    def _held_back(self) -> Iterator[Need]:
        """Members whose circuit is open, as their records tell."""
        members: dict[str, list[RecordStatus]] = defaultdict(list)
        for partition in self.status.partitions:
            held = {*partition.failed, *([partition.holder] if partition.holder else [])}
            for record in held:
                if record.standing is RecordState.HELD_BACK:
                    members[record.member].append(record)
        for member, records in sorted(members.items()):
            since_ms = min((it.standing_since_ms for it in records), default=0)
            errors = sorted({it.error for it in records if it.error})
            yield Need(
                kind=NeedKind.HELD_BACK,
                urgency=Urgency.BAD,
                place=name_shown(member),
                title=f"{self.letter(member)} tries one record a second: most of what it runs "
                "fails alike",
                facts=(f"{name_shown(member)}: its circuit is open (circuit.share)",),
                error=error_shown(errors[0]) if errors else "",
                remedy="Repair what its handlers need, a database, say. It goes on by itself once "
                "a record succeeds.",
                since_ms=since_ms,
                since=self._since(since_ms),
                commands=(self._status_command(),),
            )

    def _waits(self) -> Iterator[Need]:
        """Who waits for whom, with all ranges between these two."""
        found: dict[tuple[str, str], list[tuple[TopicPartition, PendingHandover]]] = {}
        for partition in self.status.partitions:
            for it in partition.handovers:
                found.setdefault((it.waiting, it.holder), []).append((partition.tp, it))
        for (waiting, holder), waits in sorted(found.items()):
            since_ms = min((it.since_ms for _, it in waits if it.since_ms), default=0)
            waited_ms = self._stood_ms(since_ms)
            if since_ms and waited_ms < _WAIT_MIN_MS and not self._is_ahead(since_ms):
                continue
            yield self._wait(waiting, holder, waits, since_ms)

    def _wait(
        self,
        waiting: str,
        holder: str,
        waits: list[tuple[TopicPartition, PendingHandover]],
        since_ms: int,
    ) -> Need:
        status = self.status
        size = sum(r.size for _, it in waits for r in it.ranges)
        is_one = len({tp for tp, _ in waits}) == 1
        where = _some(sorted({str(tp) for tp, _ in waits}))
        place = (waits[0][0],) if is_one else ()
        line = command("release", status.group, *place, "--holder", holder, options=status.options)
        long = self._stood_ms(since_ms) >= _LONG_WAIT_MS
        tp = waits[0][0]
        records = list(self._waiting_records(waiting, holder))
        hung = next((it for it in records if it[1].is_overdue), None)
        remedy = "It begins once the handlers there have ended."
        look: tuple[Command, ...] = ()
        if hung is not None:
            on = self._where(hung[1])[1]
            remedy = remedy_for(NeedKind.OVERDUE, name_shown(holder), name_shown(on))
            record = look_at(hung[0], hung[1].offset, status.options)
            look = (*self._own_page(holder, on), record)
        args = {"topic": tp.topic, "partition": tp.partition, "holder": holder}
        return Need(
            kind=NeedKind.WAITS,
            urgency=Urgency.WARN if long else Urgency.NOTE,
            place=f"{name_shown(waiting)} {name_shown(holder)}",
            title=f"{self.letter(waiting)} waits for {self.letter(holder)} to release "
            f"{percent(size / WHOLE.size)} of a partition's keys"
            if is_one
            else f"{self.letter(waiting)} waits for {self.letter(holder)} to release "
            f"ranges of {counted(len({tp for tp, _ in waits}), 'partition')}",
            facts=(
                where,
                f"{name_shown(waiting)} waits, {name_shown(holder)} holds",
                *((AHEAD,) if self._is_ahead(since_ms) else ()),
                *map(self._waiting_record, records[:_PLACES_SHOWN]),
                *_more(len(records) - _PLACES_SHOWN, "record"),
            ),
            remedy=f"{remedy} Release only if the handlers there do nothing more: else two may run "
            "for a key.",
            since_ms=since_ms,
            since=self._since(since_ms),
            commands=(*look, Command("begin without that release", line)),
            actions=(action_link("release", status.group, args),) if is_one else (),
        )

    def _waiting_records(
        self, waiting: str, holder: str
    ) -> Iterator[tuple[TopicPartition, RecordStatus]]:
        """What is known of the records that one member waits for at another: those that hang first.

        A handler that has not failed, is not overdue and holds no stable offset is told by nobody.
        """
        found = [
            (partition.tp, record)
            for partition in self.status.partitions
            if partition.handovers
            for record in {*partition.failed, *filter(None, [partition.holder])}
            if (record.member, record.behind) == (waiting, holder)
        ]
        yield from sorted(found, key=lambda it: (not it[1].is_overdue, it[0], it[1].offset))

    def _waiting_record(self, found: tuple[TopicPartition, RecordStatus]) -> str:
        (tp, it), now_ms = found, self.status.at_ms
        told = f"{tp}@{it.offset}, {_key_told(it)}"
        if it.attempts:
            told += f", {'overdue' if it.is_overdue else 'failing'}{for_span(it.since_ms, now_ms)}"
        return told

    def _unowned(self) -> Iterator[Need]:
        status = self.status
        if status.state != SETTLED or not status.members:
            return
        found = [it for it in status.partitions if it.unowned]
        if found:
            parts = sum(r.size for it in found for r in it.unowned) / WHOLE.size
            yield Need(
                kind=NeedKind.UNOWNED,
                urgency=Urgency.WARN,
                place=status.group,
                title=f"Nobody is assigned {_share_of(parts)}",
                facts=(_some([str(it.tp) for it in found]),),
                remedy="Members that cannot be read, or that subscribe to other topics, get "
                "nothing: the warnings here, and the log of the member that leads, say why.",
                commands=(self._status_command(),),
            )

    def _decided(self) -> Iterator[Need]:
        """Offsets that others have committed: of a plain group that is the usual case."""
        partitions = self.status.partitions
        found = [it for it in partitions if it.meaning is Meaning.DECIDED]
        is_ours = any(it.epoch for it in partitions) or any(m.capacity for m in self.status.members)
        if found and is_ours:
            yield Need(
                kind=NeedKind.WARNING,
                urgency=Urgency.NOTE,
                place="decided",
                title=f"Somebody else has set offsets of {counted(len(found), 'partition')}",
                facts=tuple(map(decided_warning, found[:_PLACES_SHOWN])),
                remedy="A reset by a stock tool, or a plain member, does so. Progress before that "
                "counts no more.",
                commands=(self._status_command(),),
            )

    def _transactions(self) -> Iterator[Need]:
        now_ms = self.status.at_ms
        for it in self.status.open_transactions:
            if it.stands_for_long(now_ms):
                yield Need(
                    kind=NeedKind.UNDECIDED,
                    urgency=Urgency.BAD if it.is_hanging else Urgency.WARN,
                    place=f"{it.tp}@{it.offset}",
                    title=f"Readers of {it.tp} stop at a transaction that nobody has decided",
                    facts=(
                        f"offset {it.offset:,} of {it.end:,}",
                        f"written by {name_shown(it.whose)}",
                    ),
                    remedy=it.outlook,
                    since_ms=it.since_ms,
                    since=self._since(it.since_ms),
                    commands=(Command("abort it", it.command),),
                )

    def _warnings(self) -> Iterator[Need]:
        partitions = self.status.partitions
        told = {walled_warning(it.tp, *wall) for it in partitions for wall in it.walled}
        told |= {unowned_warning(it.tp, it.unowned) for it in partitions if it.unowned}
        told |= {decided_warning(it) for it in partitions if it.meaning is Meaning.DECIDED}
        for number, warning in enumerate(w for w in self.status.warnings if w not in told):
            text, mark, line = warning.partition("run: coop-consumer ")
            does = Command("do that", f"coop-consumer {line}")
            commands = (does if mark else self._status_command(),)
            yield Need(
                kind=NeedKind.WARNING,
                urgency=Urgency.WARN,
                place=str(number),
                title=error_shown(f"{text}run this" if mark else text),
                commands=commands,
            )

    def _status_command(self) -> Command:
        return Command(
            "see it in a terminal",
            command("status", self.status.group, options=self.status.options),
        )

    def _since(self, since_ms: int) -> str:
        is_known = since_ms and not self._is_ahead(since_ms)
        return span(self.status.at_ms - since_ms) if is_known else ""

    def _is_ahead(self, since_ms: int) -> bool:
        return is_ahead(since_ms, self.status.at_ms)

    def _stood_ms(self, since_ms: int) -> int:
        return self.status.at_ms - since_ms if since_ms else 0


def title_of(kind: NeedKind, place: str) -> str:
    """What is up with a record, in a few words."""
    return {
        NeedKind.PARKED: f"{place} is parked: its key waits for your decision",
        NeedKind.OVERDUE: f"The handler of {place} runs for longer than it may",
        NeedKind.FAILING: f"{place} fails, and is tried again",
        NeedKind.PAUSED: f"{place} is next, and its partition is paused",
        NeedKind.SLOW: f"The handler of {place} has run for long",
        NeedKind.WAITS: f"{place} waits for the last owner of its key",
    }[kind]


def decisions(group: str, tp: TopicPartition, offset: int) -> tuple[ActionLink, ...]:
    """What a person may decide about a parked record."""
    place = {"topic": tp.topic, "partition": tp.partition, "offset": offset}
    return action_link("retry", group, place), action_link("skip", group, place)


def action_link(action: str, group: str, place: Mapping[str, object]) -> ActionLink:
    """The way to an action."""
    query = urlencode(place)
    path = f"/confirm/{action}/{quote(group, safe='')}?{query}"
    return ActionLink(action, f"{action.capitalize()}…", path)


WALLED_REMEDY = (
    "It goes on once a tenth of them is done. Decide about the record that stands first, or repair "
    "what its handler waits for (docs/runbook.md#fetchwalled)."
)
_REMEDIES = {
    NeedKind.PARKED: "Repair the cause, then retry. Or skip it: it then counts as done, and "
    "cannot be taken back.",
    NeedKind.OVERDUE: "The log of {member}{host} has the handler's stack (handler.overdue). So has "
    "that member's own page, if it runs with --ops; at an address beyond that host with a token, "
    "too (--token-file). Most often a call has no time-out: give it one. on.overdue decides what "
    "happens (docs/runbook.md#handleroverdue).",
    NeedKind.FAILING: "{member} tries it again: if the cause passes, there is nothing to do. Else "
    "repair what its handler needs: the log of {member}{host} has the traceback (record.failed). "
    "It is given up after max.attempts and attempts.for.ms; then on.failure decides.",
    NeedKind.PAUSED: "Whoever has paused it resumes it at {member}{host}: its program by "
    "pool.resume, or a person by that member's own page, if it runs with --ops and "
    "ops.allow.actions.",
    NeedKind.SLOW: "The own page of {member}{host} has the handler's stack, if it runs with --ops; "
    "at an address beyond that host with a token, too (--token-file). Most often a call has no "
    "time-out: give it one. From max.processing.ms on the handler is overdue, and the log has its "
    "stack (handler.overdue).",
    NeedKind.WAITS: "It begins once the handler of that key's last owner has ended.",
}


def remedy_for(kind: NeedKind, member: str, host: str = "") -> str:
    """What helps with a record that is not done, as sentences.

    Args:
        kind: What is up with it.
        member: Where it is, as it is shown; "": not known.
        host: Of that member; "": not known, or the page is the member's own.

    >>> remedy_for(NeedKind.WAITS, "m-1", "host-7")
    "It begins once the handler of that key's last owner has ended."
    """
    return _REMEDIES[kind].format(member=member or "its member", host=f" on {host}" if host else "")


def _first_of(member: str, partition: PartitionStatus) -> RecordStatus | None:
    """The first record that stands at a member, as far as it is known; else that of them all."""
    known = [*partition.failed, *([partition.holder] if partition.holder else [])]
    its = (it for it in known if it.member == member)
    return min(its, key=lambda it: it.offset, default=partition.holder)


def _key_told(record: RecordStatus) -> str:
    if not record.is_read:
        return "key not read"
    key = key_shown(record.key)
    return key if record.key is None else f"key {key}"


def _some(places: list[str]) -> str:
    rest = len(places) - _PLACES_SHOWN
    shown = ", ".join(places[:_PLACES_SHOWN])
    return f"{shown} and {rest:,} more" if rest > 0 else shown


def _more(rest: int, noun: str) -> tuple[str, ...]:
    return (f"and {counted(rest, f'more {noun}')}",) if rest > 0 else ()


def _share_of(partitions: float) -> str:
    """A part of the hash space, in partitions.

    >>> _share_of(0.5), _share_of(3.0)
    ("50% of a partition's keys", '3 partitions')
    """
    if partitions < 1:
        return f"{percent(partitions)} of a partition's keys"
    return counted(round(partitions), "partition")
