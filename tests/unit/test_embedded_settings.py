"""The settings a node of an embedded cluster is started with."""

from __future__ import annotations

from pathlib import Path

import pytest

from coop_consumer.broker.security import BrokerSecurity
from coop_consumer.broker.settings import Node, NodePorts, server_properties


def cluster_of(count: int) -> tuple[Node, ...]:
    return tuple(
        Node(node_id, NodePorts(100 + node_id, 200 + node_id, 300 + node_id), Path("/n"))
        for node_id in range(1, count + 1)
    )


@pytest.mark.parametrize(("nodes", "replicas", "in_sync"), [(1, 1, 1), (2, 1, 1), (3, 3, 2)])
def test_internal_topics_get_as_many_replicas_as_survive_a_lost_node(
    nodes: int, replicas: int, in_sync: int
) -> None:
    cluster = cluster_of(nodes)
    properties = server_properties(cluster[0], cluster, None, {})
    for topic in ("offsets.topic", "transaction.state.log"):
        assert properties[f"{topic}.replication.factor"] == str(replicas)
    assert properties["transaction.state.log.min.isr"] == str(in_sync)
    assert properties["min.insync.replicas"] == str(in_sync)


def test_every_node_knows_the_whole_quorum() -> None:
    cluster = cluster_of(3)
    voters = {
        server_properties(node, cluster, None, {})["controller.quorum.voters"] for node in cluster
    }
    assert voters == {"1@127.0.0.1:301,2@127.0.0.1:302,3@127.0.0.1:303"}


def test_settings_of_the_user_win() -> None:
    [node] = cluster_of(1)
    overrides = {"offsets.topic.num.partitions": "3", "auto.create.topics.enable": "true"}
    properties = server_properties(node, (node,), None, overrides)
    assert overrides.items() <= properties.items()


def test_only_the_client_listener_is_secured() -> None:
    [node] = cluster_of(1)
    security = BrokerSecurity(Path("/k.pem"), Path("/t.pem"), {"root": "pw"}, ("root",))
    properties = server_properties(node, (node,), security, {})
    assert properties["listener.security.protocol.map"] == (
        "CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
    )
    assert properties["super.users"] == "User:ANONYMOUS;User:root"
    assert "pw" not in str(properties)


@pytest.mark.parametrize("super_users", [(), ("stranger",)])
def test_security_without_a_super_user_that_can_log_in_is_refused(
    super_users: tuple[str, ...],
) -> None:
    with pytest.raises(ValueError, match="super_users"):
        BrokerSecurity(Path("/k.pem"), Path("/t.pem"), {"root": "pw"}, super_users)
