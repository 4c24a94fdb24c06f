"""The table's metrics as instruments of OpenTelemetry (extra `otel`).

In: samples of the table, had when somebody reads. Out: observable counters and gauges by the same
names, of whatever meter provider the program has set up: here is only OpenTelemetry's API. That API
takes histograms one value at a time, and a member has them counted in buckets. So a histogram is
three counters, as Prometheus writes it: `_bucket` with the attribute `le`, `_count` and `_sum`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from opentelemetry.metrics import CallbackOptions, Meter, Observation, get_meter

from coop_consumer import __version__
from coop_consumer.core.histogram import Durations
from coop_consumer.errors import CoopConsumerError
from coop_consumer.ops.metric import Metric, MetricKind, MetricSection
from coop_consumer.ops.otel_trouble import report
from coop_consumer.ops.table import TABLE

if TYPE_CHECKING:
    from coop_consumer.ops.samples import Sample

NAME = "coop_consumer"
"""Of the meter."""

_FRESH_S = 1.0
"""A reader asks one instrument after the other: within this time all of them show one moment."""
_UNITS = {"seconds": "s", "bytes": "By"}
"""In UCUM."""
_NONE = ("1", "ratio")

Observations = dict[str, list[Observation]]
Samples = Callable[[], Iterable["Sample"]]


@dataclass(slots=True, eq=False)
class Source:
    """Somebody whose samples are shown.

    Attributes:
        samples: Returns them, as of now.
    """

    samples: Samples
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _found: Observations = field(default_factory=dict)
    _found_s: float = -_FRESH_S

    def observations(self) -> Observations:
        """By the instrument's name; of the last second. Empty if they cannot be had."""
        with self._lock:
            now_s = monotonic()
            if now_s - self._found_s >= _FRESH_S:
                self._found, self._found_s = self._read(), now_s
            return self._found

    def _read(self) -> Observations:
        try:
            return observed(self.samples())
        except CoopConsumerError:  # the member is silent, or this is a forked child
            return {}
        except Exception as error:  # noqa: BLE001 - the reader's thread would end by it
            report(error)
            return {}

    def end(self) -> None:
        """Keep the last samples: whoever exports them may do so once more at the program's end."""
        try:
            last = list(self.samples())
        except CoopConsumerError:
            last = []
        self.samples = lambda: last


class Instruments:
    """Instruments of some rows of the table, each for all sources.

    Args:
        rows: The rows.
        meter: Makes the instruments.
    """

    def __init__(self, rows: Iterable[Metric], meter: Meter) -> None:
        self._sources: dict[str, Source] = {}
        for row in rows:
            for name, kind, unit in _instruments_of(row):
                # A gauge may fall; what a counter counts goes on for as long as its member lives.
                is_gauge = kind is MetricKind.GAUGE
                make = (
                    meter.create_observable_gauge if is_gauge else meter.create_observable_counter
                )
                meaning = row.meaning.partition(". ")[0].replace("`", "")
                make(name, [self._callback(name)], unit, meaning)

    def _callback(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            return [it for source in self._all() for it in source.observations().get(name, ())]

        return observe

    def _all(self) -> list[Source]:
        return list(self._sources.values())

    def show(self, group: str, samples: Samples) -> Source:
        """Show the samples of a group from now on; an earlier source of that group is forgotten."""
        source = self._sources[group] = Source(samples)
        return source


def observed(samples: Iterable[Sample]) -> Observations:
    """Samples as observations, by the name of their instrument."""
    found: Observations = {}
    for sample in samples:
        attributes = dict(zip(TABLE[sample.name].labels, sample.labels, strict=True))
        for name, value, more in _values_of(sample):
            found.setdefault(name, []).append(Observation(value, {**attributes, **more}))
    return found


def _values_of(sample: Sample) -> Iterator[tuple[str, float, dict[str, str]]]:
    value = sample.value
    if not isinstance(value, Durations):
        yield sample.name, float(value), {}
        return
    below = 0
    bounds = [*(f"{bound:g}" for bound in value.bounds_s), "+Inf"]
    for bound, count in zip(bounds, value.counts, strict=True):
        below += count
        yield f"{sample.name}_bucket", below, {"le": bound}
    yield f"{sample.name}_count", below, {}
    yield f"{sample.name}_sum", value.sum_s, {}


def _instruments_of(row: Metric) -> Iterator[tuple[str, MetricKind, str]]:
    if row.kind is not MetricKind.HISTOGRAM:
        yield row.name, row.kind, _unit_of(row)
        return
    for part in ("bucket", "count", "sum"):
        yield f"{row.name}_{part}", MetricKind.COUNTER, ""


def _unit_of(row: Metric) -> str:
    """The unit; none where exporters for Prometheus would add it to a name that has it already."""
    unit = _UNITS.get(row.unit)
    if unit is None:
        return "" if row.unit in _NONE else f"{{{row.unit}}}"
    return unit if row.name.removesuffix("_total").endswith(f"_{row.unit}") else ""


_lock = threading.Lock()
_made: dict[bool, Instruments] = {}


def instruments(*, of_groups: bool) -> Instruments:
    """The instruments of this process, of members or of groups: the API cannot take one back.

    Args:
        of_groups: Of groups, as they are seen from outside.
    """
    with _lock:
        if of_groups not in _made:
            rows = [r for r in TABLE.values() if (r.section is MetricSection.GROUP) is of_groups]
            _made[of_groups] = Instruments(rows, get_meter(NAME, __version__))
        return _made[of_groups]
