"""The commands on a group with exactly once, whose guarantee nobody tells them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from assignors import WHOLE, key_hash
from coop_consumer import Record, WorkerPool
from coop_consumer.admin.planned import Finished, PlannedGroup
from coop_consumer.broker import EmbeddedBroker
from coop_consumer.cli.app import app
from coop_consumer.config import Config
from coop_consumer.core.placement import log_partition_of
from coop_consumer.errors import ExitCode, LogLostForGoodError, MisuseError
from coop_consumer.kafka.policies import PolicyLog
from coop_consumer.kafka.topics import Topics
from coop_consumer.kafka.transactor import transactional_id
from offsets import OffsetRange, PolicyKey, TenureId, TenureKey, encode_key
from tests.support import stock
from tests.support.brokers import MakeTopic
from tests.support.called import command, done
from tests.support.counting import Counts, changelog_of, count_all
from tests.support.job import Job
from tests.support.journal import WAIT_S
from tests.support.pools import Gate, Pool, refuse
from tests.support.rights import READ_GROUP, READ_TOPIC, grant
from tests.support.sending import Sends, places_of
from tests.support.stock import eventually, keys_of
from tests.support.topics import create_topic, truncate

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("logging_as_it_was")]

MakeJob = Callable[..., Job]
Place = tuple[int, int]

ONCE = {"processing.guarantee": "exactly_once", "progress.topic.partitions": 2}
HALVES = WHOLE.parts(2)
PARKS_AT_ONCE = {"on.failure": "park", "max.attempts": 1}


@pytest.fixture
def once(job: MakeJob, admin: AdminClient) -> Iterator[MakeJob]:
    """Make a job with exactly once; its own progress topic is gone after the test."""
    made: list[Job] = []

    def make(partitions: int = 1, **settings: object) -> Job:
        made.append(job(partitions, **ONCE, **settings))
        return made[-1]

    yield make
    names = [own_log(it) for it in made]
    for future in admin.delete_topics(names).values() if names else ():
        future.exception(WAIT_S)  # a test may have deleted it


def own_log(orders: Job) -> str:
    return f"{orders.own.get('progress.topic', stock.PROGRESS_TOPIC)}-{orders.group}"


def status(orders: Job) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(done(command(orders, "status", orders.group, "--json")))
    return told


@contextmanager
def left_open(
    orders: Job, topic: str, partition: int, key: bytes, timeout_ms: int = 60_000
) -> Iterator[str]:
    """Leave a transaction open with one record; yields its transactional.id. Ends it afterwards."""
    writer = transactional_id("coop-", orders.group, "ghost", 7)
    settings = {**orders.client, "transactional.id": writer, "transaction.timeout.ms": timeout_ms}
    producer = Producer(settings)
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"?", key, partition)
    assert producer.flush(WAIT_S) == 0
    yield writer
    producer.abort_transaction(WAIT_S)


# -- the log is found ------------------------------------------------------------------------------


def test_a_record_is_seen_and_decided_about_in_the_groups_own_log(once: MakeJob) -> None:
    orders = once(**PARKS_AT_ONCE)
    places = orders.produce(keys_of(40, 4))
    refused = [offset for (_, offset), key in zip(places, keys_of(40, 4), strict=True)
               if key == "key-3"]  # fmt: skip
    is_better = False

    def handler(record: Any) -> None:
        if not is_better:
            refuse("key-3")(record)

    with orders.running(handler=handler) as pool:
        pool.journal.wait(lambda rows: len(rows) == 30)
        told = eventually(
            lambda: status(orders),
            lambda it: it["partitions"][0]["remaining"]["records"] == 10,
        )
        assert told["guarantee"] == "exactly_once"
        [seen] = told["partitions"]  # not its own log, which has committed offsets as well
        assert [it["offset"] for it in seen["failed"]] == refused[:1]
        place = f"{orders.topic}-0", str(refused[0])
        assert "counts as done" in done(command(orders, "skip", orders.group, *place))
        eventually(
            lambda: status(orders)["partitions"][0]["failed"],
            lambda failed: [it["offset"] for it in failed if it["parked"]] == refused[1:2],
        )
    orders.wait_until_empty()
    assert "Empty  0 members  exactly once" in done(command(orders, "status", orders.group))
    is_better = True
    answer = done(command(orders, "retry", orders.group, "--all"))
    assert "1 parked record: each is tried again" in answer
    assert orders.run_to_end(handler=handler).offsets == refused[1:]


def test_a_group_that_was_changed_over_and_back_is_read_where_it_is_now(once: MakeJob) -> None:
    orders = once()
    back = replace(orders, own={})
    for job, guarantee, end in (
        (back, "at_least_once", 10),
        (orders, "exactly_once", 20),
        (back, "at_least_once", 30),
    ):
        job.produce(keys_of(10, 4))
        with job.running() as pool:
            pool.journal.wait(lambda rows: len(rows) == 10)
            assert status(job)["guarantee"] == guarantee  # by its members
            job.wait_for_lag(0)
        job.wait_until_empty()
        told = status(job)
        assert told["guarantee"] == guarantee
        [seen] = told["partitions"]
        assert (seen["stable"], seen["remaining"]["records"]) == (end, 0)
        assert told["warnings"] == []


# -- transactions that nobody has decided ----------------------------------------------------------


def test_what_holds_up_readers_is_named_with_the_command_that_ends_it(
    once: MakeJob, admin: AdminClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = once()
    orders.produce(keys_of(20, 4))
    orders.run_to_end()
    log, number = own_log(orders), log_partition_of(orders.group, orders.topic, 0, 2)
    tenure = TenureId("ghost", 7, 1)
    key = encode_key(TenureKey(orders.group, stock.topic_id(admin, orders.topic), 0, tenure))
    with left_open(orders, log, number, key) as writer:
        told = status(orders)
        [held] = told["open_transactions"]
        assert (held["topic"], held["partition"]) == (log, number)
        assert (held["transactional_id"], held["members"]) == (writer, ["ghost"])
        assert (held["timeout_ms"], held["is_hanging"]) == (60_000, False)
        assert held["command"].endswith(
            f"abort --topic {log} --partition {number} --start-offset {held['offset']}"
        )
        assert told["partitions"][0]["stable"] == 20  # what lies below is shown
        monkeypatch.setattr("coop_consumer.admin.inspect._SWEEP_MS", -7_000)  # not 25 s
        refused = command(orders, "reset", orders.group, "--to", "earliest")
    assert refused.exit_code == ExitCode.UNAVAILABLE
    assert f"transaction of member ghost (transactional.id {writer})" in refused.stderr
    assert f"progress log {log}-{number}: " in refused.stderr
    assert held["command"] in refused.stderr
    assert orders.committed()[0][0] == 20
    assert "1 of 1 partition moved" in done(
        command(orders, "reset", orders.group, "--to", "earliest")
    )


def test_what_is_left_ends_at_the_last_stable_offset_and_what_lies_above_is_told(
    once: MakeJob,
) -> None:
    """See klag-exporter#104: a lag that counts what no reader of committed records can see."""
    orders = once()
    orders.produce(keys_of(20, 4))
    orders.run_to_end()
    with left_open(orders, orders.topic, 0, b"key-1") as writer:
        told = status(orders)
        [seen] = told["partitions"]
        assert (seen["readable"], seen["end"]) == (20, 21)
        assert seen["remaining"]["records"] == 0
        [held] = told["open_transactions"]
        assert (held["topic"], held["offset"], held["end"]) == (orders.topic, 20, 21)
        assert held["transactional_id"] == writer


