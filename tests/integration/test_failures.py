"""What happens when `process` raises: retries that hold no worker, then what `on.failure` says.

Handlers fail until something has happened, so that a test proves what goes on meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

from coop_consumer import Record
from coop_consumer.errors import ProcessingStoppedError
from offsets import DecisionKey, DecisionRecord, encode_key, encode_value
from tests.support.job import Job
from tests.support.journal import WAIT_S, Journal, out_of_order, repeated
from tests.support.pools import Handler, Pool, RefusedError, refuse
from tests.support.stock import eventually, keys_of, records_of, topic_id
from tests.support.topics import create_topic, set_topic, truncate

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]

KEYS = keys_of(50, 5)
BAD = [offset for offset, key in enumerate(KEYS) if key == "key-3"]
GOOD = [offset for offset, key in enumerate(KEYS) if key != "key-3"]
QUICK = {"attempt.backoff.ms": 10, "attempt.backoff.max.ms": 20}
TWICE = {**QUICK, "max.attempts": 2}


def refuse_first(offset: int) -> Handler:
    """A handler that always raises at one record, the first of its key that is bad."""

    def handler(record: Record) -> None:
        if record.offset == offset:
            raise RefusedError("broken record")

    return handler


def decide(job: Job, offset: int, action: str) -> None:
    """Write a person's decision on a parked record to the log, as a tool would."""
    key = DecisionKey(job.group, topic_id(job.admin, job.topic), 0, offset)
    decision = DecisionRecord("retry" if action == "retry" else "skip", decided_at_ms=0)
    log = job.log
    log.write(log.number_of(job.topic, 0), encode_key(key), encode_value(decision))


# -- retries ---------------------------------------------------------------------------------------


def test_a_failed_record_is_tried_again_while_its_only_worker_serves_other_keys(
    job: MakeJob,
) -> None:
    orders, journal = job(**QUICK, **{"max.attempts": 1_000_000}), Journal()
    orders.produce(KEYS)

    def fail_until_others_are_done(record: Record) -> None:
        if record.offset == BAD[0] and len(journal.rows) < len(GOOD):
            raise RefusedError("not yet")

    orders.run_to_end(journal=journal, handler=fail_until_others_are_done, workers=1)
    rows = journal.rows
    assert [row.offset for row in rows[len(GOOD) :]] == BAD
    attempts = {row.offset: row.attempt for row in rows}
    assert attempts.pop(BAD[0]) >= 2
    assert set(attempts.values()) == {1}
    assert out_of_order(rows) == []
    assert repeated(rows) == 0


# -- park ------------------------------------------------------------------------------------------


def parked(job: MakeJob) -> Job:
    """A job whose 50 records are done but for those of one key, behind a parked one."""
    orders = job(**TWICE, **{"on.failure": "park"})
    orders.produce(KEYS)
    with orders.running(handler=refuse("key-3")) as pool:
        pool.journal.wait(lambda rows: len(rows) == len(GOOD))
        eventually(lambda: attempt_at(orders))
    assert pool.journal.offsets == GOOD
    return orders


def attempt_at(orders: Job) -> tuple[int, bool, str] | None:
    """Attempts, parked or not, and the error, as the log tells of the first bad record."""
    found = orders.log.partition(orders.topic, 0).attempts().get(BAD[0])
    return (found.attempts, found.parked, found.error) if found and found.parked else None


def test_a_parked_record_waits_and_so_does_its_key_over_a_restart_while_others_go_on(
    job: MakeJob,
) -> None:
    orders = parked(job)
    assert attempt_at(orders) == (2, True, "RefusedError: no b'key-3' today")
    more = [offset for _, offset in orders.produce(["key-1", "key-3", "key-4"])]
    with orders.running() as pool:
        pool.journal.wait_for([(0, more[0]), (0, more[2])])
    assert pool.journal.offsets == [more[0], more[2]]
    assert attempt_at(orders) == (2, True, "RefusedError: no b'key-3' today")
    assert orders.committed()[0][0] == BAD[0]


def test_a_parked_record_is_told_again_when_somebody_has_emptied_the_progress_topic(
    job: MakeJob, history: str, admin: AdminClient
) -> None:
    """Else nobody would see why its key stands still."""
    own = {"progress.topic": history, "topics.watch.interval.ms": 1_000}
    orders = job(**TWICE, **own, **{"on.failure": "park"})
    orders.produce(KEYS)
    with orders.running(handler=refuse("key-3")):
        eventually(lambda: attempt_at(orders))
        number = orders.log.number_of(orders.topic, 0)
        truncate(admin, history, {number: orders.log.store(number).next_offset})
        eventually(lambda: attempt_at(orders))


