"""Brokers that have nowhere to keep transactions: whoever needs them names the setting."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from assignors import TopicPartition
from coop_consumer.errors import ExitCode, NoTransactionsError
from coop_consumer.kafka import publish, transaction_calls, transaction_check
from coop_consumer.logs import CommitLog, ConditionalProducer, NewRecord
from coop_consumer.logs import appender as appending
from coop_consumer.offset_stores import LogOffsetStore, OffsetEntry
from coop_consumer.patterns import single_writer
from tests.integration.test_exactly_once import ONCE
from tests.support.brokers import own_broker
from tests.support.called import command
from tests.support.job import Job
from tests.support.pools import Pool
from tests.support.registers import Registers, put
from tests.support.single_writers import ALL, FOREVER, Bench
from tests.support.stock import described
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

SETTING = r"transaction\.state\.log\.replication\.factor"


@pytest.fixture(scope="module")
def client() -> Iterator[dict[str, str]]:
    """The settings of a client of one broker, whose log of transactions would need three."""
    with own_broker(config={"transaction.state.log.replication.factor": "3"}) as broker:
        yield {"bootstrap.servers": broker.bootstrap_servers}


def test_a_member_names_them_before_it_joins(
    client: dict[str, str], group_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = AdminClient(client)
    create_topic(admin, group_id)
    monkeypatch.setattr(transaction_check, "_PATIENCE_S", 1.0)  # not 30 s
    orders = Job(client, admin, group_id, group_id, 1, ONCE)
    pool = Pool(orders.settings, orders.topic).pool
    with pytest.raises(NoTransactionsError, match=SETTING) as refused:
        pool.start()
    assert refused.value.exit_code is ExitCode.UNAVAILABLE
    assert not described(admin, group_id).members


@pytest.mark.usefixtures("logging_as_it_was")
def test_doctor_names_them_before_a_member_starts(
    client: dict[str, str], group_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = AdminClient(client)
    create_topic(admin, group_id)
    monkeypatch.setattr(transaction_check, "_PATIENCE_S", 1.0)  # not 30 s
    orders = Job(client, admin, group_id, group_id, 1, ONCE)
    asked = ["--topics", orders.topic, "--config", "processing.guarantee=exactly_once"]
    told = command(orders, "doctor", "--group", orders.group, *asked)
    assert told.exit_code == ExitCode.UNAVAILABLE
    [found] = [line for line in told.stdout.splitlines() if "transactions" in line.split(":")[0]]
    assert found.startswith("fail")
    assert re.search(SETTING, told.stdout)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An append waits for a second until an id is served."""
    monkeypatch.setattr(appending, "_SERVED_WITHIN_S", 1.0)  # not 30 s
    monkeypatch.setattr(transaction_calls, "CALL_S", 1.0)  # not 10 s


@pytest.mark.usefixtures("impatient")
def test_a_conditional_append_names_them(client: dict[str, str], group_id: str) -> None:
    create_topic(AdminClient(client), group_id)
    with (
        ConditionalProducer(client, group_id, 0, "a") as producer,
        pytest.raises(NoTransactionsError, match=SETTING),
    ):
        producer.append([NewRecord(None, b"1")], producer.token())


@pytest.mark.usefixtures("impatient")
def test_a_commit_log_and_an_offset_store_name_them(client: dict[str, str], group_id: str) -> None:
    create_topic(AdminClient(client), group_id)
    with (
        CommitLog.open(client, group_id, 0, "a", Registers()) as log,
        pytest.raises(NoTransactionsError, match=SETTING),
    ):
        log.append([put("x", 1)])
    with (
        LogOffsetStore(client, group_id, "b") as store,
        pytest.raises(NoTransactionsError, match=SETTING),
    ):
        store.commit("billing", {TopicPartition("orders", 0): OffsetEntry(1)})


def test_each_pattern_names_them(
    client: dict[str, str], group_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_writer, "_SERVED_WITHIN_S", 1.0)  # not 30 s
    monkeypatch.setattr(publish, "_CALL_S", 0.5)  # not 10 s
    source, output = f"{group_id}-in", f"{group_id}-out"
    for name in (source, output):
        create_topic(AdminClient(client), name, config=FOREVER)
    bench = Bench(client, source, output, group_id)
    for kind in ALL:
        with pytest.raises(NoTransactionsError, match=rf"transactional\.id {group_id} .*{SETTING}"):
            bench.make(kind)
