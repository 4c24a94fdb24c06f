"""What a group looks like from outside, also while no member is alive. Pure data."""

from __future__ import annotations

from coop_consumer.ops.metric import MetricSection
from coop_consumer.ops.tables.row import FINE, LOOK, STRANGER, rows_of

_, _gauge, _ = rows_of(MetricSection.GROUP)

_STATUS = "Run `coop-consumer status GROUP`: it names the record, why it stands, and what helps."

SEEN = (
    _gauge(
        "group_up", "1", "",
        "1: the last look at the group succeeded. 0: the group does not exist, a right is missing, "
        "or no broker answered; its other metrics are left out then, and the log says why.",
        "It is 0.",
        "Read the exporter's log, or run `coop-consumer status GROUP`: both say why.",
    ),
    _gauge(
        "group_look_seconds", "seconds", "",
        "How long the last look at the group took.",
        "It is above the scrape interval.",
        "Look less often (`--every`), or let two exporters share the groups.",
    ),
    _gauge(
        "group_look_age_seconds", "seconds", "",
        "How long ago the look was that all other metrics of the group are of.",
        "It is above a minute.",
        "Read the exporter's log, and run `coop-consumer doctor --group GROUP`: a broker does not "
        "answer.",
    ),
)  # fmt: skip

PLACES = (
    _gauge(
        "group_stable_offset", "offset", "topic partition",
        "The first offset that is not done. Left out where nothing is known of it.",
        "It stands still while the end grows.",
        _STATUS,
    ),
    _gauge(
        "group_end_offset", "offset", "topic partition",
        "The offset that the next record will get.",
        FINE, LOOK,
    ),
    _gauge(
        "group_readable_offset", "offset", "topic partition",
        "The offset below which members can read. It is below the end while a transaction is "
        "undecided.",
        "It stands still while the end grows.",
        "Run `coop-consumer status GROUP`: it says whose transaction it is, and what ends it.",
    ),
    _gauge(
        "group_committed_offset", "offset", "topic partition",
        "The offset in Kafka's own store. Left out where nothing is committed.",
        "It is far below the stable offset.",
        "Read the log of the member that leads the partition: it should mirror it every few "
        "seconds (`offsets.not_mirrored`).",
    ),
    _gauge(
        "group_lag", "records", "topic partition",
        "End less committed offset, as stock tools see it. Left out where nothing is committed.",
        "It grows. Records above a record that stands are in it although they are done.",
        "Judge by `coop_group_records_left` instead.",
    ),
    _gauge(
        "group_records_left", "records", "topic partition",
        "Records that are not done. Where heavy keys or undecided transactions are, an estimate.",
        "It grows.",
        "Run `coop-consumer scale GROUP`: it says how many members help.",
    ),
    _gauge(
        "group_gap_ranges", "ranges", "topic partition",
        "Stretches of offsets above the stable one that are done for every key.",
        "It nears `max.num.ranges.held`: the partition is fetched no further there.",
        _STATUS,
    ),
    _gauge(
        "group_blocked_seconds", "seconds", "topic partition",
        "How long the record that holds the stable offset has held it: since its first failure, "
        "since it began to run or to wait as it does, or since the exporter has seen it there, "
        "whichever is earliest. 0: nothing stands. Left out where that record cannot be read.",
        "It is above what a handler may take, with its attempts.",
        _STATUS,
    ),
    _gauge(
        "group_holder_parked", "1", "topic partition",
        "1: the record that holds the stable offset waits for a decision. 0: it does not, or "
        "nothing stands.",
        "It is 1.",
        "Run `coop-consumer status GROUP`, and the command that it prints: `retry` or `skip`.",
    ),
    _gauge(
        "group_oldest_record_seconds", "seconds", "topic partition",
        "The age of the first record that is not done, by its timestamp. 0: all is done. Left out "
        "where it is not known.",
        "It is above what the job promises.",
        _STATUS,
    ),
    _gauge(
        "group_parked_records", "records", "topic partition",
        "Records that wait for a decision.",
        "It is above 0.",
        "Run `coop-consumer status GROUP`, and the command that it prints: `retry` or `skip`.",
    ),
    _gauge(
        "group_failing_records", "records", "topic partition",
        "Records that have failed and are tried again.",
        "It grows.",
        "Read the members' logs, which have the failures. If they are alike, repair what the "
        "handlers need.",
    ),
)  # fmt: skip

WHOLE_GROUP = (
    _gauge(
        "group_handover_seconds", "seconds", "",
        "How long the longest of the handovers under way has taken. 0: there is none.",
        "It is above the time of the slowest handler.",
        "Run `coop-consumer status GROUP`: it names who waits for whom. End the process that "
        "hangs; if you cannot, see `coop-consumer release GROUP --dry-run`.",
    ),
    _gauge(
        "group_unowned_share", "ratio", "topic",
        "Which part of the topic's hash space no member has; 1: all of it. Left out while the "
        "group rebalances.",
        "It is above 0 for minutes while records are left.",
        "Start members; or see which topic policy or contract keeps those that run from it.",
    ),
    _gauge(
        "group_members", "members", "state",
        "Members: `working` (have ranges), `waiting` (wait for another one's release), `idle` "
        "(have no range), `joining` (all of them, while the group rebalances), `plain` (of another "
        "assignor), `unreadable` (of another version).",
        "`unreadable` is above 0; or their sum is below what was started.",
        "Run `coop-consumer status GROUP`: it says why a member gets nothing.",
    ),
    _gauge(
        "group_wanted_members", "members", "",
        "Members that do what arrives, and what is left within `scale.drain.target.s`. The "
        "exporter measures what arrives from look to look.",
        "It is above the number of members that may be started.",
        "Allow more members, or make handlers quicker.",
    ),
    _gauge(
        "group_useful_members", "members", "",
        "Beyond so many members another one does nothing. Left out where no limit is known.",
        "It equals `coop_group_wanted_members` while `coop_group_records_left` grows.",
        "Run `coop-consumer scale GROUP`: it names the key that limits the group. Make its handler "
        "quicker, or split it.",
    ),
    _gauge(
        "group_top_key_share", "ratio", "topic",
        "Which part of a partition's work its heaviest key has; of the topic's worst partition.",
        "It is above 0.5.",
        "Run `coop-consumer status GROUP`: it names the key. See docs/load.md for what helps.",
    ),
    _gauge(
        "group_undecided_seconds", "seconds", "topic",
        "How long the oldest undecided transaction has held up readers of this topic: of the "
        "group's log, its inputs or its outputs. 0: none does. Where brokers do not say since "
        "when, it counts since the exporter has seen it.",
        "It is above a minute.",
        "Run `coop-consumer status GROUP`: it says whose it is, and what ends it.",
    ),
    _gauge(
        "group_log_unreadable", "records", "reason",
        "Records of the progress topic that cannot be read, as of now.",
        "It grows.",
        STRANGER,
    ),
)  # fmt: skip

ROWS = (*SEEN, *PLACES, *WHOLE_GROUP)
