"""What it costs to be watched, and how soon a member answers.

`python -m benchmarks ops`. Runs with and without `ops.address` take turns, pair by pair. Of each
pair the ratio counts, and of all ratios the median:

    noop        records a second, with a scrape a second: with, over without
    io          seconds, with a scrape a second: with, over without
    live        the 99th percentile of the latency, with a scrape in 5 s: with, over without
    cpu_ratio   of each of these: CPU seconds of the member, which other programs disturb less
    tracing     microseconds of CPU that a record takes more with tracing=on: of the span alone
                (`spans`), and of a member under noop, whose threads also disturb each other more
    partitions  a topic of 200 partitions under full noop: how long a scrape takes, and its bytes;
                how long probes take, and a bare server beside them; the same beside 50 clients
                that never read; a scrape of an exporter of these partitions, beside nothing
    io_probes   how long probes take under io
    json_line   microseconds of CPU that a line of the log takes as JSON, and as text

Runs of `noop` and `io` last some seconds only. So they are scraped each second: five times as often
as Prometheus does it by default here. `live` is scraped as Prometheus does: its figure is a 99th
percentile, and a scrape a second may hold up one record of a hundred.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from statistics import median

from confluent_kafka import Consumer, TopicPartition

from benchmarks.bench import Broker, filled, run_once
from benchmarks.cases import CASES
from benchmarks.figures import Figures, figures
from benchmarks.machine import conditions
from benchmarks.scrapes import Scrapes, asking, bare_server, free_port, never_reading
from benchmarks.spans import PARENT, alone_us
from benchmarks.stops import percentile
from benchmarks.systems import OURS, SAMPLED, UNSAMPLED, WATCHED
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.json_lines import JsonLines

ADDRESS = "BENCH_OPS"
"""The variable that says where a watched member answers."""

NOOP_RECORDS, PARTITIONS, MANY_RECORDS = 2_000_000, 200, 3_000_000
TRACED_RECORDS = 300_000
EVERY_S, EVERY_LIVE_S, EVERY_MANY_S = 1.0, 5.0, 0.05
ANSWER_S, DEAF = 10.0, 50
TEXT, _LINES = "%(asctime)s %(levelname)s %(name)s: %(message)s", 20_000


@contextmanager
def scraping(every_s: float) -> Iterator[Scrapes]:
    """Have the members of the block answer at a free port, and scrape it meanwhile."""
    address = os.environ[ADDRESS] = f"127.0.0.1:{free_port()}"
    try:
        with asking(address, "/metrics", every_s) as found:
            yield found
    finally:
        del os.environ[ADDRESS]


def ops(bootstrap: str, runs: int, *, as_json: bool) -> int:
    """Measure everything and print it; always 0: nothing is promised by this program."""
    broker = Broker(bootstrap)
    rows: dict[str, object] = {}
    for name in ("noop", "io", "live"):
        rows[name] = _pairs(broker, name, runs)
        if not as_json:
            print(name, rows[name], flush=True)
    rows["tracing"] = _tracing(broker, runs)
    if not as_json:
        print("tracing", rows["tracing"], flush=True)
    rows["json_line"] = _lines(runs)
    if not as_json:
        print("json_line", rows["json_line"], flush=True)
    rows["io_probes"] = _io_probes(broker, runs)
    if not as_json:
        print("io_probes", rows["io_probes"], flush=True)
    rows["partitions"] = _many_partitions(broker, runs)
    if as_json:
        print(json.dumps({"case": "ops", "runs": runs, **rows, "conditions": conditions()}))
    else:
        print("partitions", rows["partitions"])
    return 0


def _pairs(broker: Broker, name: str, runs: int) -> dict[str, object]:
    case = CASES[name][0]
    if name == "noop":
        case = replace(case, records=NOOP_RECORDS)
    topic = "" if case.joins_before else filled(broker, case)
    found: dict[str, list[float]] = {OURS.name: [], WATCHED.name: []}
    cpu_s: dict[str, list[float]] = {OURS.name: [], WATCHED.name: []}
    scrapes = 0
    every_s = EVERY_LIVE_S if name == "live" else EVERY_S
    for number in range(runs):
        pair = (OURS, WATCHED) if number % 2 == 0 else (WATCHED, OURS)
        for system in pair:
            around = scraping(every_s) if system is WATCHED else nullcontext(Scrapes())
            with around as seen:
                run = run_once(broker, case, system, topic, seed=number)
            scrapes += len(seen.took_ms)
            judged = figures(case, run)
            found[system.name].append(_figure(name, judged))
            cpu_s[system.name].append(judged.cpu_worker_s)
    ratios = [a / b for a, b in zip(found[WATCHED.name], found[OURS.name], strict=True)]
    return {
        "ratio": round(median(ratios), 3),
        "cpu_ratio": round(median(cpu_s[WATCHED.name]) / median(cpu_s[OURS.name]), 3),
        "ratios": [round(it, 3) for it in ratios],
        "without": [round(it, 3) for it in found[OURS.name]],
        "with": [round(it, 3) for it in found[WATCHED.name]],
        "scrapes": scrapes,
    }


def _tracing(broker: Broker, runs: int) -> dict[str, object]:
    """The costs of a span, where all records carry their producer's."""
    case = replace(CASES["noop"][0], records=TRACED_RECORDS)
    topic = filled(broker, case, [PARENT])
    systems = (OURS, UNSAMPLED, SAMPLED)
    cpu_s: dict[str, list[float]] = {system.name: [] for system in systems}
    for number in range(runs):
        turns = deque(systems)
        turns.rotate(number)
        for system in turns:
            run = run_once(broker, case, system, topic, seed=number)
            cpu_s[system.name].append(figures(case, run).cpu_worker_s)
    found: dict[str, object] = {
        "alone_unsampled_us": alone_us(runs, sampled=False),
        "alone_sampled_us": alone_us(runs, sampled=True),
        "records": case.records,
    }
    for system in (UNSAMPLED, SAMPLED):
        more_s = [a - b for a, b in zip(cpu_s[system.name], cpu_s[OURS.name], strict=True)]
        more_us = [1e6 * it / case.records for it in more_s]
        found[f"{system.name}_us"] = round(median(more_us), 1)
        found[f"{system.name}_each_us"] = [round(it, 1) for it in more_us]
    return found


