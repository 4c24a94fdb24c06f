"""A broker in the background, known by a name: started by one command, stopped by another.

Room: `coop_consumer.broker`. In: a name. Out: a running broker and a small file that says
where it is. Touches this user's state folder and processes. What must hold: a process is only
signalled if it is the very one that was started (its start time is kept beside its number).
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from coop_consumer.broker.broker import EmbeddedBroker
from coop_consumer.broker.errors import DetachedBrokerError, FolderError
from coop_consumer.broker.jars import user_home
from coop_consumer.broker.pinned import KAFKA_VERSION
from coop_consumer.broker.process import ProcessIdentity
from coop_consumer.errors import lacking

STOP_TIMEOUT_S = 15.0
USUAL_PORT = 9092
"""The port of Kafka's own examples, and so of most others."""


@dataclass(frozen=True, slots=True)
class DetachedBroker:
    """A background broker as it was started.

    Attributes:
        name: What it is called.
        bootstrap_servers: host:port for clients.
        version: Kafka's version.
        data_dir: Its data.
        keeps_data: Whether `stop_detached` leaves the data (a folder was named).
        log_path: Its log.
        process: The broker's process.
        started_ms: When it was ready, in ms since 1970.
    """

    name: str
    bootstrap_servers: str
    version: str
    data_dir: str
    keeps_data: bool
    log_path: str
    process: ProcessIdentity
    started_ms: int

    def is_running(self) -> bool:
        """Whether that very process still runs."""
        return self.process.is_alive()

    def __str__(self) -> str:
        state = f"running, pid {self.process.pid}" if self.is_running() else "ended"
        return (
            f"broker {self.name}: {state}\n"
            f"  bootstrap.servers  {self.bootstrap_servers}\n"
            f"  Apache Kafka       {self.version}\n"
            f"  data               {self.data_dir}{'' if self.keeps_data else ' (until stopped)'}\n"
            f"  log                {self.log_path}"
        )


def state_home(environment: Mapping[str, str]) -> Path:
    """Where this user's running things are noted: COOP_STATE_DIR, else below XDG_STATE_HOME.

    >>> state_home({"XDG_STATE_HOME": "/var/state/ann"}).as_posix()
    '/var/state/ann/coop-consumer'
    >>> state_home({"COOP_STATE_DIR": "/srv/coop"}).as_posix()
    '/srv/coop'
    """
    if own := environment.get("COOP_STATE_DIR"):
        return Path(own)
    xdg = environment.get("XDG_STATE_HOME")
    return (
        Path(xdg) if xdg else user_home("COOP_STATE_DIR") / ".local" / "state"
    ) / "coop-consumer"


def start_detached(
    name: str = "default",
    port: int | None = None,
    data_dir: Path | str | None = None,
    *,
    config: Mapping[str, str] | None = None,
) -> DetachedBroker:
    """Start a broker of one node that lives on when this process ends; about 4 s.

    Without `data_dir` its data goes when it is stopped. While it starts it is still a child of this
    process, so an interrupted start leaves nothing running.

    Args:
        name: What it is called.
        port: Its port; by default `USUAL_PORT` if that is free, else another one.
        data_dir: A folder for its data, which stays.
        config: Broker settings; they win over ours.

    Raises:
        DetachedBrokerError: A broker of this name runs, or the name is not one.
        FolderError: `data_dir`, or the state folder, cannot be made.
        PortTakenError: `port` has a listener.
        BrokerStartError: It does not start.
        JavaMissingError: No Java runs it.
        JarsUnavailableError: The jars are neither cached nor to be had.
    """
    with _locked(name) as folder, _as_folder_error(folder):
        if running := _read(folder):
            raise DetachedBrokerError(
                name,
                f"runs already at {running.bootstrap_servers}, pid {running.process.pid}",
                f"Use it, or stop it first: coop-consumer broker stop --name {name}",
            )
        home = Path(data_dir).absolute() if data_dir is not None else folder / "data"
        if data_dir is None:
            shutil.rmtree(home, ignore_errors=True)  # left by one that was killed
        broker = EmbeddedBroker(
            data_dir=home, client_port=port, usual_port=USUAL_PORT, config=config or {}
        )
        with broker:
            address, log_path = broker.bootstrap_servers, str(broker.log_paths[0])
            [process] = broker.release()
        started = DetachedBroker(
            name=name,
            bootstrap_servers=address,
            version=KAFKA_VERSION,
            data_dir=str(home),
            keeps_data=data_dir is not None,
            log_path=log_path,
            process=process,
            started_ms=time.time_ns() // 1_000_000,
        )
        _write(folder, started)
    return started


def status_detached(name: str = "default") -> DetachedBroker | None:
    """The background broker of this name, or None if none runs. Asks the system, not the broker.

    Raises:
        DetachedBrokerError: The name is not one.
    """
    return _read(_folder(name))


def running_detached() -> list[DetachedBroker]:
    """All background brokers of this user that run, by name; none if nobody can tell."""
    try:
        folders = sorted(state_home(os.environ).joinpath("brokers").iterdir())
    except (OSError, FolderError):
        return []
    found = (_read(folder) for folder in folders if folder.is_dir())
    return [broker for broker in found if broker is not None]


def stop_detached(name: str = "default") -> DetachedBroker | None:
    """Stop the background broker of this name; None if none ran. About 0.5 s, at most 15 s.

    Returns what was stopped. Its data goes unless a folder was named when it was started.

    Raises:
        DetachedBrokerError: The name is not one.
    """
    with _locked(name) as folder:
        running = _read(folder)
        if running is None:
            return None
        running.process.signal(signal.SIGTERM)
        if not running.process.wait(STOP_TIMEOUT_S):
            running.process.signal(signal.SIGKILL)
            running.process.wait(STOP_TIMEOUT_S)
        (folder / "broker.json").unlink()
        if not running.keeps_data:
            shutil.rmtree(running.data_dir, ignore_errors=True)
    return running


def _folder(name: str) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise DetachedBrokerError(
            name, "is not a name", "Take up to 64 letters, digits, dots, dashes and underscores"
        )
    return state_home(os.environ) / "brokers" / name


@contextmanager
def _locked(name: str) -> Iterator[Path]:
    """The folder of a name, held against other commands until the block ends."""
    folder = _folder(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if (found := lacking(error)) is not None:
            raise found from error
        remedy = "Name another folder for such notes: COOP_STATE_DIR=FOLDER"
        raise FolderError(str(folder), str(error), remedy) from error
    with _as_folder_error(folder):
        lock = (folder / "lock").open("w")
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


@contextmanager
def _as_folder_error(folder: Path) -> Iterator[None]:
    """Translate an error of the system in the block: something is lacking, or the folder is bad."""
    try:
        yield
    except OSError as error:
        if (found := lacking(error)) is not None:
            raise found from error
        remedy = "See who may write there, or name another folder: COOP_STATE_DIR=FOLDER, --data"
        raise FolderError(str(error.filename or folder), str(error), remedy) from error


def _write(folder: Path, broker: DetachedBroker) -> None:
    draft = folder / "broker.json.new"
    draft.write_text(json.dumps(asdict(broker), indent=1))
    draft.rename(folder / "broker.json")


def _read(folder: Path) -> DetachedBroker | None:
    """The broker noted in a folder, if it still runs, and this user may know."""
    try:
        noted = json.loads((folder / "broker.json").read_text())
        broker = DetachedBroker(**noted | {"process": ProcessIdentity(**noted["process"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None  # never started, of another user, or noted by another version
    return broker if broker.is_running() else None
