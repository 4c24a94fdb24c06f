"""Which broker the tests talk to.

In: the environment. Out: the address of a running Kafka, for one test session. The first rule that
applies counts:

1. `COOP_TEST_BOOTSTRAP=host:port` names a running broker. It needs what `TEST_SETTINGS` says
   (no automatic topics, no initial rebalance delay, short session time-outs allowed); topics made
   by the tests are deleted after use.
2. A Docker engine that answers within 2 s runs the official image, by testcontainers.
3. Otherwise, or if that engine cannot (it does not reach the image's registry, say), the embedded
   broker runs: it needs Java 17 or the extra `coop-consumer[broker]`.

`COOP_TEST_BROKER=embedded` skips Docker. Tests that kill brokers always run embedded ones. If a
container starts and does not become a broker, the session fails and shows the container's log: our
settings are wrong. testcontainers has settings of its own, for the address of the
engine, a registry's mirror, and Ryuk, which removes the container if the tests are killed.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from docker.errors import DockerException  # type: ignore[import-untyped] # it ships no types
from testcontainers.core.container import DockerContainer

from coop_consumer.broker import KAFKA_VERSION, EmbeddedBroker
from coop_consumer.broker.ports import free_ports
from coop_consumer.broker.readiness import wait_until_ready
from coop_consumer.broker.security import ClientConfig
from coop_consumer.broker.settings import TEST_SETTINGS
from tests.support.class_archive import jvm_options

_log = logging.getLogger(__name__)

Origin = Literal["given", "docker", "embedded"]

IMAGE = f"apache/kafka:{KAFKA_VERSION}"
DOCKER_SOCKET = "unix:///var/run/docker.sock"
DOCKER_ANSWER_TIMEOUT_S = 2
DOCKER_CLUSTER_ID = "cHJvZ3Jlc3MtaXMtYS1zZXQ"
DOCKER_START_TIMEOUT_S = 90.0
DOCKER_LOG_TAIL_LINES = 30
GIVEN_ANSWER_TIMEOUT_S = 10.0
FEW_PARTITIONS: Mapping[str, str] = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
"""Coordinators are up with 4 partitions sooner than with 50."""

SPARED: Mapping[str, str] = {"broker.session.timeout.ms": "120000"}
"""Of a broker that nothing ends: its controller never takes it for dead, however busy the machine.

Else its partitions lose their leader for a moment, and a transaction that ends then gets no marker
there (KAFKA-20734): what it aborts becomes visible, or what it commits is lost. One that is killed
could not come back for as long."""


@dataclass(frozen=True, slots=True)
class ChosenBroker:
    """The broker of a test session: its address, and where it came from."""

    bootstrap: str
    origin: Origin


class ContainerEndedError(Exception):
    """The container of the broker stopped by itself: its settings or its image are wrong."""


class NobodyAnswersError(Exception):
    """No broker at the address that the environment names."""


class MakeTopic(Protocol):
    """The fixture `topic`: creates a topic of `partitions` partitions and returns its name."""

    def __call__(self, partitions: int = 1, *, config: Mapping[str, str] | None = None) -> str: ...


class MakeBroker(Protocol):
    """The fixture `fresh_broker`: starts an embedded broker of the test's own; see `own_broker`."""

    def __call__(self, **arguments: Any) -> EmbeddedBroker: ...


def own_broker(*, config: Mapping[str, str] | None = None, **arguments: Any) -> EmbeddedBroker:
    """An embedded broker of a test's own, not started yet; it and its coordinators are up soon.

    Takes what `EmbeddedBroker` takes.
    """
    settings = {**FEW_PARTITIONS, **(config or {})}
    return EmbeddedBroker(config=settings, jvm_options=jvm_options(), **arguments)


def choose_origin(environment: Mapping[str, str], docker_answers: Callable[[], bool]) -> Origin:
    """The first rule above that applies; `docker_answers` is only called if it matters."""
    if environment.get("COOP_TEST_BOOTSTRAP"):
        return "given"
    if environment.get("COOP_TEST_BROKER") != "embedded" and docker_answers():
        return "docker"
    return "embedded"


@contextmanager
def running_broker(environment: Mapping[str, str]) -> Iterator[ChosenBroker]:
    """A broker that answers, by the rules above; it ends with the session, unless it was given."""
    with ExitStack() as until_end:
        chosen = start_broker(environment, until_end)
        _log.info("tests run against a broker that is %s", chosen.origin)
        yield chosen


