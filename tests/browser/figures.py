"""Whether the page and the exporter keep their aims beside a large group.

`python -m tests.browser.figures [--members 12] [--partitions 50] [--runs 5]` prints each aim beside
what was measured, and ends with exit code 1 if one is missed. `web` and `exporter` look every 2 s,
and the exporter is scraped as often. Each member has a process of its own. The load is low, two
records a second and partition, so that two cores have room for all of them. The bounds in
time of the suite's own tests are those of a page that hangs: the aims are here.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event
from time import monotonic

from confluent_kafka.admin import AdminClient

from benchmarks.machine import conditions
from coop_consumer.ops.feed import EVERY_S
from tests.browser.chrome import Browser, browsing, missing
from tests.browser.stage import GROUP, TOPIC, Stage, staged
from tests.integration.exporting import exporting
from tests.support.job import Job
from tests.support.stock import eventually

MEMBERS, PARTITIONS, RUNS = 12, 50, 5
RUNS_MAX = 8
"""The page shows so many parked records one by one."""
RECORDS_A_SECOND = 2.0
"""Of each partition."""
WATCHED_S = 20.0


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured beside what it may be at most.

    Attributes:
        name: What it is, for people.
        unit: In what it is told.
        aim: What its median may be at most.
        each: All that was measured.
    """

    name: str
    unit: str
    aim: float
    each: Sequence[float]

    @property
    def is_missed(self) -> bool:
        """Whether the aim is."""
        return median(self.each) > self.aim

    def __str__(self) -> str:
        verdict = "MISSED" if self.is_missed else "kept"
        spread = f" ({min(self.each):.2f} to {max(self.each):.2f})" if len(self.each) > 1 else ""
        return (
            f"{self.name}: {median(self.each):.2f} {self.unit}{spread}, "
            f"aim {self.aim:g} {self.unit}: {verdict}"
        )


def told(figures: Iterable[Figure]) -> int:
    """Print them; returns the exit code: 1, if an aim is missed."""
    code = 0
    for figure in figures:
        sys.stdout.write(f"{figure}\n")
        code = max(code, int(figure.is_missed))
    return code


def measured(members: int, partitions: int, runs: int) -> Iterator[Figure]:
    """The figures of a group of this size, one after the other."""
    others = [[f"member-{number}"] for number in range(1, members)]
    load = RECORDS_A_SECOND * partitions
    with (
        TemporaryDirectory() as folder,
        staged(
            Path(folder), EVERY_S, partitions=partitions, processes=others, records_a_second=load
        ) as stage,
        browsing() as browser,
    ):
        browser.open(f"{stage.page}/group/{GROUP}")
        browser.type("#token", stage.token)
        browser.click("#login button")
        eventually(lambda: _shown(browser), lambda shown: shown == (members, members, partitions))
        bootstrap = stage.broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap})
        job = Job({"bootstrap.servers": bootstrap}, admin, GROUP, TOPIC, partitions)
        with exporting(job, GROUP, "--every", str(EVERY_S)) as exporter:
            eventually(lambda: exporter().total("coop_group_up") == 1)
            web, other = core_shares((stage.web.pid, exporter.pid), exporter)
        yield Figure("`web` with a page open, of a core", "%", 10, [100 * web])
        yield Figure("`exporter`, of a core", "%", 10, [100 * other])
        # Not before: a group that has just begun keeps two cores busy for a while.
        parked = [parked_s(browser, stage, f"stuck-{number}") for number in range(runs)]
        yield Figure("until a parked record shows", "s", 3, parked)
        paints_ms = [paint_ms(browser, stage) for _ in range(runs)]
        yield Figure("until the page is painted", "s", 1, [it / 1_000 for it in paints_ms])
        yield Figure("the page with its files", "kB", 150, [browser.weight / 1_000])


def _shown(browser: Browser) -> tuple[int, int, int]:
    """How many members are listed, how many own something, and how many partitions there are."""
    owners = browser.js(
        "return new Set([...document.querySelectorAll('#picture g[data-member]')]"
        ".map((it) => it.dataset.member)).size"
    )
    listed, rows = "#members tr[data-member]", "#partitions tbody tr"
    return len(browser.texts(listed)), owners, len(browser.texts(rows))


def paint_ms(browser: Browser, stage: Stage) -> float:
    """From the request for the page to the first paint of its contents."""
    browser.open(f"{stage.page}/group/{GROUP}")
    browser.see("#members tr[data-member]")
    found = eventually(lambda: browser.paint_ms)
    assert found is not None
    return found


def parked_s(browser: Browser, stage: Stage, key: str) -> float:
    """From the moment at which a record is in the log, which fails, to the page that shows it."""
    stage.park(key.encode())
    begun_s = monotonic()
    script = (
        "return [...document.querySelectorAll('li.need[data-kind=parked]')]"
        ".some((it) => it.textContent.includes(arguments[0]))"
    )
    pause = Event()
    while not browser.js(script, key):
        assert monotonic() - begun_s < 60, "it never shows"
        pause.wait(0.02)
    return monotonic() - begun_s


def core_shares(pids: Sequence[int], meanwhile: Callable[[], object]) -> list[float]:
    """Which part of a core each process takes over 20 s, in which this is called every 2 s."""
    before, begun_s = [_cpu_s(pid) for pid in pids], monotonic()
    pause = Event()
    while monotonic() - begun_s < WATCHED_S:
        meanwhile()
        pause.wait(EVERY_S)
    took_s = monotonic() - begun_s
    return [(_cpu_s(pid) - was) / took_s for pid, was in zip(pids, before, strict=True)]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def asked(words: Sequence[str]) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.figures", description=__doc__)
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--runs", type=int, choices=range(1, RUNS_MAX + 1), default=RUNS)
    return parser.parse_args(words)


if __name__ == "__main__":
    if why := missing():
        raise SystemExit(why)
    size = asked(sys.argv[1:])
    for name, value in conditions().items():
        sys.stdout.write(f"{name}: {value}\n")
    sys.stdout.write(f"{size.members} members, {size.partitions} partitions\n")
    raise SystemExit(told(measured(size.members, size.partitions, size.runs)))
