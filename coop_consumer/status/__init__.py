"""The status of a group: what its members hold, what is done, what holds it up.

Room: `coop_consumer.status`; no Kafka, no thread, no clock. In: what an inspection saw (`seen`), at
a moment. Out: a `GroupStatus` of plain values (`model`), a picture for a terminal (`picture`), a
dict for JSON (`as_json`). Nothing here changes a group. The picture needs the extra `cli`, without
which the library does, so it is imported from its module alone.

    seen      what was asked of the broker           errors    what cannot be shown or done
    model     what it means                          picture   what a person sees of it
    remaining how many records are left              as_json   what a program sees of it
    finding   what a check of the surroundings found  history   where who starts now goes on
"""

from coop_consumer.status.as_json import as_json
from coop_consumer.status.errors import (
    GroupInUseError,
    GroupJoinedError,
    GroupMissingError,
    NotParkedError,
    PartitionMissingError,
    PlanOutdatedError,
)
from coop_consumer.status.history import History, history_of
from coop_consumer.status.model import (
    GroupStatus,
    Handover,
    Owner,
    PartitionStatus,
    RecordStatus,
    group_status,
    progress_of,
)
from coop_consumer.status.remaining import Remaining
from coop_consumer.status.seen import (
    GroupSeen,
    Hashing,
    MemberSeen,
    PartitionSeen,
    RecordSeen,
    member_seen,
)

__all__ = [
    "GroupInUseError",
    "GroupJoinedError",
    "GroupMissingError",
    "GroupSeen",
    "GroupStatus",
    "Handover",
    "Hashing",
    "History",
    "MemberSeen",
    "NotParkedError",
    "Owner",
    "PartitionMissingError",
    "PartitionSeen",
    "PartitionStatus",
    "PlanOutdatedError",
    "RecordSeen",
    "RecordStatus",
    "Remaining",
    "as_json",
    "group_status",
    "history_of",
    "member_seen",
    "progress_of",
]
