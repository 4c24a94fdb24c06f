"""Sessions of Spark to be measured: each a process of its own, which runs when it is told to.

In: a script, systems. Out: what each answered, run by run; they take turns. The connector's jars
exist for Spark 4.0, so what needs them has an environment with that.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from benchmarks.peers.environments import environment
from benchmarks.peers.errors import PeerMissingError
from benchmarks.processes import of_session

SPARK = "4.0.0"
_CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}"
_IVY_SETTINGS = Path(__file__).with_name("ivysettings.xml")
_PACKAGES = (f"pyspark=={SPARK}", "pyarrow>=15,<22", "pandas<3", "numpy")
_SHOWN = 2_000

Answers = dict[str, list[dict[str, Any]]]


def in_turns(
    script: str, systems: Sequence[str], bootstrap: str, topic: str, runs: int
) -> tuple[Answers, dict[str, str]]:
    """Run each system so often.

    Args:
        script: The program of a session, in this folder; see `reading_job`.
        systems: Their names; those that begin with "connector" get the connector's environment.
        bootstrap: The broker.
        topic: What they read.
        runs: How often each runs.

    Returns:
        Answers by system, and why systems are missing.
    """
    answers: Answers = {system: [] for system in systems}
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        sessions: dict[str, _Session] = {}
        for system in systems:
            try:
                python, told = _interpreter(system)
                command = [python, str(Path(__file__).with_name(script)), system, bootstrap, topic]
                sessions[system] = stack.enter_context(_Session(system, command, told))
            except PeerMissingError as error:
                missing[system] = str(error)
        for _ in range(runs):
            for system, session in sessions.items():
                answers[system].append(session.run())
    return answers, missing


class _Session:
    """A process that waits for lines, and answers each with a run's result."""

    def __init__(self, system: str, command: Sequence[str], told: Mapping[str, str]) -> None:
        self._system = system
        # No pipe: nobody would empty it while an answer is awaited.
        self._said = TemporaryFile("w+")  # noqa: SIM115 - closed by `_end`
        self._process = subprocess.Popen(  # noqa: S603 - the command is ours
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True,
            env={**os.environ, **told}, start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> _Session:
        """Wait until it has started; Ivy may have something to say before."""
        while line := self._line():
            if line.strip() == "ready":
                return self
        raise PeerMissingError.from_output("its session does not start", self._end())

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._end()

    def run(self) -> dict[str, Any]:
        """Have it run once.

        Raises:
            RuntimeError: It has ended, with what it said last.
        """
        assert self._process.stdin is not None
        used_s = of_session(self._process.pid).cpu_s
        with suppress(BrokenPipeError):
            self._process.stdin.write("go\n")
            self._process.stdin.flush()
        line = self._line()
        if not line:
            raise RuntimeError(f"{self._system} ended: ...{self._end()[-_SHOWN:]}")
        found: dict[str, Any] = json.loads(line)
        found["cpu_s"] = of_session(self._process.pid).cpu_s - used_s  # JVMs and Pythons, no broker
        return found

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def _end(self) -> str:
        """End it, if it has not ended; returns what it said."""
        self._process.kill()
        self._process.communicate()
        if self._said.closed:
            return ""
        with self._said:
            self._said.seek(0)
            return self._said.read()


def _interpreter(system: str) -> tuple[str, dict[str, str]]:
    """A Python that has what a system needs, and the environment variables of its session."""
    if not system.startswith("connector"):
        return sys.executable, {}
    python = environment(f"pyspark-{SPARK}", sys.executable, _PACKAGES)
    settings = {
        "spark.jars.packages": _CONNECTOR,
        "spark.jars.ivySettings": str(_IVY_SETTINGS),
        "spark.jars.ivy": str(python.parents[1] / "ivy"),
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    return str(python), {"PYSPARK_SUBMIT_ARGS": shlex.join([*options, "pyspark-shell"])}
