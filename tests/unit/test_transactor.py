"""A transactor ends when it is told to, whatever brokers say to its calls."""

from __future__ import annotations

import threading
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
    """What a Producer says to each call, for ever; DONE, if nothing else is said.

    Attributes:
        came: Gets the name of each call.
    """

    def __init__(self, patch: pytest.MonkeyPatch, **said: Said) -> None:
        self.came: SimpleQueue[str] = SimpleQueue()
        for name in ("renew", "begin", "effects", "progress", "fence_entry", "commit", "abort"):
            patch.setattr(TransactionClient, name, self._answer(name, said.get(name, Said.DONE)))

    def _answer(self, name: str, said: Said) -> object:
        def call(*_: object) -> Said:
            self.came.put(name)
            return said

        return call

    def until(self, name: str) -> None:
        while self.came.get(timeout=WAIT_S) != name:
            pass


def transactor() -> Transactor:
    settings = {"transaction.timeout.ms": 10_000, "batch.size": 1_000_000}
    told: SimpleQueue[events.Event | Exception] = SimpleQueue()
    it = Transactor(settings, "billing", "log", told.put, told.put)
    results = [Result(None, [OUTPUT])]  # type: ignore[arg-type]
    it.commit(actions.Commit({0: [(b"k", b"v")]}, 1, results, GroupMetadata(1)))
    return it


@pytest.mark.parametrize(("call", "said"), [("commit", Said.AGAIN), ("renew", Said.REFUSED)])
def test_brokers_that_stay_away_hold_up_no_end(
    monkeypatch: pytest.MonkeyPatch, call: str, said: Said
) -> None:
    answers = Answers(monkeypatch, **{call: said})
    it = transactor()
    for _ in range(2):
        answers.until(call)
    closing = threading.Thread(target=it.close, args=(0.1,), daemon=True)
    closing.start()
    closing.join(WAIT_S)
    assert not closing.is_alive()


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