def test_a_transaction_that_holds_up_what_the_group_writes_is_named_as_well(
    once: MakeJob, topic: MakeTopic
) -> None:
    totals = topic(1)
    orders = once()
    orders.produce(keys_of(4, 4))
    count_all(orders, Counts())
    named = ("--json", "--config", f"output.topics={totals}")
    for written in (totals, changelog_of(orders)):
        with left_open(orders, written, 0, b"key-1") as writer:
            told = json.loads(done(command(orders, "status", orders.group, *named)))
        [held] = told["open_transactions"]
        assert (held["topic"], held["transactional_id"]) == (written, writer)
        assert f"abort --topic {written} --partition 0" in held["command"]


def test_a_member_counts_since_when_a_transaction_holds_up_its_input(once: MakeJob) -> None:
    orders = once()
    orders.produce(keys_of(20, 4))
    with orders.running() as pool:
        pool.journal.wait(lambda rows: len(rows) == 20)

        def since_ms() -> int:
            return pool.pool.counters.input_undecided_since_ms

        assert since_ms() == 0
        with left_open(orders, orders.topic, 0, b"key-1"):
            eventually(since_ms)
        eventually(since_ms, lambda ms: ms == 0)
        orders.produce(keys_of(4, 4))
        pool.journal.wait(lambda rows: len(rows) == 24)


# -- the log is lost -------------------------------------------------------------------------------


