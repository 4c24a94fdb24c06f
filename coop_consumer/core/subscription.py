"""The subscription: what a JoinGroup says of this member. Pure.

In: the member's state. Out: the user data that the group's leader plans by: claims of all that this
process holds or drains (never what it only waits for), capacity, contract, stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignors import Subscription, encode_subscription

if TYPE_CHECKING:
    from assignors import Claim
    from coop_consumer.core.loads import Loads
    from coop_consumer.core.state import MemberState


def claims_of(state: MemberState, loads: Loads, *, log_lost: bool) -> tuple[Claim, ...]:
    """All that this process holds or drains.

    Args:
        state: The member, which is about to join.
        loads: What its records cost.
        log_lost: The progress log takes no more records, so no release will come.
    """
    return tuple(
        claim
        for _, partition in sorted(state.partitions.items())
        for tenure in partition.all_tenures()
        if tenure.key.topic_id == partition.topic_id  # else of a deleted topic
        for claim in tenure.claims(loads.of(partition, tenure), log_lost=log_lost)
    )


def subscription_of(state: MemberState, contract: str, claims: tuple[Claim, ...]) -> bytes:
    """The user data of the next JoinGroup.

    Args:
        state: The member, which is about to join.
        contract: What all members must agree on.
        claims: What it holds or drains.
    """
    config = state.config
    return encode_subscription(
        Subscription(
            name=state.name,
            incarnation=state.incarnation,
            host=config.host_name,
            capacity=state.membership.capacity,
            allow_sharing=config.allow_individual_commit and config.ordering != "partition",
            contract=contract,
            nonce=state.membership.nonce,
            stop=state.membership.stop.text() if state.membership.stop else "",
            leaving=state.membership.closing,
            patterns=state.membership.patterns,
            claims=claims,
        )
    )
