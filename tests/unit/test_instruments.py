"""The table as instruments of OpenTelemetry: what a reader gets is what the member said."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    Gauge,
    InMemoryMetricReader,
    Metric,
    NumberDataPoint,
    Sum,
)

from coop_consumer.errors import MemberSilentError
from coop_consumer.ops.instruments import Instruments, Source, observed
from coop_consumer.ops.metric import MetricKind, MetricSection
from coop_consumer.ops.samples import Sample, member_samples
from coop_consumer.ops.table import TABLE
from tests.unit.full_metrics import full_metrics

MEMBERS = [row for row in TABLE.values() if row.section is not MetricSection.GROUP]


class Read:
    """A reader, and the instruments that it reads."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self._provider = MeterProvider([self._reader], shutdown_on_exit=False)
        self.instruments = Instruments(MEMBERS, self._provider.get_meter("test"))

    def now(self) -> dict[str, Metric]:
        """All metrics, by name."""
        found = self._reader.get_metrics_data()
        if found is None:
            return {}
        scopes = [scope for it in found.resource_metrics for scope in it.scope_metrics]
        return {metric.name: metric for scope in scopes for metric in scope.metrics}


@pytest.fixture
def read() -> Read:
    return Read()


def samples() -> Iterable[Sample]:
    return member_samples(full_metrics())


def points(metric: Metric) -> list[NumberDataPoint]:
    assert isinstance(metric.data, Gauge | Sum)
    return list(metric.data.data_points)


def values(metric: Metric) -> dict[tuple[object, ...], float]:
    """Values by attributes, but for the group."""
    return {
        tuple(v for k, v in (it.attributes or {}).items() if k != "group"): it.value
        for it in points(metric)
    }


def test_every_row_that_has_a_value_is_there_by_its_name_and_kind(read: Read) -> None:
    read.instruments.show("billing", samples)
    found = read.now()
    for name in {sample.name for sample in samples()}:
        row = TABLE[name]
        if row.kind is MetricKind.HISTOGRAM:
            assert all(isinstance(found[f"{name}_{of}"].data, Sum) for of in ("bucket", "count"))
            continue
        data = found[name].data
        assert isinstance(data, Sum if row.kind is MetricKind.COUNTER else Gauge)
        if isinstance(data, Sum):
            assert data.is_monotonic
        for point in points(found[name]):
            assert set(point.attributes or {}) == set(row.labels)
    assert values(found["coop_records_finished_total"]) == {("orders",): 90}
    assert found["coop_commit_age_seconds"].unit == "s"
    assert found["coop_lane_bytes"].unit == "By"
    assert found["coop_records_finished_total"].unit == "{records}"
    for name in ("coop_member_info", "coop_output_bytes_waiting", "coop_handler_seconds_sum"):
        assert not found[name].unit, "Prometheus' exporters would add it to the name"


def test_a_histogram_is_counters_as_prometheus_has_them(read: Read) -> None:
    read.instruments.show("billing", samples)
    found = read.now()
    buckets = values(found["coop_handler_seconds_bucket"])
    assert buckets["orders", "0.001"] == 0
    assert buckets["orders", "0.005"] == buckets["orders", "+Inf"] == 90
    assert values(found["coop_handler_seconds_count"]) == {("orders",): 90}
    assert values(found["coop_handler_seconds_sum"]) == {("orders",): pytest.approx(0.36)}


def test_one_read_asks_the_member_once(read: Read) -> None:
    asked = []
    read.instruments.show("billing", lambda: asked.append(1) or samples())
    assert len(read.now()) > 50
    assert len(asked) == 1


def test_two_groups_of_a_process_are_told_apart_and_the_newest_of_one_counts(read: Read) -> None:
    for group in ("billing", "shipping", "billing"):
        read.instruments.show(group, lambda group=group: [Sample("coop_workers", (group,), 7)])
    shown = points(read.now()["coop_workers"])
    assert [(dict(it.attributes or {}), it.value) for it in shown] == [
        ({"group": "billing"}, 7),
        ({"group": "shipping"}, 7),
    ]


def test_after_the_end_a_reader_gets_what_was_counted_last() -> None:
    alive = True

    def asked() -> Iterable[Sample]:
        assert alive, "the member is gone"
        return samples()

    source = Source(asked)
    source.end()
    alive = False
    assert source.observations()["coop_records_finished_total"][0].value == 90


def raises(error: Exception) -> Callable[[], Iterable[Sample]]:
    def asked() -> Iterable[Sample]:
        raise error

    return asked


@pytest.mark.parametrize("error", [MemberSilentError("billing", "m1", 5), RuntimeError("a bug")])
def test_a_member_that_does_not_answer_leaves_out_its_figures_and_hurts_no_reader(
    read: Read, error: Any
) -> None:
    read.instruments.show("billing", raises(error))
    read.instruments.show("shipping", samples)
    assert values(read.now()["coop_workers"])


def test_groups_have_instruments_of_their_own() -> None:
    reader = InMemoryMetricReader()
    rows = [row for row in TABLE.values() if row.section is MetricSection.GROUP]
    meter = MeterProvider([reader], shutdown_on_exit=False).get_meter("test")
    found = [Sample("coop_group_lag", ("billing", "orders", "3"), 5)]
    Instruments(rows, meter).show("exporter", lambda: found)
    data = reader.get_metrics_data()
    assert data is not None
    ((shown,),) = [it.metrics for of in data.resource_metrics for it in of.scope_metrics]
    assert (shown.name, [it.value for it in points(shown)]) == ("coop_group_lag", [5])


def test_labels_are_those_of_the_table() -> None:
    for name, found in observed(samples()).items():
        row = TABLE.get(name) or TABLE[name.rpartition("_")[0]]
        for observation in found:
            assert set(observation.attributes or {}) - {"le"} == set(row.labels)
