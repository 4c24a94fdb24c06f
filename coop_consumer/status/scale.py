"""How many members a group wants, how many can help at most, and why: for people and autoscalers.

Pure. In: what is left and what arrives for each partition, the members' reports, the members now.
Out: a `ScaleAdvice`. It must not flap by its own doing:

- Between too many members and too few lies a band in which the number stays as it is. Without it
  each small change would be a change of the advice.
- New members help only after a while. So what is left is planned for a part of the target.
- The costs do not depend on who holds what (`demand`), so a rebalance changes nothing.
- Members that are idle beside an old backlog wait for something else. More would wait as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, isinf

from coop_consumer.plain_text import counted
from coop_consumer.status.demand import PartitionDemand, PartitionNeed, demands
from coop_consumer.status.load import GroupLoad, MemberWork

HANDLER_US_ASSUMED = 10_000
"""The handler time that is assumed as long as nobody has reported one."""

_FULL = 0.9
"""Members that are busier than this are too few: a queue needs room for chance."""

_ENOUGH = 0.7
"""If members would not be busier than this with one less, they are too many."""

_RECORDS_MAX = 100_000
"""So many records a second one process takes through, if handlers are trivial."""

_PLANNED = 0.75
"""The part of the target in which what is left is done: the rest passes until new members work."""

_IDLE = 0.6
"""If no member is busier than this, an old backlog is not there for lack of members."""

_REPORTED_S = 60.0
"""So long after a rebalance each member has reported what it does since."""

_EPSILON = 1e-9

_NOTHING_KNOWN = "no topic of the group is known yet: wait for its members, or name one (--topic)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRules:
    """What is asked, and what holds where nobody has reported.

    Attributes:
        target_s: Within how many seconds what is left should be done.
        workers: Workers of a member, where no member says how many it has.
        is_serial: Whether a partition keeps its order as a whole, so that one worker has it.
    """

    target_s: int
    workers: int
    is_serial: bool = False


@dataclass(frozen=True, slots=True)
class MembersNow:
    """The members of the group.

    Attributes:
        count: How many there are.
        capacities: Their weights, which are by default how many workers they have.
        settled_s: Seconds since the last rebalance; 0: not known, or one is under way.
        asked_for: How many were wanted at the last look; None: this is the first one.
    """

    count: int
    capacities: tuple[int, ...] = ()
    settled_s: float = 0.0
    asked_for: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleAdvice:
    """How many members are wanted, and why.

    Attributes:
        members: Members now.
        wanted: Members that do what arrives, and what is left within the target.
        useful: Beyond so many members another one does nothing; None: no limit is known.
        reason: One sentence.
        left: Records that are left.
        arrivals: Records that arrive a second.
        busy_workers: Workers that are busy then.
        workers: Workers of a member.
        handler_us: The mean time of a handler, in microseconds.
        is_assumed: Whether that time is assumed, because nobody has reported.
    """

    members: int
    wanted: int
    useful: int | None
    reason: str
    left: int
    arrivals: float
    busy_workers: float
    workers: float
    handler_us: int
    is_assumed: bool


def advise(
    needs: Sequence[PartitionNeed], load: GroupLoad, members: MembersNow, rules: ScaleRules
) -> ScaleAdvice:
    """How many members the group wants. O(partitions + keys + reports).

    It is 0 only if nothing is left and nothing arrives. While no partition is known, as at the
    first rebalance of a group, it is what there is.

    Args:
        needs: What the partitions have to do.
        load: What the members say.
        members: The members now.
        rules: What is asked.
    """
    workers = _workers(load.works or load.left, members.capacities, rules)
    reported_us = _handler_us(load.measured)
    handler_us = reported_us or HANDLER_US_ASSUMED
    parts = demands(
        needs,
        load,
        handler_us,
        within_s=max(rules.target_s * _PLANNED, 1.0),
        workers=workers,
        is_serial=rules.is_serial,
    )
    demand, records = sum(it.demand for it in parts), sum(it.done for it in parts)
    least = _members_for(demand, records, workers, _FULL)
    most = _members_for(demand, records, workers, _ENOUGH)
    # Members that were asked for may still be on their way.
    present = members.count if members.asked_for is None else members.asked_for
    wanted = max(least, min(present, most))
    if all(part.is_strict for part in parts):
        wanted = min(wanted, _filled_by(parts, workers))
    useful = None if any(isinf(it.ceiling) for it in parts) else _filled_by(parts, workers)
    # A band has two ends: a member that is about to go is no member that is asked for in vain.
    useful = None if useful is None else max(useful, wanted)
    limit = _limit(parts, wanted, workers)
    if all(need.is_idle for need in needs):
        wanted, useful, limit = 0, 0, ""
    elif wanted > members.count and _is_idle_beside_a_backlog(needs, load.works, members):
        wanted = useful = members.count
        limit = f"workers are busy for {_busiest(load.works) * 100:.0f} % of their time at most"
    left, arrivals = sum(it.left for it in needs), sum(it.arrivals for it in needs)
    reason = _reason(left, arrivals, wanted, limit, helps=useful is None or useful > wanted)
    if not needs:
        wanted, useful, reason = members.count, None, _NOTHING_KNOWN
    elif wanted and not reported_us:
        of_workers = "1 worker" if workers == 1 else f"{workers:g} workers"
        reason += (
            f" (if a record takes {handler_us / 1_000:g} ms and a member has {of_workers}: "
            "no member has reported)"
        )
    return ScaleAdvice(
        members=members.count,
        wanted=wanted,
        useful=useful,
        reason=reason,
        left=left,
        arrivals=arrivals,
        busy_workers=demand,
        workers=workers,
        handler_us=round(handler_us),
        is_assumed=not reported_us,
    )


def _members_for(demand: float, records: float, workers: float, fill: float) -> int:
    """The members that do so much and are filled to this part; at least 1."""
    by_workers = demand / (workers * fill)
    by_records = records / (_RECORDS_MAX * fill)
    return max(ceil(max(by_workers, by_records) - _EPSILON), 1)


def _filled_by(parts: Iterable[PartitionDemand], workers: float) -> int:
    """How many members have a busy worker if each partition has as many as it can; at least 1."""
    return max(ceil(sum(part.ceiling for part in parts) / workers - _EPSILON), 1)


def _workers(works: Iterable[MemberWork], capacities: Iterable[int], rules: ScaleRules) -> float:
    """Workers of a member: as reported, else by the weights of members, else as configured."""
    known = [work.workers for work in works] or [it for it in capacities if it > 0]
    return sum(known) / len(known) if known else float(rules.workers)


def _handler_us(works: Iterable[MemberWork]) -> float:
    """The mean time of a handler over all records, in microseconds; 0.0: nobody knows."""
    # A member that finishes records and reports no time: its handlers take less than 1 us.
    known = [(it.finished, max(it.handler_us, 1)) for it in works if it.is_measured]
    if not known:
        return 0.0
    # If nobody finishes anything now, each member's mean counts alike.
    finished = sum(count for count, _ in known)
    if not finished:
        return sum(time_us for _, time_us in known) / len(known)
    return sum(count * time_us for count, time_us in known) / finished


def _busiest(works: Iterable[MemberWork]) -> float:
    return max((max(it.busy, it.finished / _RECORDS_MAX) for it in works), default=1.0)


def _is_idle_beside_a_backlog(
    needs: Iterable[PartitionNeed], works: Sequence[MemberWork], members: MembersNow
) -> bool:
    """Whether what is left is older than the reports, and these say that workers are idle."""
    is_old = sum(it.left for it in needs) > _REPORTED_S * sum(it.arrivals for it in needs)
    is_reported = len(works) == members.count and members.settled_s >= _REPORTED_S
    return is_old and is_reported and _busiest(works) < _IDLE


# ── Words ──


def _limit(parts: Iterable[PartitionDemand], wanted: int, workers: float) -> str:
    """What keeps more members from helping, of the partition that it costs most; "": nothing."""
    parts = list(parts)
    unlimited = _members_for(
        sum(it.offered for it in parts), sum(it.records for it in parts), workers, _FULL
    )
    held = [part for part in parts if part.limit]
    if unlimited <= wanted or not held:
        return ""
    return max(held, key=lambda it: (it.offered - it.demand, it.need.tp)).limit


def _reason(left: int, arrivals: float, wanted: int, limit: str, *, helps: bool) -> str:
    """The sentence.

    Args:
        left: Records that are left.
        arrivals: Records that arrive a second.
        wanted: The members wanted.
        limit: What keeps more members from helping; "": nothing.
        helps: Whether more members would help where that is not the limit.
    """
    if not wanted:
        return "nothing is left and nothing arrives"
    count = counted(wanted, "member")
    text = f"{left:,} left at {_rate(arrivals)}/s: {count}"
    more = "more members help other work only" if helps else "more members won't help"
    return f"{text}; {more}: {limit}" if limit else text


def _rate(a_second: float) -> str:
    """Records a second, for people.

    >>> [_rate(it) for it in (0.0, 0.04, 2.25, 210.4, 3_000.0)]
    ['0', 'under 0.1', '2.2', '210', '3,000']
    """
    if 0 < a_second < 0.1:
        return "under 0.1"
    return f"{a_second:.1f}" if 0 < a_second < 10 else f"{a_second:,.0f}"
