"""Samples in Prometheus' words. Needs `prometheus_client`, of the extra `metrics`.

In: samples of the table, collectors of the user's own. Out: what `prometheus_client` writes out. We
write no exposition format. A family is a row of the table; its help is the row's meaning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from prometheus_client import REGISTRY
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from coop_consumer.core.histogram import Durations
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.metric import Metric, MetricKind
from coop_consumer.ops.samples import member_samples
from coop_consumer.ops.table import TABLE

if TYPE_CHECKING:
    from coop_consumer.core.metrics import MemberMetrics
    from coop_consumer.ops.samples import Sample

log = logging.getLogger(__name__)


class Collects(Protocol):
    """A collector, of this library or the user's."""

    def collect(self) -> Iterable[Family]:
        """Its families, as of now."""
        ...


class SampleCollector(Collector):
    """Families of the table, made of samples that are had anew for each scrape.

    Args:
        samples: Returns the samples now; it may raise, and then the scrape fails.
    """

    def __init__(self, samples: Callable[[], Iterable[Sample]]) -> None:
        self._samples = samples

    def describe(self) -> list[Family]:
        """None, so that registering it asks for no samples."""
        return []

    def collect(self) -> Iterator[Family]:
        """One family for each name."""
        families: dict[str, _Family] = {}
        for sample in self._samples():
            found = families.get(sample.name)
            if found is None:
                found = families[sample.name] = _new_family(TABLE[sample.name])
            _add(found, sample)
        yield from families.values()


class MemberCollector(SampleCollector):
    """The metrics of a member, for a registry of the user's own.

    Args:
        metrics: `WorkerPool.metrics`, or `CooperativeConsumer.metrics`.

    Example::

        prometheus_client.REGISTRY.register(MemberCollector(pool.metrics))
    """

    def __init__(self, metrics: Callable[[], MemberMetrics]) -> None:
        super().__init__(lambda: member_samples(metrics()))


_Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


def _new_family(row: Metric) -> _Family:
    # The first sentence: each scrape carries it, and docs/metrics.md has the rest.
    text, labels = row.meaning.partition(". ")[0].replace("`", ""), list(row.labels)
    match row.kind:
        case MetricKind.COUNTER:
            return CounterMetricFamily(row.name.removesuffix("_total"), text, labels=labels)
        case MetricKind.GAUGE:
            return GaugeMetricFamily(row.name, text, labels=labels)
        case MetricKind.HISTOGRAM:
            return HistogramMetricFamily(row.name, text, labels=labels)


def _add(family: _Family, sample: Sample) -> None:
    labels = list(sample.labels)
    if isinstance(family, HistogramMetricFamily):
        assert isinstance(sample.value, Durations), f"{sample.name} is a histogram"
        family.add_metric(labels, _buckets(sample.value), sum_value=sample.value.sum_s)
    else:
        assert not isinstance(sample.value, Durations), f"{sample.name} is no histogram"
        family.add_metric(labels, float(sample.value))


def _buckets(durations: Durations) -> Sequence[tuple[str, float]]:
    """The buckets, each with all that lies below it, as Prometheus has them."""
    bounds = [*map(floatToGoString, durations.bounds_s), "+Inf"]
    found, below = [], 0
    for bound, count in zip(bounds, durations.counts, strict=True):
        below += count
        found.append((bound, float(below)))
    return found


@dataclass(eq=False)
class Exposition:
    """All that is shown at one `/metrics`: ours, and what the user's code has registered.

    Args:
        own: Ours.
        others: Collectors of the user's, those that count first. A family whose name was there
            before is left out. If one raises, the log says so, and the others are shown.
    """

    own: Collects
    others: Callable[[], Sequence[Collects]] = lambda: (REGISTRY,)

    def collect(self) -> Iterator[Family]:
        """The families of all."""
        names: set[str] = set()
        for family in self.own.collect():
            names.add(family.name)
            yield family
        for collector in self.others():
            for family in _collected(collector):
                if family.name not in names:
                    names.add(family.name)
                    yield family

    def written(self, accept: str) -> tuple[bytes, str]:
        """The text and its content type, as an HTTP client accepts it (see `content_type_of`)."""
        encode, content_type = choose_encoder(accept)
        return encode(_Listed(list(self.collect()))), content_type


def content_type_of(accept: str) -> str:
    """The content type that a client gets who accepts this; there are few."""
    try:
        _, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is no number, as "version=x"
        _, content_type = choose_encoder("")
    return content_type


class _Listed(Collector):
    """Families that were collected before: no error comes while they are written."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Sequence[Family]:
        return self._families


def _collected(collector: Collects) -> list[Family]:
    try:
        return list(collector.collect())
    except Exception:
        told = "a collector of metrics has raised: its figures are left out"
        extra = LogEvent.METRICS_COLLECTOR_FAILED.extra()
        log.warning(told, exc_info=True, extra=extra)
        return []
