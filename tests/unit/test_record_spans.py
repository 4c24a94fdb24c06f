"""Spans of records: where they begin and end, what they show of keys, and what raises nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import pytest
from opentelemetry import baggage
from opentelemetry.context import get_current
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler, SamplingResult
from opentelemetry.trace import NoOpTracer, StatusCode, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from assignors import WHOLE
from coop_consumer import Record
from coop_consumer.core import actions, events
from coop_consumer.core.effects import Output
from coop_consumer.core.outputs import OutputTopic
from coop_consumer.core.record import seal
from coop_consumer.executors.traced import in_span
from coop_consumer.executors.traced_manual import TracedManualExecutor
from coop_consumer.ops import otel_trouble, record_spans
from coop_consumer.ops.record_spans import RecordSpans
from coop_consumer.ops.telemetry import context_of
from coop_consumer.ops.traced_outputs import TracedOutputs
from offsets import DecisionKey, DecisionRecord, encode_key, encode_value
from tests.support.traced import (
    PARENT,
    TRACE,
    HeaderMessage,
    NotingBatches,
    SpansInMemory,
    carried,
    facts,
    place,
    produce,
    traced_crew,
    traceparent,
)
from tests.support.traced import events as told
from tests.unit.core_member import GROUP, HIGH, LOW, TOPIC_ID, TableMember, keys_in
from tests.unit.test_core_effects import running

Headers = list[tuple[str, bytes | None]]
ONCE = {"max_attempts": 1, "attempts_for_ms": 0}


class Handled:
    """A member on a table whose handlers run in spans, on the test's own thread."""

    def __init__(self, sampler: Sampler | None = None, **settings: Any) -> None:
        self.memory = SpansInMemory(sampler)
        self.member = TableMember(**settings)
        self.member.assign(WHOLE)
        self.spans = RecordSpans(self.memory.tracer, self.member.config, "m1")

    def produce(self, key: bytes | None, headers: Headers | None = None) -> None:
        """A record comes."""
        messages = self.member.messages
        messages.append(HeaderMessage(len(messages), key, headers or []))
        self.member.fetch()

    def run(self, process: Callable[[Record], object] = lambda _: None) -> None:
        """Call the handler once for each record that is ready, as an executor does."""
        member = self.member
        for offset in member.start():
            try:
                copy_context().run(in_span(process, self.spans), running(member, offset))
            except ValueError as error:
                member.fail(offset, why=str(error))
            else:
                member.finish(offset)


def raising(_: Record) -> None:
    raise ValueError("no route")


def outcome(span: ReadableSpan) -> object:
    return facts(span).get("coop.outcome")


# ---- where a span begins ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("traceparent", b"00-nonsense-01")],
        [("traceparent", b"\xff\xfe" * 40)],
        [("traceparent", b"0" * 5_000)],
        [("traceparent", None)],
        [("traceparent", b"00-%032x-%016x-01" % (0, PARENT))],
        [("Traceparent", traceparent())],
    ],
    ids=["none", "nonsense", "not UTF-8", "long", "null", "zero", "another name"],
)
def test_a_record_without_a_usable_parent_begins_a_trace(headers: Headers) -> None:
    it = Handled()
    it.produce(b"a", headers)
    it.run()
    assert it.memory.only.parent is None


def test_of_several_headers_the_last_one_counts() -> None:
    it = Handled()
    it.produce(b"a", [("traceparent", traceparent(1, 1)), ("traceparent", traceparent())])
    it.run()
    parent = it.memory.only.parent
    assert parent is not None
    assert (parent.trace_id, parent.span_id) == (TRACE, PARENT)


def test_propagators_of_the_programs_own_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ours(TraceContextTextMapPropagator):
        """As of the W3C, by another name."""

        _TRACEPARENT_HEADER_NAME = "x-trace"

        @property
        def fields(self) -> set[str]:
            return {"x-trace"}

    monkeypatch.setattr(record_spans, "get_global_textmap", Ours)
    it = Handled()
    it.produce(b"a", [("traceparent", traceparent(1, 1)), ("x-trace", traceparent())])
    it.run()
    parent = it.memory.only.parent
    assert parent is not None
    assert (parent.trace_id, parent.span_id) == (TRACE, PARENT)


