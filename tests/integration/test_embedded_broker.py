"""The embedded broker as a user meets it: it starts, answers, survives, fails and ends as told."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from coop_consumer.broker import (
    BrokerStartError,
    EmbeddedBroker,
    FolderError,
    PortTakenError,
)
from coop_consumer.broker.process import ProcessIdentity
from tests.support.brokers import MakeBroker, MakeTopic
from tests.support.stock import eventually
from tests.support.topics import create_topic

pytestmark = pytest.mark.integration

WAIT_S = 30.0

TOPIC_AUTHORIZATION_FAILED = KafkaError.TOPIC_AUTHORIZATION_FAILED


def produce(config: dict[str, Any], topic: str, *values: bytes) -> None:
    """Write values, and wait until every one is acknowledged by all replicas in sync."""
    failures: list[KafkaError] = []
    producer = Producer({**config, "acks": "all"})
    for value in values:
        producer.produce(
            topic, value, on_delivery=lambda error, _: failures.append(error) if error else None
        )
    assert producer.flush(WAIT_S) == 0
    assert failures == []


def consume(config: dict[str, Any], topic: str, group: str, count: int) -> list[bytes | None]:
    """Read the first `count` values of a topic of one partition as a new group."""
    consumer = Consumer({**config, "group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        return [message.value() for message in consumer.consume(count, WAIT_S)]
    finally:
        consumer.close()


def test_what_was_produced_is_consumed(bootstrap: str, topic: MakeTopic, group_id: str) -> None:
    orders = topic(1)
    config = {"bootstrap.servers": bootstrap}
    produce(config, orders, b"one", b"two")
    assert consume(config, orders, group_id, 2) == [b"one", b"two"]


def test_topics_have_the_partitions_asked_for_and_are_not_created_by_looking(
    admin: AdminClient, topic: MakeTopic
) -> None:
    orders = topic(3)
    assert len(admin.list_topics(orders, WAIT_S).topics[orders].partitions) == 3
    admin.list_topics(f"{orders}-typo", WAIT_S)
    assert f"{orders}-typo" not in admin.list_topics(timeout=WAIT_S).topics


def test_start_and_stop_leave_nothing_and_compute_less_than_ten_seconds() -> None:
    before = os.times()
    with EmbeddedBroker() as broker:
        folder = broker.data_dir
        process = ProcessIdentity.of(broker.pids[0])
        assert process.is_alive()
    after = os.times()
    # Processor time, because the clock tells more of what else this machine does.
    assert after.children_user - before.children_user < 10
    assert not process.is_alive()
    assert not folder.exists()
    assert broker.pids == {}


def test_named_folder_keeps_data_and_logs_for_the_next_broker(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        create_topic(AdminClient(broker.client_config()), "orders")
        produce(broker.client_config(), "orders", b"kept")
        [log] = broker.log_paths
    assert "started" in log.read_text()
    with EmbeddedBroker(data_dir=tmp_path) as broker:
        assert consume(broker.client_config(), "orders", "g", 1) == [b"kept"]


def test_killed_node_comes_back_on_its_port_with_its_data(fresh_broker: MakeBroker) -> None:
    broker = fresh_broker()
    address, first_pid = broker.bootstrap_servers, broker.pids[0]
    create_topic(AdminClient(broker.client_config()), "orders")
    produce(broker.client_config(), "orders", b"before")
    broker.kill()
    assert broker.pids == {}
    broker.restart()
    assert broker.bootstrap_servers == address
    assert broker.pids[0] != first_pid
    produce(broker.client_config(), "orders", b"after")
    assert consume(broker.client_config(), "orders", "g", 2) == [b"before", b"after"]


def test_a_forked_child_that_leaves_the_block_stops_nothing(fresh_broker: MakeBroker) -> None:
    broker = fresh_broker()
    pid = os.fork()
    if pid == 0:
        broker.__exit__(None, None, None)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert AdminClient(broker.client_config()).list_topics(timeout=WAIT_S).brokers


def test_three_nodes_go_on_without_one(fresh_broker: MakeBroker) -> None:
    broker = fresh_broker(nodes=3)
    admin = AdminClient(broker.client_config())
    create_topic(admin, "orders")
    [partition] = admin.list_topics("orders", WAIT_S).topics["orders"].partitions.values()
    assert sorted(partition.replicas) == [1, 2, 3]
    leader = partition.leader - 1
    broker.kill(leader)
    assert len(broker.pids) == 2
    produce(broker.client_config(), "orders", b"by two")
    assert consume(broker.client_config(), "orders", "g", 1) == [b"by two"]
    broker.restart(leader)
    assert sorted(broker.pids) == [0, 1, 2]


PARENT = """\
import json, sys
from coop_consumer.broker import EmbeddedBroker
with EmbeddedBroker(data_dir=sys.argv[1]) as broker:
    print(json.dumps(broker.pids[0]), flush=True)
    sys.stdin.read()
"""


def test_broker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        broker = ProcessIdentity.of(json.loads(parent.stdout.readline()))
        assert broker.is_alive()
        os.kill(parent.pid, signal.SIGKILL)
        assert broker.wait(WAIT_S)


def test_failed_start_shows_the_log_and_leaves_no_process(tmp_path: Path) -> None:
    broker = EmbeddedBroker(data_dir=tmp_path, config={"log.retention.ms": "a week"})
    with pytest.raises(BrokerStartError) as caught:
        broker.start()
    assert "Invalid value a week for configuration log.retention.ms" in str(caught.value)
    assert Path(caught.value.log_path).read_text()
    assert broker.pids == {}


def test_port_that_is_taken_is_told_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port} on 127.0.0.1: is taken"):
            EmbeddedBroker(data_dir=tmp_path / "data", client_port=port).start()
    assert not (tmp_path / "data").exists()


def test_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderError, match=f"{tmp_path}/file"):
        EmbeddedBroker(data_dir=tmp_path / "file" / "data").start()


def test_secured_broker_does_what_acls_allow(
    secured: EmbeddedBroker, root: AdminClient, group_id: str
) -> None:
    orders = group_id
    create_topic(root, orders)
    assert refusal_of(secured.client_config("ann"), orders) == TOPIC_AUTHORIZATION_FAILED
    grant = AclBinding(
        ResourceType.TOPIC, orders, ResourcePatternType.LITERAL,
        "User:ann", "*", AclOperation.WRITE, AclPermissionType.ALLOW,
    )  # fmt: skip
    root.create_acls([grant])[grant].result(WAIT_S)
    # The controller has the grant; the broker may learn of it a moment later.
    eventually(lambda: refusal_of(secured.client_config("ann"), orders), lambda it: it is None)
    assert refusal_of(secured.client_config("bob"), orders) == TOPIC_AUTHORIZATION_FAILED


def test_secured_broker_refuses_a_wrong_password(secured: EmbeddedBroker) -> None:
    refusals: list[KafkaError] = []
    impostor: dict[str, Any] = secured.client_config("ann") | {"sasl.password": "guessed"}
    producer = Producer({**impostor, "error_cb": refusals.append, "log_level": 0})
    deadline = time.monotonic() + WAIT_S
    while not refusals and time.monotonic() < deadline:
        producer.poll(0.1)
    assert refusals[0].code() == KafkaError._AUTHENTICATION


def refusal_of(config: dict[str, Any], topic: str) -> int | None:
    """The code of the error with which a record is refused, or None if it is taken."""
    errors: list[KafkaError | None] = []
    producer = Producer(config)
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WAIT_S) == 0
    [error] = errors
    return None if error is None else error.code()
