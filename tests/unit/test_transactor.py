"""A transactor ends when it is told to, whatever brokers say to its calls."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from queue import SimpleQueue

import pytest

from coop_consumer.core import actions, events
from coop_consumer.core.effects import Output, Result
from coop_consumer.core.events import GroupMetadata
from coop_consumer.core.transaction import Said
from coop_consumer.kafka.transaction_client import TransactionClient
from coop_consumer.kafka.transactor import Transactor
from tests.support.journal import WAIT_S

OUTPUT = Output("totals", b"k", b"v")


class Answers:
    """What a Producer says to each call: one after the other, the last one for ever; else DONE.

    Attributes:
        came: Gets the name of each call.
    """

    def __init__(self, patch: pytest.MonkeyPatch, **said: Sequence[Said]) -> None:
        self.came: SimpleQueue[str] = SimpleQueue()
        for name in ("renew", "begin", "effects", "progress", "fence_entry", "commit", "abort"):
            answers = [*said.get(name, (Said.DONE,))]
            patch.setattr(TransactionClient, name, self._answer(name, answers))

    def _answer(self, name: str, answers: list[Said]) -> object:
        def call(*_: object) -> Said:
            self.came.put(name)
            return answers.pop(0) if len(answers) > 1 else answers[0]

        return call

    def until(self, name: str) -> None:
        while self.came.get(timeout=WAIT_S) != name:
            pass


def transactor(told: SimpleQueue[events.Event | Exception] | None = None) -> Transactor:
    settings = {"transaction.timeout.ms": 10_000, "batch.size": 1_000_000}
    told = told or SimpleQueue()
    it = Transactor(settings, "billing", "log", told.put, told.put)
    results = [Result(None, [OUTPUT])]  # type: ignore[arg-type]
    it.commit(actions.Commit({0: [(b"k", b"v")]}, 1, results, GroupMetadata(1)))
    return it


@pytest.mark.parametrize(
    ("call", "said", "told"),
    [
        ("commit", {"commit": [Said.AGAIN]}, events.CommitInDoubt),
        ("renew", {"renew": [Said.REFUSED]}, events.CommitRefused),
        (
            "renew",
            {"commit": [Said.BROKEN], "renew": [Said.DONE, Said.REFUSED]},
            events.CommitInDoubt,
        ),
    ],
)
def test_brokers_that_stay_away_hold_up_no_end(
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    said: dict[str, list[Said]],
    told: type[events.Event],
) -> None:
    """Once a commit was asked for, nobody may say that it was refused."""
    answers = Answers(monkeypatch, **said)
    heard: SimpleQueue[events.Event | Exception] = SimpleQueue()
    it = transactor(heard)
    for _ in range(2):
        answers.until(call)
    closing = threading.Thread(target=it.close, args=(0.1,), daemon=True)
    closing.start()
    closing.join(WAIT_S)
    assert not closing.is_alive()
    assert isinstance(heard.get(timeout=WAIT_S), told)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("renew", "the brokers to serve its transactional.id"),
        ("effects", r"the brokers to take outputs and state (totals)"),
        ("fence_entry", "the group's coordinator to check this member"),
    ],
)
def test_it_says_what_a_transaction_waits_for(
    monkeypatch: pytest.MonkeyPatch, call: str, told: str
) -> None:
    Answers(monkeypatch)
    is_there, goes_on = threading.Event(), threading.Event()

    def wait(*_: object) -> Said:
        is_there.set()
        goes_on.wait(WAIT_S)
        return Said.DONE

    monkeypatch.setattr(TransactionClient, call, wait)
    it = transactor()
    assert is_there.wait(WAIT_S)
    assert it.waits_for() == told
    goes_on.set()
    it.close(WAIT_S)
