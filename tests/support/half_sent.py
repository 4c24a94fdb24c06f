"""A member to be killed in a transaction: its outputs are with brokers, its progress is not.

`python -m tests.support.half_sent`; see `tests.support.killed`. With `state.dir` it sends nothing,
and counts in keyed state.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from coop_consumer import WorkerPool
from coop_consumer.core.transaction import Said
from coop_consumer.kafka.transaction_client import TransactionClient
from tests.support.counting import Counts
from tests.support.killed import say_there
from tests.support.sending import Sends


def main() -> None:
    plan = json.loads(sys.argv[1])
    real = TransactionClient.progress

    def progress(client: TransactionClient, action: Any) -> Said:
        if action.results:
            flush_stores()
            say_there()
            threading.Event().wait()
        return real(client, action)

    def flush_stores() -> None:
        """Whatever a store has by now outlives the process."""
        changelog = pool._work.changelog
        for shard in () if changelog is None else changelog._open:
            shard._store.flush(wait=True)

    TransactionClient.progress = progress  # type: ignore[method-assign]
    worker = Counts() if "state.dir" in plan["settings"] else Sends()
    with WorkerPool(worker, plan["settings"], [plan["topic"]], workers=1) as pool:
        pool.wait()


if __name__ == "__main__":
    main()
