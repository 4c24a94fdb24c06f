"""Membership in a Kafka consumer group, held by kafka-python's coordinator.

Room: `coop_consumer.kafka.membership`; the only room that touches that coordinator, which is not
public API (hence the version pin). It knows nothing of key ranges. The group runs Kafka's classic
protocol with the eager mode: a revocation there is only a word, so nobody stops for a rebalance.
What moves is settled by key range elsewhere.

    listener     what a member hears and says    membership      `Membership`: join, commit, leave
    coordinator  kafka-python's, bent            group_protocol  its messages, our assignor
    settings     completed and checked (pure)    errors          in our words (pure)
    seat         a member id, from one process to the next
    requests     what a member asks its group: each is answered once
    connecting   connections that leave no file open where they fail
"""

from coop_consumer.kafka.membership.coordinator import metadata_of
from coop_consumer.kafka.membership.listener import (
    AssignmentSnapshot,
    GroupMember,
    MemberAssignment,
    MembershipListener,
    Offsets,
    OffsetsFound,
)
from coop_consumer.kafka.membership.membership import Membership
from coop_consumer.kafka.membership.seat import Seat, leave_for

__all__ = [
    "AssignmentSnapshot",
    "GroupMember",
    "MemberAssignment",
    "Membership",
    "MembershipListener",
    "Offsets",
    "OffsetsFound",
    "Seat",
    "leave_for",
    "metadata_of",
]
