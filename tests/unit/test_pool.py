"""What a pool refuses before it asks any broker: nothing listens at the one that is named here."""

from __future__ import annotations

import signal
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from coop_consumer import CooperativeConsumer, Record, TopicPartition, Worker, WorkerPool, pool
from coop_consumer.config import Config, checked_topics
from coop_consumer.errors import BrokerUnreachableError, ConfigError, MisuseError
from coop_consumer.ops.health import Health, HealthPhase
from coop_consumer.worker import checked_worker

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "group.id": "billing"}


class Fine(Worker):
    def process(self, record: Record) -> None: ...


class Idle(Worker):
    """Overrides nothing."""


class Yields(Worker):
    def process(self, record: Record) -> Iterator[int]:  # type: ignore[override] # that is the point
        yield record.offset


class YieldsLater(Worker):
    async def process(self, record: Record) -> AsyncIterator[int]:  # type: ignore[override] # that is the point
        yield record.offset


class AwaitsFlush(Fine):
    async def flush(self) -> None: ...


class Both(Fine):
    def process_batch(self, records: Sequence[Record]) -> None: ...


class YieldsBatch(Worker):
    def process_batch(self, records: Sequence[Record]) -> Iterator[int]:  # type: ignore[override] # as above
        yield len(records)


class TakesNothing(Worker):
    def process(self) -> None: ...  # type: ignore[override] # as above


class TakesTwo(Worker):
    async def process(self, record: Record, how: str) -> None: ...  # type: ignore[override] # as above


class TakesBatchByName(Worker):
    def process_batch(self, *, records: Sequence[Record]) -> None: ...  # type: ignore[override] # as above


class AssignedAtOnce(Fine):
    def on_ranges_assigned(self, tp: TopicPartition) -> None: ...  # type: ignore[override] # as above


class NoWorker:
    def process(self, record: Record) -> None: ...


@pytest.mark.parametrize(
    ("worker", "problem"),
    [
        (YieldsLater, "its process yields"),
        (Yields, "its process yields"),
        (AwaitsFlush, "its flush is async"),
        (Idle, "it has no process"),
        (Both, "it has both process and process_batch"),
        (YieldsBatch, "its process_batch yields"),
        (NoWorker, "it does not derive from coop_consumer.Worker"),
        (TakesNothing, r"its process\(\) .*cannot be called as process\(record\): too many"),
        (TakesTwo, r".* cannot be called as process\(record\): missing a required .*'how'"),
        (TakesBatchByName, r".* cannot be called as process_batch\(records\): too many"),
        (AssignedAtOnce, r".* cannot be called as on_ranges_assigned\(tp, ranges\): too many"),
    ],
)
def test_a_worker_whose_records_would_not_be_processed_is_refused(
    worker: type[Worker], problem: str
) -> None:
    with pytest.raises(MisuseError, match=rf"WorkerPool\({worker.__name__}\): {problem}"):
        WorkerPool(worker, NOWHERE, ["orders"])


class TakesAnything(Worker):
    def process(self, *records: Record, **options: str) -> None: ...


class TakesMore(Worker):
    def process(self, order: Record, how: str = "well") -> None: ...  # type: ignore[override] # as above


class CallsC(Worker):
    process = type  # type: ignore[assignment] # who it is does not tell what it takes


@pytest.mark.parametrize("worker", [TakesAnything(), TakesMore(), CallsC()])
def test_whatever_can_be_called_with_a_record_will_do(worker: Worker) -> None:
    assert checked_worker(worker) is worker


class Awaits(Worker):
    async def process(self, record: Record) -> None: ...


def local() -> Worker:
    """One whose class cannot be found by another process."""

    class Local(Fine): ...

    return Local()


@pytest.mark.parametrize(
    ("worker", "problem"),
    [(Awaits(), "its handler is async"), (local(), "the worker cannot be pickled")],
)
def test_what_does_not_go_with_processes_is_refused(worker: Worker, problem: str) -> None:
    with pytest.raises(MisuseError, match=problem):
        WorkerPool(worker, NOWHERE, ["orders"], executor="process")


def test_more_processes_than_make_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="workers=1000 processes are more than"):
        WorkerPool(Fine, NOWHERE, ["orders"], executor="process", workers=1_000)


def test_more_workers_than_one_member_can_use_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"workers=100001 are more than .* Use 100,000 at most"):
        WorkerPool(Fine, NOWHERE, ["orders"], workers=100_001)
    with pytest.raises(ConfigError, match="workers=100001 is above 100000"):
        WorkerPool(Fine, {**NOWHERE, "workers": 100_001}, ["orders"])


def test_what_does_not_go_with_one_thread_is_refused() -> None:
    with pytest.raises(MisuseError, match="its handler is async"):
        WorkerPool(Awaits, NOWHERE, ["orders"], executor="inline")
    with pytest.raises(ConfigError, match="workers=2 contradicts executor='inline'"):
        WorkerPool(Fine, NOWHERE, ["orders"], executor="inline", workers=2)
    fails = {**NOWHERE, "on.overdue": "fail"}
    with pytest.raises(ConfigError, match="executor='inline' has none"):
        WorkerPool(Fine, fails, ["orders"], executor="inline")