@pytest.mark.parametrize("headers", [[], [("traceparent", traceparent())]])
def test_without_anybody_who_takes_spans_outputs_carry_on_what_came(headers: Headers) -> None:
    it, outputs = Handled(), Filing()
    it.spans = RecordSpans(NoOpTracer(), it.member.config, "m1")
    it.produce(b"a", headers)
    it.run(lambda record: outputs.send(record, "totals", b"k", b"v"))
    (output,) = outputs.sent
    assert list(output.headers) == headers


def test_baggage_comes_along() -> None:
    it, seen = Handled(), []
    it.produce(b"a", [("baggage", b"tenant=7"), ("traceparent", traceparent())])
    it.run(lambda _: seen.append(baggage.get_baggage("tenant")))
    assert seen == ["7"]


def test_below_a_current_span_a_record_without_parent_is_its_child() -> None:
    """Inline handlers see the variables of the thread that drives."""
    it = Handled()
    it.produce(b"a")
    with it.memory.tracer.start_as_current_span("driver") as driver:
        it.run()
    span = it.memory.ended[0]
    assert span.parent is not None
    assert span.parent.span_id == driver.get_span_context().span_id


def test_behind_a_handler_nothing_is_current() -> None:
    it = Handled()
    it.produce(b"a")
    it.produce(b"b")
    process = in_span(lambda _: None, it.spans)
    failing = in_span(raising, it.spans)
    it.member.start()
    before = get_current()
    process(running(it.member, 0))
    assert get_current() is before
    with pytest.raises(ValueError, match="no route"):
        failing(running(it.member, 1))
    assert get_current() is before


# ---- what it shows ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ("text", {"messaging.kafka.message.key": "N14"}),
        ("hash", {"coop.key_hash": True}),
        ("none", {}),
    ],
)
def test_a_key_is_shown_as_far_as_log_keys_allows(keys: str, shown: dict[str, object]) -> None:
    it = Handled(log_keys=keys)
    it.produce(b"N14")
    it.run()
    found = {name: value for name, value in facts(it.memory.only).items() if "key" in name}
    if keys == "hash":
        found = {name: isinstance(value, int) for name, value in found.items()}
    assert found == shown


def test_a_record_without_a_key_has_no_key_in_its_span() -> None:
    it = Handled()
    it.produce(None)
    it.run()
    assert not any("key" in name for name in facts(it.memory.only))


def test_no_value_is_ever_shown() -> None:
    it = Handled()
    it.produce(b"a", [("secret", b"header-value")])
    it.run()
    assert "header-value" not in str(it.memory.only.to_json())


class Unread(HeaderMessage):
    """Nobody may look at its headers."""

    def headers(self) -> Headers:
        """See the class."""
        raise AssertionError("read")


def test_of_a_batch_that_is_not_sampled_no_header_is_read() -> None:
    it = Handled(ALWAYS_OFF)
    it.produce(b"a")
    it.produce(b"b")
    it.member.start()
    records = [running(it.member, offset) for offset in (0, 1)]
    for record in records:
        record._message = Unread(record.offset, record.key, [])
    assert it.spans.start_batch(records) is not None


# ---- where it ends ------------------------------------------------------------------------------


def test_a_parked_record_ends_its_span_and_a_retry_begins_another_one_of_the_trace() -> None:
    it = Handled(on_failure="park", **ONCE)
    it.produce(b"a", [("traceparent", traceparent())])
    it.run(raising)
    parked = it.memory.only
    assert outcome(parked) == "parked"
    assert parked.status.status_code is StatusCode.ERROR

    key = encode_key(DecisionKey(GROUP, TOPIC_ID, 0, 0))
    it.member.log.append(key, encode_value(DecisionRecord("retry", 7)))
    it.member.hear_log()
    it.run()
    again = it.memory.ended[1]
    assert place(again)[0] == place(parked)[0] == TRACE
    assert [link.context.span_id for link in again.links] == [place(parked)[1]]
    assert again.status.status_code is StatusCode.UNSET


def test_lines_about_a_failed_record_have_its_trace() -> None:
    it = Handled(on_failure="park", attempt_backoff_ms=10, max_attempts=2, attempts_for_ms=0)
    it.produce(b"a", [("traceparent", traceparent())])
    it.run(raising)
    it.member.after(60_000)
    it.run(raising)
    lines = {line.event: line.facts for line in it.member.told(actions.LogLine)}
    for event in ("record.failed", "record.parked"):
        assert lines[event]["trace_id"] == f"{TRACE:032x}"


