"""The group leader's plan: from all members' subscriptions to everybody's assignment. Pure.

In: the members' user data as bytes (hostile: what cannot be read owns nothing), the partitions,
policies. Out: user data for each member, and the whole partitions that standard tools display.
Upholds I1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from assignors import (
    WHOLE,
    AssignmentData,
    Assignor,
    Claim,
    KeyRange,
    Member,
    RangesLoad,
    Subscription,
    TopicPartition,
    UserDataError,
    decode_subscription,
    encode_assignment,
    union,
    wait_lists,
)
from assignors.assignment import Roster
from coop_consumer.core.contract import mean_the_same
from coop_consumer.core.load_remarks import Remark, load_remarks
from coop_consumer.core.stop import newest_stop


@dataclass(frozen=True, slots=True)
class GroupMemberData:
    """One member as the coordinator lists it."""

    member_id: str
    topics: tuple[str, ...]
    user_data: bytes


@dataclass(frozen=True, slots=True)
class Planned:
    """What one member gets: partitions for standard tools, bytes for our own members."""

    partitions: dict[str, list[int]]
    user_data: bytes


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The plan of one generation, by member id, and what the leader should know about it.

    Attributes:
        members: What each gets.
        notes: Who gets nothing, and why.
        remarks: What else is odd; each to be said once as long as its member is in the group.
        names: The members that agree.
    """

    members: dict[str, Planned]
    notes: list[str] = field(default_factory=list)
    remarks: tuple[Remark, ...] = ()
    names: frozenset[str] = frozenset()


def plan(
    assignor: Assignor,
    partitions: Mapping[str, int],
    members: Sequence[GroupMemberData],
    *,
    topic_allows_sharing: Mapping[str, bool],
    group_allows_sharing: bool,
    now_ms: int,
) -> GroupPlan:
    """Assign all partitions to the members that share one contract.

    Where contracts differ (two meanings of a hash in one group would leave records to nobody), the
    contract of most members wins, the smaller text on a tie; the others get nothing and are told.
    Members that leave have no vote. Those that differ in their progress topic only (it was lost,
    and they have not noticed, or end because of it), or in their guarantee, are waited for like
    everybody else.
    """
    subscriptions, unreadable = _read(members)
    contract = _common_contract(list(subscriptions.values()))
    akin = [s for s in subscriptions.values() if mean_the_same(s.contract, contract)]
    agreed = {i: s for i, s in subscriptions.items() if s.contract == contract}
    twins = _twins(agreed)
    agreed = {i: s for i, s in agreed.items() if i not in twins}
    staying = {i: s for i, s in agreed.items() if not s.leaving}
    topics = {member.member_id: member.topics for member in members}
    planned_for = [_member(s, topics[i]) for i, s in staying.items()]
    assignment = assignor.assign(
        partitions=partitions,
        members=planned_for,
        topic_allows_sharing=topic_allows_sharing,
        group_allows_sharing=group_allows_sharing,
    )
    # Those that agree come last: theirs is the newer run, if one of its name still leaves.
    claiming = {s.name: s for s in (*akin, *agreed.values())}
    waits = wait_lists(
        assignment,
        {name: s.claims for name, s in claiming.items()},
        {name: s.incarnation for name, s in claiming.items()},
    )
    names = sorted(s.name for s in agreed.values())
    lead = _lead(staying)
    split = sorted({tp for own in assignment.values() for tp, r in own.items() if r != (WHOLE,)})
    epochs = _newer_epochs(agreed.values())
    stop = newest_stop(s.stop for s in agreed.values())
    planned: dict[str, Planned] = {}
    notes: list[str] = []
    for member in members:
        subscription = agreed.get(member.member_id)
        name = subscription.name if subscription else ""
        ranges = assignment.get(name, {})
        data = AssignmentData(
            ranges=ranges,
            waits=waits.get(name, ()) if subscription else (),
            lead=lead,
            members=len(agreed),
            live=tuple(names) if name == lead else (),
            split=tuple(split) if name == lead else (),
            planned=dict(partitions) if name == lead else {},
            epochs={tp: epoch for tp, epoch in epochs.items() if tp in ranges},
            refused=_refusal(member.member_id, unreadable, twins, contract)
            if subscription is None
            else "",
            stop=stop.text() if stop else "",
            assigned_at_ms=now_ms,
        )
        if data.refused:
            notes.append(f"{member.member_id} gets nothing: {data.refused}")
        shown: dict[str, list[int]] = {}
        for tp in sorted(ranges):
            shown.setdefault(tp.topic, []).append(tp.partition)
        planned[member.member_id] = Planned(shown, encode_assignment(data))
    unreadable_loads = {s.name for s in staying.values() if s.loads_unreadable}
    # As in plans: what members of other topics say is nothing to compare with.
    islands = Roster.of(partitions, planned_for, {}, group_allows_sharing).islands()
    remarks = tuple(it for one in islands for it in load_remarks(one.members, unreadable_loads))
    return GroupPlan(planned, notes, remarks, frozenset(names))


