"""Settings of failures: of records, handlers and data. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from coop_consumer.config.choices import LogKeys, OnDataLoss, OnFailure, OnOverdue
from coop_consumer.config.patterns import TOPIC_TEMPLATE
from coop_consumer.config.setting import Section, setting


@dataclass(frozen=True, kw_only=True, repr=False)
class FailureSettings:
    """Settings of failures: of records, handlers and data."""

    SECTION = Section.FAILURE

    on_failure: OnFailure = setting(
        OnFailure.PARK,
        "What happens to a record after its last attempt. park: its key waits for "
        "`coop-consumer retry` or `skip`; stop: the whole group stops; skip: counted and done; "
        "dead_letter: sent to dead.letter.topic, then done.",
        "park loses nothing and stops nobody else",
    )
    max_processing_ms: int = setting(
        300_000,
        "A handler that runs for longer than this is overdue: log and status name its record, "
        "and on.overdue decides. The member's place in the group does not depend on it.",
        "handlers are checked ten times within this time",
        low=100,
    )
    on_overdue: OnOverdue = setting(
        OnOverdue.LEAVE,
        "What happens to a record whose handler is overdue. leave: nothing, its key waits; "
        "fail: the attempt counts as failed, another worker continues, and the old handler may "
        "still run beside the next attempt; exit: finished records are committed and the "
        "process ends with code 8, so that a supervisor starts it again.",
        "a thread cannot be stopped from outside; only its process can",
    )
    max_attempts: int = setting(
        5,
        "How often a record is tried, the first time included. It is given up once it was "
        "tried so often and attempts.for.ms has passed. If attempts ended with their process "
        "(three at least), only their number counts.",
        "the first attempt counts",
        low=1,
    )
    attempts_for_ms: int | None = setting(
        None,
        "For how long a record is tried at least, from its first failure on, with a pause of "
        "at most attempt.backoff.max.ms. 0: only max.attempts decides. The time in which the "
        "circuit is open does not count.",
        "a dependency of the handlers may be away for minutes, which is no record's fault",
        low=0,
        high=86_400_000,
        derived="300000 while max.attempts has its default, else 0",
    )
    attempt_backoff_ms: int = setting(
        100,
        "The pause before the second attempt; it doubles with each further one.",
        "a failure is rarely over at once, and the key waits meanwhile",
        low=1,
        high=3_600_000,
    )
    attempt_backoff_max_ms: int = setting(
        5_000,
        "The longest pause between two attempts.",
        "the key waits all that time",
        low=1,
        high=3_600_000,
    )
    circuit_share: int = setting(
        50,
        "If this percentage of a member's newest results are failures of one kind, the member "
        "begins only a probe at a time until one succeeds. Failures meanwhile are no attempts. "
        "0: never.",
        "a dependency of the handlers is away then, and each further call parks a key in vain",
        low=0,
        high=100,
    )
    circuit_keys: int = setting(
        10,
        "How many different keys must have failed alike; ten times as many results are judged.",
        "a handful of poisonous keys is no outage",
        low=2,
        high=10_000,
    )
    circuit_window_ms: int = setting(
        10_000,
        "Results older than this are not judged.",
        "a record that failed long ago may succeed now",
        low=1,
        high=3_600_000,
    )
    circuit_open_ms: int = setting(
        1_000,
        "The pause before each probe, while nothing else is begun.",
        "it bounds how long keys wait after a dependency is back",
        low=1,
        high=3_600_000,
    )
    failure_traceback_lines: int = setting(
        20,
        "Lines of the traceback that is logged with the first and the last attempt of a "
        "record; of a longer one, the middle is left out. 0: no traceback.",
        "one line of an error rarely shows its origin",
        low=0,
        high=1_000,
    )
    log_keys: LogKeys = setting(
        LogKeys.TEXT,
        "What lines of the log, spans, and the member's load in the progress topic, may show of "
        "keys. "
        "text: at most 64 bytes of a key; hash: its key hash; none: neither. What handlers raise "
        "is shown as it is.",
        "a key may be about a person, and a log is read by others than the topic",
    )
    dead_letter_topic: str = setting(
        "{topic}.dlq",
        "Where dead_letter sends records.",
        "a topic must not be its own dead-letter topic, and the broker takes no other name",
        pattern=TOPIC_TEMPLATE,
    )
    on_data_loss: OnDataLoss = setting(
        OnDataLoss.WARN,
        "What happens when records were removed before they were processed.",
        "they are gone either way; warn counts and reports them, and processing continues",
    )