@pytest.mark.parametrize(("policy", "expected"), [("skip", "skipped"), ("stop", "stopped")])
def test_the_span_says_how_a_record_ended(policy: str, expected: str) -> None:
    it = Handled(on_failure=policy, **ONCE)
    it.produce(b"a")
    it.run(raising)
    assert outcome(it.memory.only) == expected


def test_a_record_that_moves_between_two_attempts_ends_its_span_here() -> None:
    (low,) = keys_in(LOW, 1)
    it = Handled(attempt_backoff_ms=60_000, attempt_backoff_max_ms=60_000)
    it.produce(low)
    it.run(raising)
    assert not it.memory.ended
    it.member.assign(HIGH)
    assert outcome(it.memory.only) == "moved"
    assert told(it.memory.only) == [("exception", 1)]


def test_a_record_that_waits_for_its_attempt_at_the_end_of_the_member_ends_its_span() -> None:
    it = Handled(attempt_backoff_ms=60_000, attempt_backoff_max_ms=60_000)
    it.produce(b"a")
    it.run(raising)
    it.member.tell(events.Close())
    assert outcome(it.memory.only) == "moved"


def test_a_handler_that_fails_after_its_range_was_given_away_ends_its_span() -> None:
    (low,) = keys_in(LOW, 1)
    it = Handled()
    it.produce(low)

    def gives_away(_: Record) -> None:
        it.member.assign(HIGH)
        raise ValueError("too late")

    it.run(gives_away)
    assert told(it.memory.only) == [("exception", 1)]
    assert outcome(it.memory.only) == "moved"


def test_an_attempt_that_was_abandoned_does_not_end_the_span_of_the_next_one() -> None:
    it = Handled()
    it.produce(b"a")
    it.member.start()
    record = running(it.member, 0)
    in_span(seal, it.spans)(record)  # given up while it ran
    assert not it.memory.ended
    context = context_of(record)
    assert get_current_span(context).is_recording()


def test_failures_of_an_outage_are_events_that_count_as_no_attempt() -> None:
    it = Handled(circuit_keys=2, circuit_open_ms=1_000, attempt_backoff_ms=10)
    for number in range(12):
        it.produce(b"key-%d" % number)
    it.run(raising)
    for _ in range(3):
        it.member.after(1_000)
        it.run(raising)
    it.member.tell(events.Close())
    tries = [dict(event.attributes or {}) for span in it.memory.ended for event in span.events]
    assert any(one.get("coop.outage") and "coop.attempt" not in one for one in tries)


def test_with_exactly_once_a_dead_letter_carries_the_span_of_its_record() -> None:
    it = Handled(exactly_once=True, on_failure="dead_letter", **ONCE)
    it.produce(b"a", [("traceparent", traceparent())])
    it.run(raising)
    it.member.after(1_000)
    letters = [
        effect
        for commit in it.member.told(actions.Commit)
        for result in commit.results
        for effect in result.effects
    ]
    (letter,) = letters
    assert isinstance(letter, Output)
    assert outcome(it.memory.only) == "dead_lettered"
    assert carried(letter.headers) == (*place(it.memory.only), True)


# ---- outputs ------------------------------------------------------------------------------------


class Filing(TracedOutputs):
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[Output] = []
        topics = {"totals": OutputTopic(1, 1_000_000, is_compacted=False)}
        super().__init__(topics, 1 << 20, lambda _, output, __: self.sent.append(output) or True)


def test_a_header_of_the_handlers_own_stays() -> None:
    it, outputs = Handled(), Filing()
    it.produce(b"a")
    it.run(lambda r: outputs.send(r, "totals", b"k", b"v", [("traceparent", traceparent())]))
    (output,) = outputs.sent
    assert carried(output.headers) == (TRACE, PARENT, True)


def test_a_thread_of_the_handlers_sends_in_the_span_of_its_record() -> None:
    it, outputs = Handled(), Filing()
    it.produce(b"a")

    def process(record: Record) -> None:
        thread = threading.Thread(target=outputs.send, args=(record, "totals", b"k", b"v"))
        thread.start()
        thread.join()

    it.run(process)
    (output,) = outputs.sent
    assert carried(output.headers) == (*place(it.memory.only), True)