def test_a_decision_to_retry_lets_a_parked_record_go(job: MakeJob) -> None:
    orders = parked(job)
    with orders.running() as pool:
        decide(orders, BAD[0], "retry")
        rows = pool.journal.wait(lambda rows: len(rows) == len(BAD))
        orders.wait_for_lag(0)
    assert [row.offset for row in rows] == BAD
    assert {row.attempt for row in rows} == {1}
    assert dict(orders.log.partition(orders.topic, 0).decisions) == {}


def test_a_decision_to_skip_made_while_nobody_was_there_counts_the_record_as_done(
    job: MakeJob,
) -> None:
    orders = parked(job)
    decide(orders, BAD[0], "skip")
    with orders.running() as pool:
        pool.journal.wait(lambda rows: len(rows) == len(BAD) - 1)
        orders.wait_for_lag(0)
    assert pool.journal.offsets == BAD[1:]
    assert pool.pool.counters.skipped == 1
    assert dict(orders.log.partition(orders.topic, 0).decisions) == {}


# -- skip ------------------------------------------------------------------------------------------


def test_a_skipped_record_is_counted_told_and_done(
    job: MakeJob, caplog: pytest.LogCaptureFixture
) -> None:
    orders = job(**TWICE, **{"on.failure": "skip"})
    orders.produce(KEYS)
    with orders.running(handler=refuse_first(BAD[0])) as pool:
        orders.wait_for_lag(0)
    assert pool.journal.offsets == sorted(GOOD + BAD[1:])
    assert (pool.pool.counters.failures, pool.pool.counters.skipped) == (2, 1)
    told = f"{orders.topic}-0@{BAD[0]} (key b'key-3'): failed 2 times"
    assert told in caplog.text
    assert "Skipped by on.failure=skip" in caplog.text


# -- dead letters ----------------------------------------------------------------------------------


def test_a_dead_letter_keeps_the_record_and_tells_error_attempts_and_origin(
    job: MakeJob, admin: AdminClient
) -> None:
    orders = job(**TWICE, **{"on.failure": "dead_letter"})
    dead = f"{orders.topic}.dlq"
    create_topic(admin, dead)
    orders.produce(KEYS)
    journal = orders.run_to_end(handler=refuse_first(BAD[0]))
    assert journal.offsets == sorted(GOOD + BAD[1:])
    [letter] = records_of(orders.client, dead)
    assert (letter.key(), letter.value()) == (b"key-3", b"value")
    assert dict(letter.headers() or ()) == {
        "coop.error": b"RefusedError: broken record",
        "coop.attempts": b"2",
        "coop.topic": orders.topic.encode(),
        "coop.partition": b"0",
        "coop.offset": str(BAD[0]).encode(),
        "coop.group": orders.group.encode(),
    }
    admin.delete_topics([dead])[dead].result(WAIT_S)


