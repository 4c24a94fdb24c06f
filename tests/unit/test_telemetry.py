"""What goes to OpenTelemetry: nothing unless it is wanted, and a clear word if it cannot."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from importlib import util
from importlib.machinery import ModuleSpec
from typing import Any
from unittest.mock import MagicMock

import pytest
from click.testing import CliRunner
from opentelemetry import trace
from opentelemetry.metrics import (
    CallbackOptions,
    Meter,
    NoOpMeter,
    NoOpMeterProvider,
    ObservableCounter,
    ObservableGauge,
    Observation,
)
from opentelemetry.sdk.trace import TracerProvider

from coop_consumer import Worker, WorkerPool
from coop_consumer.cli.app import app
from coop_consumer.config import Config
from coop_consumer.core.outputs import Outputs
from coop_consumer.errors import ConfigError, ExitCode
from coop_consumer.executors.traced import (
    in_async_batch_span,
    in_async_span,
    in_batch_span,
    in_span,
)
from coop_consumer.ops.group_metrics import GroupLook
from coop_consumer.ops.samples import member_samples
from coop_consumer.ops.telemetry import instrumented, outputs_type, spans_of
from tests.unit.full_metrics import full_metrics
from tests.unit.test_group_metrics import ADVICE, STATUS

GIVEN = {"bootstrap.servers": "nowhere:9092", "group.id": "billing"}


FINISHED, WANTED = "coop_records_finished_total", "coop_group_wanted_members"


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


class NotingMeter(NoOpMeter):
    """A meter of the API alone that keeps what asks for values."""

    def __init__(self) -> None:
        super().__init__("noting")
        self.asks: dict[str, Callable[[CallbackOptions], Iterable[Observation]]] = {}

    def create_observable_gauge(
        self, name: str, callbacks: Any = None, unit: str = "", description: str = ""
    ) -> ObservableGauge:
        [self.asks[name]] = callbacks
        return super().create_observable_gauge(name, callbacks, unit, description)

    def create_observable_counter(
        self, name: str, callbacks: Any = None, unit: str = "", description: str = ""
    ) -> ObservableCounter:
        [self.asks[name]] = callbacks
        return super().create_observable_counter(name, callbacks, unit, description)

    def values(self, name: str) -> list[float]:
        """What an instrument shows now."""
        return [float(it.value) for it in self.asks[name](CallbackOptions())]


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> NotingMeter:
    """The meter of this process, which has no instruments yet."""
    meter = NotingMeter()

    class Noting(NoOpMeterProvider):
        def get_meter(self, *_: Any, **__: Any) -> Meter:
            return meter

    monkeypatch.setattr("opentelemetry.metrics._internal._METER_PROVIDER", Noting())
    monkeypatch.setattr("coop_consumer.ops.instruments._made", {})
    return meter


@pytest.mark.parametrize("is_on", [True, False])
def test_a_members_instruments_are_made_if_the_setting_is_on(
    meter: NotingMeter, *, is_on: bool
) -> None:
    config = Config.from_dict({**GIVEN, "ops.otel": is_on})
    source = instrumented(config, full_metrics)
    if not is_on:
        assert source is None
        assert meter.asks == {}
        return
    assert source is not None
    finished = {it.name: it.value for it in member_samples(full_metrics())}[FINISHED]
    assert meter.values(FINISHED) == [finished]
    assert WANTED not in meter.asks, "it is of groups"
    source.end()


@pytest.mark.parametrize("is_on", [True, False])
def test_a_pool_makes_them_once_its_worker_is_set_up(
    meter: NotingMeter, monkeypatch: pytest.MonkeyPatch, *, is_on: bool
) -> None:
    """Its `setup` may set the provider. What would need a broker is left out."""
    made: list[bool] = []

    class SetsUp(Idle):
        def setup(self, _: object) -> None:
            made.append(bool(meter.asks))

    def enough(*_: object) -> None:
        made.append(bool(meter.asks))
        raise EOFError

    pool = WorkerPool(SetsUp, {**GIVEN, "ops.otel": is_on}, ["orders"])
    monkeypatch.setattr(pool, "_make", lambda **_: MagicMock(ended=Future()))
    monkeypatch.setattr("coop_consumer.pool.spans_of", enough)
    with pytest.raises(EOFError):
        pool.start()
    assert made == [False, is_on]


@pytest.mark.usefixtures("logging_as_it_was")
@pytest.mark.parametrize("words", [["--otel"], []], ids=["on", "off"])
def test_an_exporters_instruments_are_made_if_its_option_is_given(
    meter: NotingMeter, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    seen: list[list[float]] = []

    @contextmanager
    def ended(_: object) -> Iterator[threading.Event]:
        ending = threading.Event()
        ending.set()
        yield ending

    class Watched:
        looks = (GroupLook("billing", 0.1, 5.0, STATUS, ADVICE),)

        def __init__(self, _: object, *, dropped: object) -> None:
            """It looks at nothing."""

    def begun(*_: object) -> None:
        seen.append(meter.values(WANTED) if meter.asks else [])

    monkeypatch.setattr("coop_consumer.cli.exporter.watching", ended)
    monkeypatch.setattr("coop_consumer.cli.exporter.Watches", Watched)
    monkeypatch.setattr("coop_consumer.cli.exporter.begin", begun)
    line = ["exporter", "billing", "--bootstrap", "nowhere:9092", "--address", "127.0.0.1:0"]
    told = CliRunner().invoke(app, [*line, *words])
    assert told.exit_code == ExitCode.OK, told.output
    assert seen == ([[float(ADVICE.wanted)]] if words else [[]])


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
