"""Visits every state of conditional appends that can be reached, and checks each.

In: a world. Out: how many states there are; of a broken promise the steps that lead there. `python
-m tests.simulation.conditional_search` visits larger worlds than the suite does, for minutes.
"""

from __future__ import annotations

import time
from typing import Any

from tests.simulation.conditional_world import Bounds, BrokenPromiseError, World

LARGE = (
    Bounds(appends=1, attempts=2, transactions=1, faults=1),
    Bounds(attempts=2, plain=1, faults=1),
    Bounds(appends=1, attempts=2, faults=2),
    Bounds(appends=1, attempts=2, count=2, plain=1),
    Bounds(attempts=3, transactions=1),
)


def explore(world: World, states_max: int = 5_000_000) -> int:
    """Visit all states that can be reached; their number.

    Raises:
        BrokenPromiseError: A promise does not hold, with the steps that lead there.
    """
    seen = {hash(world.key)}
    waiting = [world]
    while waiting:
        at = waiting.pop()
        for step in at.steps():
            if at.faults + step.faults > at.bounds.faults:
                continue
            found = at.copied()
            found.faults += step.faults
            found.path = (at.path, step.name)
            try:
                step.do(found)
                found.check()
            except BrokenPromiseError as error:
                raise BrokenPromiseError(f"{error}, by:\n{told(found.path)}") from error
            key = hash(found.key)
            if key not in seen:
                seen.add(key)
                waiting.append(found)
        assert len(seen) <= states_max, f"more than {states_max} states"
    return len(seen)


def told(path: tuple[Any, ...]) -> str:
    """The steps, one a line."""
    names: list[str] = []
    while path:
        path, name = path
        names.append(name)
    return "\n".join(reversed(names))


def main() -> None:
    for bounds in LARGE:
        began_s = time.monotonic()
        count = explore(World.new(bounds), states_max=50_000_000)
        print(f"{bounds}: {count:,} states, {time.monotonic() - began_s:.0f} s", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