def test_after_a_lost_log_members_end_until_a_reset_says_where_they_go_on(
    once: MakeJob, admin: AdminClient
) -> None:
    orders = once()
    orders.produce(keys_of(30, 4))
    orders.run_to_end()
    orders.wait_for_lag(0)
    [deleted] = admin.delete_topics([own_log(orders)]).values()
    deleted.result(WAIT_S)
    orders.produce(keys_of(5, 4))

    pool = Pool(orders.settings, orders.topic)
    with pytest.raises(LogLostForGoodError, match="has lost epoch 1") as raised, pool.pool:
        pool.pool.wait(WAIT_S)
    assert raised.value.exit_code == ExitCode.CONFLICT
    assert f"coop-consumer reset {orders.group}" in str(raised.value)
    assert pool.journal.rows == []
    orders.wait_until_empty()
    told = done(command(orders, "status", orders.group))
    assert "ends, until `coop-consumer reset` says where the group goes on" in told

    told = done(command(orders, "reset", orders.group, "--to", "committed"))
    assert "above the committed offset 30. Offsets [30-34] come, and some of them may have" in told
    assert "1 of 1 partition moved" in told
    [seen] = status(orders)["partitions"]
    assert (seen["epoch"], seen["committed"]) == (2, 30)
    assert seen["metadata"].startswith("coop-eo:2:")
    assert orders.run_to_end().offsets == [30, 31, 32, 33, 34]


def test_a_log_that_is_deleted_under_living_members_ends_all_of_them_with_the_way_on(
    once: MakeJob, admin: AdminClient
) -> None:
    orders = once(2, **{"topics.watch.interval.ms": 1_000})
    pools = [Pool(orders.settings, orders.topic) for _ in range(2)]
    for it in pools:
        it.pool.start()
    places = orders.produce(keys_of(40, 20))
    eventually(lambda: sum(len(it.journal.rows) for it in pools), lambda count: count == 40)
    orders.wait_for_lag(0)
    [deleted] = admin.delete_topics([own_log(orders)]).values()
    deleted.result(WAIT_S)
    for it in pools:
        with pytest.raises(LogLostForGoodError) as raised:
            it.pool.wait(WAIT_S)
        assert raised.value.exit_code is ExitCode.CONFLICT
        assert f"coop-consumer reset {orders.group} --to committed" in str(raised.value)
    orders.wait_until_empty()
    assert sorted(row.place for it in pools for row in it.journal.rows) == sorted(places)


def cut(orders: Job, admin: AdminClient) -> None:
    number = orders.log.number_of(orders.topic, 0)
    truncate(admin, own_log(orders), {number: orders.log.store(number).next_offset})


def write_garbage(orders: Job, admin: AdminClient) -> None:
    """In the place of what somebody has told who is gone."""
    number = orders.log.number_of(orders.topic, 0)
    gone = TenureKey(orders.group, stock.topic_id(admin, orders.topic), 0, TenureId("gone", 7, 1))
    orders.log.write(number, encode_key(gone), b"garbage")


@pytest.mark.parametrize("harm", [cut, write_garbage])
def test_a_log_that_lost_records_under_a_living_member_ends_whoever_reads_it(
    once: MakeJob, admin: AdminClient, harm: Callable[[Job, AdminClient], None]
) -> None:
    orders = once()
    first, second = (Pool(orders.settings, orders.topic) for _ in range(2))
    first.pool.start()
    orders.produce(keys_of(20, 5))
    first.journal.wait(lambda rows: len(rows) == 20)
    orders.wait_for_lag(0)
    harm(orders, admin)
    second.pool.start()
    for it in (first, second):
        with pytest.raises(LogLostForGoodError) as raised:
            it.pool.wait(WAIT_S)
        assert raised.value.exit_code is ExitCode.CONFLICT
    assert second.journal.rows == []


# -- a handler that hangs --------------------------------------------------------------------------


