"""All that the page of a group says, as plain values. Pure.

In: what the feed of a group has, and how the page calls its members. Out: a `GroupPage`: what needs
a person, the picture, figures, tables. Without any look it says why there is none, and what to do.
A picture that is old says since when.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING
from urllib.parse import quote

from assignors import WHOLE, TopicPartition
from coop_consumer.core.policies import NAMES
from coop_consumer.ops.group_metrics import state_of
from coop_consumer.ops.page.needs import Needs, Urgency, needs_of_group
from coop_consumer.ops.page.own_page import UNKNOWN_HOST, OwnPage, PageHost, own_page
from coop_consumer.ops.page.picture import GroupPicture, picture_of, worst_partitions
from coop_consumer.ops.page.shown import error_shown, key_shown, name_shown
from coop_consumer.ops.page.sparkline import Sparkline, sparkline
from coop_consumer.ops.page.trouble import Trouble, trouble_of
from coop_consumer.ops.speed import Rate
from coop_consumer.plain_text import command, counted
from coop_consumer.status.model import SETTLED
from coop_consumer.status.standing import RecordState
from coop_consumer.status.words import ago, handler_time, percent, short, span, standing

if TYPE_CHECKING:
    from coop_consumer.ops.feed import FeedState, HistoryLine
    from coop_consumer.ops.page.letters import Letters
    from coop_consumer.ops.speed import Speed
    from coop_consumer.status.load import KeyWork
    from coop_consumer.status.model import GroupStatus, PartitionStatus, RecordStatus
    from coop_consumer.status.scale import ScaleAdvice
    from coop_consumer.status.seen import MemberSeen

OLD_MS = 12_000
"""A picture that is older is called old."""
PARTITIONS_SHOWN = 100
MEMBERS_SHOWN = 100
KEYS_SHOWN = 10
_RUNNING_SHOWN = 20
_KEY_SHARE_MIN = 0.05
_HOT = 0.5
_STEADY, _STEADY_SHARE = 0.05, 0.02
"""A change of what is left that is smaller (a second; of what arrives) is chance."""
_LONGEST_S = 30 * 86_400
_UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure that counts for the whole group.

    Attributes:
        name: What it is.
        value: The figure.
        detail: What it means.
        kind: `good`, `bad`, `warn` or "".
    """

    name: str
    value: str
    detail: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class PartitionLine:
    """A partition in the table; all of it text."""

    place: str
    left: str
    lag: str
    stable: str
    end: str
    done: str
    arrived: str
    outlook: str
    gaps: str
    epoch: str


@dataclass(frozen=True, slots=True)
class RunningLine:
    """A record that stands at the stable offset of a partition, and what it does.

    `stack` is where the stack of its handler is; None: it does not run, or that is not known.
    """

    place: str
    key: str
    letter: str
    look: str
    hatch: int
    told: str
    age: str
    stack: OwnPage | None


@dataclass(frozen=True, slots=True)
class MemberLine:
    """A member in the table; all of it text.

    But for how busy it is, 0.0 to 1.0, and where its own page is: each None if not known.
    """

    letter: str
    look: str
    hatch: int
    name: str
    host: str
    state: str
    leads: bool
    workers: str
    ranges: str
    share: str
    busy: float | None
    busy_words: str
    done: str
    mean: str
    p50: str
    p99: str
    memory: str
    page: OwnPage | None


@dataclass(frozen=True, slots=True)
class KeyLine:
    """A heavy key.

    Attributes:
        key: As it is shown.
        place: Its partition.
        letter: Its member.
        share: Its part of the partition's work, 0.0 to 1.0.
        share_words: The same for people.
        is_hot: Whether it alone bounds what its partition can do.
        limit: How it does that; "": it does not.
    """

    key: str
    place: str
    letter: str
    share: float
    share_words: str
    is_hot: bool
    limit: str


@dataclass(frozen=True, slots=True)
class ScaleView:
    """How many members are wanted, and why."""

    members: int
    wanted: int
    useful: str
    reason: str
    kind: str
    command: str


