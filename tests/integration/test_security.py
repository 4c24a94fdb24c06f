"""SASL/SCRAM over TLS with ACLs: one configuration serves both clients, a missing right is named.

`ann` is the user of the group. Each test grants her what it says, so the table of rights in
docs/security.md is tested line by line: with all of them she gets through, without any one she is
told which.
"""

from __future__ import annotations

import pytest
from confluent_kafka import ConsumerGroupState, Producer
from confluent_kafka.admin import AdminClient

from coop_consumer import Config, CoopConsumerError, Record, WorkerPool
from coop_consumer.admin.inspect import Inspector
from coop_consumer.broker import EmbeddedBroker
from coop_consumer.errors import AuthorizationError, ExitCode, ProgressTopicError
from coop_consumer.kafka import transactor
from offsets import Committed, TenureId, TenureKey, encode_key
from tests.integration.test_exactly_once import visible
from tests.support.counting import Counts, changelog_of
from tests.support.job import Job
from tests.support.journal import WAIT_S, out_of_order
from tests.support.pools import Pool, refuse
from tests.support.rights import (
    CREATE_OWN_LOG,
    CREATE_PROGRESS,
    NEEDED,
    NEEDED_ONCE,
    READ_GROUP,
    READ_OWN_LOG,
    READ_PROGRESS,
    READ_TOPIC,
    WRITE_DEAD,
    WRITE_IDS,
    WRITE_OWN_LOG,
    WRITE_PROGRESS,
    Right,
    grant,
)
from tests.support.sending import Sends
from tests.support.stock import PROGRESS_TOPIC, described, eventually, keys_of, records_of
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration


@pytest.fixture
def orders(secured: EmbeddedBroker, root: AdminClient, group_id: str) -> Job:
    """A job that `root` looks after and `ann` works on; so far she may do nothing."""
    create_topic(root, group_id)
    as_ann = secured.client_config("ann")
    return Job(secured.client_config("root"), root, f"{group_id}-group", group_id, own=as_ann)


def without(right: Right) -> list[Right]:
    return [it for it in NEEDED if it != right]


def forget_progress_topic(root: AdminClient) -> None:
    if PROGRESS_TOPIC in root.list_topics(timeout=WAIT_S).topics:
        root.delete_topics([PROGRESS_TOPIC])[PROGRESS_TOPIC].result(WAIT_S)
        eventually(lambda: PROGRESS_TOPIC not in root.list_topics(timeout=WAIT_S).topics)


def ending(job: Job, **settings: object) -> CoopConsumerError:
    """The error with which a pool is refused, or ends after its start."""
    try:
        pool = Pool({**job.settings, **settings}, job.topic).pool
        pool.start()
        pool.wait(WAIT_S)
    except CoopConsumerError as error:
        return error
    raise AssertionError("it got through")


# -- with all rights -------------------------------------------------------------------------------


def test_one_configuration_gets_both_clients_through(orders: Job, root: AdminClient) -> None:
    forget_progress_topic(root)
    grant(root, orders, [*NEEDED, CREATE_PROGRESS])
    places = orders.produce(keys_of(100, 10))
    with orders.running() as pool:
        rows = pool.journal.wait_for(places)
        assert described(root, orders.group).state is ConsumerGroupState.STABLE
        orders.wait_for_lag(0)
    assert pool.journal.places == sorted(places)
    assert out_of_order(rows) == []
    assert orders.committed() == {0: (100, "coop:1")}
    with Inspector(Config.from_dict(orders.settings)) as inspector:
        [seen] = inspector.see([orders.topic]).partitions
    assert (seen.committed, seen.end) == (Committed.mirror(100, 1, seen.topic_id), 100)


def test_two_members_share_a_partition(orders: Job, root: AdminClient) -> None:
    grant(root, orders, [*NEEDED, CREATE_PROGRESS])
    with orders.running() as first, orders.running(journal=first.journal) as second:
        first.wait_for_ranges()
        second.wait_for_ranges()
        places = orders.produce(keys_of(100, 50))
        rows = first.journal.wait_for(places)
    assert len({row.member for row in rows}) == 2
    assert first.journal.places == sorted(places)


