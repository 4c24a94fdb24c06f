"""`EmbeddedBroker`: a real Apache Kafka cluster on this machine, as child processes.

Room: `coop_consumer.broker`. In: number of nodes, settings, a folder or none. Out:
a cluster that answers, its addresses, and the means to kill and restart its nodes. Touches child
processes and one folder. What must hold: no node outlives this process unless it was released, and
a temporary folder goes with the broker.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
import weakref
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Self

from coop_consumer import forks
from coop_consumer.broker.errors import BrokerStartError, FolderError, PortTakenError
from coop_consumer.broker.jars import ensure_jars
from coop_consumer.broker.java import find_java
from coop_consumer.broker.node import NodeRunner
from coop_consumer.broker.ports import free_ports, is_free
from coop_consumer.broker.process import ProcessIdentity
from coop_consumer.broker.readiness import wait_until_ready
from coop_consumer.broker.security import BrokerSecurity, ClientConfig
from coop_consumer.broker.settings import LOOPBACK, Node, NodePorts, server_properties

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
PORT_TRIES = 3

JVM_OPTIONS = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    # The quick compiler alone: up in 2.4 s instead of 4.4 s, at the price of peak speed.
    "-XX:TieredStopAtLevel=1",
)
"""For a quick start and little memory: about 350 MB resident a node."""

_LOG_OPTIONS = (
    "-Dorg.slf4j.simpleLogger.logFile=System.out",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss,SSS",
    # Hundreds of lines of settings would hide what went wrong.
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaConfig=warn",
)


class EmbeddedBroker:
    """Apache Kafka (KRaft) as a context manager: up on entry, gone on exit.

    One node is up in about 4 s; the first use on a machine fetches the jars before that. Nodes are
    told apart by position, 0 first. One thread.

    Args:
        nodes: How many; each is broker and controller. With three or more, topics have three
            replicas by default and a write needs two.
        data_dir: Where data and logs go and stay; a later broker on this folder finds them. None is
            a temporary folder that `stop` removes.
        config: Broker settings for every node; they win over ours.
        security: How clients log in; None is plain text.
        client_port: The first node's port for clients; None picks a free one.
        usual_port: The port to pick, if it is free.
        jvm_options: Options of each node's Java; a benchmark may want the optimising compiler.
        start_timeout_s: How long `start` and `restart` wait for the cluster's answer.

    Raises:
        ValueError: `nodes` is below 1.

    Example::

        with EmbeddedBroker() as broker:
            producer = Producer(broker.client_config())
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        data_dir: Path | str | None = None,
        config: Mapping[str, str] = MappingProxyType({}),
        security: BrokerSecurity | None = None,
        client_port: int | None = None,
        usual_port: int | None = None,
        jvm_options: Sequence[str] = JVM_OPTIONS,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"nodes={nodes}: a cluster has at least one node")
        self.nodes = nodes
        self.security = security
        self._config = dict(config)
        self._data_dir = None if data_dir is None else Path(data_dir).absolute()
        self._client_port = client_port
        self._usual_port = usual_port
        self._jvm_options = tuple(jvm_options)
        self._start_timeout_s = start_timeout_s
        self._cluster_id = ""
        self._runners: list[NodeRunner] = []
        self._temporary: weakref.finalize[..., EmbeddedBroker] | None = None
        forks.watch(self)

    def shut_in_fork(self) -> None:
        """Forget the nodes in a forked child, so that only the parent stops them."""
        self._runners = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every node, with commas between. RuntimeError if not started."""
        return ",".join(runner.node.client_address for runner in self._started())

    @property
    def pids(self) -> dict[int, int]:
        """Node to process id, of the running nodes."""
        pids = {position: runner.pid for position, runner in enumerate(self._runners)}
        return {position: pid for position, pid in pids.items() if pid is not None}

    @property
    def log_paths(self) -> tuple[Path, ...]:
        """Each node's log. RuntimeError if not started."""
        return tuple(runner.node.log_path for runner in self._started())

    @property
    def data_dir(self) -> Path:
        """The folder of the cluster, named or temporary. RuntimeError if not started."""
        return self._started()[0].node.home.parent

    def client_config(self, user: str | None = None) -> ClientConfig:
        """What a confluent-kafka client needs: the addresses, and the login of `user`.

        Raises:
            RuntimeError: Not started.
            KeyError: `security` has no such user.
        """
        config: ClientConfig = {"bootstrap.servers": self.bootstrap_servers}
        return config if self.security is None else config | self.security.client_config(user)

    def start(self) -> None:
        """Start every node, and return when the whole cluster answers.

        Raises:
            BrokerStartError: A node ended or did not answer. The error shows its log; all nodes are
                stopped, and the folder stays for inspection, even a temporary one.
            JavaMissingError: No Java runs it.
            JarsUnavailableError: The jars are neither cached nor to be had.
            PortTakenError: `client_port` has a listener.
            FolderError: `data_dir` cannot be made.
            RuntimeError: Started already.
        """
        if self._runners:
            raise RuntimeError("this broker was started already")
        if self._client_port is not None and not is_free(self._client_port):
            raise PortTakenError(LOOPBACK, self._client_port)
        java = self._java_command()
        home = self._make_home()
        tries = PORT_TRIES if self._client_port is None else 1
        try:
            for remaining in reversed(range(tries)):
                if self._start_cluster(home, java, may_retry=remaining > 0):
                    return
        except BaseException:
            self._kill_all()
            if self._temporary is not None:
                self._temporary.detach()  # the error names the log in there
            raise

    def stop(self) -> None:
        """End every node; does nothing if none was started. About 0.5 s, several nodes up to 6 s.

        Nodes on a named folder end in order, and by force only after 15 s. Nodes on a temporary one
        are killed, because nobody will read their data.
        """
        for runner in self._runners:
            if self._temporary is None:
                runner.terminate()
            else:
                runner.kill()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for runner in self._runners:
            runner.end(max(0.0, deadline - time.monotonic()))
        self._runners.clear()
        if self._temporary is not None:
            self._temporary()

    def kill(self, node: int = 0) -> None:
        """End a node as a power cut would (SIGKILL), and return when it is gone.

        Raises:
            RuntimeError: Not started.
        """
        self._started()[node].kill()

    def restart(self, node: int = 0) -> None:
        """Start a node again, on its ports and its data; ends it in order first if it runs.

        Raises:
            BrokerStartError: It does not come back. The other nodes go on.
            RuntimeError: Not started.
        """
        runner = self._started()[node]
        runner.terminate()
        runner.end(STOP_TIMEOUT_S)
        runner.launch()
        self._wait_until_ready([runner])

    def release(self) -> tuple[ProcessIdentity, ...]:
        """Let the nodes live on without this process; their identities suffice to end them.

        Raises:
            RuntimeError: Not started.
            ValueError: The folder is temporary, and nobody would remove it.
        """
        if self._data_dir is None:
            raise ValueError("only a broker with a data_dir can be released")
        identities = tuple(runner.release() for runner in self._started())
        self._runners.clear()
        return identities

    def _started(self) -> list[NodeRunner]:
        if not self._runners:
            raise RuntimeError("this broker is not started")
        return self._runners

    def _java_command(self) -> tuple[str, ...]:
        java = str(find_java().executable)  # before 44 MB are fetched for it
        jars = ensure_jars()
        return (java, *self._jvm_options, *_LOG_OPTIONS, "-cp", f"{jars}/*")

    def _make_home(self) -> Path:
        """The cluster's folder; a temporary one is removed by `stop`, or else at exit."""
        if self._data_dir is not None:
            try:
                self._data_dir.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FolderError(str(self._data_dir), str(error), "Name another one") from error
            return self._data_dir
        home = Path(tempfile.mkdtemp(prefix="coop-broker-"))
        self._temporary = weakref.finalize(self, _discard, home, self._runners, os.getpid())
        return home

    def _start_cluster(self, home: Path, java: tuple[str, ...], *, may_retry: bool) -> bool:
        """One try on freshly picked ports. False: a port was taken meanwhile, try again."""
        cluster = plan_cluster(home, self.nodes, self._client_port or self._usual_if_free())
        self._runners.extend(NodeRunner(node, java) for node in cluster)
        for runner in self._runners:
            runner.write_settings(
                server_properties(runner.node, cluster, self.security, self._config)
            )
        try:
            self._format()
            for runner in self._runners:
                runner.launch()
            self._wait_until_ready(self._runners)
        except BrokerStartError:
            taken = any("Address already in use" in runner.log() for runner in self._runners)
            if not (taken and may_retry):
                raise
            self._kill_all()
            return False
        return True

    def _usual_if_free(self) -> int | None:
        usual = self._usual_port
        return usual if usual is not None and is_free(usual) else None

    def _format(self) -> None:
        """Format unformatted storages, all at once."""
        stored = (runner.stored_cluster_id() for runner in self._runners)
        self._cluster_id = next(filter(None, stored), None) or new_cluster_id()
        users = [] if self.security is None else self.security.format_arguments()
        blank = [runner for runner in self._runners if runner.stored_cluster_id() is None]
        for runner in blank:
            runner.begin_format(self._cluster_id, users)
        for runner in blank:
            runner.finish_format()

    def _wait_until_ready(self, runners: Sequence[NodeRunner]) -> None:
        addresses = ",".join(runner.node.client_address for runner in runners)

        def check() -> None:
            for runner in runners:
                runner.check()

        try:
            wait_until_ready(
                {**self.client_config(), "bootstrap.servers": addresses},
                self._cluster_id,
                {runner.node.node_id for runner in runners},
                self._start_timeout_s,
                check,
            )
        except TimeoutError as error:
            raise runners[0].failure(str(error)) from error

    def _kill_all(self) -> None:
        for runner in self._runners:
            runner.kill()
        self._runners.clear()


def plan_cluster(home: Path, nodes: int, client_port: int | None) -> tuple[Node, ...]:
    """Node ids from 1, a folder each below `home`, and ports free a moment ago."""
    ports = iter(free_ports(3 * nodes))
    plan = []
    for node_id in range(1, nodes + 1):
        trio = NodePorts(client=next(ports), internal=next(ports), controller=next(ports))
        plan.append(Node(node_id, trio, home / f"node-{node_id}"))
    if client_port is not None:
        first = plan[0]
        plan[0] = replace(first, ports=replace(first.ports, client=client_port))
    return tuple(plan)


def new_cluster_id() -> str:
    """A random id as Kafka writes it: 16 bytes in base64. Never begins with a dash.

    >>> len(new_cluster_id()), new_cluster_id()[0]
    (22, 'c')
    """
    return urlsafe_b64encode(b"p" + secrets.token_bytes(15)).decode().rstrip("=")


def _discard(home: Path, runners: list[NodeRunner], owner_pid: int) -> None:
    """Remove a temporary folder, but never from a process that was forked off the owner."""
    if os.getpid() != owner_pid:
        return
    for runner in runners:
        runner.kill()
    shutil.rmtree(home, ignore_errors=True)
