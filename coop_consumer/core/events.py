"""What a member is told: one value for each thing that can happen to it. Pure.

The shell (or the simulation) makes events, `MemberCore.handle` takes them in the order in which
they happened. Offsets are Kafka's; times are milliseconds and come with `handle`, not in events.

Events and actions are named tuples: a frozen dataclass takes seven times as long to define, which
every start of a member pays, and over twice as long to make. So compare their types, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from assignors import AssignmentData, KeyRange, TopicPartition
from coop_consumer.core.blocked_read import Blockage, RunId
from coop_consumer.core.record import Message, Record
from coop_consumer.core.transaction import TransactionCall
from coop_consumer.errors import CoopConsumerError
from offsets import Committed, LogRecord


class TopicsKnown(NamedTuple):
    """The topics as the broker describes them now: id and number of partitions.

    `left` names topics that this member consumes no more: it subscribes to others, or they matched
    a pattern and are gone. `patterns` are those by which it subscribes now. `missing` names topics
    that it consumes, and that do not exist now.
    """

    topics: Mapping[str, tuple[bytes, int]]
    left: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    missing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Joining:
    """A JoinGroup is about to be sent: claims may only shrink until `Assigned`."""


class GroupMetadata(NamedTuple):
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


class Assigned(NamedTuple):
    """The group has a generation, and this is our part of it; `plain`: by a plain assignor."""

    metadata: GroupMetadata
    data: AssignmentData
    plain: bool = False


class Lost(NamedTuple):
    """We are no member any more (session over, fenced); we may join again."""

    reason: str


class LogRead(NamedTuple):
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


class Appended(NamedTuple):
    """The broker has acknowledged every entry of an `Append`, at these offsets."""

    token: int
    offsets: Sequence[int]


class AppendFailed(NamedTuple):
    """An `Append` was refused or its outcome is unknown: it may or may not be in the log.

    `is_final`: no later one can succeed, because a right is missing or the producer is broken.
    """

    token: int
    error: CoopConsumerError
    is_final: bool = False


class CommitDone(NamedTuple):
    """Everything of a `Commit` is durable; its entries, in their order, lie at these offsets.

    With exactly once, `steps_ms` tells how long each call of the transaction took, in ms.
    """

    token: int
    offsets: Sequence[int]
    steps_ms: Mapping[TransactionCall, float] = {}


class CommitInDoubt(NamedTuple):
    """Kafka was asked to commit the transaction of a `Commit`, and has not said whether it has.

    Nothing is open any more: a complete read from now on shows the entries at these offsets, or not
    at all.
    """

    token: int
    offsets: Sequence[int]


class Refusal(Enum):
    """Why a `Commit` was refused, which says what can be done.

    RETRY: a broker is in the way; commit the same facts again. With at least once, the log may have
    them already; with exactly once, nothing of it is visible. STALE: the group is in another
    generation, and nothing of it is visible; commit again once the assignment has come. LOST: the
    progress log is gone, or this run can append to it no more. FENCED: others may be at its keys.
    FINAL: no later one can succeed, as a right is missing or the user's code has lost output.
    """

    RETRY = auto()
    STALE = auto()
    LOST = auto()
    FENCED = auto()
    FINAL = auto()


class CommitRefused(NamedTuple):
    """Something of a `Commit` is not durable, or nobody knows."""

    token: int
    error: CoopConsumerError
    why: Refusal


class OutputRefused(NamedTuple):
    """A topic takes no such output as a record has left behind; a `Commit` goes again for it.

    With exactly once the record is one of that commit, and nothing of it is visible.
    """

    token: int
    record: Record
    topic: str
    error: CoopConsumerError


class LogLost(NamedTuple):
    """The progress topic is gone or another one: nothing of this run can be committed any more."""

    error: CoopConsumerError


class CommittedRead(NamedTuple):
    """The group's committed offsets, with metadata; None where nothing is committed."""

    offsets: Mapping[TopicPartition, Committed | None]


class CommittedUnknown(NamedTuple):
    """The committed offsets could not be read; ask again."""

    partitions: Sequence[TopicPartition]


class OffsetsCommitted(NamedTuple):
    """The answer to `CommitOffsets`."""

    token: int
    error: CoopConsumerError | None


class MembershipConfirmed(NamedTuple):
    """The answer to `ConfirmMembership`; not confirmed: we are not, or nobody could tell.

    Attributes:
        log_ends: Where the log partitions ended before; what could not be had is left out.
    """

    token: int
    confirmed: bool
    log_ends: Mapping[int, int]


