"""`python -m benchmarks CASE [--runs N] [--json]`: speed, side by side with what is possible.

Each case runs on a real broker (COOP_TEST_BOOTSTRAP, or an embedded one), three times, and prints
its runs and the median. Time is counted from the first record handled to the last commit. The
order checker is on: a run that breaks the order of a key is no result.

Three others measure how long records wait: `restart` until a member that fell is at work again,
`churn` while members come and go, `kill12` after one of twelve was killed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from benchmarks.cases import CASES, Result
from benchmarks.churn import EVERY_S, churn
from benchmarks.kill import kill12
from benchmarks.restart import restart
from coop_consumer.kafka.embedded import EmbeddedBroker


@contextmanager
def broker() -> Iterator[str]:
    """The bootstrap servers of a broker to measure on."""
    given = os.environ.get("COOP_TEST_BOOTSTRAP")
    if given:
        yield given
    else:
        with EmbeddedBroker() as embedded:
            yield embedded.bootstrap_servers


def main() -> int:
    """Run a case; 1 if it broke the order of a key or lost a record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("case", choices=sorted([*CASES, "churn", "kill12", "restart"]))
    parser.add_argument("--runs", type=int, default=3, help="how many runs (3)")
    parser.add_argument("--seconds", type=int, default=60, help="of each half of churn (60)")
    parser.add_argument("--json", action="store_true", help="one JSON line instead of a table")
    options = parser.parse_args()
    if options.seconds < EVERY_S:
        parser.error(f"--seconds {options.seconds}: the group changes every {EVERY_S} s")
    results: list[Result] = []
    with broker() as bootstrap:
        if options.case == "restart":
            return restart(bootstrap, options.runs, as_json=options.json)
        if options.case == "churn":
            return churn(bootstrap, options.runs, options.seconds, as_json=options.json)
        if options.case == "kill12":
            return kill12(bootstrap, options.runs, as_json=options.json)
        for number in range(options.runs):
            results.append(CASES[options.case](bootstrap))
            if not options.json:
                print(f"run {number + 1}: {results[-1]}", file=sys.stderr)
    middle = median(result.efficiency for result in results)
    row = {
        "case": options.case,
        "runs": len(results),
        "records": results[0].records,
        "ideal_s": round(results[0].ideal_s, 3),
        "seconds": [round(result.seconds, 3) for result in results],
        "first_record_s": [round(result.first_record_s, 3) for result in results],
        "efficiency": round(middle, 3),
        "out_of_order": sum(result.out_of_order for result in results),
        "repeated": sum(result.repeated for result in results),
    }
    if options.json:
        print(json.dumps(row))
    else:
        print(*(f"{name}: {value}" for name, value in row.items()), sep="\n")
    return 1 if row["out_of_order"] or any(r.processed < r.records for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
