"""One node's server.properties. Pure: no ports are opened, no files written.

Room: `coop_consumer.broker`. In: where a node lives, its ports, the size of the cluster,
the user's settings. Out: a dict of Kafka's broker settings, and its text. The user's settings win.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from coop_consumer.broker.security import BrokerSecurity

LOOPBACK = "127.0.0.1"

TEST_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "auto.create.topics.enable": "false",
        # A group of one member starts at once, instead of waiting 3 s for others.
        "group.initial.rebalance.delay.ms": "0",
        # Tests may detect a dead member sooner than the stock 6 s.
        "group.min.session.timeout.ms": "500",
    }
)
"""What differs from stock Kafka in any test broker, wherever it runs."""


@dataclass(frozen=True, slots=True)
class NodePorts:
    """The three loopback ports of a node: clients, other brokers, the controllers' quorum."""

    client: int
    internal: int
    controller: int


@dataclass(frozen=True, slots=True)
class Node:
    """A node's number (1 is the first), ports, and folder."""

    node_id: int
    ports: NodePorts
    home: Path

    @property
    def client_address(self) -> str:
        """The host:port that clients use."""
        return f"{LOOPBACK}:{self.ports.client}"

    @property
    def data_dir(self) -> Path:
        """Kafka's own `log.dirs`."""
        return self.home / "data"

    @property
    def log_path(self) -> Path:
        """What the node prints: its log."""
        return self.home / "broker.log"

    @property
    def properties_path(self) -> Path:
        """Its server.properties."""
        return self.home / "server.properties"


def server_properties(
    node: Node,
    cluster: Sequence[Node],
    security: BrokerSecurity | None,
    overrides: Mapping[str, str],
) -> dict[str, str]:
    """Everything `node` of `cluster` is started with.

    Every node is broker and controller. With three nodes or more, internal topics have three
    replicas and a write needs two of them; with fewer, one.
    """
    replicas = 3 if len(cluster) >= 3 else 1
    in_sync = replicas - 1 if replicas > 1 else 1
    protocol = "PLAINTEXT" if security is None else "SASL_SSL"
    properties = {
        "node.id": str(node.node_id),
        "process.roles": "broker,controller",
        "listeners": (
            f"CLIENT://{LOOPBACK}:{node.ports.client},"
            f"INTERNAL://{LOOPBACK}:{node.ports.internal},"
            f"CONTROLLER://{LOOPBACK}:{node.ports.controller}"
        ),
        "advertised.listeners": (
            f"CLIENT://{LOOPBACK}:{node.ports.client},INTERNAL://{LOOPBACK}:{node.ports.internal}"
        ),
        "listener.security.protocol.map": (
            f"CLIENT:{protocol},INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "inter.broker.listener.name": "INTERNAL",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(
            f"{peer.node_id}@{LOOPBACK}:{peer.ports.controller}" for peer in cluster
        ),
        "log.dirs": str(node.data_dir),
        # A killed node may only come back once its last session ended: 3 s instead of 9 s.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }
    properties |= TEST_SETTINGS
    if security is not None:
        properties |= security.broker_properties()
    return properties | dict(overrides)


def properties_text(properties: Mapping[str, str]) -> str:
    r"""The text of a Java properties file, which is Latin-1 with escapes.

    >>> properties_text({"log.dirs": "/tmp/Größe", "a": "x\\y"})
    'log.dirs=/tmp/Gr\\u00f6\\u00dfe\na=x\\\\y\n'
    """
    return "".join(f"{name}={_escaped(value)}\n" for name, value in properties.items())


def _escaped(value: str) -> str:
    units = value.replace("\\", "\\\\").replace("\n", "\\n").encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)
