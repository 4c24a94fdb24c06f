"""The case `imports`: how long a program waits for this library before its first line runs.

In: nothing. Out: a row. Each import is the first of an interpreter of its own, whose start is not
counted; the bytecode is compiled before.
"""

from __future__ import annotations

import subprocess
import sys
from statistics import median

from benchmarks.bench import Broker
from benchmarks.rows import JsonRow

STATEMENTS = {
    "import_s": "import coop_consumer",
    "import_pool_s": "from coop_consumer import Worker, WorkerPool",
    "import_clients_s": "import confluent_kafka, kafka",
}
"""The package, whose names load when they are used; all of a pool; what of that are clients."""

_AT_LEAST = 5


def imports(_broker: Broker, runs: int) -> list[JsonRow]:
    """The medians, by the clock."""
    count = max(_AT_LEAST, runs)
    figures = {
        name: median(_seconds(statement) for _ in range(count))
        for name, statement in STATEMENTS.items()
    }
    return [{"case": "imports", "system": "ours", "runs": count, "figures": figures}]


def _seconds(statement: str) -> float:
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    ran = subprocess.run(  # noqa: S603 - the command is ours
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return float(ran.stdout)
