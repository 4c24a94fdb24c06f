"""A hot key for minutes: do the other keys go on as if it were not there?

`python -m benchmarks hotkey --seconds 300`. One member with 16 workers of 5 ms, one partition, one
key with three records of ten, `max.num.ranges.held=3000`. The topic has more records than the time
suffices for. When the time is over the member leaves, and another one without work finishes the
topic. Printed are

    others_of_ideal  records of the other keys a second, over those that 15 workers can do
    hot_per_s        records of the hot key a second; one worker can do 200
    fetched          records that brokers sent, over those up to the last one that was handled
    lines            lines of the log, at most one a minute
    lost, repeated, out_of_order  of both members together
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from uuid import uuid4

from benchmarks import topics
from benchmarks.keys import SPECIAL, even_keys
from benchmarks.machine import conditions
from benchmarks.watched import WatchedConsumer
from coop_consumer import Record, Worker, WorkerPool
from coop_consumer.kafka import consuming

WORKERS, WORK_MS, HELD, KEYS = 16, 5, 3_000, 500
HOT, OF = 3, 10
OTHERS_PER_S = (WORKERS - 1) * 1_000 / WORK_MS
_MORE = 1.1
"""The topic must not end before the time does."""
_HOT = SPECIAL.encode()
_FINISH_S = 300.0
_NS_PER_S = 1_000_000_000


class Noting(Worker):
    """Takes its time, and notes what it did.

    Attributes:
        work_s: What a record costs.
        done: How often each offset was handled.
        out_of_order: How many records came after a later one of their key.
        others: When each record of another key was done, in ns.
        hot: How many records of the hot key.
    """

    def __init__(self) -> None:
        self.work_s = WORK_MS / 1_000
        self.done = Counter[int]()
        self.out_of_order = 0
        self.others = list[int]()
        self.hot = 0
        self._last = dict[bytes, int]()

    def process(self, record: Record) -> None:
        """Handle one. No key has two at a time, so no two threads write one entry of `_last`."""
        time.sleep(self.work_s)
        key, offset = record.key or b"", record.offset
        if offset < self._last.get(key, -1):
            self.out_of_order += 1
        self._last[key] = offset
        self.done[offset] += 1
        if key == _HOT:
            self.hot += 1
        else:
            self.others.append(time.monotonic_ns())


class Lines(logging.Handler):
    """Keeps the lines of the log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines = list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        """One more."""
        self.lines.append(record.getMessage())


def hotkey(bootstrap: str, seconds: int, *, as_json: bool) -> int:
    """Measure and print it; 1 if a record was lost or out of order."""
    records = round(OTHERS_PER_S * seconds * _MORE * OF / (OF - HOT))
    topic = topics.made(bootstrap, partitions=1)
    keys = even_keys(records, KEYS)
    topics.fill(
        bootstrap, topic, (SPECIAL if at % OF < HOT else key for at, key in enumerate(keys))
    )
    vars(consuming)["Consumer"] = WatchedConsumer
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": f"hotkey-{uuid4().hex[:8]}",
        "max.num.ranges.held": HELD,
        "max.num.ranges.to.commit": HELD,
    }
    worker, lines = Noting(), Lines()
    logger = logging.getLogger("coop_consumer")
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    with WorkerPool(worker, config, [topic], workers=WORKERS) as pool:
        while not worker.others:
            pool.wait(0.01)
        pool.wait(seconds)
    logger.removeHandler(lines)
    span_s = (worker.others[-1] - worker.others[0]) / _NS_PER_S
    told = {
        "seconds": round(span_s, 1),
        "others_of_ideal": round(len(worker.others) / span_s / OTHERS_PER_S, 3),
        "hot_per_s": round(worker.hot / span_s, 1),
        "fetched": round(sum(it.fetched for it in WatchedConsumer.made) / max(worker.done), 2),
        "lines": lines.lines,
    }
    worker.work_s = 0.0
    with WorkerPool(worker, config, [topic], workers=WORKERS, until_caught_up=True) as pool:
        pool.wait(_FINISH_S)
    lost = records - len(worker.done)
    told |= {
        "records": records,
        "lost": lost,
        "repeated": worker.done.total() - len(worker.done),
        "out_of_order": worker.out_of_order,
    }
    if as_json:
        print(json.dumps({"case": "hotkey", **told, "conditions": conditions()}))
    else:
        print("\n".join(f"{name:16} {value}" for name, value in told.items()))
    return int(lost > 0 or worker.out_of_order > 0)
