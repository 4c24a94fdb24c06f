"""Breaths: a thread lets others run, and keeps half of its time however many those are."""

from __future__ import annotations

from coop_consumer.member.breath import Breath

STEP_S = 0.25
STEPS = 120


def share_of_work(others_s: float) -> float:
    """How much of its time a thread works that breathes after each step."""
    now_s = worked_s = 0.0

    def let_go() -> None:
        nonlocal now_s
        now_s += others_s

    breath = Breath(lambda: now_s, let_go)
    for _ in range(STEPS):
        now_s += STEP_S
        worked_s += STEP_S
        breath.take()
    return worked_s / now_s


def test_where_nobody_waits_each_step_is_followed_by_a_breath_that_costs_nothing() -> None:
    breaths = 0

    def let_go() -> None:
        nonlocal breaths
        breaths += 1

    breath = Breath(lambda: 0.0, let_go)
    for _ in range(STEPS):
        breath.take()
    assert breaths == STEPS


def test_a_thread_keeps_half_of_its_time_however_many_others_wait() -> None:
    assert share_of_work(others_s=STEP_S) == 0.5
    assert share_of_work(others_s=10 * STEP_S) == 0.5
    assert share_of_work(others_s=STEP_S / 10) > 0.9


def test_where_handlers_are_quick_only_who_makes_an_answer_is_let_in_and_at_once() -> None:
    now_s, breaths = 0.0, 0

    def let_go() -> None:
        nonlocal now_s, breaths
        now_s += STEP_S
        breaths += 1

    breath = Breath(lambda: now_s, let_go)
    breath.between(waits=False)
    assert breaths == 0
    breath.between(waits=True)
    breath.between(waits=True)
    assert breaths == 1, "the next one comes after as much work"
    breath.callers = 1
    breath.between(waits=False)
    breath.between(waits=False)
    assert breaths == 3