class OffsetResolved(NamedTuple):
    """Where `auto.offset.reset` points to in this partition now; -1: it could not be asked."""

    tp: TopicPartition
    offset: int


class Fetched(NamedTuple):
    """The stream covered [start, end) without interruption; these are the messages in it.

    Offsets missing among the messages are holes (compaction, aborted transactions). `at_end`: the
    broker had nothing beyond `end` at that moment. `log_end`: where the partition ends, as far as
    the broker told of late; -1: not told with this batch.
    """

    tp: TopicPartition
    stream: int
    start: int
    end: int
    messages: Sequence[Message]
    at_end: bool
    log_end: int = -1


class EndsTold(NamedTuple):
    """The answer to `AskEnds`: the next offsets that records get; where it is not known, nothing.

    Where only committed records are read, an end is the last stable offset.
    """

    ends: Mapping[TopicPartition, int]
    log_ends: Mapping[int, int]


class OutOfRange(NamedTuple):
    """The stream's position is outside what the partition holds: [low, high)."""

    tp: TopicPartition
    stream: int
    low: int
    high: int


class RangesReady(NamedTuple):
    """The user's code has taken note of `RangesAssigned`, or failed to."""

    token: int
    error: CoopConsumerError | None = None


class ReadBlocked(NamedTuple):
    """A read of the log waits for transactions that are undecided."""

    blocked: Blockage


class FetchBlocked(NamedTuple):
    """The fetch of these partitions waits for undecided transactions; that of others goes on.

    Attributes:
        waits: For how long each has stood at its last stable offset, in ms.
    """

    waits: Mapping[TopicPartition, int]


class Fenced(NamedTuple):
    """Transactions of runs that are not in the group were ended; with an error: they were not."""

    runs: Sequence[RunId]
    error: CoopConsumerError | None = None


class Flushed(NamedTuple):
    """The worker's `flush` has returned, or raised, after so many seconds."""

    seconds: float


class ClientFigures(NamedTuple):
    """What a client of librdkafka says of itself, see `statistics.interval.ms`.

    Attributes:
        role: Which client: one role has one client at a time.
        figures: By name, see `kafka.client_figures`.
    """

    role: str
    figures: Mapping[str, float]


class Fatal(NamedTuple):
    """Membership is over for good: finish what runs, commit what the log still takes, end."""

    error: CoopConsumerError


class DeadLettered(NamedTuple):
    """The dead-letter topic has the record, or refused it."""

    record: Record
    error: CoopConsumerError | None


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed, or executors have finished something."""


@dataclass(frozen=True, slots=True)
class Close:
    """Finish what runs, commit, leave."""


class BrokersAway(NamedTuple):
    """No broker has answered for some seconds; or, `is_away` false, one answers again."""

    is_away: bool


class Withdraw(NamedTuple):
    """Let go of what a plain member may get in the next generation. Answer: None, when done."""

    token: int


class CapacityChanged(NamedTuple):
    """We can process more or less from now on; the group hears of it when we join next."""

    capacity: int


class AssignAlone(NamedTuple):
    """The user assigns these ranges itself, in place of what was assigned; there is no group."""

    ranges: Mapping[TopicPartition, tuple[KeyRange, ...]]


class CommitNow(NamedTuple):
    """Commit what is finished. Answer: the stable offset of our ranges, by partition."""

    token: int


class TellProgress(NamedTuple):
    """Read the log to its end. Answer: by partition a `CommittedOffset`, or None.

    `committed` is what the group had committed before the question.
    """

    token: int
    committed: Mapping[TopicPartition, Committed | None]


class Pause(NamedTuple):
    """Fetch nothing of these partitions and forget what is queued of them. Answer: None."""

    token: int
    partitions: Sequence[TopicPartition]


class Resume(NamedTuple):
    """Fetch these partitions again. Answer: None."""

    token: int
    partitions: Sequence[TopicPartition]


class Seek(NamedTuple):
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
    | CommitInDoubt
    | CommitRefused
    | OutputRefused
    | LogLost
    | ReadBlocked
    | FetchBlocked
    | Fenced
    | CommittedRead
    | CommittedUnknown
    | OffsetsCommitted
    | MembershipConfirmed
    | OffsetResolved
    | Fetched
    | OutOfRange
    | EndsTold
    | RangesReady
    | Flushed
    | ClientFigures
    | Fatal
    | DeadLettered
    | Tick
    | BrokersAway
    | Close
)
