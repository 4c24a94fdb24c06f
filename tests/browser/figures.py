"""How soon the page is there, how soon a parked record shows, and what `web` takes meanwhile.

`python -m tests.browser.figures [RUNS]` prints a line of JSON: medians and all that was measured.
`web` looks every 2 s, as it does by default. What the suite tests has no bounds in time: those are
here.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event
from time import monotonic

from coop_consumer.ops.feed import EVERY_S
from tests.browser.chrome import Browser, browsing, missing
from tests.browser.stage import GROUP, Stage, staged

RUNS, WATCHED_S = 5, 20.0
_PAINT = "return performance.getEntriesByName('first-contentful-paint')[0].startTime"


def paint_ms(browser: Browser, stage: Stage) -> float:
    """From the request for the page to the first paint of its contents."""
    browser.open(f"{stage.page}/group/{GROUP}")
    browser.see("#members tr[data-member]")
    found: float = browser.js(_PAINT)
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


def core_share(pid: int) -> float:
    """Which part of a core a process takes, over 20 s."""
    before, begun_s = _cpu_s(pid), monotonic()
    Event().wait(WATCHED_S)
    return (_cpu_s(pid) - before) / (monotonic() - begun_s)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(runs: int) -> None:
    """Measure, and print."""
    with TemporaryDirectory() as folder, staged(Path(folder), EVERY_S) as stage, browsing() as it:
        it.open(f"{stage.page}/group/{GROUP}")
        it.type("#token", stage.token)
        it.click("#login button")
        paints_ms = [paint_ms(it, stage) for _ in range(runs)]
        parked = [parked_s(it, stage, f"stuck-{number}") for number in range(runs)]
        share = core_share(stage.web.pid)
    sys.stdout.write(
        json.dumps(
            {
                "paint_ms": round(median(paints_ms)),
                "paint_each_ms": [round(one) for one in paints_ms],
                "parked_s": round(median(parked), 2),
                "parked_each_s": [round(one, 2) for one in parked],
                "web_core_share": round(share, 3),
            }
        )
        + "\n"
    )


if __name__ == "__main__":
    if why := missing():
        raise SystemExit(why)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
