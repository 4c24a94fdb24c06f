"""`python -m tests.packages.first_record [--runs 3]`: how long README takes to its first record.

In: this checkout's last commit, a package index, Maven Central. Out: the seconds from pasting
README's first line until its `billing.py` has printed its first record, beside the aims, and exit
code 1 if the median of one is missed. A reader's own time does not count. Each run has a home
without anything for the *cold* figure, and a second clone and environment for the *warm* one, with
what pip and the broker have then fetched already.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic

from tests.support.pages import PAGES, ROOT, Block, PageRun, blocks_of

AIMS_S = {"cold": 300.0, "warm": 60.0}
FIRST = "b'customer-"
"""How a line of `billing.py` begins that tells of a record."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.packages.first_record")
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args(arguments).runs
    took: dict[str, list[float]] = {name: [] for name in AIMS_S}
    for _ in range(runs):
        with TemporaryDirectory(prefix="coop-first-record-") as home:
            for name, each in took.items():
                each.append(to_the_first_record(Path(home), name))
    for name, each in took.items():
        spread = ", ".join(f"{it:.1f}" for it in each)
        sys.stdout.write(f"{name}: {median(each):.1f} s ({spread}), aim {AIMS_S[name]:g} s\n")
    return int(any(median(each) > AIMS_S[name] for name, each in took.items()))


def to_the_first_record(home: Path, name: str) -> float:
    """The seconds that README takes in a fresh clone, below a home."""
    checkout = home / name / "checkout"
    subprocess.run(["git", "clone", "--quiet", ROOT, checkout], check=True)
    run = PageRun(checkout, {}, {"HOME": str(home)}, installs=True)
    began = monotonic()
    try:
        with run:
            for block in up_to_the_first_record():
                run.run(block)
            return monotonic() - began
    finally:
        run.call("coop-consumer", "broker", "stop")


def up_to_the_first_record() -> Iterator[Block]:
    """README's blocks down to its program, which counts as begun once it has printed a record."""
    for block in blocks_of(PAGES[0]):
        if block.mark.file:
            yield replace(block, mark=replace(block.mark, until=FIRST))
            return
        yield block


if __name__ == "__main__":
    sys.exit(main())
