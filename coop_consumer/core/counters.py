"""Counters: what has happened to one member so far. Pure.

In: one more of something. Out: numbers that only grow, but for `walled`, for what waits, and for
times. They belong to the member, not to one run of it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class RecordCounters:
    """What has happened to records.

    Written by `intake` (`fetched`, `finished`), `failures` (`failures`, `retries`,
    `dead_lettered`), `failures` and `decisions` (`skipped`), `overdue` (`overdue`) and `data_loss`
    (`lost_to_retention`).

    Attributes:
        failures: Calls of handlers that raised; after `retries` of them the record was tried again.
    """

    fetched: int = 0
    finished: int = 0
    failures: int = 0
    retries: int = 0
    skipped: int = 0
    dead_lettered: int = 0
    overdue: int = 0
    lost_to_retention: int = 0


@dataclass(slots=True)
class TransactionCounters(RecordCounters):
    """What has happened to transactions, with exactly once.

    Written by `commits`, `output_bound` (`outputs_waiting`, `output_bytes_waiting`), and
    `log_reading` (`fences`, `log_undecided_since_ms`).

    Attributes:
        transactions: Those that are committed.
        transactions_refused: Aborted, as the group was in another generation.
        transactions_aborted: Aborted for another reason; what they held went with later ones.
        transactions_in_doubt: Nobody said whether they were committed, so the log was read.
        outputs: How many outputs were in those that are committed.
        outputs_waiting: Outputs of finished records that Kafka does not have yet, with either
            guarantee.
        output_bytes_waiting: The bytes of these.
        effects_ms: How long brokers took for outputs and state, in all of those.
        progress_ms: The same for records of the progress log.
        check_ms: The same for the check of the member's generation.
        commit_ms: The same for the commits themselves.
        fences: Runs that were not in the group any more, and of which no transaction is open now.
        log_undecided_since_ms: Since when the reads of the log that are under way have waited for a
            transaction, Unix time; the oldest of them. 0: none waits.
    """

    transactions: int = 0
    transactions_refused: int = 0
    transactions_aborted: int = 0
    transactions_in_doubt: int = 0
    outputs: int = 0
    outputs_waiting: int = 0
    output_bytes_waiting: int = 0
    effects_ms: float = 0.0
    progress_ms: float = 0.0
    check_ms: float = 0.0
    commit_ms: float = 0.0
    fences: int = 0
    log_undecided_since_ms: int = 0


@dataclass(slots=True)
class Counters(TransactionCounters):
    """What has happened, for metrics and status: to records, and to the progress log and ranges.

    Written by `commits` (`committed` to `commit_bytes`), `ending` (`releases`), `claims`
    (`forced`), `standstill` (`renewed`, `input_undecided_since_ms`), `pressure` (`walled`) and
    `log_reading` (`unreadable`).

    Attributes:
        committed: How many of the finished records are done by the log.
        committed_at_ms: When the log acknowledged the last commit with finished records.
        walled: Partitions that are fetched no further now, because of their gap ranges (92).
        renewed: Consumers that were replaced because they stood still.
        forced: Beginnings in ranges that a person released: the order of keys may be broken.
        input_undecided_since_ms: Since when a partition could be read no further because of a
            transaction that its producer has not decided, Unix time; the oldest. 0: all can.
    """

    committed: int = 0
    commits: int = 0
    committed_at_ms: int = 0
    commit_bytes: int = 0
    releases: int = 0
    renewed: int = 0
    forced: int = 0
    walled: int = 0
    unreadable: int = 0
    input_undecided_since_ms: int = 0
