"""What needs a person at one member, as far as it knows. Pure.

In: how the member is, what it counts, a glimpse. Out: `Needs`. What it waits for and why it is not
ready comes from its `Health`. Parked and failing records are those that it holds itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from coop_consumer.ops.health import NotReady, ready
from coop_consumer.ops.page.needs import (
    WALLED_REMEDY,
    Need,
    NeedKind,
    Needs,
    Urgency,
    decisions,
    remedy_for,
    sorted_needs,
    title_of,
)
from coop_consumer.ops.page.shown import error_shown, name_shown
from coop_consumer.plain_text import command, counted
from coop_consumer.status.standing import Command, decide, is_overdue, look_at
from coop_consumer.status.words import span

if TYPE_CHECKING:
    from coop_consumer.core.glimpse import FailedRecord, Glimpse
    from coop_consumer.core.metrics import MemberMetrics
    from coop_consumer.ops.health import Health, Reason

_GRAVE = {NotReady.FROZEN, NotReady.NO_BROKER, NotReady.STOPPED, NotReady.CIRCUIT_OPEN}
_LONG_WAIT_S = 30.0
_REMEDIES = {
    NotReady.FROZEN: "A thread of the member stands still: restart it.",
    NotReady.NO_BROKER: "It goes on once a broker answers. Do brokers run? Does this host reach "
    "them?",
    NotReady.STOPPED: "The group has stopped there (on.failure=stop). Decide about the record.",
    NotReady.CIRCUIT_OPEN: "Most of what it runs fails alike, so it tries one record a second. "
    "Repair what its handlers need, a database, say.",
    NotReady.WAITS: "It begins once these handlers have ended.",
}
_OVERDUE = (
    "See below what runs, and its stack. Most often a call has no time-out: give it one. "
    "on.overdue decides what happens (docs/runbook.md#handleroverdue)."
)
_KINDS = {
    NotReady.WAITS: NeedKind.WAITS,
    NotReady.CIRCUIT_OPEN: NeedKind.HELD_BACK,
}


def needs_of_member(
    health: Health,
    metrics: MemberMetrics | None,
    glimpse: Glimpse,
    key_of: Callable[[FailedRecord], str],
    options: tuple[str, ...],
) -> Needs:
    """What needs a person.

    Args:
        health: How the member is.
        metrics: What it counts; None: it does not answer.
        glimpse: What it does.
        key_of: How a key is shown.
        options: Words that commands need to find the group.
    """
    found = list(_reasons(health, options))
    running = {(it.tp, it.offset) for it in glimpse.running}
    for it in glimpse.failed:
        runs = (it.tp, it.offset) in running
        found.append(_failed(it, health, glimpse.at_ms, key_of, options, runs=runs))
    walled = list(_walls(glimpse, health.group, options))
    found += walled
    if metrics is not None:
        told = sum(it.kind is NeedKind.OVERDUE for it in found)
        untold = 0 if walled else metrics.walled
        found += _figures(metrics, metrics.keys_overdue - told, untold, options)
    more = glimpse.failed_count - len(glimpse.failed)
    parked = metrics is not None and metrics.keys_parked > len(glimpse.failed)
    line = command("retry", health.group, "--all", "--dry-run", options=options)
    all_parked = (Command("see all parked records, by error", line),)
    return sorted_needs(found, all_parked if more or parked else ())


def _reasons(health: Health, options: tuple[str, ...]) -> Iterator[Need]:
    for reason in ready(health).reasons:
        if reason.kind in {NotReady.STARTING, NotReady.JOINING, NotReady.DRAINING}:
            urgency = Urgency.NOTE
        elif reason.kind in _GRAVE:
            urgency = Urgency.BAD
        else:
            is_long = reason.for_s is None or reason.for_s >= _LONG_WAIT_S
            urgency = Urgency.WARN if is_long else Urgency.NOTE
        yield Need(
            kind=_KINDS.get(reason.kind, NeedKind.WARNING),
            urgency=urgency,
            place=f"{reason.kind} {reason.subject}".strip(),
            title=error_shown(reason.text),
            remedy=_REMEDIES.get(reason.kind, ""),
            since="" if reason.for_s is None else span(round(reason.for_s * 1_000)),
            commands=_commands(health.group, reason, options),
        )


def _commands(group: str, reason: Reason, options: tuple[str, ...]) -> tuple[Command, ...]:
    see = Command("see the group", command("status", group, options=options))
    if reason.kind is NotReady.WAITS and reason.members:
        place = (reason.subject,)
        return tuple(
            Command(
                "begin without that release, if those handlers do nothing more",
                command("release", group, *place, "--holder", member, options=options),
            )
            for member in reason.members
        )
    if reason.kind is NotReady.NO_BROKER:
        return (Command("check brokers, rights and clients", command("doctor", options=options)),)
    return (see,)


def _failed(
    it: FailedRecord,
    health: Health,
    at_ms: int,
    key_of: Callable[[FailedRecord], str],
    options: tuple[str, ...],
    *,
    runs: bool,
) -> Need:
    group, place, hangs = health.group, f"{it.tp}@{it.offset}", is_overdue(it.error)
    kind, urgency = NeedKind.FAILING, Urgency.WARN
    title = ""
    remedy = remedy_for(kind, name_shown(health.member))
    if it.is_parked:
        kind, urgency = NeedKind.PARKED, Urgency.BAD
        remedy = remedy_for(kind, "")
    elif runs and hangs:
        kind, urgency, remedy = NeedKind.OVERDUE, Urgency.BAD, _OVERDUE
    elif it.behind:
        kind, urgency = NeedKind.WAITS, Urgency.BAD if hangs else Urgency.NOTE
        others = name_shown(", ".join(it.behind))
        title = f"{place} waits for its handler at {others}"
        title += ", which runs for longer than it may" if hangs else ""
        remedy = remedy_for(NeedKind.OVERDUE if hangs else kind, others)
    return Need(
        kind=kind,
        urgency=urgency,
        place=place,
        title=title or title_of(kind, place),
        facts=(key_of(it), f"{counted(it.attempts, 'attempt')} so far"),
        error="" if hangs and kind is not NeedKind.FAILING else error_shown(it.error),
        remedy=remedy,
        since_ms=it.since_ms,
        since=span(at_ms - it.since_ms) if it.since_ms else "",
        commands=(
            *(decide(group, it.tp, it.offset, options) if it.is_parked else ()),
            look_at(it.tp, it.offset, options),
        ),
        actions=decisions(group, it.tp, it.offset) if it.is_parked else (),
    )


def _walls(glimpse: Glimpse, group: str, options: tuple[str, ...]) -> Iterator[Need]:
    """Partitions that are fetched no further, each with the record that stands first."""
    parked = {(it.tp, it.offset) for it in glimpse.failed if it.is_parked}
    for it in glimpse.held:
        if not it.is_walled:
            continue
        is_parked = (it.tp, it.stable) in parked
        yield Need(
            kind=NeedKind.WALLED,
            urgency=Urgency.BAD,
            place=str(it.tp),
            title=f"{it.tp} is fetched no further",
            facts=(
                f"holds {counted(it.pending, 'unfinished record')}, as many as it may",
                "the bound is max.num.ranges.held",
                f"{it.tp}@{it.stable} is the first, and is parked"
                if is_parked
                else f"{it.tp}@{it.stable} is the first",
            ),
            remedy=WALLED_REMEDY,
            commands=(
                *(decide(group, it.tp, it.stable, options) if is_parked else ()),
                look_at(it.tp, it.stable, options),
            ),
            actions=decisions(group, it.tp, it.stable) if is_parked else (),
        )


def _figures(
    metrics: MemberMetrics, overdue: int, walled: int, options: tuple[str, ...]
) -> Iterator[Need]:
    see = (Command("see the group", command("status", metrics.group, options=options)),)
    if overdue > 0:
        yield Need(
            kind=NeedKind.OVERDUE,
            urgency=Urgency.BAD,
            place=metrics.member,
            title=f"{counted(overdue, 'handler runs', 'handlers run')} for longer "
            "than max.processing.ms allows",
            remedy=_OVERDUE,
            commands=see,
        )
    if walled:
        yield Need(
            kind=NeedKind.WALLED,
            urgency=Urgency.BAD,
            place=metrics.member,
            title=f"{counted(walled, 'partition is', 'partitions are')} fetched no further",
            remedy=WALLED_REMEDY,
            commands=see,
        )
    undecided_s = max(metrics.undecided_input_s, metrics.undecided_log_s)
    if undecided_s > 2:
        yield Need(
            kind=NeedKind.UNDECIDED,
            urgency=Urgency.WARN,
            place=metrics.member,
            title="A partition can be read no further: a transaction is undecided",
            remedy="The group's status says whose it is, and the command that ends it.",
            since=span(round(undecided_s * 1_000)),
            commands=see,
        )