def start_broker(environment: Mapping[str, str], until_end: ExitStack) -> ChosenBroker:
    """Start what the rules above choose, if need be; `until_end` stops it."""
    origin = choose_origin(environment, docker_answers)
    if origin == "given":
        return ChosenBroker(given_broker(environment["COOP_TEST_BOOTSTRAP"]), origin)
    if origin == "docker":
        try:
            return ChosenBroker(until_end.enter_context(docker_broker()), origin)
        except DockerException as error:
            _log.warning("the Docker engine cannot run %s, tests run embedded: %s", IMAGE, error)
    broker = until_end.enter_context(EmbeddedBroker(config=SPARED, jvm_options=jvm_options()))
    return ChosenBroker(broker.bootstrap_servers, "embedded")


def given_broker(bootstrap: str) -> str:
    """Return the same address, once a broker has answered there.

    Raises:
        NobodyAnswersError: None did. One error is better than a time-out of each test.
    """
    try:
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.list_topics(timeout=GIVEN_ANSWER_TIMEOUT_S)
    except KafkaException as error:
        raise NobodyAnswersError(f"COOP_TEST_BOOTSTRAP={bootstrap}: {error}") from error
    return bootstrap


def docker_answers() -> bool:
    """Whether the engine at DOCKER_HOST, by default the local socket, answers a ping in time.

    Asked in plain HTTP: the Docker library leaks its socket when nobody answers. An engine behind
    TLS does not answer this way, and the tests run embedded.
    """
    try:
        with connect_to_docker(os.environ.get("DOCKER_HOST", DOCKER_SOCKET)) as connected:
            engine = HTTPConnection("docker")
            engine.sock = connected
            engine.request("GET", "/_ping")
            return engine.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False


def connect_to_docker(host: str) -> socket.socket:
    """Connect to `unix://path` or `tcp://host:port`; OSError if nobody listens."""
    address = urlsplit(host)
    if address.scheme != "unix":
        return socket.create_connection((address.hostname, address.port), DOCKER_ANSWER_TIMEOUT_S)
    connected = socket.socket(socket.AF_UNIX)
    connected.settimeout(DOCKER_ANSWER_TIMEOUT_S)
    try:
        connected.connect(address.path)
    except OSError:
        connected.close()
        raise
    return connected


@contextmanager
def docker_broker() -> Iterator[str]:
    """Run Apache Kafka in a container; returns its address, with the same port inside and outside.

    Raises:
        DockerException: The engine cannot get an image, or cannot start a container.
        ContainerEndedError: The container ended before its broker answered. With the log's end.
        TimeoutError: The broker does not answer. With the log's end.
    """
    [port] = free_ports(1)
    container = DockerContainer(IMAGE).with_bind_ports(port, port)
    host = reachable_host(container.get_docker_client().host())
    for name, value in docker_settings(host, port).items():
        container = container.with_env(name, value)
    bootstrap = f"{host}:{port}"
    with container:
        wait_until_broker_answers(container, bootstrap)
        yield bootstrap


def reachable_host(engine: str) -> str:
    """The host at which clients reach the ports of an engine's containers.

    The name localhost may mean ::1 first, where not every engine opens them.
    """
    return "127.0.0.1" if engine == "localhost" else engine


def wait_until_broker_answers(container: DockerContainer, bootstrap: str) -> None:
    """Wait for the container's broker; if it does not come, the error shows the log's end."""
    config: ClientConfig = {"bootstrap.servers": bootstrap}
    running = container.get_wrapped_container()

    def check() -> None:
        running.reload()
        if running.status != "running":
            raise ContainerEndedError(f"{IMAGE}: the container is {running.status}, not running")

    try:
        wait_until_ready(config, DOCKER_CLUSTER_ID, {1}, DOCKER_START_TIMEOUT_S, check)
    except (ContainerEndedError, TimeoutError) as error:
        error.add_note(running.logs(tail=DOCKER_LOG_TAIL_LINES).decode(errors="replace"))
        raise


def docker_settings(host: str, port: int) -> dict[str, str]:
    """The image's environment: `KAFKA_` and a setting's name in capitals with underscores.

    The broker reaches itself inside the container, by INTERNAL: the way out through `host` and
    back in is not open on every machine.
    """
    settings = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"CLIENT://:{port},INTERNAL://localhost:9092,CONTROLLER://localhost:9093",
        "advertised.listeners": f"CLIENT://{host}:{port},INTERNAL://localhost:9092",
        "listener.security.protocol.map": (
            "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "inter.broker.listener.name": "INTERNAL",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@localhost:9093",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        **TEST_SETTINGS,
    }
    names = {name: "KAFKA_" + name.upper().replace(".", "_") for name in settings}
    return {"CLUSTER_ID": DOCKER_CLUSTER_ID} | {names[name]: settings[name] for name in settings}
