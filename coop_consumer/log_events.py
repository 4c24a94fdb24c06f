"""Log events: what a line of the log is about, by names that stay. Pure.

In: an event and its facts. Out: the `extra` of a line, so that each formatter gets event and facts
as attributes of the `LogRecord`. The text of a line is for people, and may change; these names do
not. docs/runbook.md has every event from WARNING up, docs/logging.md what each fact means.
Values of records are no facts, and a key is one only as far as `log.keys` allows it.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Any, TypedDict, Unpack

from assignors import TopicPartition


class Facts(TypedDict, total=False):
    """What a line is about, as far as it is known where the line is made.

    Attributes:
        group: The group's id.
        member: The member's name.
        tp: A partition; it becomes `topic` and `partition`.
        topic: A topic, where no partition is meant.
        offset: The record's, or where something begins.
        key: A key's text, or its hash, as `log.keys` allows; None: it does not.
        attempt: Which attempt at the record.
        error: What was raised, of which the type is shown; or that type's name; None: nothing.
        trace_id: Of the record's trace, where its span is not the current one.
        who: Who has asked for it by the page: an address, and the name that was given.
        holder: The member that has not released what the line waits for; several with commas.
    """

    group: str
    member: str
    tp: TopicPartition
    topic: str
    offset: int
    key: str | None
    attempt: int
    error: BaseException | str | None
    trace_id: str
    who: str
    holder: str


# The class of an error may be a stranger's, whose metaclass defines this name anew.
_qualname_of: Any = vars(type)["__qualname__"].__get__

_NAMES = tuple(Facts.__annotations__)
"""In this order formatters that show all of them do so."""


class LogEvent(StrEnum):
    """What has happened: a noun, and what became of it."""

    ASSIGNMENT_UNREADABLE = "assignment.unreadable"
    BROKER_ANSWERED = "broker.answered"
    BROKER_ASKED_AGAIN = "broker.asked_again"
    BROKER_AWAY = "broker.away"
    BROKER_BACK = "broker.back"
    BROKER_SILENT = "broker.silent"
    CALLBACK_FAILED = "callback.failed"
    CHILD_DIED = "child.died"
    CHILD_NOT_RETIRED = "child.not_retired"
    CHILD_NOT_STARTED = "child.not_started"
    CIRCUIT_CLOSED = "circuit.closed"
    CIRCUIT_OPENED = "circuit.opened"
    CIRCUIT_STAYS_OPEN = "circuit.stays_open"
    CLEANING_DONE = "cleaning.done"
    CLIENT_LINE = "client.line"
    CLIENT_NOT_CLOSED = "client.not_closed"
    CLIENT_RENEWED = "client.renewed"
    COMMAND_FAILED = "command.failed"
    COMMIT_FAILED = "commit.failed"
    COMMIT_LATE = "commit.late"
    COMMIT_LOG_MAY_LOSE = "commit_log.may_lose"
    DATA_LOST = "data.lost"
    DEAD_LETTER_DUE = "dead_letter.due"
    DEAD_LETTER_REFUSED = "dead_letter.refused"
    DEAD_LETTER_SENT = "dead_letter.sent"
    DEAD_LETTER_TOPIC_UNFIT = "dead_letter_topic.unfit"
    DEAD_LETTER_TOPIC_UNKNOWN = "dead_letter_topic.unknown"
    EVENT_LOOP_INTERRUPTED = "event_loop.interrupted"
    EVENT_LOOP_NOT_CLEARED = "event_loop.not_cleared"
    EXECUTOR_FAILED = "executor.failed"
    FALL_NOTED = "fall.noted"
    FALL_SUSPECTED = "fall.suspected"
    FETCH_FAILED = "fetch.failed"
    FETCH_FULL = "fetch.full"
    FETCH_PREFETCHES_LESS = "fetch.prefetches_less"
    FETCH_RENEWED = "fetch.renewed"
    FETCH_UNDECIDED = "fetch.undecided"
    FETCH_UNWALLED = "fetch.unwalled"
    FETCH_WALLED = "fetch.walled"
    FLUSH_FAILED = "flush.failed"
    FORK_CAME_BACK = "fork.came_back"
    FORK_EXITED = "fork.exited"
    GROUP_DROPPED = "group.dropped"
    GROUP_LOOK_FAILED = "group.look_failed"
    GROUP_OTHER_GUARANTEE = "group.other_guarantee"
    GROUP_SEEN = "group.seen"
    GROUP_STOPS = "group.stops"
    GROUP_UNKNOWN = "group.unknown"
    GROUP_UNSEEN = "group.unseen"
    GROUP_WATCHED = "group.watched"
    GROUPS_UNLISTED = "groups.unlisted"
    HANDLER_OVERDUE = "handler.overdue"
    INPUT_GONE = "input.gone"
    JARS_DAMAGED = "jars.damaged"
    JARS_FAILED = "jars.failed"
    JARS_FETCHED = "jars.fetched"
    JARS_READY = "jars.ready"
    KEY_BUSY = "key.busy"
    KEY_HOT = "key.hot"
    LAUNCH_FAILED = "launch.failed"
    LAUNCH_LINE_BROKE = "launch.line_broke"
    LAUNCH_STANDS_STILL = "launch.stands_still"
    LAUNCH_STRANGER = "launch.stranger"
    LAUNCH_UNSTARTED = "launch.unstarted"
    LOG_END_SOUGHT_AGAIN = "log_end.sought_again"
    MEMBER_CAUGHT_UP = "member.caught_up"
    MEMBER_ENDED = "member.ended"
    MEMBER_ENDED_BEFORE = "member.ended_before"
    MEMBER_FAILED = "member.failed"
    MEMBER_JOINED = "member.joined"
    MEMBER_LEAVES_LATE = "member.leaves_late"
    MEMBER_LEFT = "member.left"
    MEMBER_LOST = "member.lost"
    MEMBER_NOT_LEFT = "member.not_left"
    MEMBER_REJOINS = "member.rejoins"
    MEMBER_STARTED = "member.started"
    MEMBER_TWIN = "member.twin"
    MEMBERSHIP_CALL_FAILED = "membership.call_failed"
    MEMBERSHIP_FAILED = "membership.failed"
    MEMBERSHIP_TRIED_AGAIN = "membership.tried_again"
    METRICS_COLLECTOR_FAILED = "metrics.collector_failed"
    METRICS_SERVED = "metrics.served"
    OFFSET_STORE_CORRUPT = "offset_store.corrupt"
    OFFSETS_NOT_MIRRORED = "offsets.not_mirrored"
    OFFSETS_TAKEN_OVER = "offsets.taken_over"
    OFFSETS_UNKNOWN = "offsets.unknown"
    OFFSETS_UNRESOLVED = "offsets.unresolved"
    ONE_CORE_FAILED = "one_core.failed"
    ONE_CORE_MOVED = "one_core.moved"
    OPS_ACTION_ASKED = "ops_action.asked"
    OPS_ACTION_DONE = "ops_action.done"
    OPS_ACTION_FAILED = "ops_action.failed"
    OPS_REQUEST_REFUSED = "ops_request.refused"
    OPS_SERVER_FAILED = "ops_server.failed"
    OPS_TOKEN_WRONG = "ops_token.wrong"  # noqa: S105 - no secret
    OTEL_FAILED = "otel.failed"
    OTEL_UNSET = "otel.unset"
    OUTPUTS_FAILED = "outputs.failed"
    OUTPUTS_WAIT = "outputs.wait"
    PAGE_SERVED = "page.served"
    PLAN_FAILED = "plan.failed"
    PLAN_LEAVES_OUT = "plan.leaves_out"
    PLAN_MADE = "plan.made"
    PLAN_REMARK = "plan.remark"
    PLAN_REPEATED = "plan.repeated"
    PLAN_UNREADABLE = "plan.unreadable"
    POLICIES_UNKNOWN = "policies.unknown"
    POOL_RESIZED = "pool.resized"
    PROCESS_ENDED_BY_SIGNAL = "process.ended_by_signal"
    PROCESS_ENDS = "process.ends"
    PROCESS_FELL = "process.fell"
    PROCESS_NOT_STARTED = "process.not_started"
    PROCESS_PARENT_GONE = "process.parent_gone"
    PROGRESS_LOG_APPEND_FAILED = "progress_log.append_failed"
    PROGRESS_LOG_APPEND_REFUSED = "progress_log.append_refused"
    PROGRESS_LOG_EPOCH_LOST = "progress_log.epoch_lost"
    PROGRESS_LOG_READ_FAILED = "progress_log.read_failed"
    PROGRESS_LOG_RECORD_TOO_LARGE = "progress_log.record_too_large"
    PROGRESS_LOG_RENEWED = "progress_log.renewed"
    PROGRESS_LOG_STARTS_OVER = "progress_log.starts_over"
    PROGRESS_LOG_UNREADABLE = "progress_log.unreadable"
    PROGRESS_TOPIC_DELETES = "progress_topic.deletes"
    PROGRESS_TOPIC_MENDED = "progress_topic.mended"
    PUBLISH_TRIED_AGAIN = "publish.tried_again"
    RANGE_DRAINS = "range.drains"
    RANGE_FORCED = "range.forced"
    RANGE_HELD_ELSEWHERE = "range.held_elsewhere"
    RANGE_SOUGHT = "range.sought"
    RANGE_WAITS = "range.waits"
    READ_GOES_ON = "read.goes_on"
    READ_SILENT = "read.silent"
    READ_WAITS = "read.waits"
    RECORD_DECIDED = "record.decided"
    RECORD_FAILED = "record.failed"
    RECORD_PARKED = "record.parked"
    RECORD_SKIPPED = "record.skipped"
    RECORDS_GIVEN_BACK = "records.given_back"
    RUN_BEGINS = "run.begins"
    RUN_FAILED = "run.failed"
    SETTINGS_OVERRIDDEN = "settings.overridden"
    SETTINGS_READ = "settings.read"
    SETTINGS_REFUSED = "settings.refused"
    SETTINGS_WAIT = "settings.wait"
    SINK_BATCH_WRITTEN = "sink.batch_written"
    SINK_PART_WRITTEN = "sink.part_written"
    SINK_TAKEN_OVER = "sink.taken_over"
    SNAPSHOT_BROKEN = "snapshot.broken"
    SPARK_DATA_LOST = "spark.data_lost"
    SPARK_FETCHED_AGAIN = "spark.fetched_again"
    SPARK_FOLDER_STAYS = "spark.folder_stays"
    SPARK_FORMAT_MISSING = "spark.format_missing"
    SPARK_GROUP_NOT_TOLD = "spark.group_not_told"
    SPARK_OFFSET_GONE = "spark.offset_gone"
    SPARK_READS_ALONE = "spark.reads_alone"
    SPARK_SLOTS_UNKNOWN = "spark.slots_unknown"
    SPARK_TIME_UNUSABLE = "spark.time_unusable"
    SPARK_TOPIC_MISSING = "spark.topic_missing"
    SPARK_UNSTARTED = "spark.unstarted"
    STATE_DAMAGED = "state.damaged"
    STATE_NOT_KEPT = "state.not_kept"
    STATE_RESTORE_AGAIN = "state.restore_again"
    STATE_RESTORED = "state.restored"
    STATISTICS_UNREADABLE = "statistics.unreadable"
    SUBSCRIPTION_UNREADABLE = "subscription.unreadable"
    TEARDOWN_FAILED = "teardown.failed"
    TOKENS_BACK = "tokens.back"
    TOKENS_FAILED = "tokens.failed"
    TOPIC_BACK = "topic.back"
    TOPIC_GONE = "topic.gone"
    TOPIC_MATCHES = "topic.matches"
    TOPIC_MISSING = "topic.missing"
    TOPIC_RECREATED = "topic.recreated"
    TOPICS_UNKNOWN = "topics.unknown"
    TRANSACTION_BATCH_UNKNOWN = "transaction.batch_unknown"
    TRANSACTION_BLOCKS = "transaction.blocks"
    TRANSACTION_CALL_HANGS = "transaction.call_hangs"
    TRANSACTION_FENCED = "transaction.fenced"
    TRANSACTION_HANGS = "transaction.hangs"
    TRANSACTION_NOT_FENCED = "transaction.not_fenced"
    TRANSACTION_UNKNOWN = "transaction.unknown"

    def extra(self, **facts: Unpack[Facts]) -> dict[str, object]:
        """The `extra` of a line about this event: itself, its facts, the trace it belongs to.

        >>> LogEvent.RANGE_WAITS.extra(group="billing", tp=TopicPartition("orders", 3))
        {'event': 'range.waits', 'group': 'billing', 'topic': 'orders', 'partition': 3}
        """
        found: dict[str, object] = {"event": self.value}
        for name in _NAMES:
            if (fact := facts.get(name)) is None:
                continue
            if isinstance(fact, TopicPartition):
                found["topic"], found["partition"] = fact.topic, fact.partition
            else:
                found[name] = kind_of(fact) if isinstance(fact, BaseException) else fact
        if "trace_id" not in found and (trace := trace_id()) is not None:
            found["trace_id"] = trace
        return found


def kind_of(error: BaseException) -> str:
    """The name of an error's type, whatever that type is."""
    name: str = _qualname_of(type(error))
    return name


def trace_id() -> str | None:
    """Of the span that is current here, 32 hexadecimal digits; None: there is no span.

    OpenTelemetry is asked only if somebody has imported it.
    """
    current = getattr(sys.modules.get("opentelemetry.trace"), "get_current_span", None)
    if current is None:
        return None
    context = current().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None