def test_an_output_of_an_inner_span_carries_that() -> None:
    it, outputs = Handled(), Filing()
    it.produce(b"a")

    def process(record: Record) -> None:
        with it.memory.tracer.start_as_current_span("inner"):
            outputs.send(record, "totals", b"k", b"v", [("mine", "1")])

    it.run(process)
    inner, _ = it.memory.ended
    (output,) = outputs.sent
    assert carried(output.headers) == (*place(inner), True)
    assert ("mine", b"1") in output.headers


@pytest.mark.parametrize("headers", [7, [("only a name",)], iter([("a", b"1", b"2")])])
def test_headers_that_are_none_are_refused_as_without_traces(headers: Any) -> None:
    it, outputs = Handled(), Filing()
    it.produce(b"a")

    def process(record: Record) -> None:
        with pytest.raises(Exception, match="are no headers"):
            outputs.send(record, "totals", b"k", b"v", headers)

    it.run(process)
    assert not outputs.sent


# ---- taken by hand ------------------------------------------------------------------------------


def test_a_record_in_hand_has_a_span_until_it_is_done() -> None:
    it = Handled(attempt_backoff_ms=10, max_attempts=5)
    executor = TracedManualExecutor(
        it.member.core.lanes,
        threading.Condition(),
        wake=lambda: None,
        is_ending=lambda: False,
        is_pausing=lambda: False,
        spans=it.spans,
    )
    for key in (b"a", b"b", b"c"):
        it.produce(key)
    first, second, third = (executor.take(0) for _ in range(3))
    assert first is not None
    assert second is not None
    assert third is not None
    assert not get_current_span().is_recording()
    with it.memory.tracer.start_as_current_span("work", context_of(first)) as work:
        assert work.is_recording()
    executor.fail(first, ValueError("once"))
    it.member.tell(events.Tick())
    it.member.after(60_000)
    again = executor.take(0)
    assert again is not None
    executor.finish(again)
    executor.finish_together({second: []})
    executor.give_back()
    inner, one, two, given_back = it.memory.ended
    assert inner.parent is not None
    assert inner.parent.span_id == place(one)[1]
    assert told(one) == [("exception", 1), ("attempt", 2)]
    assert [facts(span)["messaging.kafka.offset"] for span in (one, two, given_back)] == [0, 1, 2]
    assert [outcome(span) for span in (one, two, given_back)] == [None, None, "moved"]


# ---- what raises nothing ------------------------------------------------------------------------


class BrokenSampler(Sampler):
    """Raises."""

    def should_sample(self, *_: object, **__: object) -> SamplingResult:
        raise RuntimeError("broken sampler")

    def get_description(self) -> str:
        return "broken"


class BrokenProcessor(SpanProcessor):
    """Raises when a span ends."""

    def on_end(self, span: ReadableSpan) -> None:
        """See the class."""
        del span
        raise RuntimeError("broken exporter")

    def on_start(self, span: Span, parent_context: object = None) -> None:
        """Nothing."""


@pytest.fixture
def lines(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Callable[[], list[str]]:
    """The events of warnings, as if nobody had been warned before."""
    monkeypatch.setattr(otel_trouble, "_due_s", 0.0)
    loud = logging.WARNING
    return lambda: [vars(it).get("event", "") for it in caplog.records if it.levelno >= loud]


def test_whatever_a_sampler_raises_records_are_processed_and_the_log_says_so_once(
    lines: Callable[[], list[str]],
) -> None:
    it, seen = Handled(BrokenSampler()), []
    for key in (b"a", b"b"):
        it.produce(key)
    it.run(lambda record: seen.append(record.offset))
    assert seen == [0, 1]
    assert it.member.core.state.counters.failures == 0
    assert lines() == ["otel.failed"]


def test_whatever_an_exporter_raises_records_are_processed(
    lines: Callable[[], list[str]],
) -> None:
    it, seen = Handled(ALWAYS_ON), []
    it.memory.provider.add_span_processor(BrokenProcessor())
    it.produce(b"a")
    it.run(lambda record: seen.append(record.offset))
    assert seen == [0]
    assert lines() == ["otel.failed"]


def test_a_broken_sampler_stops_no_batch_either(lines: Callable[[], list[str]]) -> None:
    spans = SpansInMemory(BrokenSampler())
    with traced_crew(NotingBatches(), spans, batch_max_records=2) as crew:
        produce(crew, b"a-0", b"b-0")
        crew.until_done(2)
    assert lines() == ["otel.failed"]