def _read(members: Sequence[GroupMemberData]) -> tuple[dict[str, Subscription], dict[str, str]]:
    """The members' subscriptions, and why others cannot be read."""
    subscriptions, unreadable = {}, {}
    for member in members:
        try:
            subscriptions[member.member_id] = decode_subscription(member.user_data)
        except UserDataError as error:
            unreadable[member.member_id] = str(error)
    return subscriptions, unreadable


def _common_contract(subscriptions: Sequence[Subscription]) -> str:
    voting = [s for s in subscriptions if not s.leaving] or subscriptions
    contracts = [s.contract for s in voting]
    return min(set(contracts), key=lambda c: (-contracts.count(c), c), default="")


def _twins(agreed: Mapping[str, Subscription]) -> set[str]:
    """Members that go by the name of another: only the first by id is served."""
    first: dict[str, str] = {}
    for member_id, subscription in sorted(agreed.items()):
        first.setdefault(subscription.name, member_id)
    return {i for i, s in agreed.items() if first[s.name] != i}


def _member(subscription: Subscription, topics: tuple[str, ...]) -> Member:
    return Member(
        subscription.name,
        topics=topics,
        capacity=subscription.capacity,
        host=subscription.host,
        allow_sharing=subscription.allow_sharing,
        owned=_by_partition(c for c in subscription.claims if not c.draining),
        draining=_by_partition(c for c in subscription.claims if c.draining),
        loads=_loads(subscription.claims),
    )


def _by_partition(claims: Iterable[Claim]) -> dict[TopicPartition, tuple[KeyRange, ...]]:
    ranges: dict[TopicPartition, list[KeyRange]] = {}
    for claim in claims:
        ranges.setdefault(claim.partition, []).extend(claim.ranges)
    return {tp: union(found) for tp, found in ranges.items()}


def _loads(claims: Iterable[Claim]) -> dict[TopicPartition, tuple[RangesLoad, ...]]:
    """What the ranges of claims cost that are not about to be released, as far as it is known."""
    loads: dict[TopicPartition, list[RangesLoad]] = {}
    for claim in claims:
        if claim.load is not None and not claim.draining:
            loads.setdefault(claim.partition, []).append(RangesLoad(claim.ranges, claim.load))
    return {tp: tuple(found) for tp, found in loads.items()}


def _newer_epochs(agreed: Iterable[Subscription]) -> dict[TopicPartition, int]:
    """Where members are in different epochs (a partition was cut off): the newest."""
    claimed: dict[TopicPartition, set[int]] = {}
    for subscription in agreed:
        for claim in subscription.claims:
            claimed.setdefault(claim.partition, set()).add(claim.epoch)
    return {tp: max(epochs) for tp, epochs in sorted(claimed.items()) if len(epochs) > 1}


def _lead(staying: Mapping[str, Subscription]) -> str:
    """Whoever follows the log: the biggest member, which spares the small ones."""
    best = min(staying.values(), key=lambda s: (-s.capacity, s.name), default=None)
    return best.name if best else ""


def _refusal(member_id: str, unreadable: Mapping[str, str], twins: set[str], contract: str) -> str:
    """Why a member gets nothing: one word, and what there is to say besides."""
    if member_id in unreadable:
        return f"unreadable:{unreadable[member_id]}"
    return "twin:" if member_id in twins else f"contract:{contract}"