@dataclass(frozen=True, slots=True)
class PolicyLine:
    """What an operator forbids, and the command that allows it again."""

    words: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShown:
    """What a look has shown.

    Attributes:
        state: The coordinator's word for the group's state, with what that means.
        is_settled: Whether it is not rebalancing.
        guarantee: By which it works.
        patterns: By which its members subscribe.
        notices: What a reader should know of such a group, as sentences.
        needs, picture, tiles, partitions, running, members, keys, scale, policies: The parts.
        partitions_more, members_more: How many are left out of the tables.
        has_times, has_memory: Whether any member reports quantiles, or its memory.
        brought: Where the first command of the table brings an own page; "": it has none.
    """

    state: str
    is_settled: bool
    guarantee: str
    patterns: tuple[str, ...]
    notices: tuple[str, ...]
    needs: Needs
    picture: GroupPicture
    tiles: tuple[Tile, ...]
    partitions: tuple[PartitionLine, ...]
    partitions_more: int
    running: tuple[RunningLine, ...]
    members: tuple[MemberLine, ...]
    members_more: int
    has_times: bool
    has_memory: bool
    brought: str
    keys: tuple[KeyLine, ...]
    scale: ScaleView | None
    policies: tuple[PolicyLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """The page of a group.

    Attributes:
        group: Its id as it is shown.
        group_path: Its id as a part of paths.
        version: The number of the look.
        seen_at: When it was seen, UTC; "": it was not.
        title: Of the window: it says how many things need a person.
        stale: Since when the picture is old, and why; "": it is not.
        trouble: Why there is nothing to see; None: there is.
        view: What is to be seen; None: nothing.
        history: The last half hour.
        status_command: What shows the same in a terminal.
    """

    group: str
    group_path: str
    version: int
    seen_at: str
    title: str
    stale: str
    trouble: Trouble | None
    view: GroupShown | None
    history: tuple[Sparkline, ...]
    status_command: str

    @property
    def needs(self) -> Needs:
        """What needs a person."""
        assert self.view is not None, "without a view nothing is known of that"
        return self.view.needs

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """Figures of the whole group."""
        return () if self.view is None else self.view.tiles


def group_page(
    feed: FeedState,
    letters: Letters,
    series: Sequence[HistoryLine],
    now_ms: int,
    *,
    options: Sequence[str] = (),
    old_ms: int = OLD_MS,
    here: PageHost = UNKNOWN_HOST,
) -> GroupPage:
    """The page. O(partitions + members).

    Args:
        feed: What is known of the group.
        letters: What the page calls its members.
        series: Its history.
        now_ms: The time, Unix time.
        options: Words that commands need to find the group.
        old_ms: A picture that is older is called old.
        here: Where it is served.
    """
    group, look = name_shown(feed.group), feed.look
    view = trouble = None
    title = f"{group} | coop-consumer"
    if look is None or look.status is None:
        trouble = trouble_of(feed, options)
    else:
        letters.meet(member.name for member in look.status.members)
        view = _view(look.status, look.advice, feed.speed, letters, here)
        bad = view.needs.counts[Urgency.BAD] + view.needs.counts[Urgency.WARN]
        title = f"({bad}) {title}" if bad else title
    stale = "" if view is None else stale_words(feed, now_ms, old_ms)
    return GroupPage(
        group=group,
        group_path=quote(feed.group, safe=""),
        version=feed.version,
        seen_at=clock(feed.seen_at_ms),
        title=f"old: {title}" if stale else title,
        stale=stale,
        trouble=trouble,
        view=view,
        history=tuple(sparkline(it, now_ms) for it in series) if _is_known(series) else (),
        status_command=command("status", feed.group, options=options),
    )


def _is_known(series: Sequence[HistoryLine]) -> bool:
    """Whether there is anything to draw."""
    return any(value is not None for it in series for _, value in it.points)


def clock(at_ms: int) -> str:
    """A time of day, in UTC; "": it is not known.

    >>> clock(1_700_000_000_000), clock(0)
    ('22:13:20 UTC', '')
    """
    seconds = at_ms // 1_000 % 86_400
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours:02}:{minutes:02}:{seconds % 60:02} UTC" if at_ms else ""