def test_an_executor_that_there_is_not_is_refused() -> None:
    with pytest.raises(MisuseError, match="Use thread, process or inline"):
        WorkerPool(Fine, NOWHERE, ["orders"], executor="fiber")


@pytest.mark.parametrize("workers", [0, -1])
def test_no_workers_process_nothing(workers: int) -> None:
    with pytest.raises(ConfigError, match="processes nothing"):
        WorkerPool(Fine, NOWHERE, ["orders"], workers=workers)


@pytest.mark.parametrize("workers", ["4", 2.5, True])
def test_workers_that_are_no_whole_number_are_refused(workers: Any) -> None:
    with pytest.raises(ConfigError, match=rf"workers={workers!r} \(\w+\) is not a whole number"):
        WorkerPool(Fine, NOWHERE, ["orders"], workers=workers)


@pytest.mark.parametrize("topics", ["orders,bills", " orders , bills", ["orders", "bills"]])
def test_topics_can_be_a_setting(topics: object) -> None:
    assert Config.from_dict({**NOWHERE, "topics": topics}).topic_names == ("orders", "bills")


def test_without_topics_there_is_nothing_to_consume() -> None:
    with pytest.raises(ConfigError, match="topics is missing"):
        WorkerPool(Fine, NOWHERE)


def test_topics_of_the_argument_come_before_those_of_the_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coop_consumer.kafka.topics.Topics.check_broker.__defaults__", (0.1,))
    with pytest.raises(BrokerUnreachableError):  # so the setting alone is enough
        WorkerPool(Fine, {**NOWHERE, "topics": "orders"}).start()
    with pytest.raises(ConfigError, match=r"topics= is not topic names"):
        WorkerPool(Fine, {**NOWHERE, "topics": "orders"}, [])


@pytest.mark.parametrize("topics", [["or ders"], [""], [], ["."]])
def test_what_is_no_topic_is_told_before_a_broker_is_asked(topics: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"is not topic names between commas"):
        checked_topics(topics)


@pytest.mark.parametrize("topics", ["orders", b"orders", "", 5])
def test_topics_are_a_list_of_one_also(topics: Any) -> None:
    told = r"topics=.* is no list of names. Nothing was started. Give a list of names, of one topic"
    with pytest.raises(ConfigError, match=told):
        WorkerPool(Fine, NOWHERE, topics)
    with pytest.raises(ConfigError, match=told):
        CooperativeConsumer(NOWHERE).subscribe(topics)
    assert checked_topics(["orders"]) == checked_topics(("orders",)) == ("orders",)


def test_to_make_a_pool_asks_no_broker_and_makes_no_client() -> None:
    before = set(threading.enumerate())
    pool = WorkerPool(Fine, NOWHERE, ["orders"])
    assert pool.name.startswith("coop-consumer-")
    assert pool.counters.finished == 0
    assert pool.assignment() == {}
    assert set(threading.enumerate()) == before


def test_a_pool_whose_start_failed_may_be_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coop_consumer.kafka.topics.Topics.check_broker.__defaults__", (0.1,))
    pool = WorkerPool(Fine, NOWHERE, ["orders"])
    for _ in range(2):
        with pytest.raises(BrokerUnreachableError):
            pool.start()
    with pytest.raises(MisuseError, match="was not started"):
        pool.wait()
    pool.close()


def test_a_topic_that_is_its_own_dead_letter_topic_is_not_consumed() -> None:
    circle = {**NOWHERE, "on.failure": "dead_letter", "dead.letter.topic": "failed"}
    told = r"dead\.letter\.topic=failed is consumed here"
    with pytest.raises(ConfigError, match=told):
        WorkerPool(Fine, circle, ["orders", "failed"])
    with pytest.raises(ConfigError, match=told):
        CooperativeConsumer(circle).subscribe(["failed"])
    with pytest.raises(ConfigError, match=told):
        CooperativeConsumer(circle).assign({TopicPartition("failed", 0): []})
    Config.from_dict(circle).refuse_circles(["orders"])
    Config.from_dict({**circle, "on.failure": "park"}).refuse_circles(["failed"])


class Seat:
    """Notes whether it was given up."""

    is_left = False

    def take(self) -> str:
        return ""

    def joined(self, member: str) -> None: ...

    def left(self) -> None:
        self.is_left = True


@pytest.mark.parametrize("silent_s", [None, 3.0])
def test_a_second_signal_gives_up_the_seat_if_nobody_can_leave_for_it(
    silent_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parent that knows of a seat tries for seconds to leave for it."""
    ends: list[tuple[int, str]] = []
    monkeypatch.setattr(pool, "end_process", lambda *how: ends.append(how))
    monkeypatch.setattr(WorkerPool, "close", lambda _: None)
    health = Health("billing", "b-1", HealthPhase.RUNNING, silent_s=silent_s)
    monkeypatch.setattr(WorkerPool, "health", lambda _: health)
    seat = Seat()
    at_work = WorkerPool(Fine(), NOWHERE, ["orders"], seat=seat)
    monkeypatch.setattr(at_work, "_runs", object())
    at_work.signalled(signal.SIGTERM)
    assert (ends, seat.is_left) == ([], False)
    at_work.signalled(signal.SIGTERM)
    assert ends == [(signal.SIGTERM, "second")]
    assert seat.is_left == (silent_s is not None)
