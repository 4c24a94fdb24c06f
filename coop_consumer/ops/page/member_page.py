"""All that a member's own page says, as plain values. Pure.

In: how the member is, what it counts, a glimpse. Out: a `MemberPage`: what needs a person, what
runs and since when, figures, what it holds, topics. A member whose thread does not answer says so,
and shows what it knows without that thread: its `Health`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from assignors import KEY_HASH_MAX, WHOLE
from coop_consumer.config import LogKeys
from coop_consumer.core.histogram import Durations, added_up
from coop_consumer.core.key_names import shown as name_of_key
from coop_consumer.ops.page.group_page import Tile, clock
from coop_consumer.ops.page.member_needs import needs_of_member
from coop_consumer.ops.page.needs import Needs, Urgency
from coop_consumer.ops.page.own_page import stack_path
from coop_consumer.ops.page.shown import key_shown, name_shown
from coop_consumer.ops.page.sparkline import Sparkline, sparkline
from coop_consumer.plain_text import command, counted
from coop_consumer.status.words import handler_time, percent, short, span

if TYPE_CHECKING:
    from coop_consumer.core.glimpse import FailedRecord, Glimpse, HeldPartition, RunningRecord
    from coop_consumer.core.metrics import MemberMetrics, TopicMetrics
    from coop_consumer.ops.feed import HistoryLine
    from coop_consumer.ops.health import Health

RUNNING_SHOWN = 25
PARTITIONS_SHOWN = 100
_UNKNOWN = "?"
_SLOW_S = 60.0
_COMMIT_WAITS_S = 5.0
"""A commit is due after commit.interval.ms, by default 100 ms; few let more than this pass."""


@dataclass(frozen=True, slots=True)
class RunningRow:
    """A record whose handler runs.

    Attributes:
        place: Where it is.
        path: Where its stack is.
        key: Its key, as `log.keys` allows.
        age: For how long it has been seen to run.
        attempt: Which attempt it is.
        note: What else is up with it.
        is_slow: It has run for long.
    """

    place: str
    path: str
    key: str
    age: str
    attempt: str
    note: str
    is_slow: bool


@dataclass(frozen=True, slots=True)
class HeldRow:
    """A partition of which the member processes something.

    Attributes:
        place: Its name.
        pieces: Where its ranges lie: left end and width, in percent.
        share: How much of it that is.
        stable, end: Offsets.
        pending: How many records are taken in and not done.
        is_paused: The user has paused it.
        path: Its topic and partition as a query.
    """

    place: str
    pieces: tuple[tuple[float, float], ...]
    share: str
    stable: str
    end: str
    pending: str
    is_paused: bool
    path: str


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic; all of it text."""

    topic: str
    fetched: str
    finished: str
    failed: str
    skipped: str
    dead: str
    p50: str
    p99: str
    age: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with what it means."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPage:
    """A member's page.

    Attributes:
        member, group: Their names as they are shown.
        group_path: The group's id as a part of paths.
        phase: What the member does.
        version: Grows with each.
        seen_at: When that was, UTC.
        title: Of the window.
        stale: Why some of it is missing; "": nothing is.
        needs, tiles, running, running_more, held, held_more, topics, figures, history: The parts.
        status_command: What shows the whole group.
    """

    member: str
    group: str
    group_path: str
    phase: str
    version: int
    seen_at: str
    title: str
    stale: str
    needs: Needs
    tiles: tuple[Tile, ...]
    running: tuple[RunningRow, ...]
    running_more: int
    held: tuple[HeldRow, ...]
    held_more: int
    topics: tuple[TopicRow, ...]
    figures: tuple[Figure, ...]
    history: tuple[Sparkline, ...]
    status_command: str


