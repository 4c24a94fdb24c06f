"""What every work style promises of spans. Another style is a row of `STYLES` or `BATCHES`."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from coop_consumer import Worker
from coop_consumer.core import actions, events
from coop_consumer.core.dead_letter import letter_of
from tests.support.crew import Crew
from tests.support.traced import (
    PARENT,
    TRACE,
    UNSAMPLED,
    NotingBatches,
    NotingBatchesOnLoop,
    NotingOnLoop,
    NotingWorker,
    SpansInMemory,
    carried,
    facts,
    place,
    produce,
    traced_crew,
    traceparent,
)
from tests.support.traced import events as told

STYLES = {
    "threads": (NotingWorker, "thread"),
    "event loop": (NotingOnLoop, "thread"),
    "inline": (NotingWorker, "inline"),
    "processes": (NotingWorker, "process"),
}
BATCHES = {
    "threads": (NotingBatches, "thread"),
    "event loop": (NotingBatchesOnLoop, "thread"),
    "inline": (NotingBatches, "inline"),
    "processes": (NotingBatches, "process"),
}
TRIED = {"attempt_backoff_ms": 10, "attempts_for_ms": 0}

of_each_style = pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
of_each_batch = pytest.mark.parametrize("style", BATCHES.values(), ids=BATCHES)


def crew_of(style: tuple[type[Worker], str], spans: SpansInMemory, **settings: Any) -> Crew:
    worker, executor = style
    return traced_crew(worker(), spans, executor=executor, **settings)


def fail_through(crew: Crew, failures: int, done: int) -> None:
    """Let records fail so often, and all of them be done."""
    for count in range(1, failures + 1):
        crew.until_failed(count)
        crew.member.after(60_000)
    crew.until_done(done)
    crew.member.after(1_000)


@of_each_style
def test_a_record_is_processed_in_a_span_below_its_producers(
    style: tuple[type[Worker], str],
) -> None:
    spans = SpansInMemory()
    with crew_of(style, spans) as crew:
        produce(crew, b"a-0", header=traceparent())
        crew.until_done(1)
        crew.member.after(1_000)
        (output,) = crew.outputs()
    span = spans.only
    assert told(span) == ([("attempt", 1)] if style[1] == "process" else []), "when a child began"
    assert (span.name, span.kind) == ("process t", SpanKind.CONSUMER)
    assert span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id, span.parent.is_remote) == (
        TRACE,
        PARENT,
        True,
    )
    assert facts(span) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "billing",
        "messaging.client.id": "m1",
        "messaging.destination.name": "t",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
        "messaging.kafka.message.key": "a-0",
    }
    assert span.status.status_code is StatusCode.UNSET
    assert output.value == b"%d %d" % place(span), "the handler was not in this span"
    assert carried(output.headers) == (*place(span), True)


@of_each_style
def test_attempts_are_events_of_one_span(style: tuple[type[Worker], str]) -> None:
    spans = SpansInMemory()
    with crew_of(style, spans, max_attempts=3, **TRIED) as crew:
        produce(crew, b"bad-2", b"good-0")
        fail_through(crew, failures=2, done=2)
        last = next(it for it in crew.outputs() if it.key == b"bad-2")
    bad = next(it for it in spans.ended if facts(it)["messaging.kafka.offset"] == 0)
    assert len(spans.ended) == 2
    attempts = [("exception", 1), ("attempt", 2), ("exception", 2), ("attempt", 3)]
    assert told(bad) == attempts
    first = dict(next(it for it in bad.events if it.name == "exception").attributes or {})
    assert first["exception.type"] == "ValueError"
    assert first["exception.message"] == "attempt 1"
    assert "in process" in str(first["exception.stacktrace"])
    assert isinstance(first["coop.retry_ms"], int)
    assert last.value == b"%d %d" % place(bad)
    assert bad.end_time is not None
    assert bad.events[-1].timestamp <= bad.end_time


@of_each_style
def test_a_dead_letter_goes_on_in_the_span_that_gave_its_record_up(
    style: tuple[type[Worker], str],
) -> None:
    spans = SpansInMemory()
    with crew_of(style, spans, on_failure="dead_letter", max_attempts=1) as crew:
        produce(crew, b"bad-9", header=traceparent())
        crew.until_failed(1)
        (letter,) = crew.member.told(actions.DeadLetter)
        assert not spans.ended, "the letter is not safe yet"
        crew.member.tell(events.DeadLettered(letter.record, None))
        crew.until_done(1)
    span = spans.only
    assert told(span) == [("exception", 1)]
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "ValueError: attempt 1"
    assert facts(span)["coop.outcome"] == "dead_lettered"
    assert facts(span)["error.type"] == "ValueError"
    sent = letter_of(letter.record, letter.error, letter.attempts, crew.member.config, letter.trace)
    assert carried(sent.headers) == (*place(span), True)
    assert ("mine", b"1") in sent.headers
    (line,) = [it for it in crew.member.told(actions.LogLine) if it.event == "dead_letter.sent"]
    assert line.facts["trace_id"] == f"{TRACE:032x}"


@of_each_style
def test_a_record_that_is_not_sampled_tells_those_behind_it_so(
    style: tuple[type[Worker], str],
) -> None:
    spans = SpansInMemory()
    with crew_of(style, spans, max_attempts=2, **TRIED) as crew:
        produce(crew, b"bad-1", header=traceparent(flags=UNSAMPLED))
        fail_through(crew, failures=1, done=1)
        (output,) = crew.outputs()
    assert not spans.ended
    trace_id, _, is_sampled = carried(output.headers)
    assert (trace_id, is_sampled) == (TRACE, False)
    assert output.value is not None
    assert output.value.startswith(b"%d " % TRACE)


@of_each_batch
def test_a_batch_is_processed_in_a_span_with_links_to_the_producers(
    style: tuple[type[Worker], str],
) -> None:
    spans = SpansInMemory()
    with crew_of(style, spans, batch_max_records=3) as crew:
        crew.executor.pause(True)
        produce(crew, b"a-0", b"b-0", header=traceparent())
        produce(crew, b"c-0")
        crew.until_done(3)
        crew.member.after(1_000)
        outputs = crew.outputs()
    span = spans.only
    assert (span.name, span.kind, span.parent) == ("process t", SpanKind.CONSUMER, None)
    assert facts(span)["messaging.batch.message_count"] == 3
    assert facts(span)["messaging.destination.partition.id"] == "0"
    linked = [(link.context.span_id, dict(link.attributes or {})) for link in span.links]
    assert linked == [
        (PARENT, {"messaging.destination.partition.id": "0", "messaging.kafka.offset": offset})
        for offset in (0, 1)
    ]
    assert {output.value for output in outputs} == {b"%d %d" % place(span)}
    assert [carried(output.headers) for output in outputs] == 3 * [(*place(span), True)]


@of_each_batch
def test_a_record_that_fails_in_a_batch_has_a_span_of_its_own_over_its_attempts(
    style: tuple[type[Worker], str],
) -> None:
    spans = SpansInMemory()
    with crew_of(style, spans, batch_max_records=3, max_attempts=3, **TRIED) as crew:
        crew.executor.pause(True)
        produce(crew, b"a-0", b"bad-2", b"c-0", header=traceparent())
        fail_through(crew, failures=2, done=3)
    batch, bad = spans.ended
    assert facts(batch)["coop.failed_count"] == 1
    assert batch.status.description == "1 of 3 records"
    assert facts(bad)["messaging.kafka.offset"] == 1
    assert bad.parent is not None
    assert bad.parent.span_id == PARENT
    assert [link.context.span_id for link in bad.links] == [place(batch)[1]]
    assert bad.start_time == batch.start_time
    attempts = [("exception", 1), ("attempt", 2), ("exception", 2), ("attempt", 3)]
    assert told(bad) == attempts


@of_each_batch
def test_a_batch_that_is_not_sampled_tells_those_behind_it_so(
    style: tuple[type[Worker], str],
) -> None:
    spans = SpansInMemory(ALWAYS_OFF)
    with crew_of(style, spans, batch_max_records=2) as crew:
        crew.executor.pause(True)
        produce(crew, b"a-0", b"b-0", header=traceparent())
        crew.until_done(2)
        crew.member.after(1_000)
        outputs = crew.outputs()
    assert not spans.ended
    assert [carried(output.headers)[2] for output in outputs] == [False, False]
