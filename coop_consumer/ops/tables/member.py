"""What a member says of itself: its records, its work, its commits, its ranges. Pure data."""

from __future__ import annotations

from coop_consumer.ops.metric import MetricSection
from coop_consumer.ops.tables.row import FINE, LOOK, STRANGER, rows_of

_counter, _gauge, _histogram = rows_of(MetricSection.MEMBER)

_CHUNK = (
    "Sampled once a chunk: a chunk is one record of a slow handler, and up to 2 ms of quick ones. "
    "Up to 32 records of one thread may share a chunk; each counts with their mean. A chunk with "
    "records of several topics counts for the topic of its last one."
)
_BATCH = (
    "Sampled once for all records of a partition that the member sees to be done at once: the last "
    "of them stands for all."
)

WORK = (
    _gauge(
        "member_info", "1", "member version",
        "Always 1. The only metric with the member's name; join it by `instance`.",
        FINE, LOOK,
    ),
    _gauge(
        "member_state", "1", "state",
        "1 for what the member does, 0 for the other states: `starting` (before its first run, or "
        "between two), `joining` (it waits for an assignment), `waiting` (something of "
        "what it was assigned has not begun: `coop_ranges_waiting`), `working`, `idle` (it is a "
        "member and no range is its), `closing`, `ended`.",
        "`joining` or `waiting` for minutes.",
        "Run `coop-consumer status GROUP`: it names who waits for whom, and what helps.",
    ),
    _counter(
        "records_fetched_total", "records", "topic",
        "Records that came from brokers. Where members share a partition, each fetches all of it.",
        "It stands still while `coop_group_records_left` grows.",
        "Look at `coop_bound_reached`, and at the log for brokers that are away.",
    ),
    _counter(
        "records_finished_total", "records", "topic",
        "Records that count as done here: their handlers returned, or they were skipped or went to "
        "a dead-letter topic.",
        "Its rate is 0 while `coop_lane_records` is not.",
        "Run `coop-consumer status GROUP`: it names the records that stand, and why.",
    ),
    _counter(
        "records_failed_total", "attempts", "topic reason",
        "Attempts that failed. `raised`: the handler raised. `overdue`: `on.overdue=fail` took it "
        "back. `process_ended`: its child process ended. `outage`: it raised while most fail "
        "alike, which counts as no attempt. `output_refused`: a topic takes no such output. "
        "Attempts of a range that has moved away meanwhile are not counted.",
        "Its rate is above 1 % of that of `coop_records_finished_total`.",
        "Read the log: it has the first failure of a record with its traceback. Repair the cause.",
    ),
    _counter(
        "records_retried_total", "attempts", "topic",
        "Attempts that follow a failure; each begins once its back-off is over.",
        "As for `coop_records_failed_total`.",
        "Do as for `coop_records_failed_total`.",
    ),
    _counter(
        "records_skipped_total", "records", "topic reason",
        "Records that count as done, unprocessed. `policy`: by `on.failure=skip`. `decision`: by "
        "`coop-consumer skip`.",
        "It grows, and nobody has decided so.",
        "Read the log: it names each of them with its last error. To keep them, set "
        "`on.failure=park`.",
    ),
    _counter(
        "records_dead_lettered_total", "records", "topic",
        "Records that are in a dead-letter topic.",
        "It grows.",
        "Read the dead-letter topic: headers say why, and where each came from.",
    ),
    _counter(
        "records_expired_total", "records", "topic",
        "Records whose handler ran for longer than `max.processing.ms`. What happens then says "
        "`on.overdue`.",
        "It grows.",
        "Read the handler's stack in the log. Repair what it waits for, or raise "
        "`max.processing.ms`.",
    ),
    _histogram(
        "handler_seconds", "seconds", "topic",
        f"How long handlers took, failed ones included. {_CHUNK} The rate of its sum is how many "
        "workers are busy.",
        "Its 99th percentile grows.",
        "Look at what the handler calls; `coop-consumer status GROUP` names the heavy keys.",
    ),
    _histogram(
        "record_age_seconds", "seconds", "topic",
        f"From a record's timestamp to the moment at which it was seen to be done. {_BATCH} It "
        "rests on two clocks: less than 0 counts as 0. If that last one has no timestamp, all of "
        "them are left out.",
        "Its median is above what the job promises.",
        "Run `coop-consumer scale GROUP`: it says whether more members help.",
    ),
    _histogram(
        "queue_seconds", "seconds", "topic",
        f"How long records waited in the member for a worker: from their fetch to the moment at "
        f"which they were seen to be done, less the mean time of a handler. {_BATCH} Records that "
        "waited long for a parked one of their key are in it, too.",
        "Its median is above a second while `coop_workers_busy` is below `coop_workers`.",
        "Run `coop-consumer status GROUP`: few keys have most records, and it names them.",
    ),
    _gauge(
        "workers", "workers", "",
        "How many records, or batches, the member can process at a time.",
        FINE, LOOK,
    ),
    _gauge(
        "workers_busy", "workers", "",
        "How many of them run a handler at this moment. What was sent to a child process counts.",
        "It equals `coop_workers` for long while records are left.",
        "Run `coop-consumer scale GROUP`: it says how many members help.",
    ),
    _gauge(
        "lane_records", "records", "",
        "Records taken in and not done, whatever they wait for.",
        "It stands at a bound (`coop_bound_reached`).",
        "See `coop_bound_reached`.",
    ),
    _gauge(
        "lane_bytes", "bytes", "",
        "Bytes that these records take in memory, as the bound on them counts.",
        "It stands at `max.bytes.key.range.cache`.",
        "See `coop_bound_reached`.",
    ),
    _gauge(
        "lane_keys", "keys", "",
        "Keys that these records have. Only so many workers can be busy.",
        "It is far below `coop_workers` while records are left.",
        "Run `coop-consumer status GROUP`: it names the heavy keys. Make their handler quicker: "
        "more workers do not help.",
    ),
    _gauge(
        "keys_backing_off", "keys", "",
        "Keys whose first record has failed and waits for its next attempt.",
        "It grows.",
        "Read the failures in the log. If they are alike, repair what the handlers need.",
    ),
    _gauge(
        "keys_parked", "keys", "",
        "Keys that wait for a decision: their first record has failed for the last time.",
        "It is above 0.",
        "Run `coop-consumer status GROUP`, and the command that it prints: `retry` or `skip`.",
    ),
    _gauge(
        "keys_overdue", "keys", "",
        "Keys whose handler runs here for longer than `max.processing.ms`, be their range another "
        "member's by now.",
        "It is above 0.",
        "Run `coop-consumer status GROUP` for the record. Read its stack on the member's own page, "
        "or in its log, and repair what it waits for.",
    ),
    _gauge(
        "bound_reached", "1", "bound",
        "1 while this bound holds the fetch: `ready` (the workers have enough: the usual case), "
        "`records` (`max.records.in.lanes`), `bytes` (`max.bytes.key.range.cache`), `gap_ranges` "
        "(a partition holds as many gap ranges as `max.num.ranges.held` allows).",
        "`records`, `bytes` or `gap_ranges` is 1 for minutes.",
        "Run `coop-consumer status GROUP`: it names the record that does not end and holds up the "
        "others.",
    ),
    _counter(
        "fetch_held_seconds_total", "seconds", "",
        "How long the fetch was held by `ready`, `records` or `bytes`.",
        FINE, LOOK,
    ),
    _counter(
        "child_restarts_total", "processes", "",
        "Child processes (`executor=\"process\"`) that were started in the place of dead ones.",
        "It grows.",
        "Read in the log how each ended. After a crash in C repair the handler's library; after "
        "SIGKILL give the container more memory, or set fewer `workers`.",
    ),
)  # fmt: skip

