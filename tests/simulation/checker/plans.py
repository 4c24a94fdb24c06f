"""I1, I6, policies, capacity: what a plan gives to each member.

In: every join, every plan with its members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from assignors import (
    WHOLE,
    Claim,
    KeyRange,
    Member,
    RangesLoad,
    Subscription,
    TopicPartition,
    subtract,
    union,
)
from coop_consumer.planning import assignor_of
from tests.simulation.decoded import decode_assignment, decode_subscription

if TYPE_CHECKING:
    from coop_consumer.core.leader import GroupMemberData
    from coop_consumer.core.policies import Policies
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World


class PlanCheck:
    """Judges plans."""

    def __init__(self, world: World) -> None:
        self._world = world

    def _check_stays(
        self,
        counts: Mapping[str, int],
        told: Mapping[str, Subscription],
        ranges: Mapping[str, Mapping[TopicPartition, tuple[KeyRange, ...]]],
        policies: Policies,
    ) -> None:
        """I6: the plan moves no more than it must, given what its members hold."""
        members = [
            Member(
                name,
                topics=tuple(counts),
                capacity=it.capacity,
                host=it.host,
                allow_sharing=it.allow_sharing,
                owned=_by_partition(claim for claim in it.claims if not claim.draining),
                draining=_by_partition(claim for claim in it.claims if claim.draining),
                loads=_loads(it.claims),
            )
            for name, it in told.items()
        ]
        least = assignor_of(self._world.config).assign(
            partitions=counts,
            members=members,
            topic_allows_sharing=policies.topic_allows_sharing(counts),
            group_allows_sharing=not policies.group,
        )
        moved, needed = (sum(_lost(it, plan) for it in members) for plan in (ranges, least))
        assert moved <= needed, f"I6: a plan moves {moved} hashes where {needed} are enough"

    def planned(
        self,
        counts: Mapping[str, int],
        members: Iterable[GroupMemberData],
        assignments: Iterable[bytes],
        policies: Policies,
    ) -> None:
        """I1: the ranges of every partition are disjoint and cover the hash space.

        If everybody is about to leave, nobody can get the ranges.
        """
        ranges: dict[TopicPartition, list[KeyRange]] = {
            TopicPartition(topic, number): []
            for topic, count in counts.items()
            for number in range(count)
        }
        members, plans = list(members), [decode_assignment(data) for data in assignments]
        for plan in plans:
            for tp, own in plan.ranges.items():
                ranges[tp] += own
        told = [decode_subscription(member.user_data) for member in members]
        are_apart = len({it.name for it in told}) == len(told)
        if are_apart and len({it.contract for it in told}) == 1:
            staying = {it.name: it for it in told if not it.leaving}
            by_name = {it.name: plan.ranges for it, plan in zip(told, plans, strict=True)}
            self._check_stays(counts, staying, by_name, policies)
        if all(it.leaving for it in told):
            assert not any(ranges.values()), f"I1: who leaves is assigned {ranges}"
            return
        for tp, of_partition in ranges.items():
            at = WHOLE.lo
            for key_range in sorted(of_partition):
                assert key_range.lo == at, f"I1: {tp} is assigned as {sorted(of_partition)}"
                at = key_range.hi + 1
            assert at == WHOLE.hi + 1, f"I1: {tp} is assigned as {sorted(of_partition)}"
            may_share = not policies.group and tp.topic not in policies.topics
            assert may_share or of_partition == [WHOLE], (
                f"policy: {tp} must not be shared, and is assigned as {sorted(of_partition)}"
            )

    @staticmethod
    def joins(shell: MemberShell, subscription: bytes) -> None:
        """Check that a member joins with its present capacity."""
        capacity = decode_subscription(subscription).capacity
        assert capacity == shell.capacity, (
            f"capacity: {shell.title} joins with {capacity} and has {shell.capacity}"
        )


def _by_partition(claims: Iterable[Claim]) -> dict[TopicPartition, tuple[KeyRange, ...]]:
    found: dict[TopicPartition, list[KeyRange]] = {}
    for claim in claims:
        found.setdefault(claim.partition, []).extend(claim.ranges)
    return {tp: union(ranges) for tp, ranges in found.items()}


def _loads(claims: Iterable[Claim]) -> dict[TopicPartition, tuple[RangesLoad, ...]]:
    found: dict[TopicPartition, list[RangesLoad]] = {}
    for claim in claims:
        if claim.load is not None and not claim.draining:
            found.setdefault(claim.partition, []).append(RangesLoad(claim.ranges, claim.load))
    return {tp: tuple(loads) for tp, loads in found.items()}


def _lost(member: Member, plan: Mapping[str, Mapping[TopicPartition, tuple[KeyRange, ...]]]) -> int:
    """How many hashes a plan takes from a member that holds them."""
    mine = plan.get(member.id, {})
    return sum(
        key_range.size
        for tp, owned in member.owned.items()
        for key_range in subtract(owned, mine.get(tp, ()))
    )
