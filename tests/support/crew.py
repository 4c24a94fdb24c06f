"""A member on a table whose records a worker of some style processes, on real threads or a loop.

In: keys to produce, a script that says what becomes of each record. Out: what ran, in order. The
test's own thread is the member's thread. It waits for wake-ups, never for time.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any, Self, cast

from assignors import WHOLE
from coop_consumer import BatchFailure, Context, Record, Worker
from coop_consumer.core import actions, events
from coop_consumer.core.effects import Output
from coop_consumer.core.outputs import Outputs, OutputTopic
from coop_consumer.core.record import ASSIGNABLE
from coop_consumer.ops.record_spans import RecordSpans
from coop_consumer.styles import OneThread, style_of
from coop_consumer.worker import BatchResult
from tests.unit.core_member import TableMember

WAIT_S = 10.0


class Script:
    """What handlers shall do, and what they have done.

    Attributes:
        held: Keys whose records wait for `let_go`, each record for its own.
        raises: What handlers raise for a key: one error an attempt, in this order.
        begun: Offsets in the order in which handlers began.
        at_once_max: The most handlers that ran at one time.
        overlapped: Keys with two handlers at one time.
        batches: Which records came together.
        tells: How a handler of batches tells of what `raises` says: "returned", "with errors" or
            "named" (by a `BatchFailure`), or "raised", without a word on whose it is.
        returns: What it returns, or raises, instead, if it is not None.
        changes: What a handler of batches does with its list at the end: "sorted" (from the last
            key to the first), "popped" (all but one), "cleared" or "".
        assigns: A handler assigns to whatever of its record can be assigned.
        takes_s: How long a record takes by `now_s`, the script's clock; 0: the real clock counts.
        sends: A handler sends its record's offset and attempt to "totals".
        context: What it sends by.
    """

    context: Context

    def __init__(self) -> None:
        self.held: set[bytes | None] = set()
        self.raises: dict[bytes | None, list[BaseException]] = {}
        self.begun: list[int] = []
        self.at_once_max = 0
        self.overlapped: set[bytes | None] = set()
        self.batches: list[Sequence[Record]] = []
        self.tells = "returned"
        self.changes = ""
        self.assigns = self.sends = False
        self.takes_s = self.now_s = 0.0
        self.returns: Callable[[Sequence[Record]], BatchResult] | None = None
        self._gates: defaultdict[int, Future[None]] = defaultdict(Future)
        self._running: list[bytes | None] = []
        self._lock = threading.Lock()
        self.on_begin: Callable[[], None] = lambda: None

    def begin(self, record: Record) -> Future[None] | None:
        """A handler begins; returns what the handler has to wait for."""
        with self._lock:
            if record.key in self._running:
                self.overlapped.add(record.key)
            self._running.append(record.key)
            self.at_once_max = max(self.at_once_max, len(self._running))
            self.begun.append(record.offset)
            gate = self._gates[record.offset] if record.key in self.held else None
        self.on_begin()
        return gate

    def end(self, record: Record) -> None:
        """A handler ends: well, or by an error."""
        with self._lock:
            self._running.remove(record.key)
            self.now_s += self.takes_s
            errors = self.raises.get(record.key)
            error = errors.pop(0) if errors else None
        if self.sends and isinstance(record, Record):  # else its handler sends elsewhere
            send_place(self.context, record)
        if self.assigns:
            for name in ASSIGNABLE:
                setattr(record, name, f"the handler's {name}")
        if error is not None:
            raise error

    def begin_batch(self, records: Sequence[Record]) -> list[Future[None]]:
        """A handler of a batch begins; returns what the handler has to wait for."""
        with self._lock:
            self.batches.append(list(records))
        return [gate for gate in map(self.begin, records) if gate is not None]

    def end_batch(self, records: Sequence[Record]) -> BatchResult:
        """A handler of a batch ends; returns what the handler returns."""
        errors: dict[Record, BaseException] = {}
        for record in records:
            try:
                self.end(record)
            except BaseException as error:  # noqa: BLE001 - whatever the script says
                errors[record] = error
        if self.returns is not None:
            return self.returns(records)
        match self.tells:
            case "raised" if errors:
                raise next(iter(errors.values()))
            case "named" if errors:
                raise BatchFailure(list(errors), "bad luck")
            case "with errors" if errors:
                raise BatchFailure(errors)
            case _:
                return [errors.get(record) for record in records] if errors else None

    def longest_wait(self, keys: Sequence[bytes]) -> int:
        """How many records ran before a key's first or next one, at most; `keys` by offset."""
        last, longest = dict.fromkeys(keys, -1), 0
        for number, offset in enumerate(self.begun):
            longest = max(longest, number - last[keys[offset]] - 1)
            last[keys[offset]] = number
        return longest

    def let_go(self, offset: int) -> None:
        """Let the handler of this record go on."""
        with self._lock:
            gate = self._gates[offset]
        if not gate.cancelled():  # its handler may have been told to give up
            gate.set_result(None)


