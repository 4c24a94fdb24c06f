"""When `coop-consumer run` starts its worker process again, and what becomes of its membership."""

from __future__ import annotations

import signal

import pytest

from coop_consumer.cli.restarts import PAUSE_MAX_S, RAN_WELL_S, Again, EndCommand, Restarts
from coop_consumer.errors import ExitCode

KILLED = -signal.SIGKILL


def member(name: str = "m-1") -> Restarts:
    restarts = Restarts()
    restarts.joined(name)
    return restarts


def test_a_member_that_is_killed_is_started_again_at_once_in_its_own_place() -> None:
    assert member().ended(KILLED, ran_s=3) == Again(0, takes_over="m-1")


def test_a_member_that_ends_without_having_left_has_fallen_whatever_its_exit_code_says() -> None:
    assert member().ended(0, ran_s=3) == Again(0, takes_over="m-1")


LEAKED = {ExitCode.FILES, ExitCode.MEMORY, ExitCode.THREADS}
MENDED = {ExitCode.BROKEN, ExitCode.OVERDUE, ExitCode.UNAVAILABLE} | LEAKED


@pytest.mark.parametrize("code", set(ExitCode) - MENDED)
def test_what_ended_in_order_is_handed_on_with_its_exit_code(code: ExitCode) -> None:
    restarts = member()
    restarts.left()
    assert restarts.ended(code, ran_s=99) == EndCommand(code)


@pytest.mark.parametrize("code", MENDED)
def test_a_defect_a_stuck_handler_absent_brokers_and_leaks_may_be_mended_by_a_new_process(
    code: ExitCode,
) -> None:
    restarts = member()
    restarts.left()
    assert restarts.ended(code, ran_s=99) == Again(0)


@pytest.mark.parametrize(("code", "handed_on"), [(3, 3), (2, 2), (KILLED, 137)])
def test_what_ends_before_any_process_has_joined_is_handed_on(code: int, handed_on: int) -> None:
    assert Restarts().ended(code, ran_s=1) == EndCommand(handed_on)


def test_a_static_member_comes_back_without_having_left() -> None:
    restarts = member("")
    assert [restarts.ended(KILLED, ran_s=1) for _ in range(4)] == [
        Again(0),
        Again(0.5),
        Again(1),
        Again(2),
    ]


def test_who_falls_again_and_again_pauses_longer_and_gives_its_ranges_away_first() -> None:
    restarts = member()
    pauses = []
    for number in range(12):
        again = restarts.ended(KILLED, ran_s=1)
        assert isinstance(again, Again)
        pauses.append(again.pause_s)
        assert bool(again.leaves) == (again.pause_s >= 2) == (not again.takes_over)
        restarts.joined(f"m-{number}")
    assert pauses == [0, 0.5, 1, 2, 4, 8, 16, *[PAUSE_MAX_S] * 5]


def test_who_ran_well_is_started_again_at_once_however_often_it_fell_before() -> None:
    restarts = member()
    for _ in range(9):
        restarts.ended(KILLED, ran_s=1)
    assert restarts.ended(KILLED, ran_s=RAN_WELL_S) == Again(0)


def test_a_successor_that_falls_before_it_has_joined_leaves_the_place_to_the_next() -> None:
    restarts = member()
    restarts.ended(KILLED, ran_s=99)
    assert restarts.ended(KILLED, ran_s=1) == Again(0.5, takes_over="m-1")


def test_who_was_told_to_end_is_not_started_again_and_its_member_leaves_if_it_fell() -> None:
    restarts = member()
    restarts.told_to_end()
    assert restarts.ended(KILLED, ran_s=99) == EndCommand(137, leaves="m-1")
    restarts = member()
    restarts.told_to_end()
    restarts.left()
    assert restarts.ended(0, ran_s=99) == EndCommand(0)


def test_a_signal_in_a_pause_ends_the_command_and_the_member_that_fell_leaves() -> None:
    restarts = member()
    restarts.ended(KILLED, ran_s=1)
    restarts.ended(KILLED, ran_s=1)
    assert restarts.interrupted(signal.SIGTERM) == EndCommand(143, leaves="m-1")
