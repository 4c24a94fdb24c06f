"""docs/metrics.md, made from the table, so that the two cannot differ.

Writes to standard output when run. In: the table. Out: Markdown. `python -m
coop_consumer.ops.reference > docs/metrics.md` renews the page, and a test fails while it is out of
date.
"""

from __future__ import annotations

import sys

from coop_consumer.ops.metric import Metric, MetricSection
from coop_consumer.ops.table import rows_in

INTRODUCTION = """\
# Metrics

<!-- Made by `python -m coop_consumer.ops.reference`; change the table there, not this page. -->

A member shows its figures at `/metrics` in Prometheus' format, if it is told an address. It needs
the extras `metrics` and `web`:

<!-- run first:
coop-consumer topic create orders --partitions 3
-->
<!-- runs until it prints: metrics at http:// -->
```sh
coop-consumer run billing:Billing --topics orders --group billing --ops   # at 127.0.0.1:9464
```

`--ops HOST:PORT` chooses another address. Without the command it is the setting `ops.address` of a
`WorkerPool` or a `CooperativeConsumer`. A server of this process answers, on a thread of its own.
It answers probes, too, at `/livez` and `/readyz` ([health.md](health.md)).

A group shows its figures from outside, also while no member is alive:

<!-- runs until it prints: metrics of groups at http:// -->
```sh
coop-consumer exporter billing shipping     # at 127.0.0.1:9465; one process for many groups
```

- **All figures have the label `group`.** No label has a key, an offset or a member's name:
  `coop_member_info` alone has the last. `instance`, which Prometheus adds, tells members apart.
- **Counters are of the member's life.** They go on when a new run of the member begins, after a
  lost progress topic, say. A new process begins at 0, as Prometheus expects.
- **A figure that is not known is left out.** No figure is NaN.
- **Figures cost a record next to nothing.** The member counts finished records once for each run
  of records of one range, and all else once a batch, a chunk, a commit or a failure. If neighbours
  in a batch are of different ranges, such a run may be one record. Durations are sampled, and the
  meaning of each histogram says how.
- **Child processes** (`executor="process"`) are counted by their parent. Their own counters,
  gauges and histograms of `prometheus_client` are added up and shown with the parent's
  ([more](#your-own-metrics)).
- `WorkerPool.metrics()` and `CooperativeConsumer.metrics()` return the same figures as typed
  values, without any extra.
- A program with an exporter of its own registers `coop_consumer.ops.prometheus.MemberCollector`:
  `REGISTRY.register(MemberCollector(pool.metrics))`. It needs the extra `metrics` alone.
- `statistics.interval.ms` has librdkafka's clients add figures of their own. Each of them costs the
  interpreter a millisecond for some hundred partitions.

## OpenTelemetry

With `ops.otel=true` the same figures are shown by instruments of OpenTelemetry, beside `/metrics`
or without it. `coop-consumer exporter --otel` does so for groups. That needs the extra `otel`, and
a meter provider of the program's: by an SDK, or by `opentelemetry-instrument`
([tracing.md](tracing.md#try-it)). Nothing is counted twice: a value is made when a reader asks,
once a second at most.

- Names and labels are those below. Counters are observable counters, gauges are observable gauges.
  Where Prometheus gets them from OpenTelemetry, names stay as they are.
- **Histograms are three counters each**: `coop_handler_seconds_bucket` with the attribute `le`,
  `coop_handler_seconds_count`, `coop_handler_seconds_sum`. OpenTelemetry's API takes a histogram
  one value at a time, and has none that is read. A member counts durations in buckets, many at
  once, and to hand each of them on would cost a record a microsecond. So a backend shows no
  histogram. With PromQL, `histogram_quantile` works on the counter: Prometheus appends `_total` to
  these names.
- An end of the process may lose the last figures, unless the program shuts its meter provider down.
- Two members of one group in one process have the same attributes, and the one that started last
  is shown. Give each a process, as `coop-consumer run` does.

`deploy/grafana/coop-consumer.json` is a dashboard, and `deploy/prometheus/alerts.yaml` has alerts.
Each alert links what to do to its section of [runbook.md](runbook.md).

## Your own metrics

What your code registers with `prometheus_client` is at the same `/metrics`. With
`executor="process"` handlers count in child processes. So the children keep their figures in files
of a temporary directory (`prometheus_client.multiprocess`), and the parent adds them up at each
scrape. Counters and histograms of children that ended stay in the sum. An `Info`, an `Enum` and a
collector of your own are not relayed: `prometheus_client` cannot do that.
"""


def metrics_page() -> str:
    """The whole page. O(rows)."""
    return "\n".join([INTRODUCTION, *map(_section, MetricSection)])


def _section(section: MetricSection) -> str:
    header = ("name", "kind", "unit", "labels", "meaning", "when it is bad", "what to do")
    lines = [header, tuple("---" for _ in header), *map(_row, rows_in(section))]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"## {section.value}\n\n{table}"


def _row(row: Metric) -> tuple[str, ...]:
    labels = ", ".join(f"`{label}`" for label in row.labels)
    return (f"`{row.name}`", row.kind, row.unit, labels, row.meaning, row.bad, row.remedy)


if __name__ == "__main__":
    sys.stdout.write(metrics_page())