def test_dead_letters_need_the_right_to_write_their_topic(
    orders: Job, root: AdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    dead = f"{orders.topic}.dlq"
    create_topic(root, dead)
    grant(root, orders, [*NEEDED, CREATE_PROGRESS])
    orders.produce(["bad", "good"])
    once = {"on.failure": "dead_letter", "max.attempts": 1}
    soon = {"attempt.backoff.ms": 10, "attempt.backoff.max.ms": 100}
    job = Job(orders.client, root, orders.group, orders.topic, own={**orders.own, **once, **soon})
    with job.running(handler=refuse("bad")) as pool:
        eventually(lambda: "the dead-letter topic refused it" in caplog.text)
        assert f"topic {dead}: user ann may not write" in caplog.text
        grant(root, orders, [*NEEDED, WRITE_DEAD])
        job.wait_for_lag(0)
    assert [letter.key() for letter in records_of(orders.client, dead)] == [b"bad"]
    assert pool.journal.offsets == [1]


# -- without one -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        (READ_TOPIC, "topic {topic}: user ann may not read."),
        (READ_GROUP, "group {group}: user ann may not read."),
        (READ_PROGRESS, f"topic {PROGRESS_TOPIC}: user ann may not read."),
        (WRITE_PROGRESS, f"topic {PROGRESS_TOPIC}: user ann may not write."),
    ],
    ids=["topic read", "group read", "progress read", "progress write"],
)
def test_a_missing_right_is_named(
    orders: Job, root: AdminClient, missing: Right, told: str
) -> None:
    grant(root, orders, [*without(missing), CREATE_PROGRESS])
    error = ending(orders)
    assert isinstance(error, AuthorizationError)
    assert str(error).startswith(told.format(topic=orders.topic, group=orders.group))
    assert error.exit_code is ExitCode.UNAUTHORIZED


def test_with_exactly_once_a_member_needs_what_the_page_says_and_names_what_it_misses(
    orders: Job, root: AdminClient
) -> None:
    totals = f"{orders.topic}-totals"
    create_topic(root, totals)
    once = {"processing.guarantee": "exactly_once", "output.topics": totals}
    job = Job(orders.client, root, orders.group, orders.topic, own={**orders.own, **once})
    outputs = ("TOPIC", totals, "WRITE")
    grant(root, job, [*NEEDED_ONCE, CREATE_OWN_LOG, outputs])
    places = job.produce(keys_of(20, 5))
    assert set(job.run_to_end().places) == set(places)
    own_log = f"topic {PROGRESS_TOPIC}-{job.group}"
    for missing, told in (
        (READ_TOPIC, f"topic {job.topic}: user ann may not read."),
        (READ_GROUP, f"group {job.group}: user ann may not read."),
        (READ_OWN_LOG, f"{own_log}: user ann may not read."),
        (WRITE_OWN_LOG, f"{own_log}: user ann may not write."),
        (WRITE_IDS, f"transactional.id coop-{job.group}-"),
        (outputs, f"topic {totals}: user ann may not write."),
    ):
        seen = ("TOPIC", totals, "DESCRIBE")
        grant(root, job, [it for it in (*NEEDED_ONCE, outputs, seen) if it != missing])
        error = ending(job)
        assert isinstance(error, AuthorizationError)
        assert str(error).startswith(told)
    grant(root, job, NEEDED_ONCE)
    assert f"Grant write on topic {totals}" in str(ending(job)), "hidden, not only forbidden"


