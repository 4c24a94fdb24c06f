"""The looks at many groups share few clients; none waits longer than it has to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coop_consumer.admin import look_clients
from coop_consumer.admin.look_clients import ClientsClosedError, SharedClients
from coop_consumer.config import Config
from coop_consumer.errors import BrokerUnreachableError
from coop_consumer.status.errors import GroupMissingError
from tests.support.journal import WAIT_S
from tests.support.stock import eventually

CONFIG = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "billing"})
AWAY = BrokerUnreachableError("b:9092", "timed out")


class Clients:
    """A set that only notes whether it is closed."""

    made: list[Clients]
    fails: list[Exception]
    on_making: Callable[[], object]

    def __init__(self, _: Config, *, again: bool) -> None:
        assert again, "an outage is to be told soon, and by whoever looks"
        Clients.on_making()
        if self.fails:
            raise self.fails.pop(0)
        self.is_closed = False
        self.made.append(self)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def sets(monkeypatch: pytest.MonkeyPatch) -> list[Clients]:
    monkeypatch.setattr(Clients, "made", [], raising=False)
    monkeypatch.setattr(Clients, "fails", [], raising=False)
    monkeypatch.setattr(Clients, "on_making", lambda: None, raising=False)
    monkeypatch.setattr(look_clients, "LookClients", Clients)
    return Clients.made


class Look:
    """A look on a thread of its own, which holds clients until it is told to end."""

    def __init__(self, shared: SharedClients) -> None:
        self.begun, self.over = threading.Event(), threading.Event()
        self.clients: Any = None
        self.error: Exception | None = None
        self._shared = shared
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._shared.lent(CONFIG) as self.clients:
                self.begun.set()
                assert self.over.wait(WAIT_S)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def end(self) -> None:
        self.over.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()


@pytest.fixture
def look() -> Iterator[Callable[[SharedClients], Look]]:
    begun: list[Look] = []

    def begin(shared: SharedClients) -> Look:
        begun.append(Look(shared))
        return begun[-1]

    yield begin
    for it in begun:
        it.end()


def test_one_look_after_the_other_has_the_same_clients(sets: list[Clients]) -> None:
    shared = SharedClients()
    for _ in range(3):
        with shared.lent(CONFIG) as lent:
            assert lent is sets[0]

    assert len(sets) == 1
    assert not sets[0].is_closed


def test_looks_at_once_have_clients_of_their_own_up_to_a_number(
    sets: list[Clients], look: Callable[[SharedClients], Look]
) -> None:
    shared = SharedClients(2)
    first, second = look(shared), look(shared)
    assert first.begun.wait(WAIT_S)
    assert second.begun.wait(WAIT_S)
    assert first.clients is not second.clients
    third = look(shared)
    assert not third.begun.is_set()
    second.end()
    assert third.begun.wait(WAIT_S), "the first look hangs, and holds up nobody"
    assert third.clients is second.clients
    assert len(sets) == 2


@pytest.mark.parametrize(
    ("error", "closes"), [(GroupMissingError("billing"), False), (AWAY, True), (KeyError(), True)]
)
def test_clients_that_may_be_to_blame_are_replaced(
    error: Exception, *, closes: bool, sets: list[Clients]
) -> None:
    shared = SharedClients(1)
    with pytest.raises(type(error)), shared.lent(CONFIG):
        raise error

    assert sets[0].is_closed is closes
    with shared.lent(CONFIG) as lent:
        assert lent is sets[-1]
    assert len(sets) == 1 + closes


def test_while_no_broker_answers_those_who_wait_learn_it_from_the_one_who_asks(
    sets: list[Clients], look: Callable[[SharedClients], Look], monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, fails = threading.Semaphore(0), threading.Event()

    def ask() -> None:
        asking.release()
        assert fails.wait(WAIT_S)

    monkeypatch.setattr(Clients, "on_making", ask)
    Clients.fails.append(AWAY)
    shared = SharedClients()
    looks = [look(shared)]
    assert asking.acquire(timeout=WAIT_S)
    looks += [look(shared) for _ in range(5)]
    eventually(lambda: len(shared._changed._waiters) == 5)  # type: ignore[attr-defined]
    fails.set()
    eventually(lambda: [it.error for it in looks] == [AWAY] * 6)
    assert not asking.acquire(blocking=False), "one has asked"

    with shared.lent(CONFIG) as lent:
        assert lent is sets[0], "a later look asks anew"


def test_when_all_is_closed_nobody_waits_any_more(
    sets: list[Clients], look: Callable[[SharedClients], Look]
) -> None:
    shared = SharedClients(1)
    first = look(shared)
    assert first.begun.wait(WAIT_S)
    second = look(shared)
    shared.close()
    eventually(lambda: isinstance(second.error, ClientsClosedError))
    assert not sets[0].is_closed, "a look is under way"
    first.end()
    assert sets[0].is_closed
    with pytest.raises(ClientsClosedError), shared.lent(CONFIG):
        pass
    assert len(sets) == 1


def test_clients_that_are_free_are_closed_with_all(sets: list[Clients]) -> None:
    shared = SharedClients()
    with shared.lent(CONFIG):
        pass
    shared.close()
    assert sets[0].is_closed
