"""What a member wants done: one value for each thing that the shell can do for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from assignors import KeyRange, TopicPartition
from coop_consumer.core.blocked_read import RunId
from coop_consumer.core.effects import Result
from coop_consumer.core.events import GroupMetadata
from coop_consumer.core.failure import Failure
from coop_consumer.core.lane import Entry
from coop_consumer.core.record import Record
from coop_consumer.errors import CoopConsumerError
from coop_consumer.log_events import Facts, LogEvent
from offsets import Committed

MAIN, CATCH_UP, APART = 0, 1, 2
"""Which Consumer fetches a stream: the main one, the one of what catches up, or from `APART` on one
of a hot hash."""

APART_MAX = 4
"""So many hot hashes of a member may have a Consumer each."""


class StartStream(NamedTuple):
    """Fetch a partition from an explicit offset.

    Attributes:
        consumer: Which Consumer fetches it; each has at most one stream of a partition.
        others_follow: Partitions of the same assignment are about to start.
    """

    tp: TopicPartition
    stream: int
    offset: int
    consumer: int
    others_follow: bool = False


class StopStream(NamedTuple):
    """Fetch this stream no more; what it delivered meanwhile is ignored."""

    tp: TopicPartition
    stream: int


class HoldFetch(NamedTuple):
    """Stop consuming (True) or go on (False): the lanes are full, or have room again.

    It is not about streams of hot hashes: `HoldApart` is.
    """

    hold: bool


class HoldApart(NamedTuple):
    """The same for the stream of one hot hash."""

    consumer: int
    hold: bool


class AskEnds(NamedTuple):
    """Ask the broker, by another client than those that read, where these partitions end."""

    partitions: Sequence[TopicPartition]
    log_partitions: Sequence[int]


class RenewFetch(NamedTuple):
    """Leave a Consumer to itself, and make a new one for the streams that follow."""

    consumer: int


@dataclass(frozen=True, slots=True)
class RenewLogReader:
    """Leave the Consumer of the progress log to itself, and make a new one, which begins anew."""


class ReadLog(NamedTuple):
    """Read a partition of the progress log to an end observed after this request."""

    log_partition: int
    read: int


class FollowLog(NamedTuple):
    """Go on delivering what comes to this partition of the progress log, or stop doing so."""

    log_partition: int
    follow: bool


class Append(NamedTuple):
    """Append records (key, value; None: tombstone) to the progress log, acks=all, in this order."""

    log_partition: int
    entries: Sequence[tuple[bytes, bytes | None]]
    token: int


class Commit(NamedTuple):
    """Append records that tell what was finished here, behind all that rests on them.

    In this order: the user's code makes durable what it has buffered until now; the effects are
    made durable; the entries are appended as by `Append`. With exactly once all of it is one
    transaction, which counts only if the group still is in this generation.

    Attributes:
        appends: The entries by log partition: one, but with exactly once all that have news.
        results: What finished records have left behind, in the order in which they finished.
        metadata: Of the assignment that was held when all this was taken.
    """

    appends: Mapping[int, Sequence[tuple[bytes, bytes | None]]]
    token: int
    results: Sequence[Result]
    metadata: GroupMetadata

    @property
    def entries(self) -> Sequence[tuple[bytes, bytes | None]]:
        """All entries, in their order."""
        return [entry for entries in self.appends.values() for entry in entries]


class DoubtEnded(NamedTuple):
    """The log has told what became of a commit in doubt.

    Attributes:
        token: Of the commit.
        is_committed: Whether all of it counts, or nothing.
    """

    token: int
    is_committed: bool


class Fence(NamedTuple):
    """End the open transactions of those of these runs that are not in the group any more."""

    runs: Sequence[RunId]


class FetchCommitted(NamedTuple):
    """Read the group's committed offsets and their metadata."""

    partitions: Sequence[TopicPartition]


class CommitOffsets(NamedTuple):
    """Commit offsets with metadata, fenced by this generation (-1: no group membership)."""

    offsets: Mapping[TopicPartition, Committed]
    generation: int
    token: int


class ConfirmMembership(NamedTuple):
    """See where these log partitions end, and then ask the coordinator who we are.

    That is, whether we are still the member that got this generation's assignment. In this order:
    what lies below those ends is then not of a later run of our name.
    """

    log_partitions: Sequence[int]
    generation: int
    token: int


class ResolveOffset(NamedTuple):
    """Ask where `auto.offset.reset` ("earliest" or "latest") points to."""

    tp: TopicPartition
    policy: str


class DeadLetter(NamedTuple):
    """Write the record to its dead-letter topic.

    Attributes:
        trace: Headers of its trace, see `letter_of`.
    """

    record: Record
    error: str
    attempts: int
    trace: Sequence[tuple[str, bytes]] = ()


class Rejoin(NamedTuple):
    """Ask for a new assignment: our subscription has changed."""

    reason: str


class RangesAssigned(NamedTuple):
    """Tell the user: these ranges are ours; their first record comes after `RangesReady`.

    Attributes:
        after: Results that are made durable before, as before a commit. None: nothing is. The
            ranges were ours a moment ago, and what the user loads has to contain what was done.
    """

    tp: TopicPartition
    ranges: tuple[KeyRange, ...]
    token: int
    after: Sequence[Result] | None = None


class RangesRevoked(NamedTuple):
    """Tell the user: these ranges move to another member; running handlers still finish."""

    tp: TopicPartition
    ranges: tuple[KeyRange, ...]


class RangesLost(NamedTuple):
    """Tell the user: these ranges may already run elsewhere; we were evicted."""

    tp: TopicPartition
    ranges: tuple[KeyRange, ...]


class Answer(NamedTuple):
    """The answer to what the user asked under this token; see the request's event."""

    token: int
    value: object


class Level(IntEnum):
    """How loud a report is; the values are logging's."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


class LogLine(NamedTuple):
    """A line for the log.

    Attributes:
        level: How loud it is.
        event: What it is about.
        text: The same for people.
        facts: The same for machines; the shell adds group and member.
        failure: Why a record failed, where its traceback is to follow.
    """

    level: Level
    event: LogEvent
    text: str
    facts: Facts
    failure: Failure | None = None


class HandlerOverdue(NamedTuple):
    """A handler runs for too long: report it, with what it is doing, if that can be seen."""

    lane: Entry
    error: CoopConsumerError
    facts: Facts


class CommitLate(NamedTuple):
    """A commit has waited for so long: report it, with what it waits for."""

    log_partition: int
    token: int
    waits_ms: int


class AbandonLane(NamedTuple):
    """Listen to the handler that runs this no more, and let another worker take its place."""

    lane: Entry


class EndProcess(NamedTuple):
    """End this process at once; what is finished is committed."""

    error: CoopConsumerError


class Leave(NamedTuple):
    """Everything is drained and committed: leave the group. `error`: why we had to stop."""

    error: CoopConsumerError | None


Action = (
    StartStream
    | StopStream
    | HoldFetch
    | HoldApart
    | AskEnds
    | RenewFetch
    | RenewLogReader
    | ReadLog
    | FollowLog
    | Append
    | Commit
    | FetchCommitted
    | CommitOffsets
    | ConfirmMembership
    | ResolveOffset
    | DoubtEnded
    | Fence
    | DeadLetter
    | Rejoin
    | RangesAssigned
    | RangesRevoked
    | RangesLost
    | Answer
    | LogLine
    | HandlerOverdue
    | CommitLate
    | AbandonLane
    | EndProcess
    | Leave
)