def _lines(runs: int) -> dict[str, float]:
    """What a line of the log takes in each format, formatted and not written."""
    return {
        f"{name}_us": round(median(_line_us(formatter) for _ in range(runs)), 1)
        for name, formatter in (("json", JsonLines()), ("text", logging.Formatter(TEXT)))
    }


def _line_us(formatter: logging.Formatter) -> float:
    extra = LogEvent.RECORD_PARKED.extra(group="billing", member="m1", offset=43, key="customer-7")
    begun_s = time.thread_time()
    for number in range(_LINES):
        told, arguments = "orders-1@%d: is parked", (number,)
        record = logging.LogRecord("coop_consumer", logging.WARNING, "", 0, told, arguments, None)
        record.__dict__.update(extra)
        formatter.format(record)
    return 1e6 * (time.thread_time() - begun_s) / _LINES


def _figure(name: str, found: Figures) -> float:
    """What is compared: records a second, seconds, or a latency."""
    if name == "noop":
        return found.records / found.seconds
    if name == "io":
        return found.seconds
    latency = found.special["latency_p99_ms"]
    assert isinstance(latency, float)
    return latency


def _many_partitions(broker: Broker, runs: int) -> dict[str, object]:
    """Scrapes, then probes, then both beside clients that never read; medians of the runs."""
    case = replace(CASES["noop"][0], records=MANY_RECORDS, partitions=PARTITIONS)
    topic = filled(broker, case)
    each: dict[str, list[float]] = {}

    def note(name: str, scrapes: Scrapes) -> None:
        each.setdefault(f"{name}_median_ms", []).append(median(scrapes.took_ms))
        each.setdefault(f"{name}_p99_ms", []).append(percentile(scrapes.took_ms, 0.99))

    size = 0
    for number in range(runs):
        with scraping(EVERY_MANY_S) as seen:
            run = run_once(broker, case, WATCHED, topic, seed=number)
        found = figures(case, run)
        each.setdefault("records_per_s", []).append(found.records / found.seconds)
        note("scrapes", seen)
        size = max(size, seen.bytes)
        # Probes by themselves, a scrape a second beside them. The bare server takes the same time
        # for the same machine: what it takes no member can undercut.
        with bare_server() as bare, scraping(EVERY_S), ExitStack() as stack:
            probes = _probing(stack)
            floor = stack.enter_context(asking(bare, "/", EVERY_MANY_S))
            run_once(broker, case, WATCHED, topic, seed=number)
        note("probes", _both(probes))
        note("bare", floor)
        with scraping(EVERY_S) as seen, ExitStack() as stack:
            stack.enter_context(never_reading(os.environ[ADDRESS], DEAF))
            probes = _probing(stack)
            run = run_once(broker, case, WATCHED, topic, seed=number)
        found = figures(case, run)
        each.setdefault("beside_deaf_records_per_s", []).append(found.records / found.seconds)
        note("beside_deaf_probes", _both(probes))
        note("beside_deaf_scrapes", seen)
    shown: dict[str, object] = {"bytes": size, **_exporter(broker, topic, runs)}
    for name, values in each.items():
        shown[name] = round(median(values), 1)
        shown[f"{name}_each"] = [round(it, 1) for it in values]
    return shown


