"""Sessions of Spark to be measured: each a process of its own, which runs when it is told to.

In: a script, systems. Out: what each answered, run by run; they take turns. The connector's jars
exist for Spark 4.0, so what needs them has an environment with that.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import environment
from benchmarks.peers.errors import PeerMissingError

SPARK = "4.0.0"
CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK}"
_PACKAGES = (f"pyspark=={SPARK}", "pyarrow>=15,<22", "pandas<3", "numpy")
_WAIT_S = 300.0

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
        jobs = {}
        for system in systems:
            try:
                jobs[system] = stack.enter_context(_job(script, system, bootstrap, topic))
            except PeerMissingError as error:
                missing[system] = str(error)
        for _ in range(runs):
            for system, job in jobs.items():
                answers[system].append(_answer(job))
    return answers, missing


@contextmanager
def _job(script: str, system: str, bootstrap: str, topic: str) -> Iterator[subprocess.Popen[str]]:
    """A session that waits for lines, and answers each with a run's result."""
    python = sys.executable
    if system.startswith("connector"):
        python = str(environment(f"pyspark-{SPARK}", sys.executable, _PACKAGES))
    words = [python, str(Path(__file__).with_name(script)), system, bootstrap, topic, CONNECTOR]
    process = subprocess.Popen(  # noqa: S603 - the command is ours
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            _, told = process.communicate(timeout=_WAIT_S)
            raise PeerMissingError.from_output("its session does not start", told)
        yield process
    finally:
        process.kill()
        process.communicate()


def _answer(job: subprocess.Popen[str]) -> dict[str, Any]:
    assert job.stdin is not None
    assert job.stdout is not None
    job.stdin.write("go\n")
    job.stdin.flush()
    found: dict[str, Any] = json.loads(job.stdout.readline())
    return found
