"""Clients that do nothing any more, on the real broker: they are replaced, and nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer

from coop_consumer.core import standstill
from coop_consumer.kafka import clients
from coop_consumer.kafka.fetcher import FetchThread
from coop_consumer.kafka.producing import Producing
from coop_consumer.kafka.progress_log import ProgressReader
from tests.support.job import Job
from tests.support.stock import eventually, keys_of

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]


class Hang:
    """Lets the first thread that comes by hang until the test is over."""

    def __init__(self) -> None:
        self.armed = threading.Event()
        self.over = threading.Event()
        self.hung: threading.Thread | None = None

    def __call__(self) -> None:
        if self.armed.is_set() and self.hung in (None, threading.current_thread()):
            self.hung = threading.current_thread()
            self.over.wait()


@pytest.mark.parametrize("kind", [FetchThread, ProgressReader])
def test_a_client_that_hangs_is_replaced_and_nothing_is_lost(
    job: MakeJob, monkeypatch: pytest.MonkeyPatch, kind: type[FetchThread | ProgressReader]
) -> None:
    monkeypatch.setattr(standstill, "SILENT_MS", 500)
    hang, hand_out = Hang(), kind._hand_out

    def hangs(self: FetchThread | ProgressReader, messages: Sequence[Message]) -> None:
        hang()
        hand_out(self, messages)  # type: ignore[arg-type]

    monkeypatch.setattr(kind, "_hand_out", hangs)
    orders = job()
    places = orders.produce(keys_of(30, 10))
    try:
        with orders.running() as first:
            first.journal.wait_for(places)
            hang.armed.set()
            places += orders.produce(keys_of(30, 10))
            with orders.running() as second:  # whose ranges wait for the log to be read
                eventually(
                    lambda: [*first.journal.rows, *second.journal.rows],
                    lambda rows: {row.place for row in rows} == set(places),
                )
                eventually(
                    lambda: first.pool.counters.renewed + second.pool.counters.renewed,
                    lambda renewed: renewed >= 1,
                )
            hang.over.set()
    finally:
        hang.over.set()


class CutOff:
    """The first client of a kind, once armed, knows no broker: nobody listens where it looks.

    So it is after an answer that named no broker, which a real one gives seldom and unasked.
    """

    def __init__(self, kind: type[Consumer] | type[Producer]) -> None:
        self._kind = kind
        self.made = 0

    def __call__(self, settings: dict[str, Any], **rest: Any) -> Consumer | Producer:
        self.made += 1
        nowhere = {"bootstrap.servers": "127.0.0.1:1"} if self.made == 1 else {}
        return self._kind({**settings, **nowhere}, **rest)


@pytest.mark.parametrize(
    ("owner", "make", "kind"),
    [
        (FetchThread, "_new_consumer", Consumer),
        (ProgressReader, "_new_consumer", Consumer),
        (Producing, "_new", Producer),
    ],
)
def test_a_client_that_knows_no_broker_any_more_is_replaced(
    job: MakeJob,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    make: str,
    kind: type[Consumer] | type[Producer],
) -> None:
    cut_off = CutOff(kind)

    def new(it: Any, *_: Any) -> Consumer | Producer:
        return cut_off(vars(it).get("_settings") or it.settings, logger=clients.log)

    monkeypatch.setattr(clients, "SILENT_S", 0.2)
    monkeypatch.setattr(owner, make, new)
    orders = job()
    places = orders.produce(keys_of(30, 10))
    with orders.running() as only:
        only.journal.wait_for(places)
        orders.wait_for_lag()
        assert only.pool.counters.renewed == 0  # the watch of the core had nothing to do
    assert cut_off.made >= 2
