"""What probes answer: alive while threads take steps, ready once all has begun, else why not."""

from __future__ import annotations

import json
from concurrent.futures import Future
from dataclasses import replace
from time import monotonic
from typing import Any

import pytest

from coop_consumer.core.condition import Condition
from coop_consumer.core.stop import Stop
from coop_consumer.core.waits import RangesWait
from coop_consumer.errors import CoopConsumerError, ProcessingStoppedError, WorkerFlushError
from coop_consumer.member.pulse import Pulse, ended_health
from coop_consumer.ops.health import (
    Diagnosis,
    Health,
    HealthPhase,
    NotReady,
    WaitingFor,
    live,
    ready,
    restarting,
)
from tests.unit.core_member import T0

WELL = Health(
    "billing",
    "m-1",
    HealthPhase.RUNNING,
    idle_s={"coop-member-billing": 0.3, "coop-fetch-billing": 0.1, "kafka-io-c": 0.9},
    is_member=True,
    partitions=2,
)


def only(diagnosis: Diagnosis) -> dict[str, Any]:
    """The one reason of a diagnosis, as probes print it."""
    assert not diagnosis
    [reason] = diagnosis.as_json()["reasons"]  # type: ignore[misc] # JSON
    found: dict[str, Any] = reason
    return found


def test_a_member_at_work_is_alive_and_ready() -> None:
    assert live(WELL)
    assert ready(WELL)
    assert ready(WELL).as_json() == {"ok": True, "reasons": []}


def test_a_member_that_was_rightly_assigned_nothing_is_ready() -> None:
    assert ready(replace(WELL, partitions=0))


