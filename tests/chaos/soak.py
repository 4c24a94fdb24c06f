"""The soak: one group, one fault after the other for a long time, and members that must not swell.

In: minutes, a seed, and the guarantee. Out: a report, and whether anything was lost, overtaken or
stuck, whether an output is not as it has to be, or whether the memory or the open files of members
that live all the time grow. Those are the elders: what is killed is always somebody else.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import mkdtemp

from tests.chaos.arena import Arena, arena
from tests.chaos.checker import Verdict
from tests.chaos.faults import FAULTS
from tests.chaos.fleet import Fleet
from tests.chaos.once import OnceScene
from tests.chaos.runs import TROUBLES, stopped_long, told_of, write_story
from tests.chaos.scene import Scene

ELDERS = ("elder-0", "elder-1")
OTHERS = 3
SAMPLE_S = 5.0
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20
WARM_UP = 0.25
"""The share of the time in which caches and pools still fill."""

GROWTH_MAX = 0.10
"""As a share of the average, from the end of the warm-up on."""


@dataclass(frozen=True, slots=True)
class Trend:
    """How something went from the end of the warm-up on.

    Attributes:
        mean: Over all samples.
        growth: By the least-squares line, from the first of these samples to the last.
    """

    mean: float
    growth: float

    @property
    def is_flat(self) -> bool:
        return self.growth <= GROWTH_MAX * self.mean

    def __str__(self) -> str:
        return f"{self.mean:.1f} on average, {self.growth:+.1f} over the time"


def trend(values: Sequence[float]) -> Trend:
    """The trend of values taken at equal distances; one or none has no growth."""
    mean = sum(values) / len(values) if values else 0.0
    middle = (len(values) - 1) / 2
    spread = sum((at - middle) ** 2 for at in range(len(values)))
    slope = (
        sum((at - middle) * (value - mean) for at, value in enumerate(values)) / spread
        if spread
        else 0.0
    )
    return Trend(mean, slope * max(len(values) - 1, 0))


@dataclass(slots=True)
class Gauge:
    """Looks at the elders' processes again and again, on a thread of its own, and notes it."""

    fleet: Fleet
    log: Path
    memory_mib: dict[str, list[float]] = field(default_factory=dict)
    files: dict[str, list[float]] = field(default_factory=dict)
    ending: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        begun_s = time.monotonic()
        with self.log.open("w") as log:
            log.write("seconds,member,memory in MiB,open files\n")
            while not self.ending.wait(SAMPLE_S):
                for name in ELDERS:
                    with contextlib.suppress(OSError):  # it has just ended by itself, as is told
                        told = self._look_at(name, Path(f"/proc/{self.fleet.pid(name)}"))
                        log.write(f"{time.monotonic() - begun_s:.0f},{name},{told}\n")
                log.flush()

    def _look_at(self, name: str, process: Path) -> str:
        pages = int((process / "statm").read_text().split()[1])
        files = len(list((process / "fd").iterdir()))
        self.memory_mib.setdefault(name, []).append(pages * PAGE_MIB)
        self.files.setdefault(name, []).append(files)
        return f"{pages * PAGE_MIB:.1f},{files}"


def soak(minutes: float, seed: int, *, once: bool = False) -> int:
    """Run it; the exit code."""
    folder = Path(mkdtemp(prefix=f"coop-soak-{seed}-"))
    with arena(once=once) as place:
        is_good, verdict, report = run_soak(place, minutes, seed, folder, once=once)
    sys.stdout.write("\n".join(report) + "\n")
    if is_good and not stopped_long(verdict):
        shutil.rmtree(folder)
    else:
        sys.stdout.write(f"see {folder}\n")
    return int(not is_good)


def run_soak(
    place: Arena, minutes: float, seed: int, folder: Path, *, once: bool = False
) -> tuple[bool, Verdict | None, list[str]]:
    """Whether all is well, the verdict unless it got stuck, and what to tell."""
    kind = OnceScene if once else Scene
    scene = kind(place, "soak", Random(f"soak:{seed}"), folder, spared=ELDERS)
    fitting = [it for it in FAULTS if it.soaks_with(once=once)]
    gauge = Gauge(scene.fleet, folder / "elders.csv")
    looking = threading.Thread(target=gauge.watch, name="gauge")
    verdict: Verdict | None = None
    struck: Counter[str] = Counter()
    with scene:
        for name in ELDERS:
            scene.fleet.start(name)
        for _ in range(OTHERS):
            scene.start()
        scene.go_on(500, 1_000)
        looking.start()
        until_s = time.monotonic() + minutes * 60
        try:
            while time.monotonic() < until_s:
                fault = scene.rng.choice(fitting)
                scene.tell(f"-- {fault.name}")
                fault.strike(scene)
                struck[fault.name] += 1
                while len(scene.fleet.names) < len(ELDERS) + OTHERS:
                    scene.start()
                scene.go_on(1_000, 4_000)
            ending(gauge, looking)
            verdict = scene.finish(loses_progress=False)
        except TROUBLES as error:
            scene.tell(f"STUCK: {error}")
            scene.fleet.explain()
        finally:
            ending(gauge, looking)
    report = [f"{struck.total()} faults in {minutes:g} minutes, seed {seed}"]
    report += [f"{name}: {number}" for name, number in sorted(struck.items())]
    trends = {
        f"{name}, {what}": trend(samples[int(len(samples) * WARM_UP) :])
        for what, of in (("memory in MiB", gauge.memory_mib), ("open files", gauge.files))
        for name, samples in of.items()
    }
    report += [f"{what}: {found}" for what, found in trends.items()]
    ended = [it for it in scene.fleet.ended if it.had_joined]
    report += [f"{it.name} ended ({it.exit_code}) {it.error}" for it in ended]
    if verdict is None:
        report.append(scene.story[-1])
    else:
        report.append(", ".join(told_of(verdict)))
    write_story(scene, verdict, folder)
    is_good = (
        verdict is not None
        and verdict.is_clean
        and not ended
        and all(found.is_flat for found in trends.values())
    )
    return is_good, verdict, report


def ending(gauge: Gauge, looking: threading.Thread) -> None:
    """Have the gauge look no more; the members are about to leave."""
    gauge.ending.set()
    looking.join()
