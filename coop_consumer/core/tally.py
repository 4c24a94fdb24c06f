"""The tally: what has happened to one member, by topic and by reason, and how long it took. Pure.

In: one more of something, durations. Out: numbers that only grow. It stands beside `Counters`,
which has the sums. It belongs to the member, not to one run of it. The parts write once a batch, a
chunk, a commit, a failure or a rebalance; finished records count once for each run of records of
one range.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from coop_consumer.core.histogram import AGE_S, HANDLER_S, STEP_S, WAIT_S, Histogram

if TYPE_CHECKING:
    from collections.abc import Mapping


class FailureReason(StrEnum):
    """Why an attempt has failed.

    RAISED: the handler raised. OVERDUE: it ran for longer than `max.processing.ms`, and
    `on.overdue=fail`. PROCESS_ENDED: its child process ended. OUTAGE: it raised while most handlers
    fail alike, which is no attempt. OUTPUT_REFUSED: a topic takes no such output.
    """

    RAISED = "raised"
    OVERDUE = "overdue"
    PROCESS_ENDED = "process_ended"
    OUTAGE = "outage"
    OUTPUT_REFUSED = "output_refused"


class SkipReason(StrEnum):
    """Why a record counts as done, unprocessed: by `on.failure=skip`, or by a person."""

    POLICY = "policy"
    DECISION = "decision"


class FetchBound(StrEnum):
    """What holds the fetch.

    READY: enough is ready for the workers, which is the usual case. RECORDS:
    `max.records.in.lanes`. BYTES: `max.bytes.key.range.cache`. GAP_RANGES: a partition holds as
    many gap ranges as `max.num.ranges.held` allows.
    """

    READY = "ready"
    RECORDS = "records"
    BYTES = "bytes"
    GAP_RANGES = "gap_ranges"


_KINDS = {
    "HandlerOverdueError": FailureReason.OVERDUE,
    "ChildDiedError": FailureReason.PROCESS_ENDED,
    "ProcessEnded": FailureReason.PROCESS_ENDED,
}


def reason_of(kind: str) -> FailureReason:
    """The reason of a failure of this kind, see `Failure.kind`."""
    return _KINDS.get(kind, FailureReason.RAISED)


@dataclass(slots=True, eq=False)
class TopicTally:
    """What has happened to the records of one topic.

    Written by `intake` (`fetched`, `finished`, `age`, `queue`), `failures` (`failed` to
    `dead_lettered`), `decisions` (`skipped`), `overdue` (`expired`), `data_loss`
    (`lost_to_retention`) and `work_time` (`handler`).

    Attributes:
        expired: Records whose handler ran for longer than `max.processing.ms`.
        age: From the timestamp of a record to the moment at which it was seen to be done.
        queue: From the fetch of a record to then, less the mean time of a handler.
        handler: The time of handlers.
    """

    fetched: int = 0
    finished: int = 0
    failed: Counter[FailureReason] = field(default_factory=Counter)
    retried: int = 0
    skipped: Counter[SkipReason] = field(default_factory=Counter)
    dead_lettered: int = 0
    expired: int = 0
    lost_to_retention: int = 0
    handler: Histogram = field(default_factory=lambda: Histogram(HANDLER_S))
    age: Histogram = field(default_factory=lambda: Histogram(AGE_S))
    queue: Histogram = field(default_factory=lambda: Histogram(WAIT_S))


@dataclass(slots=True, eq=False)
class Tally:
    """What has happened to a member.

    Written by `assignments` (`rebalances`), `commits` (`commit`), `beginning` (`handover`),
    `pressure` (`held_ms`), `log_reading` (`unreadable`), `work_time` (`child_restarts`), the core
    (`flush`, `clients`), the member's thread (`memory_bytes`), and who begins the first run
    (`ops_address`).

    Attributes:
        topics: By name.
        rebalances: Generations that gave this member an assignment.
        commit: From the moment at which a commit was decided to its acknowledgement.
        flush: Calls of the worker's `flush`.
        handover: From an assignment to the first record of what it brought.
        held_ms: How long the fetch was held, in milliseconds, but for a hold that lasts.
        unreadable: Records of the progress log that could not be read, by reason.
        child_restarts: Child processes that were started in the place of dead ones.
        clients: The last figures of each of librdkafka's clients, by the client's role.
        memory_bytes: What the member's process has in memory; 0: not known.
        ops_address: Where it shows itself: host:port as it listens; "": nowhere.
    """

    topics: dict[str, TopicTally] = field(default_factory=dict)
    rebalances: int = 0
    commit: Histogram = field(default_factory=lambda: Histogram(STEP_S))
    flush: Histogram = field(default_factory=lambda: Histogram(STEP_S))
    handover: Histogram = field(default_factory=lambda: Histogram(STEP_S))
    held_ms: int = 0
    unreadable: Counter[str] = field(default_factory=Counter)
    child_restarts: int = 0
    clients: dict[str, Mapping[str, float]] = field(default_factory=dict)
    memory_bytes: int = 0
    ops_address: str = ""

    def of(self, topic: str) -> TopicTally:
        """The tally of a topic, made when first asked for."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicTally()
        return found
