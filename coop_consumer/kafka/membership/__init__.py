"""Membership in a Kafka consumer group, held by kafka-python's coordinator.

Room: `coop_consumer.kafka.membership`; the only room that touches that coordinator, which is not
public API (hence the version pin). It knows nothing of key ranges. The group runs Kafka's classic
protocol in the eager mode. A revocation there stops nobody: key ranges are handed over elsewhere.

    listener     what a member hears and says    membership      `Membership`: join, commit, leave
    coordinator  kafka-python's, adapted         group_protocol  its messages, our assignor
    settings     completed and checked (pure)    errors          translated errors (pure)
    seat         a member id, from one process to the next
    requests     a member's requests to its group: each is answered once
    connecting   connections that close their socket when they fail
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
