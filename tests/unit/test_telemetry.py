"""What goes to OpenTelemetry: nothing unless it is wanted, and a clear word if it cannot."""

from __future__ import annotations

import subprocess
import sys
from importlib import util
from importlib.machinery import ModuleSpec

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from coop_consumer import Worker, WorkerPool
from coop_consumer.config import Config
from coop_consumer.core.outputs import Outputs
from coop_consumer.errors import ConfigError
from coop_consumer.executors.traced import (
    in_async_batch_span,
    in_async_span,
    in_batch_span,
    in_span,
)
from coop_consumer.ops.telemetry import instrumented, outputs_type, spans_of
from tests.unit.full_metrics import full_metrics

GIVEN = {"bootstrap.servers": "nowhere:9092", "group.id": "billing"}


class Idle(Worker):
    """Does nothing."""

    def process(self, _: object) -> None:
        """Nothing."""


@pytest.fixture
def without_otel(monkeypatch: pytest.MonkeyPatch) -> None:
    found = util.find_spec

    def find(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name.startswith("opentelemetry") else found(name, package)

    monkeypatch.setattr(util, "find_spec", find)


@pytest.mark.usefixtures("without_otel")
@pytest.mark.parametrize(
    ("setting", "value", "shown"),
    [("tracing", "on", "tracing=on"), ("ops.otel", True, "ops.otel=true")],
)
def test_without_the_package_the_start_names_the_extra_and_asks_no_broker(
    setting: str, value: object, shown: str
) -> None:
    pool = WorkerPool(Idle, {**GIVEN, setting: value}, ["orders"])
    with pytest.raises(ConfigError) as raised:
        pool.start()
    assert shown in str(raised.value)
    assert "opentelemetry-api" in str(raised.value)
    assert "pip install 'coop-consumer[otel]'" in str(raised.value)


def test_by_default_nothing_is_traced_and_executors_have_the_handler_itself() -> None:
    config = Config.from_dict(GIVEN)
    assert spans_of(config, "m1") is None
    assert outputs_type(config) is Outputs
    assert instrumented(config, full_metrics) is None
    for wrap in (in_span, in_async_span, in_batch_span, in_async_batch_span):
        assert wrap(print, None) is print  # type: ignore[operator]


def test_by_default_no_module_of_opentelemetry_is_loaded() -> None:
    program = (
        "import sys; from coop_consumer import Worker, WorkerPool\n"
        "class Idle(Worker):\n"
        "    def process(self, record): pass\n"
        f"WorkerPool(Idle, {GIVEN!r}, ['orders'])\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def test_tracing_without_anybody_who_takes_spans_is_a_warning_with_a_way_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config.from_dict({**GIVEN, "tracing": "on"})
    assert spans_of(config, "m1") is not None
    (line,) = caplog.records
    assert vars(line)["event"] == "otel.unset"
    assert "opentelemetry-instrument" in line.getMessage()

    caplog.clear()
    provider = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    spans_of(config, "m1")
    assert not caplog.records
