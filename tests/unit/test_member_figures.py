"""A member's figures at any moment: before its first run, during it, between two, at the end."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coop_consumer.config import Config
from coop_consumer.core.metrics import MemberMetrics, MemberPhase
from coop_consumer.errors import MemberSilentError
from coop_consumer.member.figures import metrics_of
from coop_consumer.member.identity import Identity
from coop_consumer.member.member import MemberRun
from coop_consumer.member.runs import Runs
from tests.unit.full_metrics import full_metrics

CONFIG = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "billing"})


def runs(*, answers: bool, ended: bool, over: bool) -> Runs[MemberRun]:
    """Runs of which the present one answers or not, has ended or not."""
    answer: Future[MemberMetrics] = Future()
    if answers:
        answer.set_result(full_metrics())
    its_end: Future[Any] = Future()
    all_over: Future[Any] = Future()
    for is_done, future in ((ended, its_end), (over, all_over)):
        if is_done:
            future.set_result(None)
    member = SimpleNamespace(metrics=lambda: answer, ended=its_end)
    return cast("Runs[MemberRun]", SimpleNamespace(member=member, ended=all_over))


@pytest.fixture
def identity() -> Identity:
    identity = Identity("m1")
    identity.tally.of("orders").finished = 41
    identity.counters.commits = 3
    return identity


def test_a_member_at_work_answers_itself(identity: Identity) -> None:
    found = metrics_of(CONFIG, identity, runs(answers=True, ended=False, over=False))

    assert found == full_metrics()


@pytest.mark.parametrize(
    ("its_runs", "phase"),
    [
        (None, MemberPhase.STARTING),
        (runs(answers=False, ended=True, over=False), MemberPhase.STARTING),
        (runs(answers=False, ended=True, over=True), MemberPhase.ENDED),
    ],
    ids=["before the first run", "between two", "after the last"],
)
def test_what_was_counted_is_there_while_no_run_is_at_work(
    identity: Identity, its_runs: Runs[MemberRun] | None, phase: MemberPhase
) -> None:
    found = metrics_of(CONFIG, identity, its_runs)

    assert found.phase is phase
    assert found.topics["orders"].finished == 41
    assert found.commits == 3
    assert found.workers == found.lane_records == 0
    assert found.member == "m1"


def test_a_thread_that_does_not_answer_is_no_wait_for_ever(identity: Identity) -> None:
    silent = runs(answers=False, ended=False, over=False)
    with pytest.raises(MemberSilentError, match="has not answered within 0"):
        metrics_of(CONFIG, identity, silent, answer_s=0.0)