def stale_words(feed: FeedState, now_ms: int, old_ms: int) -> str:
    """Since when what is seen is old, and why; "": it is new."""
    age_ms = now_ms - feed.seen_at_ms
    old = f"This picture is of {clock(feed.seen_at_ms)}, {span(age_ms)} ago."
    if feed.failing_since_ms:
        why = "the last look failed" if feed.error is None else error_shown(str(feed.error))
        return f"{old} Since then nothing can be seen: {why}"
    if age_ms >= old_ms:
        return f"{old} The next look takes long: do brokers answer?"
    return ""


def _view(
    status: GroupStatus,
    advice: ScaleAdvice | None,
    speed: Speed,
    letters: Letters,
    here: PageHost,
) -> GroupShown:
    shown = worst_partitions(status, PARTITIONS_SHOWN)
    load = status.load
    members = [_member_line(it, status, letters, here) for it in status.members[:MEMBERS_SHOWN]]
    brought = (it.page.local for it in members if it.page is not None and it.page.command)
    keys = [key for key in load.keys if key.share >= _KEY_SHARE_MIN][:KEYS_SHOWN]
    return GroupShown(
        state=_state_words(status),
        is_settled=status.state == SETTLED,
        guarantee=status.guarantee.replace("_", " "),
        patterns=tuple(map(name_shown, status.patterns)),
        notices=tuple(_notices(status)),
        needs=needs_of_group(status, letters.letter, here),
        picture=picture_of(status, letters),
        tiles=tuple(_tiles(status, advice, speed)),
        partitions=tuple(_partition_line(it, speed.rates.get(it.tp)) for it in shown),
        partitions_more=len(status.partitions) - len(shown),
        running=tuple(_running(status, letters, here)),
        members=tuple(members),
        members_more=len(status.members) - len(members),
        has_times=any(it.p99_us for it in load.works),
        has_memory=any(it.memory_bytes for it in load.works),
        brought=next(brought, ""),
        keys=tuple(_key_line(key, letters) for key in keys),
        scale=None if advice is None else _scale(status, advice),
        policies=tuple(_policies(status)),
    )


def _state_words(status: GroupStatus) -> str:
    meaning = {
        SETTLED: "stable",
        "Empty": "no members",
        "PreparingRebalance": "rebalancing",
        "CompletingRebalance": "rebalancing",
        "Dead": "unknown to the brokers",
    }
    return meaning.get(status.state, name_shown(status.state))


def _notices(status: GroupStatus) -> Iterator[str]:
    members = status.members
    plain = [it for it in members if not it.capacity and not it.note]
    if members and status.state == SETTLED and len(plain) == len(members):
        yield (
            "This is a plain consumer group: its members have whole partitions, and say nothing of "
            "records. Offsets, lag and members are shown. To share its partitions, replace its "
            "members one by one (upgrade.from)."
        )
    elif plain and status.state == SETTLED:
        yield (
            f"{len(plain):,} of {counted(len(members), 'member is', 'members are')} plain: until "
            "the last one has left, all have whole partitions."
        )
    if not status.partitions:
        yield (
            "No topic of the group is known yet: it has no members with topics, no committed "
            "offsets and no progress."
        )


def _tiles(status: GroupStatus, advice: ScaleAdvice | None, speed: Speed) -> Iterator[Tile]:
    left = sum(it.remaining.records for it in status.partitions)
    is_exact = all(it.remaining.is_exact for it in status.partitions)
    told = outlook(left, stuck_in(status.partitions), speed.total)
    mark = "" if is_exact or not left else "about "
    yield Tile("Left to do", f"{mark}{_number(left)}", told, "good" if not left else "")
    lags = [it.lag for it in status.partitions if it.lag is not None]
    lag = _number(sum(lags)) if lags else _UNKNOWN
    yield Tile("Lag", lag, "as stock tools see it")
    total = speed.total
    done = _UNKNOWN if total is None else f"{_rate(total.done)}/s"
    arrived = "" if total is None else f"{_rate(total.arrived)}/s arrive"
    yield Tile("Done", done, arrived)
    oldest_ms = max(
        (
            status.at_ms - it.holder.timestamp_ms
            for it in status.partitions
            if it.holder is not None and it.holder.timestamp_ms >= 0
        ),
        default=0,
    )
    is_known = oldest_ms > 0
    oldest = span(oldest_ms) if is_known else _UNKNOWN if left else "none"
    yield Tile("Oldest record", oldest, "not yet done" if is_known or not left else "not known")
    here = len(status.members)
    wanted = "" if advice is None else f"{advice.wanted:,} wanted"
    is_short = advice is not None and advice.wanted > here
    yield Tile("Members", f"{here:,}", wanted, "warn" if is_short else "")