def send_place(context: Context, record: Record) -> None:
    """Send which attempt at a record this is."""
    context.send(record, "totals", record.key, f"{record.offset}.{record.attempt}")


def changed(given: Sequence[Record], how: str) -> list[Record]:
    """Change a handler's own list as `Script.changes` says; what the handler goes through then."""
    own = cast("list[Record]", given)
    if how == "sorted":
        own.sort(key=lambda record: record.key or b"", reverse=True)
    if how in {"popped", "cleared"}:
        kept = list(own)
        del own[0 if how == "cleared" else 1 :]
        return kept
    return own


class Crew:
    """A member, its worker, and what runs the worker's records.

    Args:
        worker: Follows the script.
        script: What it does.
        workers: How many records at a time.
        spans: Makes spans of records.
        outputs: Take what handlers send.
        settings: Of the member, with underscores for dots.

    Attributes:
        interrupts: How often whoever waits for the end was interrupted.
    """

    def __init__(
        self,
        worker: Worker,
        script: Script,
        workers: int,
        *,
        executor: str = "thread",
        spans: RecordSpans | None = None,
        outputs: type[Outputs] = Outputs,
        **settings: Any,
    ) -> None:
        self.script = script
        self.condition = threading.Condition()
        self.member = TableMember(lock=self.condition, **settings)
        self._woken: SimpleQueue[None] = SimpleQueue()
        self._ended: Future[None] = Future()
        self._driver = threading.Thread(target=self._drive, name="driver", daemon=True)
        self.interrupts = 0
        script.on_begin = self._wake
        self.style = style_of(worker, self.member.config, workers, executor)
        self.style.start()
        totals = OutputTopic(partitions=1, record_max_bytes=1_000_000, is_compacted=False)
        script.context = Context(
            self.member.config, "m1", workers, outputs=outputs({"totals": totals}, 1 << 20)
        )
        self.style.call(worker.setup, script.context)
        self.executor = self.style.executor(
            self.member.core.lanes,
            self.condition,
            workers=workers,
            wake=self._wake,
            clock=(lambda: script.now_s) if script.takes_s else perf_counter,
            spans=spans,
        )
        self.member.assign(WHOLE)

    def _wake(self) -> None:
        self._woken.put(None)

    def __enter__(self) -> Self:
        """Start."""
        self.executor.start()
        if isinstance(self.style, OneThread):
            self._driver.start()
        return self

    def _drive(self) -> None:
        """Wait for the end as the owner of a pool does, also after a Ctrl-C."""
        while True:
            try:
                self.style.await_end(self._ended, None)
            except KeyboardInterrupt:
                self.interrupts += 1
            else:
                return

    def __exit__(self, *_: object) -> None:
        """Let all handlers go on, and end."""
        self._ended.set_result(None)
        self.executor.stop()
        if isinstance(self.style, OneThread):
            self._driver.join(WAIT_S)
            assert not self._driver.is_alive()
        self.style.end()

    def produce(self, *keys: bytes | None) -> None:
        """Produce records of these keys."""
        self.member.produce(*keys)
        self.executor.offered()

    def sent(self) -> list[str]:
        """What handlers have sent, as it went along with commits."""
        return [(output.value or b"").decode() for output in self.outputs()]

    def outputs(self) -> list[Output]:
        """The same as outputs, with their headers."""
        return [
            effect
            for commit in self.member.told(actions.Commit)
            for result in commit.results
            for effect in result.effects
            if isinstance(effect, Output)
        ]

    def let_all_go(self) -> None:
        """Let all handlers go on, now and later."""
        self.script.held.clear()
        for offset in list(self.script.begun):
            self.script.let_go(offset)

    def overdue(self) -> list[actions.AbandonLane]:
        """Let time pass until running handlers are given up; returns what gave them up."""
        first = len(self.member.told(actions.AbandonLane))
        for _ in range(20):
            self.member.after(100)
        return self.member.told(actions.AbandonLane)[first:]

    def until(self, condition: Callable[[], bool], *, paused: bool = False) -> None:
        """Go on, or stay paused, until a condition holds."""
        while True:
            self.member.tell(events.Tick())
            self.executor.pause(paused)
            self.executor.offered()
            if condition():
                return
            try:
                self._woken.get(timeout=WAIT_S)
            except Empty:
                raise AssertionError(f"not so within {WAIT_S} s: {self.script.begun}") from None

    def until_begun(self, count: int) -> None:
        """Go on until so many handlers have begun."""
        self.until(lambda: len(self.script.begun) >= count)

    def until_done(self, count: int, *, paused: bool = False) -> None:
        """Go on, or stay paused, until so many records are done."""
        self.until(lambda: self.member.core.state.counters.finished >= count, paused=paused)

    def until_failed(self, count: int) -> None:
        """Go on until handlers have failed so many times."""
        self.until(lambda: self.member.core.state.counters.failures >= count)
