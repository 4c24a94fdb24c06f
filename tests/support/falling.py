"""A member whose handler ends its process at a poison record, and notes each record it begins.

`python -m tests.support.falling PLAN` runs it. PLAN is a JSON object: `settings`, `topic`, `rows`
(a file) and `workers`.
"""

from __future__ import annotations

import json
import os
import sys

from coop_consumer import Record, Worker, WorkerPool

POISON = "poison"


class Falling(Worker):
    """Begins a record, and perhaps ends the process there.

    Args:
        rows: The file that gets the offset of each record that begins.
    """

    def __init__(self, rows: str) -> None:
        self._rows = os.open(rows, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def process(self, record: Record) -> None:
        os.write(self._rows, b"%d\n" % record.offset)
        if record.key == POISON.encode():
            os._exit(9)


def main() -> None:
    """Run until the member falls, or is killed."""
    plan = json.loads(sys.argv[1])
    worker = Falling(plan["rows"])
    with WorkerPool(worker, plan["settings"], [plan["topic"]], workers=plan["workers"]) as pool:
        pool.wait()


if __name__ == "__main__":
    main()
