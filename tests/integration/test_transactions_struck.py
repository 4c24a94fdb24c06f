"""Something strikes at each call of a transaction: a rival, or the network."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from coop_consumer import WorkerPool
from coop_consumer.core.counters import Counters
from coop_consumer.core.transaction import Said
from coop_consumer.kafka.transaction_client import TransactionClient
from tests.chaos.arena import Arena, arena
from tests.integration.test_exactly_once import KEYS, ONCE, assert_once, visible
from tests.integration.test_transactions_go_wrong import Faults, transactional_ids
from tests.support.brokers import MakeTopic
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.sending import Sends, places_of
from tests.support.stock import eventually
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]
Strike = Callable[[TransactionClient], None]

CALLS = ("begin", "effects", "progress", "fence_entry", "commit")


class Strikes:
    """Strikes before a call of one transaction after the other.

    Attributes:
        left: The calls that are still to be struck.
    """

    def __init__(
        self, patch: pytest.MonkeyPatch, strike: Strike, calls: tuple[str, ...] = CALLS
    ) -> None:
        self._strike = strike
        self.left = list(calls)
        for name in calls:
            patch.setattr(TransactionClient, name, self._struck(name))

    def _struck(self, name: str) -> Callable[..., Said]:
        real = getattr(TransactionClient, name)

        def call(client: TransactionClient, *arguments: Any) -> Said:
            if self.left and self.left[0] == name:
                self.left.pop(0)
                self._strike(client)
            return real(client, *arguments)  # type: ignore[no-any-return]

        return call


def go_through(orders: Job, strikes: Strikes, totals: str) -> Counters:
    """Let a member meet all strikes; in the end each record has its output once."""
    produced = orders.produce(KEYS[:20])
    with WorkerPool(Sends, orders.settings, [orders.topic], workers=4) as pool:
        while strikes.left:
            left = len(strikes.left)
            eventually(lambda: len(strikes.left), lambda it, was=left: it < was)  # type: ignore[misc]
            produced += orders.produce(KEYS[:20])
        eventually(lambda: pool.counters.committed, lambda count: count == len(produced))
        counters = pool.counters
    assert_once(places_of(visible(orders, totals)), produced)
    return counters


def test_a_rival_takes_the_id_before_each_call(
    job: MakeJob, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka#4420, confluent-kafka-python#1125: stuck for good after an error that is fatal."""
    totals = topic(1)
    orders = job(1, **ONCE, **{"output.topics": totals})

    def fence(client: TransactionClient) -> None:
        Producer({**orders.client, "transactional.id": client._id}).init_transactions(WAIT_S)

    counters = go_through(orders, Strikes(monkeypatch, fence), totals)
    assert counters.transactions_in_doubt == 1, "it was asked to commit"
    assert counters.transactions_aborted >= 3


# -- the network -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place() -> Iterator[Arena]:
    """A broker with a way to it that can be cut."""
    with arena(once=True) as it:
        yield it


@pytest.fixture
def far(place: Arena, group_id: str) -> Job:
    """A job whose members go that way, and whose test does not."""
    totals = f"{group_id}-totals"
    for name in (group_id, totals):
        create_topic(place.admin, name)
    own = {**ONCE, "output.topics": totals, "bootstrap.servers": place.proxy.address}
    return Job(place.client, place.admin, group_id, group_id, 1, own)


def test_connections_are_dropped_at_each_call(
    far: Job, place: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka#3041, #3003: the commit hung, and an abort had no producer id."""
    strikes = Strikes(monkeypatch, lambda _: place.proxy.reset())
    go_through(far, strikes, str(far.own["output.topics"]))


def test_connections_are_dropped_while_a_transaction_is_aborted_and_its_producer_renewed(
    far: Job, place: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka#3003: an abort said "No PID available", and its producer was of no use."""
    faults = [("effects", Said.REFUSED, "after"), ("progress", Said.BROKEN, "after")]
    Faults(monkeypatch, faults)
    strikes = Strikes(monkeypatch, lambda _: place.proxy.reset(), ("abort", "renew"))
    go_through(far, strikes, str(far.own["output.topics"]))


def test_the_answer_to_a_commit_is_lost(
    far: Job, place: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka#4558, #3041: an error, or none for ever, and the records were there."""
    done: list[threading.Thread] = []

    def lose(client: TransactionClient) -> None:
        place.proxy.hold(to_broker=False, to_member=True)

        def go_on() -> None:
            eventually(lambda: client._id in transactional_ids(place.client, "CompleteCommit"))
            place.proxy.reset()
            place.proxy.open()

        done.append(threading.Thread(target=go_on))
        done[-1].start()

    strikes = Strikes(monkeypatch, lose, ("commit",))
    go_through(far, strikes, str(far.own["output.topics"]))
    for thread in done:
        thread.join(WAIT_S)
