"""`python -m tests.chaos`: every fault, again and again, on real brokers.

In: how many runs, which faults, the first seed; or, for the soak, how many minutes. Out: a line a
run, a table at the end, and exit code 1 if anything was lost, out of order or stuck, or a member
ended that should not have. With `--exactly-once`, also if an output is doubled, missing, behind a
later one of its key, or not what a single thread would have made. With `--mutant`, exit code 1 if
no run was convicted by what it left: to be stuck, or to end, convicts nobody. Ctrl-C ends it with
the table of what was run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.chaos import mutants
from tests.chaos.faults import FAULTS, Fault
from tests.chaos.runs import Outcome, run_all, table, table_of_outputs
from tests.chaos.soak import soak


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("faults", nargs="*", help="a part of a fault's name; all without")
    parser.add_argument("--runs", type=int, default=20, help="of each fault")
    parser.add_argument("--first", type=int, default=1, help="the first run's seed")
    parser.add_argument(
        "--mutant", default="", help="plant this bug in all members: " + ", ".join(mutants.OWN)
    )
    parser.add_argument(
        "--exactly-once", action="store_true", help="members that send, and have transactions"
    )
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="one long run instead")
    asked = parser.parse_args(arguments)
    if asked.soak is not None:
        return soak(asked.soak, asked.first, once=asked.exactly_once)
    once = asked.exactly_once
    fitting = [it for it in FAULTS if (it.exactly_once if once else it.at_least_once)]
    chosen = [fault for fault in fitting if is_asked(fault, asked.faults)]
    if not chosen:
        parser.error("no such fault; there are: " + ", ".join(fault.name for fault in fitting))
    seeds = range(asked.first, asked.first + asked.runs)
    outcomes: list[Outcome] = []
    was_interrupted = False
    try:
        for outcome in run_all(chosen, seeds, mutant=asked.mutant, once=once):
            outcomes.append(outcome)
            sys.stderr.write(f"{outcome}\n")
    except KeyboardInterrupt:
        was_interrupted = True
    finally:  # an error of our own is no reason to forget what was found
        sys.stdout.write((table_of_outputs if once else table)(outcomes) + "\n")
    if was_interrupted:
        return 130
    if asked.mutant:
        convicted = sum(it.is_convicted for it in outcomes)
        sys.stdout.write(f"{asked.mutant}: found by {convicted} of {len(outcomes)} runs\n")
        return int(not convicted)
    return int(not all(outcome.is_good for outcome in outcomes))


def is_asked(fault: Fault, names: Sequence[str]) -> bool:
    return not names or any(name in fault.name for name in names)


if __name__ == "__main__":
    sys.exit(main())
