"""`python -m tests.simulation --seeds 500 [--first N] [--seed N --trace] [--json]`: run seeds.

`--exactly-once`: output and progress leave in transactions.

In: which seeds. Out: what was broken, with its replay, how often each situation occurred, and an
exit code that is not 0 if something was broken or, in a run of many seeds, a situation was too
rare to have been put to the test. A run of the first 2,000 seeds also hunts the mutants of its
guarantee, and fails if one survives; `--mutants` does nothing but that, `--mutant NAME` plants one.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.simulation.hunt import Hunted, hunt_all, simulate_with
from tests.simulation.mutants import named, names, remember
from tests.simulation.situations import REQUIRED, REQUIRED_SHARE, WITH_TRANSACTIONS, too_rare
from tests.simulation.world import Outcome, simulate

MANY = 500
"""From so many seeds on, every required situation has to occur often enough."""
BUFFERED_EVERY = 4
"""In a run of many seeds, of so many worlds one has handlers that buffer their output."""
WORLDS = 50
"""After so many worlds the dead ones are cleared away."""
TOLD = 1_000
"""After so many seeds a line on stderr tells how far a run is."""
ENOUGH = 2_000
"""Within so many seeds each mutant has to be found."""


@dataclass(slots=True)
class Tally:
    """The results of many seeds."""

    seeds: int = 0
    broken: list[int] = field(default_factory=list)
    steps: int = 0
    steps_least: int = sys.maxsize
    required: Mapping[str, str] = field(default_factory=lambda: REQUIRED)
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
        """The situations that occurred too rarely, if there were enough seeds to tell."""
        return too_rare(self.shares, self.required) if self.seeds >= MANY else []


def report(outcome: Outcome, mutant: str = "") -> str:
    """A violation for people: what, when, the last events, and how to replay it."""
    how = " --buffered" if outcome.buffered and not mutant else ""
    how += " --exactly-once" if outcome.exactly_once and not mutant else ""
    how += f" --mutant {mutant}" if mutant else ""
    return "\n".join(
        [
            *outcome.events,
            "",
            f"seed {outcome.seed} broken at step {outcome.steps}: {outcome.violation}",
            outcome.where,
            f"Replay: python -m tests.simulation --seed {outcome.seed}{how} --trace",
        ]
    )


def run(
    seeds: Sequence[int],
    *,
    buffered: bool = False,
    exactly_once: bool = False,
    mutant: str = "",
    trace: bool = False,
) -> Tally:
    """Run seeds; reports the first broken one in full, each other one in a line.

    If there are many seeds, every fourth runs buffered, unless all do.
    """
    tally = Tally(required=WITH_TRANSACTIONS if exactly_once else REQUIRED)
    gc.disable()  # a world is garbage once, as a whole; a tenth of the time went into looking
    gc.freeze()  # what was there before stays
    for number, seed in enumerate(seeds):
        if number % WORLDS == 0:
            gc.collect()
        if number and number % TOLD == 0:
            sys.stderr.write(f"{number} seeds, up to {seed}: {len(tally.broken)} broken\n")
        if mutant:
            outcome = simulate_with(named(mutant), seed, trace=trace)
        else:
            is_one = len(seeds) >= MANY and seed % BUFFERED_EVERY == BUFFERED_EVERY - 1
            is_one = is_one and not exactly_once
            outcome = simulate(
                seed, buffered=buffered or is_one, exactly_once=exactly_once, trace=trace
            )
        tally.add(outcome)
        if outcome.violation:
            told = len(tally.broken) == 1
            sys.stdout.write(report(outcome, mutant) + "\n" if told else "")
            sys.stderr.write(f"seed {seed}: {outcome.violation.splitlines()[0]:.150}\n")
        elif trace:
            sys.stdout.write("\n".join(outcome.events) + "\n")
    return tally


def run_mutants(
    seeds: Sequence[int], *, exactly_once: bool = False, note: bool = False
) -> list[Hunted]:
    """Hunt all mutants of a guarantee; reports each as soon as it is found, or has survived."""
    hunted = []
    mutants = (it for it in map(named, names()) if it.exactly_once is exactly_once)
    for mutant in hunt_all(mutants, seeds):
        hunted.append(mutant)
        if note and mutant.seed is not None:
            remember(mutant.name, mutant.seed)
        sys.stderr.write(f"{mutant}\n")
    return hunted


def main() -> int:
    """Run what the options say. 1: a seed broke, a situation was too rare, or a mutant survived."""
    options = _parser().parse_args()
    one = options.seed is not None
    seeds = range(options.first, options.first + options.seeds)
    began = time.perf_counter()
    if options.mutants:
        hunted = run_mutants(seeds, exactly_once=options.exactly_once, note=options.remember)
        told = {**_of_mutants(hunted), "seconds": round(time.perf_counter() - began, 1)}
        sys.stdout.write(json.dumps(told) + "\n" if options.json else f"{_found(hunted)} found\n")
        return 1 if _survivors(hunted) else 0
    tally = run(
        [options.seed] if one else seeds,
        buffered=options.buffered,
        exactly_once=options.exactly_once,
        mutant=options.mutant,
        trace=options.trace,
    )
    took_s = round(time.perf_counter() - began, 1)
    is_first = not one and not options.first and not options.buffered and not options.mutant
    hunts = is_first and len(seeds) >= ENOUGH
    hunted = run_mutants(seeds[:ENOUGH], exactly_once=options.exactly_once) if hunts else []
    sys.stdout.write((_as_json if options.json else _as_text)(tally, took_s, hunted))
    return 1 if tally.broken or tally.rare or _survivors(hunted) else 0


def _parser() -> argparse.ArgumentParser:
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=summary)
    parser.add_argument("--seeds", type=int, default=500, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one only")
    parser.add_argument("--buffered", action="store_true", help="handlers buffer their output")
    parser.add_argument(
        "--exactly-once", action="store_true", help="output and progress leave in transactions"
    )
    parser.add_argument("--mutants", action="store_true", help="hunt the planted bugs, no more")
    parser.add_argument("--remember", action="store_true", help="note which seed found each")
    parser.add_argument("--mutant", default="", metavar="NAME", help="plant this bug")
    parser.add_argument("--trace", action="store_true", help="print all events of the seed")
    parser.add_argument("--json", action="store_true", help="print one line of JSON at the end")
    return parser


def _survivors(hunted: Iterable[Hunted]) -> list[str]:
    return [mutant.name for mutant in hunted if mutant.seed is None]


def _found(hunted: Sequence[Hunted]) -> str:
    return f"{len(hunted) - len(_survivors(hunted))}/{len(hunted)}"


def _of_mutants(hunted: Sequence[Hunted]) -> dict[str, object]:
    if not hunted:
        return {}
    by_name = {mutant.name: mutant.seed for mutant in hunted}
    return {"mutants_found": _found(hunted), "mutants_by_seed": by_name}


def _as_json(tally: Tally, took_s: float, hunted: Sequence[Hunted]) -> str:
    told = {
        "seeds": tally.seeds,
        "violations": len(tally.broken),
        "broken": tally.broken,
        "steps": tally.steps,
        "steps_least": tally.steps_least,
        "seconds": took_s,
        "situations": {name: tally.shares.get(name, 0.0) for name in tally.required},
        "too_rare": tally.rare,
        "other_situations": {
            n: share for n, share in tally.shares.items() if n not in tally.required
        },
        **_of_mutants(hunted),
    }
    return json.dumps(told) + "\n"


def _as_text(tally: Tally, took_s: float, hunted: Sequence[Hunted]) -> str:
    shares = tally.shares
    lines = [f"{tally.seeds} seeds, {len(tally.broken)} broken, {tally.steps} steps, {took_s} s"]
    lines += [f"  {shares.get(name, 0.0):6.1%} of seeds: {name}" for name in tally.required]
    lines += ["and also:"]
    lines += [
        f"  {share:6.1%} of seeds: {n}" for n, share in shares.items() if n not in tally.required
    ]
    lines += (
        [f"too rare, below {REQUIRED_SHARE:.0%}: {', '.join(tally.rare)}"] if tally.rare else []
    )
    lines += [f"{_found(hunted)} mutants found"] if hunted else []
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
