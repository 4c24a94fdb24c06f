"""Samples in Prometheus' words: what a scrape reads is what the member said, and never NaN."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from coop_consumer.ops.metric import MetricKind
from coop_consumer.ops.prometheus import Exposition, MemberCollector
from coop_consumer.ops.table import TABLE
from tests.unit.full_metrics import full_metrics


def scraped(exposition: Exposition) -> dict[str, Family]:
    text, content_type = exposition.written("")
    assert content_type.startswith("text/plain")
    return {it.name: it for it in text_string_to_metric_families(text.decode())}


def only_ours() -> Exposition:
    return Exposition(MemberCollector(full_metrics), lambda: ())


def test_every_family_is_a_row_with_its_kind_and_help() -> None:
    found = scraped(only_ours())

    for name, family in found.items():
        row = TABLE.get(name) or TABLE[f"{name}_total"]
        assert family.type == row.kind.value
        assert family.documentation
        assert row.meaning.startswith(family.documentation[:20].replace("`", "")[:5])
    assert len(found) > 50


def test_nothing_is_nan_or_infinite() -> None:
    for family in scraped(only_ours()).values():
        for sample in family.samples:
            assert math.isfinite(sample.value), sample


def test_a_histogram_is_cumulative_and_ends_with_its_count() -> None:
    family = scraped(only_ours())["coop_handler_seconds"]
    buckets = [it.value for it in family.samples if it.name.endswith("_bucket")]
    [count] = [it.value for it in family.samples if it.name.endswith("_count")]

    assert buckets == sorted(buckets)
    assert buckets[-1] == count == 90
    assert [it.labels["le"] for it in family.samples if "le" in it.labels][-1] == "+Inf"


def test_only_one_metric_has_the_members_name() -> None:
    with_name = {
        family.name
        for family in scraped(only_ours()).values()
        for sample in family.samples
        if "m1" in sample.labels.values()
    }

    assert with_name == {"coop_member_info"}


def test_a_topic_with_a_strange_name_is_a_label_and_nothing_more() -> None:
    exposition = Exposition(MemberCollector(lambda: full_metrics('a"b\nc\\d')), lambda: ())
    family = scraped(exposition)["coop_records_fetched"]

    assert {it.labels["topic"] for it in family.samples} == {'a"b\nc\\d'}


def test_the_users_own_figures_are_shown_beside_ours() -> None:
    registry = CollectorRegistry()
    Counter("invoices", "Invoices sent.", registry=registry).inc(3)
    found = scraped(Exposition(MemberCollector(full_metrics), lambda: (registry,)))

    assert found["invoices"].samples[0].value == 3
    assert "coop_workers" in found


def test_of_two_families_of_one_name_the_first_one_counts() -> None:
    registry, other = CollectorRegistry(), CollectorRegistry()
    Gauge("depth", "Of a queue.", registry=registry).set(1)
    Gauge("depth", "Of a queue.", registry=other).set(2)
    found = scraped(Exposition(MemberCollector(full_metrics), lambda: (registry, other)))

    assert found["depth"].samples[0].value == 1


class Broken:
    """A collector that raises half-way."""

    def collect(self) -> Iterator[Family]:
        yield from ()
        raise ZeroDivisionError("no lane")


def test_a_collector_that_raises_hides_no_other() -> None:
    found = scraped(Exposition(MemberCollector(full_metrics), lambda: (Broken(),)))

    assert "coop_workers" in found


def test_the_collector_can_be_registered_where_no_member_answers() -> None:
    def silent() -> None:
        raise AssertionError("nobody asks at registration")

    CollectorRegistry().register(MemberCollector(silent))  # type: ignore[arg-type]


def test_openmetrics_is_written_for_whoever_accepts_it() -> None:
    accept = "application/openmetrics-text; version=1.0.0"
    text, content_type = only_ours().written(accept)

    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


def test_what_is_not_known_has_no_sample() -> None:
    bare = replace(full_metrics(), transactions=None, keyed_state=None, clients={}, topics={})
    found = scraped(Exposition(MemberCollector(lambda: bare), lambda: ()))

    assert "coop_transactions" not in found
    assert "coop_state_bytes" not in found
    assert "coop_handler_seconds" not in found
    assert not any(name.startswith("coop_client_") for name in found if "renewals" not in name)


def test_a_counter_by_reason_is_there_before_it_counts() -> None:
    bare = replace(full_metrics(), log_unreadable={"corrupt value": 2})
    found = scraped(Exposition(MemberCollector(lambda: bare), lambda: ()))
    samples = found["coop_log_unreadable"].samples

    assert {it.labels["reason"]: it.value for it in samples} == {
        "corrupt key": 0,
        "corrupt value": 2,
        "unknown version": 0,
    }


def test_counters_of_the_table_are_counters_in_prometheus() -> None:
    found = scraped(only_ours())
    counters = {
        row.name.removesuffix("_total") for row in TABLE.values() if row.kind is MetricKind.COUNTER
    }

    assert {name for name, it in found.items() if it.type == "counter"} <= counters