PROGRESS = (
    _counter(
        "commits_total", "commits", "",
        "Commits to the progress topic that were sent.",
        "Its rate is 0 while records finish.",
        "See `coop_commit_age_seconds`.",
    ),
    _counter(
        "commit_bytes_total", "bytes", "",
        "Bytes of the records of these commits.",
        "A commit has more than 100 kB on average.",
        "Run `coop-consumer status GROUP`: it names the record that does not end. The gaps above "
        "it make commits large.",
    ),
    _histogram(
        "commit_seconds", "seconds", "",
        "From the moment at which a commit was decided to its acknowledgement, one of each. The "
        "worker's `flush`, outputs and keyed state are in it.",
        "Its 99th percentile is above a second.",
        "Compare `coop_flush_seconds`; else look at the brokers and their `min.insync.replicas`.",
    ),
    _gauge(
        "commit_age_seconds", "seconds", "",
        "How long finished records have waited for their commit; 0: all of it is in the log. So "
        "much would be done again after a crash.",
        "It is above 10.",
        "Read in the log what a commit waits for (`commit.late`), and repair that.",
    ),
    _histogram(
        "flush_seconds", "seconds", "",
        "How long the worker's `flush` took, once a commit.",
        "Its 99th percentile is above a second: commits and handovers wait for it.",
        "Look at the system that `flush` writes to.",
    ),
    _counter(
        "rebalances_total", "assignments", "",
        "Assignments that the group gave to this member.",
        "It grows by more than one a minute for long.",
        "Look for members that restart, and for pauses above `session.timeout.ms`.",
    ),
    _histogram(
        "handover_seconds", "seconds", "",
        "From an assignment to the beginning of a range that it brought, one of each beginning.",
        "Its 99th percentile is above `coop_handler_seconds`' and 10 s.",
        "Run `coop-consumer status GROUP`: it names the last owner's handlers that take so long.",
    ),
    _gauge(
        "ranges_waiting", "ranges", "",
        "Ranges that were assigned and have not begun. A key whose last owner's handler still "
        "runs counts as one, also where the range around it has begun. It counts what `/readyz` "
        "says to wait.",
        "It is above 0 for minutes.",
        "Run `coop-consumer status GROUP`: it names who waits for whom. End the process that "
        "hangs; if you cannot, see `coop-consumer release GROUP --dry-run`.",
    ),
    _gauge(
        "range_share", "ratio", "topic",
        "Which part of the topic's hash space is processed here; 1 is all partitions.",
        "Over all members its sum stays below 1.",
        "Run `coop-consumer status GROUP`: it names the ranges without an owner at work, and whom "
        "they wait for.",
    ),
    _counter(
        "forced_releases_total", "ranges", "",
        "Ranges that began here because a person released them: the order of keys may be broken.",
        "It grows.",
        "Ask who has called `coop-consumer release`, and see that the old processes have ended.",
    ),
    _counter(
        "client_renewals_total", "clients", "",
        "Clients that were replaced, as they brought nothing though the broker had more.",
        "It grows by more than one an hour.",
        "Look at the brokers and the network; nothing is lost.",
    ),
    _counter(
        "log_unreadable_total", "records", "reason",
        "Records of the progress topic that cannot be read and are passed over.",
        "It grows.",
        STRANGER,
    ),
    _counter(
        "lost_to_retention_total", "offsets", "topic",
        "Offsets that were deleted before they were read. Holes of a compacted topic count, too.",
        "It grows.",
        "Raise the topic's retention, or add members; what is lost stays lost.",
    ),
)  # fmt: skip

ROWS = (*WORK, *PROGRESS)