def member_page(
    health: Health,
    metrics: MemberMetrics | None,
    glimpse: Glimpse,
    series: Sequence[HistoryLine] = (),
    *,
    version: int,
    keys: LogKeys,
    error: str = "",
    options: tuple[str, ...] = (),
) -> MemberPage:
    """The page.

    Args:
        health: How the member is.
        metrics: What it counts; None: its thread does not answer.
        glimpse: What it does.
        series: Its history.
        version: The number of the look.
        keys: What may be shown of keys: `log.keys`.
        error: Why its thread does not answer.
        options: Words that commands need to find the group.
    """
    needs = needs_of_member(health, metrics, glimpse, _key_of(keys), options)
    bad = needs.counts[Urgency.BAD] + needs.counts[Urgency.WARN]
    title = f"{name_shown(health.member)} | {name_shown(health.group)}"
    phase = str(metrics.phase if metrics is not None else health.phase)
    left = glimpse.running_count - min(len(glimpse.running), RUNNING_SHOWN)
    return MemberPage(
        member=name_shown(health.member),
        group=name_shown(health.group),
        group_path=quote(health.group, safe=""),
        phase=phase,
        version=version,
        seen_at=clock(glimpse.at_ms),
        title=f"({bad}) {title}" if bad else title,
        stale=error,
        needs=needs,
        tiles=() if metrics is None else tuple(_tiles(metrics, glimpse)),
        running=tuple(_running(it, glimpse.at_ms, keys) for it in glimpse.running[:RUNNING_SHOWN]),
        running_more=left,
        held=tuple(_held(it) for it in glimpse.held[:PARTITIONS_SHOWN]),
        held_more=max(len(glimpse.held) - PARTITIONS_SHOWN, 0),
        topics=()
        if metrics is None
        else tuple(_topic(name, it) for name, it in sorted(metrics.topics.items())),
        figures=() if metrics is None else tuple(_figures(metrics)),
        history=tuple(sparkline(it, glimpse.at_ms) for it in series),
        status_command=command("status", health.group, options=options),
    )


def _key_of(keys: LogKeys) -> Callable[[FailedRecord], str]:
    def shown(it: FailedRecord) -> str:
        return _key_words(it.key, it.key_hash, keys, known=it.is_key_known)

    return shown


def _key_words(key: object, key_hash: int, keys: LogKeys, *, known: bool = True) -> str:
    """A key as `log.keys` allows it; bytes that are no UTF-8 as hex."""
    if keys is LogKeys.TEXT and known:
        if key is None:
            return "no key"
        return f"key {key_shown(key)}" if isinstance(key, bytes) else "no key"
    told = name_of_key(keys, None, key_hash, known=False)
    return told or "key not shown (log.keys=none)"


def _tiles(metrics: MemberMetrics, glimpse: Glimpse) -> Iterator[Tile]:
    busy = f"{metrics.workers_busy:,} of {metrics.workers:,}"
    yield Tile("Busy workers", busy, counted(glimpse.running_count, "record runs", "records run"))
    yield Tile("In lanes", short(metrics.lane_records), f"{_bytes(metrics.lane_bytes)} of records")
    keys = metrics.keys_parked + metrics.keys_backing_off
    detail = f"{metrics.keys_parked:,} parked, {metrics.keys_backing_off:,} back off"
    yield Tile("Keys that wait", f"{keys:,}", detail, "bad" if metrics.keys_parked else "")
    handler = added_up(it.handler for it in metrics.topics.values())
    p50, p99 = _quantiles(handler)
    yield Tile("Handler p99", p99, f"p50 {p50}")
    age_s = metrics.commit_age_s
    is_long = age_s > _COMMIT_WAITS_S
    detail = "what is finished, longer than usual" if is_long else "what is finished"
    yield Tile("Commit waits", f"{age_s:.1f} s", detail, "warn" if is_long else "")
    memory = _bytes(metrics.memory_bytes) if metrics.memory_bytes else _UNKNOWN
    yield Tile("Memory", memory, "of this process")


