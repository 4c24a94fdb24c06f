"""Where and when figures were measured, and how busy the machine was meanwhile (Linux)."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import confluent_kafka

from coop_consumer.kafka.embedded import DEFAULT_VERSION


def conditions() -> dict[str, str]:
    """What a figure has to name: date, machine, versions, and what else ran there."""
    given = os.environ.get("COOP_TEST_BOOTSTRAP")
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "machine": f"{os.cpu_count()} cores, {_processor()}, {platform.system()}",
        "load_before": f"{os.getloadavg()[0]:.1f} waiting for the cores on average",
        "python": platform.python_version(),
        "clients": (
            f"confluent-kafka {version('confluent-kafka')} "
            f"(librdkafka {confluent_kafka.libversion()[0]}), "
            f"kafka-python {version('kafka-python')}"
        ),
        "broker": "given" if given else f"embedded, Kafka {DEFAULT_VERSION}",
    }


class CpuMeter:
    """How busy all cores are from its making on, whoever keeps them so."""

    def __init__(self) -> None:
        self._since = _ticks()

    def share(self) -> float:
        """Between 0 and 1."""
        (idle_before, before), (idle, now) = self._since, _ticks()
        return 1 - (idle - idle_before) / (now - before)


def _ticks() -> tuple[int, int]:
    """The idle time and all time of all cores; see proc(5)."""
    with Path("/proc/stat").open() as file:
        # user nice system idle iowait irq softirq steal; guests are counted in user already
        times = [int(word) for word in file.readline().split()[1:9]]
    return times[3] + times[4], sum(times)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(": ")[2]
    return platform.machine()