def test_who_may_not_end_the_transaction_of_a_run_that_is_gone_says_so_and_waits(
    orders: Job, root: AdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    own = {**orders.own, "processing.guarantee": "exactly_once", "group.instance.id": "m1"}
    job = Job(orders.client, root, orders.group, orders.topic, own=own)
    ids = ("TRANSACTIONAL_ID", "coop-{group}-m1-*", "WRITE")
    grant(root, job, [READ_TOPIC, READ_GROUP, READ_OWN_LOG, WRITE_OWN_LOG, CREATE_OWN_LOG, ids])
    job.run_to_end()  # the log is made
    gone = f"coop-{job.group}-gone-7"
    producer = Producer({**job.client, "transactional.id": gone})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    key = encode_key(TenureKey(job.group, bytes(16), 0, TenureId("gone", 7, 1)))
    for number in range(8):
        producer.produce(f"{PROGRESS_TOPIC}-{job.group}", b"undecided", key, number)
    assert producer.flush(WAIT_S) == 0
    places = job.produce(keys_of(20, 5))
    with job.running() as pool:
        eventually(lambda: "the open transaction of a member that is gone" in caplog.text)
        assert f"cannot be ended (transactional.id {gone}: user ann may not write)" in caplog.text
        assert pool.journal.rows == []
        producer.abort_transaction(WAIT_S)
        pool.journal.wait_for(places)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_missing_right_on_a_changelog_is_named_at_the_start(
    orders: Job, root: AdminClient, guarantee: str
) -> None:
    """Clients would say so with the first restore, or the first commit."""
    own = {**orders.own, "processing.guarantee": guarantee}
    job = Job(orders.client, root, orders.group, orders.topic, own=own)
    changelog = changelog_of(job)
    create_topic(root, changelog, config={"cleanup.policy": "compact"})
    needed = {*NEEDED, *NEEDED_ONCE, CREATE_PROGRESS, CREATE_OWN_LOG}
    for missing, other in (("READ", "WRITE"), ("WRITE", "READ")):
        grant(root, job, [*needed, ("TOPIC", changelog, other)])
        pool = WorkerPool(Counts(), job.settings, [job.topic])
        with pytest.raises(AuthorizationError) as raised:
            pool.start()
        assert str(raised.value).startswith(
            f"topic {changelog}: user ann may not {missing.lower()}."
        )


def test_a_progress_topic_that_ann_may_not_create_is_asked_for(
    orders: Job, root: AdminClient
) -> None:
    forget_progress_topic(root)
    grant(root, orders, NEEDED)
    error = ending(orders)
    assert isinstance(error, ProgressTopicError)
    told = f"progress topic {PROGRESS_TOPIC}: does not exist and cannot be created"
    assert str(error).startswith(told)


def test_a_right_taken_away_ends_the_member_with_what_it_misses(
    orders: Job, root: AdminClient
) -> None:
    grant(root, orders, [*NEEDED, CREATE_PROGRESS])
    first = orders.produce(keys_of(50, 5))
    pool = Pool(orders.settings, orders.topic)
    pool.pool.start()
    pool.journal.wait_for(first)
    orders.wait_for_lag(0)
    grant(root, orders, without(WRITE_PROGRESS))
    second = orders.produce(keys_of(50, 5))
    with pytest.raises(AuthorizationError, match="may not write"):
        pool.pool.wait(WAIT_S)
    grant(root, orders, NEEDED)
    again = orders.run_to_end()
    assert set(pool.journal.places + again.places) == {*first, *second}


@pytest.mark.parametrize(
    ("taken", "told"),
    [
        (READ_GROUP, "group {group}: user ann may not read."),
        (READ_OWN_LOG, f"topic {PROGRESS_TOPIC}-{{group}}: user ann may not read."),
        (WRITE_OWN_LOG, f"topic {PROGRESS_TOPIC}-{{group}}: user ann may not write."),
    ],
    ids=["group read", "log read", "log write"],
)
def test_a_right_that_is_taken_away_from_transactions_is_named(
    orders: Job, root: AdminClient, taken: Right, told: str
) -> None:
    """By the name of a transactional.id, or that a record was purged, nobody finds the cause."""
    slow = {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 7_000}
    own = {**orders.own, **slow, "processing.guarantee": "exactly_once"}
    job = Job(orders.client, root, orders.group, orders.topic, own=own)
    grant(root, job, [*NEEDED_ONCE, CREATE_OWN_LOG])
    pool = Pool(job.settings, job.topic)
    pool.pool.start()
    pool.journal.wait_for(job.produce(keys_of(5, 5)))
    grant(root, job, [it for it in NEEDED_ONCE if it != taken])
    job.produce(keys_of(5, 5))
    with pytest.raises(AuthorizationError) as raised:
        pool.pool.wait(WAIT_S)
    assert str(raised.value).startswith(told.format(group=job.group))


def test_with_exactly_once_a_letter_that_may_not_be_written_parks_its_record(
    orders: Job, root: AdminClient
) -> None:
    totals, dead = f"{orders.topic}-totals", f"{orders.topic}.dlq"
    for name in (totals, dead):
        create_topic(root, name)
    own = {"processing.guarantee": "exactly_once", "output.topics": totals}
    few = {"on.failure": "dead_letter", "max.attempts": 1, "circuit.share": 0}
    job = Job(orders.client, root, orders.group, orders.topic, own={**orders.own, **own, **few})
    grant(root, job, [*NEEDED_ONCE, CREATE_OWN_LOG, ("TOPIC", totals, "WRITE")])
    job.produce(keys_of(5, 5))

    class FailsOnce(Sends):
        def process(self, record: Record) -> None:
            super().process(record)
            if record.offset == 3:
                raise ValueError("no price")

    with WorkerPool(FailsOnce, job.settings, [job.topic], workers=2) as pool:
        eventually(job.parked, lambda offsets: offsets == [3])
        eventually(lambda: len(visible(job, totals)), lambda count: count == 4)
        assert pool.assignment(), "and its member goes on"


def test_a_right_to_an_output_that_is_taken_away_is_named_after_a_while(
    orders: Job, root: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactor, "_PATIENCE_S", 1.0)  # not 30 s
    totals = f"{orders.topic}-totals"
    create_topic(root, totals)
    own = {**orders.own, "processing.guarantee": "exactly_once", "output.topics": totals}
    job = Job(orders.client, root, orders.group, orders.topic, own=own)
    outputs = ("TOPIC", totals, "WRITE")
    grant(root, job, [*NEEDED_ONCE, CREATE_OWN_LOG, outputs])
    pool = WorkerPool(Sends, job.settings, [job.topic], workers=2)
    pool.start()
    job.produce(keys_of(5, 5))
    eventually(lambda: pool.counters.committed, lambda count: count == 5)
    grant(root, job, [*NEEDED_ONCE, ("TOPIC", totals, "DESCRIBE")])
    job.produce(keys_of(5, 5))
    with pytest.raises(AuthorizationError) as raised:
        pool.wait(WAIT_S)
    assert str(raised.value).startswith(f"topic {totals}: user ann may not write.")
    assert pool.counters.committed == 5


def test_a_wrong_password_is_a_refused_login(orders: Job) -> None:
    error = ending(orders, **{"sasl.password": "guessed"})
    assert isinstance(error, AuthorizationError)
    assert "the broker refused to authenticate user ann" in str(error)
    assert "guessed" not in str(error)
