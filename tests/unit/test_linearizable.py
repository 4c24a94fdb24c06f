"""The checker of histories: what an order explains, and what none does."""

from __future__ import annotations

import random

import pytest

from tests.support.linearizable import Call, Kind, Value, unexplained


def get(value: Value, began: int, ended: int | None) -> Call:
    return Call("x", Kind.GET, value, None, True, began, ended)


def put(value: Value, began: int, ended: int | None) -> Call:
    return Call("x", Kind.PUT, value, None, True, began, ended)


def swap(
    expected: Value, value: Value, began: int, ended: int | None, is_done: bool = True
) -> Call:
    return Call("x", Kind.SWAP, value, expected, is_done, began, ended)


EXPLAINED = {
    "one after the other": [put("1", 0, 1), get("1", 2, 3), put("2", 4, 5), get("2", 6, 7)],
    "a get beside a put sees either": [put("1", 0, 9), get(None, 1, 2), get("1", 3, 4)],
    "two puts at once, in the order that is seen": [
        put("1", 0, 9), put("2", 0, 9), get("2", 1, 2), get("1", 3, 4),
    ],
    "a put without an answer may come late": [
        put("1", 0, None), get(None, 1, 2), get("1", 3, 4),
    ],
    "or never": [put("1", 0, None), get(None, 1, 2), get(None, 3, 4)],
    "a swap that was refused": [put("1", 0, 1), swap("0", "2", 2, 3, False), get("1", 4, 5)],
    "of two swaps one is done": [
        put("1", 0, 1), swap("1", "2", 2, 9), swap("1", "3", 2, 9, False), get("2", 10, 11),
    ],
    "a swap without an answer that could not be done": [
        put("1", 0, 1), swap("7", "2", 2, None), get("1", 3, 4),
    ],
    "a get without an answer tells nothing": [put("1", 0, 1), get("7", 2, None)],
}  # fmt: skip
UNEXPLAINED = {
    "an old value": [put("1", 0, 1), put("2", 2, 3), get("1", 4, 5)],
    "a value that nobody has written": [put("1", 0, 1), get("2", 2, 3)],
    "a value that comes and goes": [
        put("1", 0, 9), get("1", 1, 2), get(None, 3, 4),
    ],
    "two who see two orders": [
        put("1", 0, 9), put("2", 0, 9), get("1", 10, 11), get("2", 12, 13),
    ],
    "two swaps of one value": [put("1", 0, 1), swap("1", "2", 2, 9), swap("1", "3", 2, 9)],
    "a swap that was refused for nothing": [put("1", 0, 1), swap("1", "2", 2, 3, False)],
    "a put without an answer before it was asked for": [
        get("1", 0, 1), put("1", 2, None),
    ],
    "a put that is seen, and not any more": [
        put("1", 0, None), get("1", 1, 2), get(None, 3, 4),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", EXPLAINED)
def test_an_order_explains_it(name: str) -> None:
    assert unexplained(EXPLAINED[name]) is None


@pytest.mark.parametrize("name", UNEXPLAINED)
def test_no_order_explains_it(name: str) -> None:
    assert unexplained(UNEXPLAINED[name]) is not None


def test_each_register_is_judged_by_itself() -> None:
    other = put("9", 4, 5)._replace(key="y")
    assert unexplained([*EXPLAINED["one after the other"], other]) is None
    found = unexplained([other, *UNEXPLAINED["an old value"]])
    assert found is not None
    assert {it.key for it in found} == {"x"}


def test_long_histories_of_a_real_register_are_explained_and_one_old_value_is_found() -> None:
    for seed in range(10):
        chance = random.Random(seed)
        history, value, now = [], None, 0
        for number in range(300):
            began = now - chance.randrange(20)  # it overlaps some before it
            now += 2
            if chance.random() < 0.5:
                history.append(get(value, began, now))
            else:
                value = str(number)
                history.append(put(value, began, None if chance.random() < 0.01 else now))
            now += 1
        assert unexplained(history) is None, f"seed {seed}"
        wrong = [it for it in history if it.kind is Kind.PUT][3].value
        assert unexplained([*history, get(wrong, now + 1, now + 2)]) is not None, f"seed {seed}"
