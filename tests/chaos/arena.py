"""Where chaos happens: brokers to kill, with a listener behind a proxy.

In: how many nodes. Out: a running cluster, its clients' settings, an admin, topics. Nothing of a
run stays: each has topics and a group of its own. The brokers belong to us alone.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, ElectionType, IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from assignors import TopicPartition
from coop_consumer.broker import EmbeddedBroker
from coop_consumer.broker.ports import free_ports
from coop_consumer.config import Config
from coop_consumer.kafka.open_transactions import open_transactions
from coop_consumer.kafka.topics import LATEST
from tests.chaos.proxy import LOOPBACK, Proxy
from tests.support.brokers import SPARED, own_broker
from tests.support.stock import eventually
from tests.support.topics import ADMIN_TIMEOUT_S, create_topic

QUIET: Mapping[str, Any] = {"reconnect.backoff.max.ms": 1000, "log_level": 0}
"""Of clients of our own, who expect the worst. Members have what users have: the defaults."""

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 4
"""A group's coordinator is up with 4 partitions sooner than with 50."""

START_TIMEOUT_S = 180.0
"""Three brokers, two processors, and members that are busy: a slow start is not a finding."""

_SETTINGS = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    # So is a coordinator of transactions.
    "transaction.state.log.num.partitions": "4",
    # Transactions that time out are looked for every 10 s otherwise.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # Compaction is a fault of its own, and always there: see COMPACTED_SETTINGS.
    "log.cleaner.backoff.ms": "500",
}

COMPACTED_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "60000",
    # When the log had it, not when it was sent: a cut network may lie in between.
    "message.timestamp.type": "LogAppendTime",
}
"""A progress topic or a changelog: compacted every second, in the middle of whatever happens."""


@dataclass(slots=True)
class Arena:
    """A cluster to be broken.

    Attributes:
        nodes: How many brokers it has.
        proxy: The way to the first broker that can be cut.
        admin: A client of our own; another one after a broker was away, see `successor`.
    """

    nodes: int
    broker: EmbeddedBroker
    proxy: Proxy
    admin: AdminClient

    @property
    def client(self) -> dict[str, Any]:
        """The settings of a member on the direct way."""
        return dict(self.broker.client_config())

    @property
    def quiet_client(self) -> dict[str, Any]:
        """The settings of a client of our own."""
        return {**self.broker.client_config(), **QUIET}

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        create_topic(self.admin, name, partitions, config)

    def remove(self, *topics: str) -> None:
        """Delete topics, those that are there."""
        known = self.admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics
        there = [name for name in topics if name in known]
        for future in (self.admin.delete_topics(there) if there else {}).values():
            future.result(ADMIN_TIMEOUT_S)

    def restart(self, node: int) -> None:
        """Start a node again, in order or after its death, and wait until all partitions lead."""
        self.broker.restart(node)
        self.admin = self.new_admin()
        self.wait_for_leaders()

    def undecided(self, *topics: str) -> list[str]:
        """Which transactions are open in these topics, and what brokers make of them."""
        known = self.admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics
        asked = {
            Place(topic, number): LATEST
            for topic in topics
            if topic in known
            for number in known[topic].partitions
        }

        def ends(isolation: IsolationLevel) -> dict[TopicPartition, int]:
            told = self.admin.list_offsets(asked, isolation_level=isolation)
            return {
                TopicPartition(it.topic, it.partition): future.result(ADMIN_TIMEOUT_S).offset
                for it, future in told.items()
            }

        stable, end = ends(IsolationLevel.READ_COMMITTED), ends(IsolationLevel.READ_UNCOMMITTED)
        behind = {tp: (stable[tp], end[tp]) for tp in stable if stable[tp] < end[tp]}
        config = Config.from_dict({**self.client, "group.id": "undecided"})
        now_ms = int(time.time() * 1_000)
        return [
            f"{it.told(now_ms)}. {it.outlook}" for it in open_transactions(config, behind).values()
        ]

    def new_admin(self) -> AdminClient:
        return AdminClient(self.quiet_client)

    def wait_for_leaders(self) -> None:
        def leaderless() -> int:
            try:
                topics = self.admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics.values()
            except KafkaException:
                self.admin = self.new_admin()
                return -1
            return sum(p.leader < 0 for topic in topics for p in topic.partitions.values())

        eventually(leaderless, lambda count: count == 0)

    def limit_files(self, node: int, limit_bytes: int) -> None:
        """Let no file of a broker grow beyond a size: its disk is full, without any privilege."""
        pid = self.broker.pids[node]
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit_bytes, hard))

    def wait_for_death(self, node: int) -> None:
        """Wait until a node has ended by itself."""
        eventually(lambda: node not in self.broker.pids)

    def coordinator_of(self, group: str) -> int:
        """The node that coordinates the group: it leads the partition of the group's offsets.

        The group itself is not asked: librdkafka's admin client aborts the process when brokers die
        while it looks for a coordinator.
        """
        number = abs(java_hash(group)) % OFFSETS_PARTITIONS
        topic = self.admin.list_topics(OFFSETS_TOPIC, ADMIN_TIMEOUT_S).topics[OFFSETS_TOPIC]
        return int(topic.partitions[number].leader) - 1

    def lag_of(self, group: str, topic: str, partitions: int) -> int:
        """What the group has not committed yet, as any client sees it that does not join."""
        asker = Consumer({**self.quiet_client, "group.id": group, "enable.auto.commit": False})
        try:
            lag = 0
            for place in asker.committed(
                [Place(topic, number) for number in range(partitions)], ADMIN_TIMEOUT_S
            ):
                low, end = asker.get_watermark_offsets(place, ADMIN_TIMEOUT_S)
                lag += end - max(low, place.offset)
        finally:
            asker.close()
        return lag

    def elect_preferred(self) -> None:
        """Have every partition led by the broker that led it when it was made."""

        def is_done() -> bool:
            try:
                self.admin.elect_leaders(ElectionType.PREFERRED, None).result(ADMIN_TIMEOUT_S)
            except (KafkaException, TimeoutError):  # its client may know no broker any more
                self.admin = self.new_admin()
                return False
            return True

        eventually(is_done)
        self.wait_for_leaders()

    def data_dir(self, node: int) -> Path:
        return self.broker.data_dir / f"node-{node + 1}" / "data"


