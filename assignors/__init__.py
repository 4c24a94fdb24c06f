"""Who owns which range of the key-hash space. Pure.

In: what members tell of themselves, and how many partitions topics have. Out: an assignment, and
the bytes by which the group's leader tells it. Nothing here knows Kafka, time, chance or threads.
"""

from assignors.assignment import Assignment, Assignor, check_cover
from assignors.key_hash import KEY_HASH_MAX, PARTITION_HASH, block_hash, key_hash, null_key_hash
from assignors.key_range import WHOLE, KeyRange, covers, hull, intersect, subtract, union
from assignors.load import ClaimLoad, HeavyHash, RangesLoad
from assignors.member import AssignmentError, Member, TopicPartition
from assignors.plain import COOPERATIVE_STICKY, PlainMember, assign_plain
from assignors.ranged import KeyRangeRangeAssignor
from assignors.round_robin import KeyRangeRoundRobinAssignor
from assignors.sticky import KeyRangeStickyAssignor
from assignors.user_data import (
    WIRE_VERSION,
    AssignmentData,
    Claim,
    Subscription,
    Wait,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from assignors.wait_list import wait_lists
from assignors.wire import UnknownVersionError, UserDataError

__all__ = [
    "COOPERATIVE_STICKY",
    "KEY_HASH_MAX",
    "PARTITION_HASH",
    "WHOLE",
    "WIRE_VERSION",
    "Assignment",
    "AssignmentData",
    "AssignmentError",
    "Assignor",
    "Claim",
    "ClaimLoad",
    "HeavyHash",
    "KeyRange",
    "KeyRangeRangeAssignor",
    "KeyRangeRoundRobinAssignor",
    "KeyRangeStickyAssignor",
    "Member",
    "PlainMember",
    "RangesLoad",
    "Subscription",
    "TopicPartition",
    "UnknownVersionError",
    "UserDataError",
    "Wait",
    "assign_plain",
    "block_hash",
    "check_cover",
    "covers",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
    "hull",
    "intersect",
    "key_hash",
    "null_key_hash",
    "subtract",
    "union",
    "wait_lists",
]
