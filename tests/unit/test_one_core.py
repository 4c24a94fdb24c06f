"""Python threads on one core: which one, and that they are there, and free again afterwards."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random

import pytest
from confluent_kafka import Producer

from coop_consumer import one_core, threads_on_one_core
from coop_consumer.errors import MisuseError
from coop_consumer.one_core import choice

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux only")

MANY = len(os.sched_getaffinity(0)) > 1
WAIT_S = 30.0


@pytest.mark.parametrize(
    ("own", "busy", "ours", "wanted"),
    [
        (None, {0: 0.8, 1: 0.3, 2: 0.1}, 0.0, {2}),
        (None, {0: 0.05, 1: 0.0, 2: 0.9}, 0.0, {0, 1}),
        (0, {0: 1.0, 1: 0.2}, 0.9, {0}),  # busy with us
        (0, {0: 1.0, 1: 0.1}, 0.5, {0, 1}),  # half of it is somebody else's: perhaps that one goes
        (0, {0: 1.0, 1: 0.9}, 0.3, {0}),  # as crowded there
        (0, {0: 0.3, 1: 0.0}, 0.9, {0}),  # most of what is ours was elsewhere, in native threads
    ],
)
def test_the_core_that_others_use_least(
    own: int | None, busy: dict[int, float], ours: float, wanted: set[int]
) -> None:
    assert {choice(own, busy, ours, Random(seed)) for seed in range(50)} == wanted


def until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(WAIT_S / 0.01)):
        if condition():
            return
        pause.wait(0.01)
    pytest.fail(f"not in {WAIT_S} s")


def affinities_of(tids: Iterable[int]) -> list[set[int]]:
    """Of those that have not ended meanwhile."""
    found: list[set[int]] = []
    for tid in tids:
        with suppress(ProcessLookupError):
            found.append(os.sched_getaffinity(tid))
    return found


def affinities() -> list[set[int]]:
    return affinities_of(thread.native_id or 0 for thread in threading.enumerate())


@pytest.mark.skipif(not MANY, reason="there is one core only")
def test_all_python_threads_are_on_it_and_free_again_afterwards() -> None:
    allowed, over = os.sched_getaffinity(0), threading.Event()
    with threads_on_one_core():
        threading.Thread(target=over.wait, args=(WAIT_S,), daemon=True).start()
        until(lambda: len({*map(frozenset, affinities())}) == 1 and len(affinities()[0]) == 1)
        late: list[set[int]] = []
        thread = threading.Thread(target=lambda: late.append(os.sched_getaffinity(0)))
        thread.start()
        thread.join()
    assert len(late[0]) == 1
    assert all(cores == allowed for cores in affinities())
    over.set()


@pytest.mark.skipif(not MANY, reason="there is one core only")
def test_threads_of_a_library_stay_free() -> None:
    """They inherit the core from the thread that makes them."""
    allowed = os.sched_getaffinity(0)

    def of_the_library() -> list[set[int]]:
        ours = {thread.native_id for thread in threading.enumerate()}
        return affinities_of({*map(int, os.listdir("/proc/self/task"))} - ours)

    with threads_on_one_core():
        until(lambda: len(os.sched_getaffinity(0)) == 1)
        producer = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
        until(lambda: all(cores == allowed for cores in of_the_library()))
    producer.flush(0)


def test_a_kernel_that_does_not_tell_is_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_core, "ticks_of", lambda _: {})
    with pytest.raises(MisuseError, match="does not tell"), threads_on_one_core():
        pytest.fail("the block began")
