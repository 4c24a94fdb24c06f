"""The file of `run --health-file`: what a member tells probes that ask no port.

In: diagnoses, once a second. Out: a file that is always whole, and its verdict for a probe. A file
that nobody writes any more is the sign of a process that stands still: it counts as not alive.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import time
from typing import Any, NamedTuple

from coop_consumer.errors import ConfigError
from coop_consumer.ops.health import STEP_MAX_S, Diagnosis, NotReady, Reason

EVERY_S = 1.0
PROBES = ("live", "ready")


class ProbeAnswer(NamedTuple):
    """What a probe has found.

    Attributes:
        ok: Whether the answer is yes.
        text: The same with its reasons, as JSON in one line.
    """

    ok: bool
    text: str


def written(path: Path, live: Diagnosis, ready: Diagnosis) -> None:
    """Replace the file in one step: a reader finds the old one or the new one, whole.

    Raises:
        OSError: It cannot be written.
    """
    told = {
        "at": round(time(), 3),
        "pid": os.getpid(),
        "live": live.as_json(),
        "ready": ready.as_json(),
    }
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(f"{json.dumps(told)}\n", encoding="utf-8")
    beside.replace(path)


def asked(path: Path, probe: str, now_s: float) -> ProbeAnswer:
    """What the file answers to a probe, "live" or "ready".

    Args:
        path: The file.
        probe: Which probe.
        now_s: The time, in seconds since 1970. A file that is older than 10 s answers no.
    """
    try:
        told: Any = json.loads(path.read_text(encoding="utf-8"))
        age_s, found = now_s - float(told["at"]), told[probe]
        ok = bool(found["ok"])
    except OSError as error:
        return no(
            NotReady.UNKNOWN, f"{path} cannot be read: {error.strerror}. Does `run` write it?"
        )
    except (ValueError, KeyError, TypeError):
        return no(NotReady.UNKNOWN, f"{path} is no file of `run --health-file`")
    if abs(age_s) > STEP_MAX_S:
        return no(NotReady.FROZEN, f"{path} was written {age_s:.0f} s ago, and is due each second")
    return ProbeAnswer(ok, json.dumps(found))


def no(reason: NotReady, text: str) -> ProbeAnswer:
    """The answer where nobody has answered."""
    return ProbeAnswer(False, json.dumps(Diagnosis((Reason(reason, text),)).as_json()))


class HealthFile:
    """Writes the file once a second, from its start to its end, on a thread of its own.

    Args:
        path: Where.
        look: The diagnoses of now, live and ready; it must not block.
    """

    def __init__(self, path: Path, look: Callable[[], tuple[Diagnosis, Diagnosis]]) -> None:
        self._path = path
        self._look = look
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="coop-health", daemon=True)

    def start(self) -> None:
        """Write it once, and from then on.

        Raises:
            ConfigError: It cannot be written.
        """
        try:
            written(self._path, *self._look())
        except OSError as error:
            raise ConfigError(
                "--health-file",
                f"={self._path} cannot be written: {error.strerror}",
                "Name a file in a directory that is there, and that this user may write to",
            ) from error
        self._thread.start()

    def end(self) -> None:
        """Write it for the last time."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._over.wait(EVERY_S)
            # A disk that is full for a while must not end this thread: probes see the file's age.
            try:
                written(self._path, *self._look())
            except OSError:
                continue
