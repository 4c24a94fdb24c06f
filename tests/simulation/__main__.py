"""`python -m tests.simulation --seeds 500 [--seed N --trace] [--json]`: run seeds."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter

from tests.simulation.world import Outcome, simulate


def report(outcome: Outcome) -> str:
    """A violation for people: what, when, the last events, and how to see it again."""
    return "\n".join(
        [
            *outcome.events,
            "",
            f"seed {outcome.seed} broken at step {outcome.steps}: {outcome.violation}",
            outcome.where,
            f"Replay: python -m tests.simulation --seed {outcome.seed} --trace",
        ]
    )


def main() -> int:
    """Run the seeds asked for. 1: at least one was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one only")
    parser.add_argument("--trace", action="store_true", help="print all events of the seed")
    parser.add_argument("--json", action="store_true", help="print one line of JSON at the end")
    options = parser.parse_args()
    one = options.seed is not None
    seeds = [options.seed] if one else range(options.first, options.first + options.seeds)
    situations, broken, steps, began = Counter[str](), [], 0, time.perf_counter()
    for seed in seeds:
        outcome = simulate(seed, trace=options.trace)
        steps += outcome.steps
        situations.update(set(outcome.situations))
        if outcome.violation:
            broken.append(seed)
            sys.stdout.write(report(outcome) + "\n" if one or len(broken) == 1 else "")
            sys.stderr.write(f"seed {seed}: {outcome.violation.splitlines()[0]:.150}\n")
        elif options.trace:
            sys.stdout.write("\n".join(outcome.events) + "\n")
    took_s = time.perf_counter() - began
    often = {name: round(n / len(seeds), 3) for name, n in sorted(situations.items())}
    if options.json:
        told = {
            "seeds": len(seeds),
            "violations": len(broken),
            "broken": broken,
            "steps": steps,
            "seconds": round(took_s, 1),
            "situations": often,
        }
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        summary = f"{len(seeds)} seeds, {len(broken)} broken, {steps} steps, {took_s:.1f} s\n"
        sys.stdout.write(summary)
        sys.stdout.writelines(f"  {share:6.1%} of seeds: {name}\n" for name, share in often.items())
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