@contextmanager
def arena(nodes: int = 1, *, once: bool = False) -> Iterator[Arena]:
    """Brokers for the length of a block; with one of them, a listener of it is behind the proxy.

    Args:
        nodes: How many.
        once: Whether members have transactions. Then a broker that is alone is never ended, see
            `Fault.nodes_for`.
    """
    client, behind, internal, controller, front = free_ports(5)
    settings = dict(_SETTINGS)
    if nodes == 1:
        settings |= proxied(client, behind, internal, controller, front)
        settings |= SPARED if once else {}
    broker = own_broker(
        nodes=nodes,
        config=settings,
        client_port=client if nodes == 1 else None,
        start_timeout_s=START_TIMEOUT_S,
    )
    with Proxy(front, behind) as proxy, broker:
        yield Arena(nodes, broker, proxy, AdminClient({**broker.client_config(), **QUIET}))


def java_hash(text: str) -> int:
    """What Java's String.hashCode tells, by which a group finds its partition.

    >>> java_hash("hello"), java_hash("polygenelubricants")
    (99162322, -2147483648)
    """
    found = 0
    for letter in text:
        found = (31 * found + ord(letter)) & 0xFFFFFFFF
    return found - (found >> 31 << 32)


def proxied(client: int, behind: int, internal: int, controller: int, front: int) -> dict[str, str]:
    """Listeners of a broker alone; PROXIED listens at `behind` and sends its clients to `front`."""
    own = {"CLIENT": client, "PROXIED": behind, "INTERNAL": internal}
    told = {**own, "PROXIED": front}
    return {
        "listeners": written({**own, "CONTROLLER": controller}),
        "advertised.listeners": written(told),
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in (*own, "CONTROLLER")
        ),
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
    }


def written(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in ports.items())