def _number(number: int) -> str:
    """A number as a figure of its own."""
    return f"{number:,}" if number < 1_000_000 else short(number)


def stuck_in(partitions: Iterable[PartitionStatus]) -> int:
    """How many records have failed and are not done: the rest goes on without them."""
    return sum(len(it.failed) for it in partitions)


def outlook(left: int, stuck: int, rate: Rate | None) -> str:
    """What becomes of what is left, without what is stuck.

    >>> outlook(900, 0, Rate(done=50.0, arrived=20.0)), outlook(20, 1, Rate(148.0, 147.9))
    ('done in about 30 s', 'keeps up')
    """
    if not left:
        return "caught up"
    if stuck >= left:
        return "all that is left is stuck"
    if rate is None:
        return "rate not known yet"
    net, steady = rate.done - rate.arrived, max(_STEADY, _STEADY_SHARE * rate.arrived)
    finish_s = (left - stuck) / net if net > steady else inf
    if finish_s < _LONGEST_S:
        return f"done in about {span(max(round(finish_s), 1) * 1_000)}"
    if net < -steady:
        return f"grows by {_rate(-net)}/s"
    return "keeps up" if rate.done > _STEADY else "nothing gets done"


def _rate(a_second: float) -> str:
    """Records a second: short, and 0 only for none.

    >>> [_rate(it) for it in (0.0, 0.02, 2.25, 210.4, 123_456.0)]
    ['0', '<0.1', '2.2', '210', '123.5k']
    """
    if 0 < a_second < 0.1:
        return "<0.1"
    return f"{a_second:.1f}" if 0 < a_second < 10 else short(round(a_second))


def _partition_line(it: PartitionStatus, rate: Rate | None) -> PartitionLine:
    left = it.remaining.records
    return PartitionLine(
        place=str(it.tp),
        left=f"{'' if it.remaining.is_exact else '~'}{left:,}",
        lag=_UNKNOWN if it.lag is None else f"{it.lag:,}",
        # (The end was asked for before the log was read.)
        stable=_UNKNOWN if it.stable is None else f"{min(it.stable, it.end):,}",
        end=f"{it.end:,}",
        done=_UNKNOWN if rate is None else _rate(rate.done),
        arrived=_UNKNOWN if rate is None else _rate(rate.arrived),
        outlook=outlook(left, len(it.failed), rate),
        gaps=f"{len(it.gaps):,}",
        epoch=str(it.epoch or _UNKNOWN),
    )


def _running(status: GroupStatus, letters: Letters, here: PageHost) -> Iterator[RunningLine]:
    """The records at stable offsets that their members say something of, the oldest first."""
    found = [
        (partition, partition.holder)
        for partition in status.partitions
        if partition.holder is not None and partition.holder.standing is not RecordState.UNTOLD
    ]
    found.sort(key=lambda it: (it[1].standing_since_ms or status.at_ms, it[0].tp))
    for partition, record in found[:_RUNNING_SHOWN]:
        page = _page_of(_runs_at(record), status, here)
        stack = page and page.of_stack(partition.tp, record.offset)
        yield _running_line(partition.tp, record, stack, status.at_ms, letters)


def _runs_at(record: RecordStatus) -> str:
    """The member whose handler has the record, as far as that is known; else ""."""
    if record.standing is RecordState.WAITING:
        return record.behind
    return record.member if record.standing is RecordState.RUNNING else ""


