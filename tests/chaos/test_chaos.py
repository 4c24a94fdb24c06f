"""One run of each fault on real brokers: the quick ones are part of `make test`.

`make chaos` has the many runs, by other seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from tests.chaos.arena import Arena, arena
from tests.chaos.faults import FAULTS, Fault
from tests.chaos.runs import run

SEED = 1


@pytest.fixture(scope="module")
def arena_of() -> Iterator[Callable[[int, bool], Arena]]:
    """The brokers of this module: `arena_of(3, True)`; started when first asked for."""
    with ExitStack() as until_end:
        yield cache(lambda nodes, once: until_end.enter_context(arena(nodes, once=once)))


def each(faults: list[Fault]) -> pytest.MarkDecorator:
    """One test a fault: the quick ones are part of `make test`."""
    return pytest.mark.parametrize(
        "fault",
        [
            pytest.param(it, id=it.name, marks=[] if it.quick else pytest.mark.chaos)
            for it in faults
        ],
    )


@pytest.mark.integration
@each([it for it in FAULTS if it.at_least_once])
def test_nothing_is_lost_nothing_overtakes_and_nobody_is_stuck(
    fault: Fault, arena_of: Callable[[int, bool], Arena]
) -> None:
    outcome = run(arena_of(fault.nodes_for(once=False), False), fault, SEED)
    assert outcome.is_good, outcome


@pytest.mark.integration
@each([it for it in FAULTS if it.exactly_once and not it.at_least_once])
def test_what_members_leave_behind_is_what_one_thread_would_have_left(
    fault: Fault, arena_of: Callable[[int, bool], Arena]
) -> None:
    outcome = run(arena_of(fault.nodes_for(once=True), True), fault, SEED, once=True)
    assert outcome.is_good, outcome