def _io_probes(broker: Broker, runs: int) -> dict[str, float]:
    """Probes of a member whose handlers wait, a scrape a second beside them."""
    case = CASES["io"][0]
    topic = filled(broker, case)
    medians, p99s = list[float](), list[float]()
    for number in range(runs):
        with scraping(EVERY_S), ExitStack() as stack:
            probes = _probing(stack)
            run_once(broker, case, WATCHED, topic, seed=number)
        took_ms = _both(probes).took_ms
        medians.append(median(took_ms))
        p99s.append(percentile(took_ms, 0.99))
    return {"median_ms": round(median(medians), 1), "p99_ms": round(median(p99s), 1)}


def _probing(stack: ExitStack) -> list[Scrapes]:
    address = os.environ[ADDRESS]
    paths = ("/livez", "/readyz")
    return [stack.enter_context(asking(address, path, EVERY_MANY_S)) for path in paths]


def _both(probes: list[Scrapes]) -> Scrapes:
    return Scrapes([it for one in probes for it in one.took_ms])


def _exporter(broker: Broker, topic: str, runs: int) -> dict[str, object]:
    """Scrapes of an exporter of one group with so many partitions, beside nothing."""
    group = f"exported-{topic}"
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    places = [TopicPartition(topic, number, 1) for number in range(PARTITIONS)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "coop_consumer.cli", "exporter", group, "--address", address]
    process = subprocess.Popen(  # noqa: S603 - the command is ours
        [*command, "--bootstrap", broker.bootstrap], stderr=subprocess.DEVNULL
    )
    try:
        with asking(address, "/metrics", EVERY_MANY_S) as found:
            deadline_s = time.monotonic() + ANSWER_S * (runs + 3)
            while time.monotonic() < deadline_s and len(found.took_ms) < 100 * runs:
                time.sleep(EVERY_MANY_S)
    finally:
        process.terminate()
        process.wait()
    return {
        "exporter_median_ms": round(median(found.took_ms), 1),
        "exporter_p99_ms": round(percentile(found.took_ms, 0.99), 1),
        "exporter_bytes": found.bytes,
    }