def _page_of(name: str, status: GroupStatus, here: PageHost) -> OwnPage | None:
    """Where the own page of a member is; None: it is not known."""
    work = status.load.of(name)
    hosts = (it.host for it in status.members if it.name == name)
    return None if work is None else own_page(work.ops_address, next(hosts, ""), here)


def _running_line(
    tp: TopicPartition, record: RecordStatus, stack: OwnPage | None, at_ms: int, letters: Letters
) -> RunningLine:
    member = record.member or None
    return RunningLine(
        place=f"{tp}@{record.offset}",
        key=key_shown(record.key) if record.is_read else "not read",
        letter=letters.letter(member) if member else "nobody",
        look=letters.look(member),
        hatch=letters.hatch(member),
        told=standing(record, at_ms, letters.letter),
        age=ago(at_ms - record.timestamp_ms) if record.timestamp_ms >= 0 else _UNKNOWN,
        stack=stack,
    )


_STATE_WORDS = {
    "working": "works",
    "waiting": "waits for ranges",
    "idle": "has no range",
    "joining": "rebalances",
    "plain": "plain",
    "unreadable": "cannot be read",
}


def _member_line(
    member: MemberSeen, status: GroupStatus, letters: Letters, here: PageHost
) -> MemberLine:
    waiting = {it.waiting for partition in status.partitions for it in partition.handovers}
    state = state_of(member, waiting) if status.state == SETTLED else "joining"
    work = status.load.of(member.name)
    size = sum(r.size for ranges in member.ranges.values() for r in ranges)
    share = size / (WHOLE.size * max(len(status.partitions), 1))
    return MemberLine(
        letter=letters.letter(member.name),
        look=letters.look(member.name),
        hatch=letters.hatch(member.name),
        name=name_shown(member.name),
        host=name_shown(member.host),
        state=_STATE_WORDS[state],
        leads=member.leads,
        workers=str(work.workers if work else member.capacity or _UNKNOWN),
        ranges=f"{sum(map(len, member.ranges.values())):,}",
        share=percent(share) if size else "0%",
        busy=None if work is None else work.busy,
        busy_words=_UNKNOWN if work is None else f"{work.busy:.0%}",
        done=_UNKNOWN if work is None else f"{work.finished:,}",
        mean=(handler_time(work.handler_us) if work else "") or _UNKNOWN,
        p50=(handler_time(work.p50_us) if work else "") or _UNKNOWN,
        p99=(handler_time(work.p99_us) if work else "") or _UNKNOWN,
        memory=f"{work.memory_bytes / 2**20:,.0f} MB" if work and work.memory_bytes else _UNKNOWN,
        page=None if work is None else own_page(work.ops_address, member.host, here),
    )


def _key_line(key: KeyWork, letters: Letters) -> KeyLine:
    is_hot, limit = key.is_busy or key.share >= _HOT, ""
    if is_hot:
        at_most = f"at most {key.workers_at_most:.1f} busy there"
        limit = f"fills one worker, {at_most}" if key.is_busy else f"one worker, {at_most}"
    return KeyLine(
        key=key_shown(key.key) if key.key is not None else f"the key of hash {key.key_hash}",
        place=str(key.tp),
        letter=letters.letter(key.member) if key.member else "nobody",
        share=key.share,
        share_words=key.percent,
        is_hot=is_hot,
        limit=limit,
    )


def _scale(status: GroupStatus, advice: ScaleAdvice) -> ScaleView:
    kind = "short" if advice.wanted > advice.members else ""
    return ScaleView(
        members=advice.members,
        wanted=advice.wanted,
        useful="no limit known" if advice.useful is None else f"{advice.useful:,}",
        reason=advice.reason,
        kind=kind,
        command=command("scale", status.group, options=status.options),
    )


def _policies(status: GroupStatus) -> Iterator[PolicyLine]:
    for key in status.policies.refusals(status.group):
        words = f"{key.scope} {name_shown(key.name)}: {NAMES[key.scope]}=false"
        of = ("--topic" if key.scope == "topic" else "--group", key.name)
        allow = ("policy", "set", f"{NAMES[key.scope]}=true", *of)
        yield PolicyLine(
            f"{words}, so its partitions are not shared", command(*allow, options=status.options)
        )