@pytest.mark.parametrize("thread", WELL.idle_s)
def test_a_thread_without_a_step_for_ten_seconds_is_neither_alive_nor_ready(thread: str) -> None:
    assert live(replace(WELL, idle_s={**WELL.idle_s, thread: 10.0}))
    frozen = replace(WELL, idle_s={**WELL.idle_s, thread: 14.4})
    expected = {
        "reason": "frozen",
        "text": f"{thread} stands still for 14 s",
        "for_s": 14.4,
        "subject": thread,
    }
    assert only(live(frozen)) == expected
    assert only(ready(frozen)) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"phase": HealthPhase.STARTING}, {"reason": "starting", "text": "starting"}),
        ({"is_member": False}, {"reason": "joining", "text": "joining the group"}),
        ({"is_draining": True}, {"reason": "draining", "text": "draining"}),
        (
            {"silent_s": 40.2},
            {"reason": "no_broker", "text": "no broker for 40 s", "for_s": 40.2},
        ),
        (
            {"circuit_open_s": 7.0},
            {"reason": "circuit_open", "text": "circuit open for 7 s", "for_s": 7.0},
        ),
        (
            {"stopped_at": "orders-1@43"},
            {"reason": "stopped", "text": "stopped at orders-1@43", "subject": "orders-1@43"},
        ),
        (
            {"phase": HealthPhase.ENDED, "error": "FencedError: taken over"},
            {"reason": "ended", "text": "ended: FencedError: taken over"},
        ),
        ({"phase": HealthPhase.ENDED}, {"reason": "ended", "text": "ended"}),
        (
            {"waits": (WaitingFor("orders-3", 12.4, "keys [0, 9] wait", ("m-7",)),)},
            {
                "reason": "waits",
                "text": "orders-3: waits 12 s for member m-7: keys [0, 9] wait",
                "for_s": 12.4,
                "subject": "orders-3",
                "members": ["m-7"],
            },
        ),
        (
            {"waits": (WaitingFor("orders-3", 2.0, "keys [0, 9] wait for the progress log"),)},
            {
                "reason": "waits",
                "text": "orders-3: for 2 s keys [0, 9] wait for the progress log",
                "for_s": 2.0,
                "subject": "orders-3",
            },
        ),
    ],
    ids=lambda it: it.get("reason", "") if isinstance(it, dict) else "",
)
def test_each_reason_not_to_be_ready_is_data_and_no_illness(
    changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    health = replace(WELL, **changes)
    assert live(health)
    assert only(ready(health)) == expected


def test_a_member_may_have_several_reasons_and_names_each() -> None:
    waits = (WaitingFor("t-0", 1.0, "", ("a",)), WaitingFor("t-1", 1.0, "", ("a", "b")))
    found = ready(replace(WELL, silent_s=3.0, circuit_open_s=5.0, waits=waits))
    kinds = [reason.kind for reason in found.reasons]
    assert kinds == [NotReady.NO_BROKER, NotReady.CIRCUIT_OPEN, NotReady.WAITS, NotReady.WAITS]
    assert "members a, b" in found.reasons[-1].text


def test_a_parent_says_when_it_starts_the_worker_process_again() -> None:
    assert only(restarting(0.0))["text"] == "the worker process starts"
    assert only(restarting(8.0))["text"] == "the worker process is started in 8 s"
    json.dumps(restarting(8.0).as_json())


# -- the pulse -------------------------------------------------------------------------------------

CONDITION = Condition(
    at_ms=100_000,
    is_member=True,
    is_closing=False,
    partitions=1,
    waits=(),
    circuit_since_ms=0,
    stop=None,
)


class Beating:
    """A pulse, and how often the member was looked at."""

    def __init__(self) -> None:
        self.ended: Future[CoopConsumerError | None] = Future()
        self.looks = 0
        self.condition = CONDITION
        self.pulse = Pulse(
            group="billing", member="m-1", thread="coop-member-billing", ended=self.ended
        )

    def look(self) -> Condition:
        self.looks += 1
        return self.condition

    def step(self, ago_s: float = 0.0) -> None:
        self.pulse.step(monotonic() - ago_s, self.look)

    def health(self, now_ms: int = 100_000) -> Health:
        return self.pulse.health(now_ms)


@pytest.fixture
def beating() -> Beating:
    return Beating()


def test_before_the_first_step_a_member_is_starting(beating: Beating) -> None:
    assert beating.health().phase is HealthPhase.STARTING
    assert beating.health().idle_s == {}


def test_each_step_counts_and_the_member_is_looked_at_twice_a_second(beating: Beating) -> None:
    for ago_s in (9.0, 8.8, 8.6, 8.5, 8.0):
        beating.step(ago_s)
    assert beating.looks == 3
    assert 8.0 <= beating.health().idle_s["coop-member-billing"] < 9.0


def test_threads_that_rest_are_not_judged_and_those_that_stand_still_are(beating: Beating) -> None:
    beating.step()
    beating.pulse.others = [
        lambda: {"coop-fetch-billing": float("inf")},
        lambda: {"kafka-io-c": monotonic() - 30.0},
    ]
    health = beating.health()
    assert sorted(health.idle_s) == ["coop-member-billing", "kafka-io-c"]
    assert [reason.subject for reason in live(health).reasons] == ["kafka-io-c"]


def test_times_of_the_members_clock_become_ages(beating: Beating) -> None:
    wait = RangesWait(T0, 88_000, "keys wait", ("m-7",))
    beating.condition = replace(CONDITION, waits=(wait,), circuit_since_ms=97_000)
    beating.step()
    beating.pulse.silent_since_s = monotonic() - 40.0
    health = beating.health(now_ms=100_000)
    assert health.waits == (WaitingFor("t-0", 12.0, "keys wait", ("m-7",)),)
    assert health.circuit_open_s == 3.0
    assert health.silent_s is not None
    assert 40.0 <= health.silent_s < 60.0


def test_a_member_that_ends_drains_and_is_not_judged_while_its_clients_close(
    beating: Beating,
) -> None:
    beating.step(ago_s=60.0)
    beating.pulse.is_ending = True
    assert live(beating.health())
    assert only(ready(beating.health()))["reason"] == "draining"


def test_between_two_runs_a_member_is_joining(beating: Beating) -> None:
    beating.step(ago_s=60.0)
    beating.ended.set_result(WorkerFlushError("billing", "no"))
    assert live(beating.health())
    assert only(ready(beating.health()))["reason"] == "joining"


def test_a_stop_of_the_group_names_its_record_before_and_after_the_end(beating: Beating) -> None:
    beating.condition = replace(CONDITION, stop=Stop("orders", 1, 43, "no", "m-7", 3))
    beating.step()
    assert beating.health().stopped_at == "orders-1@43"
    beating.ended.set_result(ProcessingStoppedError("orders", 1, 43, "no", "m-7", "skip it"))
    health = ended_health("billing", "m-1", beating.ended)
    assert only(ready(health))["text"] == "stopped at orders-1@43"


def test_what_ended_a_member_is_told_be_it_ours_or_a_defect() -> None:
    ours: Future[CoopConsumerError | None] = Future()
    ours.set_result(None)
    defect: Future[CoopConsumerError | None] = Future()
    defect.set_exception(ZeroDivisionError("by zero"))
    assert only(ready(ended_health("g", "m", ours)))["text"] == "ended"
    told = only(ready(ended_health("g", "m", defect)))["text"]
    assert told == "ended: ZeroDivisionError: by zero"