def _running(it: RunningRecord, at_ms: int, keys: LogKeys) -> RunningRow:
    note = "its range is another member's, who waits for its end" if it.is_given_up else ""
    return RunningRow(
        place=f"{it.tp}@{it.offset}",
        path=stack_path(it.tp, it.offset),
        key=_key_words(it.key, it.key_hash, keys),
        age=span(at_ms - it.since_ms),
        attempt=str(it.attempt),
        note=note,
        is_slow=at_ms - it.since_ms >= _SLOW_S * 1_000,
    )


def _held(it: HeldPartition) -> HeldRow:
    size = sum(key_range.size for key_range in it.ranges)
    return HeldRow(
        place=str(it.tp),
        pieces=tuple(
            (
                round(100 * r.lo / (KEY_HASH_MAX + 1), 2),
                round(max(100 * r.size / WHOLE.size, 0.35), 2),
            )
            for r in it.ranges
        ),
        share=percent(size / WHOLE.size),
        stable=f"{it.stable:,}",
        end=f"{it.end:,}" if it.end >= 0 else _UNKNOWN,
        pending=f"{it.pending:,}",
        is_paused=it.is_paused,
        path=f"topic={quote(it.tp.topic, safe='')}&partition={it.tp.partition}",
    )


def _topic(name: str, it: TopicMetrics) -> TopicRow:
    p50, p99 = _quantiles(it.handler)
    _, age = _quantiles(it.age)
    return TopicRow(
        topic=name_shown(name),
        fetched=f"{it.fetched:,}",
        finished=f"{it.finished:,}",
        failed=f"{sum(it.failed.values()):,}",
        skipped=f"{sum(it.skipped.values()):,}",
        dead=f"{it.dead_lettered:,}",
        p50=p50,
        p99=p99,
        age=age,
    )


def _figures(it: MemberMetrics) -> Iterator[Figure]:
    yield Figure("commits", f"{it.commits:,}")
    _, commit = _quantiles(it.commit)
    yield Figure("p99 of a commit", commit)
    yield Figure("rebalances", f"{it.rebalances:,}")
    _, handover = _quantiles(it.handover)
    yield Figure("p99 of a handover", handover)
    yield Figure("ranges that wait", f"{it.ranges_waiting:,}")
    yield Figure("what holds the fetch", it.bound.replace("_", " ") or "nothing")
    yield Figure("fetch held so far", f"{it.fetch_held_s:,.0f} s")
    if it.outputs_waiting:
        yield Figure("outputs that wait", f"{it.outputs_waiting:,}")
    if it.child_restarts:
        yield Figure("child processes restarted", f"{it.child_restarts:,}")
    if it.forced_releases:
        yield Figure("ranges begun by force", f"{it.forced_releases:,}")
    if it.client_renewals:
        yield Figure("clients replaced", f"{it.client_renewals:,}")
    if it.transactions is not None:
        yield Figure("transactions committed", f"{it.transactions.committed:,}")
        yield Figure(
            "transactions aborted", f"{it.transactions.aborted + it.transactions.refused:,}"
        )
    if it.keyed_state is not None:
        yield Figure("keyed state", _bytes(it.keyed_state.bytes))


def _quantiles(durations: Durations | None) -> tuple[str, str]:
    """The median and the 99th percentile, for people."""
    if durations is None or not durations.count:
        return _UNKNOWN, _UNKNOWN
    p50, p99 = (handler_time(durations.quantile(it) * 1e6) or "0 µs" for it in (0.5, 0.99))
    return p50, p99


def _bytes(number: int) -> str:
    """Bytes for people.

    >>> _bytes(812), _bytes(70_000), _bytes(99_000_000)
    ('812 B', '68 kB', '94 MB')
    """
    for limit, unit in ((2**30, "GB"), (2**20, "MB"), (2**10, "kB")):
        if number >= limit:
            return f"{number / limit:,.{1 if unit == 'GB' else 0}f} {unit}"
    return f"{number} B"
