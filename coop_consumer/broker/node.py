"""One node of an embedded cluster: its files, its storage, its process.

Room: `coop_consumer.broker`. In: the node's plan, its settings, and how Java is called.
Out: a formatted folder, a running process, the end of its log. Touches the node's folder and child
processes. One thread.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace

from coop_consumer.broker.errors import BrokerStartError
from coop_consumer.broker.process import GuardedProcess, ProcessIdentity
from coop_consumer.broker.settings import Node, properties_text
from coop_consumer.errors import OutOfResourceError, lacking_in

FORMAT_TIMEOUT_S = 60.0

_FIRST_ERROR_LINES = 30
_TAIL_LINES = 20


class NodeRunner:
    """Formats, starts and ends one node. `java` is the command line up to the main class."""

    def __init__(self, node: Node, java: Sequence[str]) -> None:
        self.node = node
        self._java = tuple(java)
        self._process: GuardedProcess | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        running = self._process is not None and self._process.exit_code() is None
        return self._process.pid if self._process is not None and running else None

    def write_settings(self, properties: Mapping[str, str]) -> None:
        """Make the node's folder and its server.properties."""
        self.node.home.mkdir(parents=True, exist_ok=True)
        self.node.properties_path.write_text(properties_text(properties), encoding="ascii")

    def stored_cluster_id(self) -> str | None:
        """The id of the cluster its data belongs to, or None if the storage is not formatted."""
        try:
            lines = (self.node.data_dir / "meta.properties").read_text().splitlines()
        except FileNotFoundError:
            return None
        return next(line.partition("=")[2] for line in lines if line.startswith("cluster.id="))

    def begin_format(self, cluster_id: str, arguments: Sequence[str]) -> None:
        """Begin to format the storage, about 1 s; `finish_format` waits for it."""
        settings = ("--cluster-id", cluster_id, "--config", str(self.node.properties_path))
        self._start("kafka.tools.StorageTool", "format", *settings, *arguments)

    def finish_format(self) -> None:
        """Wait until the storage is formatted.

        Raises:
            BrokerStartError: The settings are wrong, or the folder cannot be written.
        """
        assert self._process is not None
        try:
            code = self._process.wait(FORMAT_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise self.failure("its storage could not be formatted in time") from error
        if code != 0:
            raise self.failure(f"its storage could not be formatted (exit code {code})")

    def launch(self) -> None:
        """Start the node's process and return at once."""
        self._start("kafka.Kafka", str(self.node.properties_path))

    def check(self) -> None:
        """Raise if the process has ended.

        Raises:
            BrokerStartError: It has.
        """
        code = None if self._process is None else self._process.exit_code()
        if code is not None:
            raise self.failure(f"ended with exit code {code}")

    def terminate(self) -> None:
        """Ask the process to end, and return at once."""
        if self._process is not None:
            self._process.terminate()

    def end(self, timeout_s: float = 0.0) -> None:
        """Wait for the end of the process, and after `timeout_s` kill it."""
        if self._process is None:
            return
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def kill(self) -> None:
        """End the process by SIGKILL and wait until it is gone."""
        if self._process is not None:
            self._process.kill()

    def release(self) -> ProcessIdentity:
        """Let the process live on without this one."""
        assert self._process is not None, "only a running node is released"
        return self._process.release()

    def log(self) -> str:
        """What the current run has printed so far; empty if it was never started."""
        if self._process is None:
            return ""
        with self.node.log_path.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")

    def failure(self, reason: str) -> BrokerStartError | OutOfResourceError:
        """An error about this node: what the machine did not give it, or the end of its log."""
        found = lacking_in(self.log())
        if found is not None:
            where = f"embedded broker, node {self.node.node_id}: {reason}; its log"
            return replace(found, detail=f"{where} {self.node.log_path} says: {found.detail}")
        return BrokerStartError(
            self.node.node_id, reason, str(self.node.log_path), log_excerpt(self.log())
        )

    def _start(self, *command: str) -> None:
        log = self.node.log_path
        self._log_start = log.stat().st_size if log.exists() else 0
        self._process = GuardedProcess.start((*self._java, *command), log)


def log_excerpt(log: str) -> str:
    r"""The first error with the lines after it, where there is one, and the end of the log.

    A node that fails goes on to stop in order, which buries the reason under a hundred lines.

    >>> print(log_excerpt("up\nERROR port taken\nat Socket\n" + "stopping\n" * 60)[:44])
    ERROR port taken
    at Socket
    stopping
    stopping
    """
    lines = log.splitlines()
    tail_start = max(0, len(lines) - _TAIL_LINES)
    error_at = next((at for at, line in enumerate(lines) if "ERROR" in line), tail_start)
    if error_at >= tail_start:
        return "\n".join(lines[tail_start:])
    error_stop = min(error_at + _FIRST_ERROR_LINES, tail_start)
    return "\n".join([*lines[error_at:error_stop], "...", *lines[tail_start:]])
