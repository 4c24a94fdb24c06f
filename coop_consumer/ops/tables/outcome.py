"""What handlers leave behind: outputs, transactions, keyed state. Pure data."""

from __future__ import annotations

from coop_consumer.ops.metric import MetricSection
from coop_consumer.ops.tables.row import FINE, LOOK, rows_of

_counter, _gauge, _histogram = rows_of(MetricSection.EXACTLY_ONCE)

OUTPUTS = (
    _gauge(
        "outputs_waiting", "records", "",
        "Outputs of finished records that Kafka does not have yet; with either guarantee.",
        "It stands at `output.max.records`: nothing is begun then.",
        "Look at the brokers of the output topics.",
    ),
    _gauge(
        "output_bytes_waiting", "bytes", "",
        "Their bytes.",
        "It stands at `output.max.bytes`.",
        "Look at the brokers of the output topics.",
    ),
    _gauge(
        "undecided_seconds", "seconds", "where",
        "How long a read has stood at somebody's undecided transaction: `input` (a partition of "
        "the member), `log` (the progress topic). 0: none does.",
        "It is above a minute.",
        "Run `coop-consumer status GROUP`: it says whose transaction it is, and what ends it.",
    ),
    _counter(
        "transactions_total", "transactions", "outcome",
        "Transactions by outcome: `committed`, `refused` (the group was in another generation), "
        "`aborted` (for another reason), `in_doubt` (nobody said, so the log was read; counted "
        "beside its outcome). What was not committed goes with the next one.",
        "The rate of `aborted` or `in_doubt` is above a tenth of that of `committed`.",
        "Look at the brokers' logs at this time.",
    ),
    _counter(
        "transaction_seconds_total", "seconds", "step",
        "How long brokers took for the steps of committed transactions: `effects` (outputs and "
        "state), `progress`, `check` (of the member's generation), `commit`.",
        "Divided by the number of committed ones it is above a second.",
        "Look at the brokers of the slowest step: of the outputs' topics for `effects`, of the "
        "progress topic for `progress`, of `__transaction_state` for `commit`.",
    ),
    _counter(
        "transaction_outputs_total", "records", "",
        "Outputs that were in committed transactions.",
        FINE, LOOK,
    ),
    _counter(
        "fences_total", "runs", "",
        "Runs of members that were gone, whose open transactions this member has ended.",
        FINE, LOOK,
    ),
)  # fmt: skip

_counter, _gauge, _histogram = rows_of(MetricSection.STATE)

STATE = (
    _gauge(
        "state_bytes", "bytes", "",
        "Bytes of the stores of keyed state on this member's disk.",
        "It nears the size of the disk.",
        "Have the worker delete what it needs no more, or give the disk more room.",
    ),
    _histogram(
        "state_restore_seconds", "seconds", "",
        "How long it took to read the state of ranges that came; one of each restore. Their "
        "records wait for it.",
        "Its 99th percentile is above 10 s.",
        "Set `state.dir` to a lasting disk: a restart reads only what is new then.",
    ),
    _counter(
        "state_restored_records_total", "records", "",
        "Records of changelogs that were read for this.",
        FINE, LOOK,
    ),
)  # fmt: skip

ROWS = (*OUTPUTS, *STATE)
