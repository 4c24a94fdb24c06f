"""`coop-consumer exporter` as a process, scraped by a test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from coop_consumer.errors import ExitCode
from tests.integration.scraping import Samples, scrape
from tests.support.job import Job
from tests.support.journal import WAIT_S

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Exporter:
    """A running exporter.

    Attributes:
        address: Where it answers.
        pid: Its process.
    """

    address: str
    pid: int

    def __call__(self) -> Samples:
        """Scrape it."""
        return scrape(self.address)


def command(its: Job, *words: str) -> list[str]:
    bootstrap = str(its.client["bootstrap.servers"])
    name = [sys.executable, "-m", "coop_consumer.cli", "exporter", "--bootstrap", bootstrap]
    return [*name, "--address", "127.0.0.1:0", "--every", "0.2", *words]


def address_in(log: IO[str]) -> str:
    for line in log:
        if " at http://" in line:
            return line.partition(" at http://")[2].partition("/metrics")[0]
    raise AssertionError("the exporter ended before it listened")


@contextmanager
def exporting(its: Job, *words: str) -> Iterator[Exporter]:
    """Run the exporter for the length of a block."""
    process = subprocess.Popen(
        command(its, *words),
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stderr is not None
        yield Exporter(address_in(process.stderr), process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == ExitCode.OK
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
