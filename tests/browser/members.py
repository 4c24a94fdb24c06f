"""Members of a group in a process of their own, whose handlers fail as long as a file says so.

`python -m tests.browser.members PLAN`, a JSON object: `settings`, `topic`, `names`, and `failing`,
the path of a file. A record whose value is `fail` fails while that file is there. The process ends
with its parent.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from coop_consumer import Record, Worker, WorkerPool

WORK_S = 0.004
TROUBLE = "no route to <b>billing</b>"


class Moody(Worker):
    """Takes a moment, or fails.

    Args:
        failing: While this file is there, records whose value is `fail` do.
    """

    def __init__(self, failing: Path) -> None:
        self._failing = failing

    def process(self, record: Record) -> None:
        if record.value == b"fail" and self._failing.exists():
            raise ValueError(TROUBLE)
        time.sleep(WORK_S)  # stands for a handler's work


def main(plan: dict[str, Any]) -> None:
    with ExitStack() as stack:
        for name in plan["names"]:
            settings = {**plan["settings"], "client.id": name}
            pool = WorkerPool(Moody(Path(plan["failing"])), settings, [plan["topic"]], workers=4)
            stack.enter_context(pool)
        sys.stdin.read()  # until the parent ends, or closes it


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
