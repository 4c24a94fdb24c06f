"""A run with exactly once: what its members leave behind is judged as well.

In: as a `Scene`. Out: as a `Scene`; and its verdict says what came of outputs and keyed state. The
topic of outputs has its own time of each record, and a witness that reads it as consumers do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Message

from coop_consumer.state.entry import decode
from tests.chaos.arena import COMPACTED_SETTINGS
from tests.chaos.outputs import OutputsVerdict, Seen, judge_outputs
from tests.chaos.scene import PARTITIONS, Made, Scene
from tests.chaos.totals import GENERATION, RUN
from tests.chaos.witness import OutputsWitness
from tests.support import stock
from tests.support.journal import Place

OUTPUT_PARTITIONS = 3
TRANSACTION_TIMEOUT_MS = 10_000


class OnceScene(Scene):
    """A scene whose members have `processing.guarantee=exactly_once`."""

    def __enter__(self) -> Self:
        super().__enter__()
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._reader.leave()
        super().__exit__(kind, error, traceback)

    def warm_up(self) -> None:
        """Most runs have transactions before the fault strikes."""
        super().warm_up()
        count = self.rng.randint(0, 40)
        committed = self.fleet.transactions
        self.fleet.wait(lambda: committed["COMMITTED"] >= count, f"{count} transactions")

    @property
    def _log(self) -> str:
        return f"{self.progress_topic}-{self.group}"

    @property
    def _changelog(self) -> str:
        return f"{self.group}-{self.topic}-state"

    def _own_settings(self, folder: Path) -> dict[str, object]:
        self.outputs = f"{self.topic}-outputs"
        self.topics[self._log] = self.topics[self.progress_topic]
        timed = {"message.timestamp.type": "LogAppendTime"}
        self.topics[self.outputs] = OUTPUT_PARTITIONS, timed
        self._reader = OutputsWitness(self.arena.quiet_client, self.outputs, OUTPUT_PARTITIONS)
        return {
            "processing.guarantee": "exactly_once",
            "output.topics": self.outputs,
            "state.dir": str(folder / "state"),
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        }

    def _worker(self, executor: str) -> str:
        self._has_state = executor == "thread"
        if self._has_state:
            self.topics[self._changelog] = PARTITIONS, COMPACTED_SETTINGS
        return f"tests.chaos.totals:{'Totals' if self._has_state else 'Places'}"

    def _judge_outputs(self, made: Mapping[Place, Made]) -> OutputsVerdict:
        steady_ns = time.time_ns() - time.monotonic_ns()
        outputs = [seen(it, steady_ns) for it in self._decided(self.outputs, OUTPUT_PARTITIONS)]
        stock.eventually(lambda: len(self._reader.seen_ns), lambda count: count >= len(outputs))
        self._reader.leave()
        states: dict[bytes, bytes] | None = None
        if self._has_state:
            states = {
                it.key() or b"": decode(it.value() or b"").now.value
                for it in self._decided(self._changelog, PARTITIONS)
            }
        seen_ns: dict[Place, int] = {}
        for value, at_ns in self._reader.seen_ns.values():
            place = Seen(b"", value, at_ns, 0, 0).place
            seen_ns[place] = min(at_ns, seen_ns.get(place, at_ns))
        return judge_outputs(
            {place: one.key for place, one in made.items()},
            {place: one.at_ns for place, one in made.items()},
            outputs,
            seen_ns=seen_ns,
            states=states,
            zombies=self.fleet.zombies,
            transactions=self.fleet.transactions,
        )

    def _decided(self, topic: str, partitions: int) -> Iterator[Message]:
        """All committed records of a topic, once nothing in it is open any more."""
        for number in range(partitions):
            yield from stock.records_of(self.arena.quiet_client, topic, number)


def seen(message: Message, steady_ns: int) -> Seen:
    """An output as the judge takes it."""
    headers: dict[str, Any] = dict(message.headers() or ())
    return Seen(
        message.key() or b"",
        message.value() or b"",
        message.timestamp()[1] * 1_000_000 - steady_ns,
        int(headers[RUN]),
        int(headers[GENERATION]),
    )
