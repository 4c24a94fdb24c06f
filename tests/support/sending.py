"""A worker that sends the place of each record to a topic, also in a process to be killed.

`python -m tests.support.sending` is a member that is to be killed (see `tests.support.killed`). It
hangs at its last record, once the outputs of all others are in the topic and in no commit: its
commits are an hour apart.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterable

from confluent_kafka import Message

from coop_consumer import Context, Record, Worker, WorkerPool
from tests.support.killed import say_there


class Sends(Worker):
    """Sends to the first of `output.topics`."""

    def setup(self, context: Context) -> None:
        self.context = context
        (self.topic,) = sorted(context.config.output_names)

    def process(self, record: Record) -> None:
        place = f"{record.partition}/{record.offset}"
        self.context.send(record, self.topic, record.key, place, [("attempt", str(record.attempt))])


class SendsAsync(Sends):
    """The same on an event loop."""

    async def process(self, record: Record) -> None:  # type: ignore[override] # a style of its own
        super().process(record)


class SendsAndDies(Sends):
    """Kills its process behind what it sends, at the first attempt at some records."""

    def process(self, record: Record) -> None:
        super().process(record)
        if record.offset % 200 == 150 and record.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)


class SendsBatches(Worker):
    """The same for batches."""

    setup = Sends.setup

    def process_batch(self, records: list[Record]) -> None:  # type: ignore[override] # it is one
        for record in records:
            Sends.process(self, record)  # type: ignore[arg-type] # it has what it takes


def places_of(outputs: Iterable[Message]) -> list[tuple[bytes, tuple[int, int]]]:
    """Of each output, its key and the place of its record."""
    return [
        (it.key() or b"", tuple(map(int, (it.value() or b"").split(b"/"))))  # type: ignore[misc]
        for it in outputs
    ]


def main() -> None:
    plan = json.loads(sys.argv[1])
    left = plan["count"]

    class SendsAndHangs(Sends):
        def process(self, record: Record) -> None:
            nonlocal left
            super().process(record)
            left -= 1
            if not left:
                say_there()
                threading.Event().wait()

    with WorkerPool(SendsAndHangs, plan["settings"], [plan["topic"]], workers=1) as pool:
        pool.wait()


if __name__ == "__main__":
    main()
