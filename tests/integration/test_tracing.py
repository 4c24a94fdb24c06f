"""One trace from a producer, through a member, to its outputs and its dead letters."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from opentelemetry import trace

from coop_consumer import Context, CooperativeConsumer, Record, Worker, WorkerPool
from tests.support.brokers import MakeTopic
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.pages import Background
from tests.support.stock import records_of
from tests.support.traced import (
    PARENT,
    TRACE,
    SpansInMemory,
    carried,
    facts,
    place,
    traceparent,
)

pytestmark = pytest.mark.integration

BIN = Path(sys.executable).parent
TOOL = shutil.which("opentelemetry-instrument", path=str(BIN))
BILLING = """
from coop_consumer import Worker

class Billing(Worker):
    def process(self, record):
        pass
"""
AS_IT_DOES = """
from opentelemetry.sdk._configuration import _OTelSDKConfigurator

_OTelSDKConfigurator().configure()
"""
"""A `sitecustomize` does in each process what that of `opentelemetry-instrument` does."""


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> SpansInMemory:
    """The program's spans: its provider can be set once in a process."""
    memory = SpansInMemory()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", memory.provider)
    return memory


def produce(orders: Job, *keys: str) -> None:
    """Produce records as an instrumented producer does."""
    producer = Producer(orders.client)
    for key in keys:
        producer.produce(orders.topic, b"1", key, headers=[("traceparent", traceparent())])
    assert producer.flush(WAIT_S) == 0


def context_in(message: Message) -> tuple[int, int, bool]:
    """The trace that a record carries."""
    return carried(message.headers() or [])


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_outputs_and_dead_letters_go_on_in_the_trace_of_their_record(
    job: Callable[..., Job], topic: MakeTopic, spans: SpansInMemory, guarantee: str
) -> None:
    totals = topic(1)
    orders = job(
        1,
        **{
            "tracing": "on",
            "output.topics": totals,
            "on.failure": "dead_letter",
            "dead.letter.topic": topic(1),
            "max.attempts": 2,
            "attempt.backoff.ms": 10,
            "processing.guarantee": guarantee,
        },
    )
    produce(orders, "good", "bad")

    class Totals(Worker):
        def setup(self, context: Context) -> None:
            self.context = context

        def process(self, record: Record) -> None:
            self.context.send(record, totals, record.key, b"1")
            if record.key == b"bad":
                raise ValueError("no route")

    with WorkerPool(Totals, orders.settings, [orders.topic], until_caught_up=True) as pool:
        assert pool.wait(WAIT_S)
        letters = pool.config.dead_letter_topic_for(orders.topic)
    good, bad = sorted(spans.ended, key=lambda span: facts(span)["messaging.kafka.offset"])
    for span in (good, bad):
        assert span.parent is not None
        assert (span.parent.trace_id, span.parent.span_id) == (TRACE, PARENT)
    assert facts(bad)["coop.outcome"] == "dead_lettered"
    assert [event.name for event in bad.events] == ["exception", "attempt", "exception"]
    (output,) = records_of(orders.client, totals)
    assert context_in(output) == (*place(good), True)
    (letter,) = records_of(orders.client, letters)
    assert context_in(letter) == (*place(bad), True)


def test_a_record_that_is_polled_has_a_span_until_it_is_done(
    job: Callable[..., Job], spans: SpansInMemory
) -> None:
    orders = job(1, tracing="on")
    produce(orders, "good")
    with CooperativeConsumer(orders.settings) as consumer:
        consumer.subscribe([orders.topic])
        record = consumer.poll(WAIT_S)
        assert record is not None
        assert not spans.ended
        with spans.tracer.start_as_current_span("work", consumer.trace_context(record)):
            pass
        consumer.done(record)
        consumer.commit(WAIT_S)
    work, span = spans.ended
    assert work.parent is not None
    assert work.parent.span_id == place(span)[1]
    assert place(span)[0] == TRACE


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(
            ["opentelemetry-instrument", "--"],
            marks=pytest.mark.skipif(TOOL is None, reason="needs opentelemetry-distro"),
        ),
        [],
    ],
    ids=["by the tool", "as the tool does"],
)
def test_a_worker_that_knows_nothing_of_opentelemetry_is_traced_by_a_command_before_run(
    job: Callable[..., Job], tmp_path: Path, words: list[str]
) -> None:
    """It sets up each process, also the one below the parent of `run`."""
    orders = job(1, tracing="on")
    produce(orders, "good")
    (tmp_path / "billing.py").write_text(BILLING, encoding="utf-8")
    if not words:
        (tmp_path / "sitecustomize.py").write_text(AS_IT_DOES, encoding="utf-8")
    options = [f"--config={name}={value}" for name, value in orders.settings.items()]
    run = Background(
        [*words, "coop-consumer", "run", "billing:Billing", "--topics", orders.topic, *options],
        tmp_path,
        {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
            "OTEL_TRACES_EXPORTER": "console",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_LOGS_EXPORTER": "none",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "confluent_kafka,kafka",
        },
    )
    try:
        run.wait_for(f'"parent_id": "0x{PARENT:016x}"')
        assert f'"name": "process {orders.topic}"' in run.printed
        run.interrupt()
    finally:
        run.put_away()
