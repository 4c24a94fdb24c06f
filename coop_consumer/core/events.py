"""What a member is told: one value for each thing that can happen to it. Pure.

The shell (or the simulation) makes events, `MemberCore.handle` takes them in the order in which
they happened. Offsets are Kafka's; times are milliseconds and come with `handle`, not in events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from assignors import AssignmentData, KeyRange, TopicPartition
from coop_consumer.core.record import Message, Record
from coop_consumer.errors import CoopConsumerError
from offsets import Committed, LogRecord


@dataclass(frozen=True, slots=True)
class TopicsKnown:
    """The topics as the broker describes them now: id and number of partitions."""

    topics: Mapping[str, tuple[bytes, int]]


@dataclass(frozen=True, slots=True)
class Joining:
    """A JoinGroup is about to be sent: claims may only shrink until `Assigned`."""


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Who a member is in one generation of its group: what the coordinator checks a commit by.

    As Kafka's `ConsumerGroupMetadata`. A member id alone would not do: a static member keeps its
    instance id and gets another member id when it comes back.

    Attributes:
        generation: -1: it is no member.
        member_id: "" without a group.
        instance_id: Of a static member.
    """

    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


NO_MEMBER = GroupMetadata()
"""Of a member that has no assignment, or has lost its membership."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """The group has a generation, and this is our part of it; `plain`: by a plain assignor."""

    metadata: GroupMetadata
    data: AssignmentData
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """We are no member any more (session over, fenced); we may join again."""

    reason: str


@dataclass(frozen=True, slots=True)
class LogRead:
    """Records of one partition of the progress log, in order, without a hole before them.

    `complete` is the number of the newest `ReadLog` that this answers: the position equals the end
    that the broker reported after that request was made. 0: only a part. `restart`: the log was
    cut or made anew, and what was read of it before counts no more.
    """

    log_partition: int
    records: Sequence[LogRecord]
    complete: int
    end_offset: int
    restart: bool = False


@dataclass(frozen=True, slots=True)
class Appended:
    """The broker has acknowledged every entry of an `Append`, at these offsets."""

    token: int
    offsets: Sequence[int]


@dataclass(frozen=True, slots=True)
class AppendFailed:
    """An `Append` was refused or its outcome is unknown: it may or may not be in the log.

    `is_final`: no later one can succeed, because a right is missing or the producer is broken.
    """

    token: int
    error: CoopConsumerError
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class CommitDone:
    """Everything of a `Commit` is durable; its entries lie at these offsets."""

    token: int
    offsets: Sequence[int]


class Refusal(Enum):
    """Why a `Commit` was refused, which says what can be done.

    RETRY: its outcome is unknown, or a broker is in the way; commit the same facts again. LOST: the
    progress log is gone, or this run can append to it no more. FENCED: others may be at its keys.
    FINAL: no later one can succeed, as a right is missing or the user's code has lost output.
    """

    RETRY = auto()
    LOST = auto()
    FENCED = auto()
    FINAL = auto()


@dataclass(frozen=True, slots=True)
class CommitRefused:
    """Something of a `Commit` is not durable, or nobody knows."""

    token: int
    error: CoopConsumerError
    why: Refusal


@dataclass(frozen=True, slots=True)
class LogLost:
    """The progress topic is gone or another one: nothing of this run can be committed any more."""

    error: CoopConsumerError


@dataclass(frozen=True, slots=True)
class CommittedRead:
    """The group's committed offsets, with metadata; None where nothing is committed."""

    offsets: Mapping[TopicPartition, Committed | None]


@dataclass(frozen=True, slots=True)
class CommittedUnknown:
    """The committed offsets could not be read; ask again."""

    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True)
class OffsetsCommitted:
    """The answer to `CommitOffsets`."""

    token: int
    error: CoopConsumerError | None


@dataclass(frozen=True, slots=True)
class MembershipConfirmed:
    """The answer to `ConfirmMembership`; not confirmed: we are not, or nobody could tell.

    Attributes:
        log_ends: Where the log partitions ended before; what could not be had is left out.
    """

    token: int
    confirmed: bool
    log_ends: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class OffsetResolved:
    """Where `auto.offset.reset` points to in this partition now; -1: it could not be asked."""

    tp: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """The stream covered [start, end) without interruption; these are the messages in it.

    Offsets missing among the messages are holes (compaction, aborted transactions). `at_end`: the
    broker had nothing beyond `end` at that moment.
    """

    tp: TopicPartition
    stream: int
    start: int
    end: int
    messages: Sequence[Message]
    at_end: bool


@dataclass(frozen=True, slots=True)
class EndsTold:
    """The answer to `AskEnds`: the next offsets that records get; where it is not known, nothing.

    Where only committed records are read, an end is the last stable offset.
    """

    ends: Mapping[TopicPartition, int]
    log_ends: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """The stream's position is outside what the partition holds: [low, high)."""

    tp: TopicPartition
    stream: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class RangesReady:
    """The user's code has taken note of `RangesAssigned`, or failed to."""

    token: int
    error: CoopConsumerError | None = None


@dataclass(frozen=True, slots=True)
class Fatal:
    """Membership is over for good: finish what runs, commit what the log still takes, end."""

    error: CoopConsumerError


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """The dead-letter topic has the record, or refused it."""

    record: Record
    error: CoopConsumerError | None


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed, or executors have finished something."""


@dataclass(frozen=True, slots=True)
class Close:
    """Finish what runs, commit, leave."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Let go of what a plain member may get in the next generation. Answer: None, when done."""

    token: int


@dataclass(frozen=True, slots=True)
class CapacityChanged:
    """We can process more or less from now on; the group hears of it when we join next."""

    capacity: int


@dataclass(frozen=True, slots=True)
class AssignAlone:
    """The user assigns these ranges itself, in place of what was assigned; there is no group."""

    ranges: Mapping[TopicPartition, tuple[KeyRange, ...]]


@dataclass(frozen=True, slots=True)
class CommitNow:
    """Commit what is finished. Answer: the stable offset of our ranges, by partition."""

    token: int


@dataclass(frozen=True, slots=True)
class TellProgress:
    """Read the log to its end. Answer: by partition a `CommittedOffset`, or None.

    `committed` is what the group had committed before the question.
    """

    token: int
    committed: Mapping[TopicPartition, Committed | None]


@dataclass(frozen=True, slots=True)
class Pause:
    """Fetch nothing of these partitions and forget what is queued of them. Answer: None."""

    token: int
    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True)
class Resume:
    """Fetch these partitions again. Answer: None."""

    token: int
    partitions: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True)
class Seek:
    """Go on with every record from `offset` on. Answer: the ranges concerned; none if not ours."""

    token: int
    tp: TopicPartition
    offset: int


Request = CommitNow | TellProgress | Pause | Resume | Seek
"""What the user asks; each is answered once by an `Answer` with its token."""

Event = (
    Request
    | AssignAlone
    | CapacityChanged
    | Withdraw
    | TopicsKnown
    | Joining
    | Assigned
    | Lost
    | LogRead
    | Appended
    | AppendFailed
    | CommitDone
    | CommitRefused
    | LogLost
    | CommittedRead
    | CommittedUnknown
    | OffsetsCommitted
    | MembershipConfirmed
    | OffsetResolved
    | Fetched
    | OutOfRange
    | EndsTold
    | RangesReady
    | Fatal
    | DeadLettered
    | Tick
    | Close
)