class SendsAtGate(Sends):
    """Sends, and waits at a gate before the record is done."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def process(self, record: Record) -> None:
        super().process(record)
        self.gate(record)


@contextmanager
def one_waits_for_the_other(
    orders: Job,
) -> Iterator[tuple[WorkerPool, WorkerPool, Gate, list[Place]]]:
    """Two members, of which the second waits for a handler of the first; places of all records.

    The first two places are of slow keys, one in each half of the hash space: whichever half moves,
    a running key moves.
    """
    slow = [next(k for k in keys_of(50, 50) if key_hash(k.encode()) in half) for half in HALVES]
    stuck = Gate(*slow)
    places = orders.produce([*slow, *keys_of(20, 10)])

    def pool(gate: Gate) -> WorkerPool:
        return WorkerPool(SendsAtGate(gate), orders.settings, [orders.topic], workers=4)

    try:
        with pool(stuck) as old:
            stuck.wait_for_arrival()
            with pool(Gate()) as new:
                yield old, new, stuck, places
                orders.wait_for_lag(0)
    finally:
        stuck.open()


def handovers(orders: Job) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = status(orders)["partitions"][0]["handovers"]
    return found


def outputs(orders: Job) -> list[Place]:
    """The places of all records whose outputs are visible."""
    strict = {**orders.client, "isolation.level": "read_committed"}
    return [
        place for _, place in places_of(stock.records_of(strict, str(orders.own["output.topics"])))
    ]


def test_what_a_stuck_member_holds_is_released_and_it_commits_nothing_of_it(
    once: MakeJob, topic: MakeTopic
) -> None:
    orders = once(**{"output.topics": topic(1)})
    with one_waits_for_the_other(orders) as (old, _, stuck, places):
        slow = set(places[:2])
        eventually(lambda: handovers(orders), lambda found: len(found) == 1)
        shown = done(command(orders, "release", orders.group, "--dry-run"))
        assert f"{old.name} on " in shown
        assert "It is put out of it first" in shown
        assert not slow & set(outputs(orders))
        assert "Released." in done(command(orders, "release", orders.group, "--yes"))
        eventually(lambda: slow & set(outputs(orders)))  # of its next owner
        stuck.open()
        eventually(lambda: set(outputs(orders)), lambda seen: seen >= set(places))
    assert sorted(outputs(orders)) == sorted(places)


# -- rights ----------------------------------------------------------------------------------------


def test_doctor_names_the_rights_that_transactions_need(
    secured: EmbeddedBroker, root: AdminClient, group_id: str, tmp_path: Path
) -> None:
    create_topic(root, group_id)
    create_topic(root, f"{group_id}-totals")
    orders = Job(secured.client_config("root"), root, f"{group_id}-group", group_id, own=ONCE)
    changelog = changelog_of(orders)
    create_topic(root, changelog)
    log = own_log(orders)
    create_topic(root, log)
    own = [("TOPIC", log, "READ"), ("TOPIC", log, "WRITE"), ("TOPIC", changelog, "READ")]
    asked = ["doctor", "--group", orders.group, "--topics", orders.topic]
    asked += ["--config", "processing.guarantee=exactly_once"]
    asked += ["--config", f"output.topics={orders.topic}-totals"]

    grant(root, orders, [READ_TOPIC, READ_GROUP, ("TOPIC", f"{orders.topic}-totals", "READ"), *own])
    told = as_ann(secured, tmp_path, *asked)
    assert told.exit_code == ExitCode.UNAUTHORIZED
    prefix = f"coop-{orders.group}-"
    assert f"fail  transactions: transactional.id {prefix}doctor-0: user ann may not" in told.stdout
    assert (
        "--add --allow-principal User:ann --operation Write --transactional-id "
        f"{prefix} --resource-pattern-type prefixed" in told.stdout
    )
    assert f"fail  topic {orders.topic}-totals: not allowed: write" in told.stdout
    assert f"fail  changelog {changelog}: not allowed: write" in told.stdout

    ids = ("TRANSACTIONAL_ID", f"{prefix}doctor-0", "WRITE")
    grant(root, orders, [READ_TOPIC, READ_GROUP, ids, *own])
    assert "ok    transactions: the brokers accept" in as_ann(secured, tmp_path, *asked).stdout


def test_doctor_warns_of_outputs_that_are_kept_once_in_a_cluster(
    once: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = once()
    totals, letters = f"{orders.topic}-totals", f"{orders.topic}-letters"
    for name in (totals, letters, changelog := changelog_of(orders)):
        create_topic(orders.admin, name)
    settings = [f"output.topics={totals}", "on.failure=dead_letter", f"dead.letter.topic={letters}"]
    asked = ["doctor", "--group", orders.group, "--topics", orders.topic]
    asked += [word for it in settings for word in ("--config", it)]

    def kept_once(guarantee: str) -> list[str]:
        told = command(orders, *asked, "--config", f"processing.guarantee={guarantee}").stdout
        return [line.split(": kept")[0] for line in told.splitlines() if "KAFKA-20734" in line]

    assert kept_once("exactly_once") == []  # one broker cannot do better
    monkeypatch.setattr(Topics, "brokers", lambda _: 3)
    assert kept_once("at_least_once") == []
    assert sorted(kept_once("exactly_once")) == [
        f"warn  changelog {changelog}",
        f"warn  dead-letter topic {letters}",
        f"warn  topic {totals}",
    ]


def test_a_member_that_may_not_be_put_out_keeps_what_it_holds(
    secured: EmbeddedBroker, root: AdminClient, group_id: str, tmp_path: Path
) -> None:
    create_topic(root, group_id)
    create_topic(root, f"{group_id}-totals")
    own = {**ONCE, "output.topics": f"{group_id}-totals"}
    orders = Job(secured.client_config("root"), root, f"{group_id}-group", group_id, own=own)
    log = own_log(orders)
    rights = [("GROUP", orders.group, "DESCRIBE"), ("TOPIC", log, "READ"), ("TOPIC", log, "WRITE")]
    grant(root, orders, [READ_TOPIC, *rights])
    with one_waits_for_the_other(orders) as (_, _, stuck, places):
        asked = ["release", orders.group, "--yes"]
        told = eventually(
            lambda: as_ann(secured, tmp_path, *asked),
            lambda told: "nobody waits" not in told.output,
        )
        assert told.exit_code == ExitCode.UNAUTHORIZED
        assert f"group {orders.group}: user ann may not read" in told.stderr
        assert "Released" not in told.stdout
        assert not set(places[:2]) & set(outputs(orders))
        stuck.open()
    assert sorted(outputs(orders)) == sorted(places)


def as_ann(secured: EmbeddedBroker, folder: Path, *arguments: str) -> Result:
    """A command as `ann` calls it, who has the rights that a test grants."""
    file = folder / "client.properties"
    lines = [f"{name}={value}\n" for name, value in secured.client_config("ann").items()]
    file.write_text("".join(lines), encoding="utf-8")
    return CliRunner().invoke(app, [*arguments, "--config-file", str(file)])


# -- what such a group refuses ---------------------------------------------------------------------


def test_a_planned_job_is_refused_whatever_its_configuration_says(once: MakeJob) -> None:
    orders = once()
    orders.produce(keys_of(20, 4))
    orders.run_to_end()
    plain = {**orders.settings, "processing.guarantee": "at_least_once"}
    untold = Config.from_dict({**plain, "group.id": f"{orders.group}-new"})
    with PlannedGroup(untold) as group:  # a group that nobody has begun
        [pending] = group.look([orders.topic], {})
        finished = Finished(WHOLE, OffsetRange(0, 19))
    for settings in (orders.settings, plain):
        with PlannedGroup(Config.from_dict(settings)) as group:
            with pytest.raises(MisuseError, match=r"guarantee=exactly_once: a job"):
                group.look([orders.topic], {})
            with pytest.raises(MisuseError, match="outside of transactions"):
                group.commit("plan-1", [pending], {pending.tp: [finished]})
    assert status(orders)["partitions"][0]["epoch"] == 1


# -- policies --------------------------------------------------------------------------------------


def test_topics_policies_are_in_the_shared_log_and_a_groups_policy_is_in_its_own(
    once: MakeJob, history: str
) -> None:
    shared = {"progress.topic": history}
    orders = once(**shared, **{"topics.watch.interval.ms": 1_000})
    where = ["--config", f"progress.topic={history}"]
    config = Config.from_dict(orders.settings)

    def policy(action: str, *words: str) -> str:
        return done(command(orders, "policy", action, *words, *where))

    def seen() -> tuple[int, list[str]]:
        """How many members share the partition, and what is forbidden, by `status`."""
        told = json.loads(done(command(orders, "status", orders.group, "--json", *where)))
        return len(told["partitions"][0]["owners"]), [it["scope"] for it in told["policies"]]

    with orders.running() as one, orders.running():
        one.wait_for_ranges()
        eventually(seen, lambda found: found == (2, []))  # there is no shared topic yet
        policy("set", "accept.range.fetch=false", "--topic", orders.topic)
        eventually(seen, lambda found: found == (1, ["topic"]))
        policy("set", "accept.individual.commit=false", "--group", orders.group)
        policy("set", "accept.range.fetch=true", "--topic", orders.topic)
        eventually(seen, lambda found: found == (1, ["group"]))
        key = PolicyKey("group", orders.group)
        with (
            closing(PolicyLog(config)) as shared,
            closing(PolicyLog(config, own_log(orders))) as own,
        ):
            assert shared.read() == {}
            assert list(own.read()) == [key]
        assert policy("get") == f"group {orders.group}: accept.individual.commit=false\n"
        assert policy("get", "--group", orders.group) == policy("get")
        policy("set", "accept.individual.commit=true", "--group", orders.group)
        eventually(seen, lambda found: found == (2, []))