def test_without_a_dead_letter_topic_the_key_waits_and_is_told_and_nothing_is_lost(
    job: MakeJob, admin: AdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    impatient = {"topic.metadata.propagation.max.ms": 100}
    orders = job(**TWICE, **impatient, **{"on.failure": "dead_letter"})
    dead = f"{orders.topic}.dlq"
    orders.produce(KEYS)
    with orders.running(handler=refuse_first(BAD[0])) as pool:
        pool.journal.wait(lambda rows: len(rows) == len(GOOD))
        eventually(lambda: "the dead-letter topic refused it" in caplog.text)
        assert pool.journal.offsets == GOOD
        create_topic(admin, dead)
        orders.wait_for_lag(0)
    assert pool.journal.offsets == sorted(GOOD + BAD[1:])
    assert pool.pool.counters.dead_lettered == 1
    assert {letter.key() for letter in records_of(orders.client, dead)} == {b"key-3"}
    assert f"topic {dead}: does not exist" in caplog.text
    admin.delete_topics([dead])[dead].result(WAIT_S)


class NotUtf8(str):
    """What another client may write: the name of a header as bytes of some other encoding."""

    __slots__ = ()

    def encode(self, *_: object) -> bytes:
        return super().encode("latin-1")


def test_headers_that_cannot_be_read_keep_no_record_from_being_handled(
    job: MakeJob, admin: AdminClient
) -> None:
    """confluent-kafka raises at them, and the second time crashes: it ended member after member."""
    orders = job(**TWICE, **{"on.failure": "dead_letter"})
    dead = f"{orders.topic}.dlq"
    create_topic(admin, dead)
    stranger = KafkaProducer(bootstrap_servers=orders.client["bootstrap.servers"])
    for name in ("plain", NotUtf8("größe")):
        stranger.send(orders.topic, key=b"a", value=b"v", headers=[(name, b"1")]).get(WAIT_S)
    stranger.close()
    seen: list[list[tuple[str, bytes | None]]] = []

    def handler(record: Record) -> None:
        seen.extend([record.headers, record.headers])
        raise RefusedError("not today")

    orders.run_to_end(handler=handler)
    unreadable = [("coop.unreadable", b"the name of a header is not UTF-8")]
    assert seen == [[("plain", b"1")]] * 4 + [unreadable] * 4
    letters = [dict(letter.headers() or ()) for letter in records_of(orders.client, dead)]
    assert [("plain" in letter, "coop.unreadable" in letter) for letter in letters] == [
        (True, False),
        (False, True),
    ]
    admin.delete_topics([dead])[dead].result(WAIT_S)


def test_a_dead_letter_that_is_too_large_is_told_with_what_to_raise_and_sent_once_it_fits(
    job: MakeJob, admin: AdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    orders = job(**TWICE, **{"on.failure": "dead_letter"})
    dead = f"{orders.topic}.dlq"
    create_topic(admin, dead, config={"max.message.bytes": "100"})  # less than its headers
    orders.produce(KEYS)
    with orders.running(handler=refuse_first(BAD[0])) as pool:
        eventually(lambda: "the dead-letter topic refused it" in caplog.text)
        assert f"topic {dead}: refuses a record for its size" in caplog.text
        assert "raise the topic's max.message.bytes" in caplog.text
        set_topic(admin, dead, "max.message.bytes", "10000")
        orders.wait_for_lag(0)
    assert pool.journal.offsets == sorted(GOOD + BAD[1:])
    admin.delete_topics([dead])[dead].result(WAIT_S)


# -- stop ------------------------------------------------------------------------------------------


def test_stop_ends_every_member_once_and_a_later_start_goes_on(job: MakeJob) -> None:
    orders, journal = job(partitions=2, **TWICE, **{"on.failure": "stop"}), Journal()
    pools = [
        Pool(orders.settings, orders.topic, journal=journal, handler=refuse("bad"))
        for _ in range(2)
    ]
    for pool in pools:
        pool.pool.start()
    for pool in pools:
        pool.wait_for_ranges()
    places = orders.produce([*keys_of(20, 5), "bad"])
    errors = []
    for pool in pools:
        with pytest.raises(ProcessingStoppedError) as caught:
            pool.pool.wait(WAIT_S)
        errors.append(caught.value)
    assert {(error.partition, error.offset) for error in errors} == {places[-1]}
    assert len({error.member for error in errors}) == 1
    assert "RefusedError: no b'bad' today" in str(errors[0])
    orders.wait_until_empty()
    orders.run_to_end(journal=journal)
    assert journal.places == sorted(places)


def test_static_members_that_were_stopped_go_on_as_soon_as_they_are_started_again(
    job: MakeJob,
) -> None:
    """Their seats, and the stop that these tell of, outlast them for a session."""
    orders, journal = job(partitions=2, **TWICE, **{"on.failure": "stop"}), Journal()
    names = [{**orders.settings, "group.instance.id": name} for name in ("a", "b")]
    refusing = [
        Pool(settings, orders.topic, journal=journal, handler=refuse("bad")) for settings in names
    ]
    for pool in refusing:
        pool.pool.start()
    for pool in refusing:
        pool.wait_for_ranges()
    places = orders.produce([*keys_of(20, 5), "bad"])
    for pool in refusing:
        with pytest.raises(ProcessingStoppedError):
            pool.pool.wait(WAIT_S)
    with ExitStack() as running:
        for settings in names:
            running.enter_context(Pool(settings, orders.topic, journal=journal).pool)
        journal.wait_for([*places, *orders.produce(keys_of(20, 5))])
        orders.wait_for_lag(0)
