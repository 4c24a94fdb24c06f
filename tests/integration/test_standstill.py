"""A Consumer that hangs, on the real broker: it is replaced, and everything is processed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import Message

from coop_consumer.core import standstill
from coop_consumer.kafka.fetcher import FetchThread
from coop_consumer.kafka.progress_log import ProgressReader
from tests.job import Job
from tests.stock import eventually, keys_of

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
