"""`python -m tests.simulation --seeds 500 [--first N] [--seed N --trace] [--json]`: run seeds.

In: which seeds. Out: what was broken, with its replay, how often each situation occurred, and an
exit code that is not 0 if something was broken or, in a run of many seeds, a situation was too
rare to have been put to the test.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulation.situations import REQUIRED, REQUIRED_SHARE, too_rare
from tests.simulation.world import Outcome, simulate

MANY = 500
"""From so many seeds on, every required situation has to occur often enough."""


@dataclass(slots=True)
class Tally:
    """What many seeds came to."""

    seeds: int = 0
    broken: list[int] = field(default_factory=list)
    steps: int = 0
    steps_least: int = sys.maxsize
    situations: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        """Count one more seed."""
        self.seeds += 1
        self.steps += outcome.steps
        self.steps_least = min(self.steps_least, outcome.steps)
        self.situations.update(set(outcome.situations))
        if outcome.violation:
            self.broken.append(outcome.seed)

    @property
    def shares(self) -> dict[str, float]:
        """In which share of the seeds each situation occurred."""
        return {name: round(n / self.seeds, 3) for name, n in sorted(self.situations.items())}

    @property
    def rare(self) -> list[str]:
        """What occurred too rarely, if there were seeds enough to say so."""
        return too_rare(self.shares) if self.seeds >= MANY else []


def report(outcome: Outcome) -> str:
    """A violation for people: what, when, the last events, and how to see it again."""
    how = " --buffered" if outcome.buffered else ""
    return "\n".join(
        [
            *outcome.events,
            "",
            f"seed {outcome.seed} broken at step {outcome.steps}: {outcome.violation}",
            outcome.where,
            f"Replay: python -m tests.simulation --seed {outcome.seed}{how} --trace",
        ]
    )


def run(seeds: Iterable[int], *, buffered: bool, trace: bool) -> Tally:
    """Run seeds; tells of the first that is broken in full, of the others in a line."""
    tally = Tally()
    for seed in seeds:
        outcome = simulate(seed, buffered=buffered, trace=trace)
        tally.add(outcome)
        if outcome.violation:
            sys.stdout.write(report(outcome) + "\n" if len(tally.broken) == 1 else "")
            sys.stderr.write(f"seed {seed}: {outcome.violation.splitlines()[0]:.150}\n")
        elif trace:
            sys.stdout.write("\n".join(outcome.events) + "\n")
    return tally


def main() -> int:
    """Run the seeds asked for. 1: one was broken, or a situation was too rare."""
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=summary)
    parser.add_argument("--seeds", type=int, default=500, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one only")
    parser.add_argument("--buffered", action="store_true", help="handlers buffer their output")
    parser.add_argument("--trace", action="store_true", help="print all events of the seed")
    parser.add_argument("--json", action="store_true", help="print one line of JSON at the end")
    options = parser.parse_args()
    one = options.seed is not None
    began = time.perf_counter()
    tally = run(
        [options.seed] if one else range(options.first, options.first + options.seeds),
        buffered=options.buffered,
        trace=options.trace,
    )
    took_s = round(time.perf_counter() - began, 1)
    sys.stdout.write(_as_json(tally, took_s) if options.json else _as_text(tally, took_s))
    return 1 if tally.broken or tally.rare else 0


def _as_json(tally: Tally, took_s: float) -> str:
    told = {
        "seeds": tally.seeds,
        "violations": len(tally.broken),
        "broken": tally.broken,
        "steps": tally.steps,
        "steps_least": tally.steps_least,
        "seconds": took_s,
        "situations": {name: tally.shares.get(name, 0.0) for name in REQUIRED},
        "too_rare": tally.rare,
        "other_situations": {n: share for n, share in tally.shares.items() if n not in REQUIRED},
    }
    return json.dumps(told) + "\n"


def _as_text(tally: Tally, took_s: float) -> str:
    shares = tally.shares
    lines = [f"{tally.seeds} seeds, {len(tally.broken)} broken, {tally.steps} steps, {took_s} s"]
    lines += [f"  {shares.get(name, 0.0):6.1%} of seeds: {name}" for name in REQUIRED]
    lines += ["and also:"]
    lines += [f"  {share:6.1%} of seeds: {n}" for n, share in shares.items() if n not in REQUIRED]
    lines += (
        [f"too rare, below {REQUIRED_SHARE:.0%}: {', '.join(tally.rare)}"] if tally.rare else []
    )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
