"""Where and when figures were measured, and how busy the machine was meanwhile (Linux)."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import confluent_kafka

from coop_consumer.broker import KAFKA_VERSION


def conditions() -> dict[str, str]:
    """What a figure has to name: date, machine, versions, and what else ran there."""
    given = os.environ.get("COOP_TEST_BOOTSTRAP")
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": _commit(),
        "machine": (
            f"{os.cpu_count()} cores, {_processor()}, {memory_gib:.0f} GiB, "
            f"{platform.system()} {platform.release()}"
        ),
        "load_before": f"{os.getloadavg()[0]:.1f} waiting for the cores on average",
        "python": platform.python_version(),
        "clients": (
            f"confluent-kafka {version('confluent-kafka')} "
            f"(librdkafka {confluent_kafka.libversion()[0]}), "
            f"kafka-python {version('kafka-python')}"
        ),
        "broker": "given" if given else f"embedded, Kafka {KAFKA_VERSION}",
    }


def _commit() -> str:
    """What is measured, and whether it was changed since."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    command = [git, "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    return told.stdout.strip() or "unknown"


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
