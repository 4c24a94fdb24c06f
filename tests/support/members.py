"""Members in processes of their own, to be watched, stopped and killed by a test.

In: a name and settings for each process. Out: one `Journal` of everything they process, their
assignments, and how they ended. A child prints what happens as lines of JSON on its standard
output. Each line is written in one piece, so a kill loses no earlier line. A child ends when its
parent does. `python -m tests.support.members` is the child; `tests/chaos` starts it too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from assignors import WHOLE, KeyRange, TopicPartition, union
from coop_consumer import CoopConsumerError, Record, Worker, WorkerPool
from coop_consumer.cli.supervisor import ALLOCATOR
from coop_consumer.core import events
from coop_consumer.core.actions import Commit
from coop_consumer.core.member import MemberCore
from coop_consumer.core.transaction import Outcome, Said, TransactionCall
from coop_consumer.kafka.membership import AssignmentSnapshot, MemberAssignment
from coop_consumer.kafka.transactor import Transactor
from coop_consumer.member.group_side import GroupSide
from tests.support.journal import WAIT_S, Journal, Row

log = logging.getLogger(__name__)

_ROOT = Path(__file__).parents[2]

Ranges = dict[TopicPartition, tuple[KeyRange, ...]]


class Child:
    """One process of a member: its orders, and its end.

    Args:
        name: Its `client.id`, the beginning of its name in the group.
        plan: What `main` below reads.
        log_path: Where its log goes.
        said: What takes its lines: a file, or a pipe.
    """

    def __init__(
        self, name: str, plan: Mapping[str, Any], log_path: Path, said: int | IO[bytes]
    ) -> None:
        self.name = name
        self.log_path = log_path
        with log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.members", json.dumps(plan)],
                cwd=_ROOT,
                env={**ALLOCATOR, **os.environ},  # as below `coop-consumer run`
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=log,
            )

    def open_gate(self) -> None:
        """Let the handlers that wait at the gate end."""
        self._say(b"open")

    def let_join(self) -> None:
        """Let a child that waits before its join go on."""
        self._say(b"join")

    def explain(self) -> None:
        """Have the child log all that it knows."""
        self._say(b"explain")

    def halt(self, call: str, later_ms: float) -> None:
        """Have the child stop by SIGSTOP at the next such call of a transaction.

        Args:
            call: The name of a `TransactionCall`.
            later_ms: How long after the call began; 0: before it.
        """
        self._say(f"halt {call} {later_ms}".encode())

    def _say(self, word: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + b"\n")
        self.process.stdin.flush()

    def bury(self) -> None:
        """Wait for the end of its process and close the pipes."""
        self.process.wait(WAIT_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def log(self) -> str:
        """The end of its log."""
        return self.log_path.read_text()[-5_000:]


class MemberProcess(Child):
    """One child: a `WorkerPool` whose lines come through a pipe at once.

    Attributes:
        ended: Set when its last line has come.
        error: The name and text of the error that ended it, or None.
    """

    def __init__(self, crew: Crew, name: str, plan: Mapping[str, Any], log_path: Path) -> None:
        super().__init__(name, plan, log_path, subprocess.PIPE)
        self.ended = threading.Event()
        self.error: tuple[str, str] | None = None
        self._crew = crew
        self._reader = threading.Thread(target=self._read, name=f"member-{name}")
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            kind, *rest = json.loads(line)
            if kind == "row":
                self._crew.journal.note(row_of(self.name, self.process.pid, rest))
            elif kind == "assigned":
                self._crew.assigned(self.name, *rest[:3])
            elif kind == "ended":
                self.error = tuple(rest[0]) if rest[0] else None
        self.ended.set()
        with self._crew.journal.news:
            self._crew.journal.news.notify_all()

    def kill(self) -> None:
        """Kill it as the out-of-memory killer would."""
        self.process.kill()
        self.bury()

    def stop(self) -> None:
        """Ask it to end in order, and wait until it has."""
        self.process.terminate()
        self.wait()

    def wait(self, wait_s: float = WAIT_S) -> None:
        """Wait for its end; a child that fails without a line fails the test."""
        in_time = self.ended.wait(wait_s)
        if not in_time:
            self.kill()
        assert in_time, f"{self.name} has not ended in {wait_s} s:\n{self.log()}"
        self.bury()
        assert self.process.returncode == 0, self.log()

    def bury(self) -> None:
        """As `Child.bury`, after its last line."""
        self.process.wait(WAIT_S)
        self._reader.join(WAIT_S)
        super().bury()


class Crew:
    """The member processes of one group, and all their lines.

    Args:
        settings: What every member's configuration has.
        topic: What they consume.
        folder: Where their logs go.
    """

    def __init__(self, settings: Mapping[str, object], topic: str, folder: Path) -> None:
        self.journal = Journal()
        self.members: dict[str, MemberProcess] = {}
        self.generations: dict[int, dict[str, Ranges]] = {}
        self._sizes: dict[int, int] = {}
        self._settings = dict(settings)
        self._topic = topic
        self._folder = folder

    def start(
        self,
        *names: str,
        work_ms: float = 0,
        gate: Sequence[str] = (),
        workers: int = 4,
        **settings: object,
    ) -> None:
        """Start members; a record takes `work_ms`, or waits at the gate if its key is in `gate`."""
        for name in names:
            plan = {
                "settings": {**self._settings, **settings, "client.id": name},
                "topic": self._topic,
                "work_ms": work_ms,
                "gate": list(gate),
                "workers": workers,
                "waits": False,
            }
            self.members[name] = MemberProcess(self, name, plan, self._folder / f"{name}.log")

    def assigned(
        self, name: str, generation: int, size: int, ranges: Sequence[tuple[str, int, Any]]
    ) -> None:
        """Note what a generation of `size` members gives a member."""
        own = {TopicPartition(t, p): tuple(KeyRange(*r) for r in held) for t, p, held in ranges}
        with self.journal.news:
            self.generations.setdefault(generation, {})[name] = own
            self._sizes[generation] = size
            self.journal.news.notify_all()

    def settle(self, *names: str) -> dict[str, Ranges]:
        """Wait until one generation has exactly these members; returns what each holds in it."""

        def newest() -> dict[str, Ranges]:
            return self.generations.get(max(self.generations, default=-1), {})

        with self.journal.news:
            in_time = self.journal.news.wait_for(
                lambda: set(newest()) == set(names) == self._named(), WAIT_S
            )
            assert in_time, f"no generation of {names} in {WAIT_S} s: {self._story()}"
            return newest()

    def _named(self) -> set[str]:
        """Who is in the newest generation, if all of its members have reported."""
        newest = max(self.generations, default=-1)
        told = set(self.generations.get(newest, {}))
        return told if len(told) == self._sizes.get(newest) else set()

    def _story(self) -> str:
        logs = "\n".join(f"--- {name}\n{it.log()}" for name, it in self.members.items())
        told = {number: sorted(told) for number, told in self.generations.items()}
        return f"{told} of {self._sizes}\n{logs}"

    def check_generations(self, partitions: Sequence[TopicPartition]) -> int:
        """Assert I1 of every generation; returns how many generations all members reported."""
        complete = 0
        for generation, told in self.generations.items():
            for partition in partitions:
                held = sorted(r for ranges in told.values() for r in ranges.get(partition, ()))
                for one, other in pairwise(held):
                    assert one.hi < other.lo, f"I1: generation {generation}, {partition}: {told}"
                if len(told) == self._sizes[generation]:
                    assert union(held) == (WHOLE,), f"I1: generation {generation}, {partition}"
            complete += len(told) == self._sizes[generation]
        return complete

    def kill_all(self) -> None:
        """Kill all children, whatever happened."""
        for member in self.members.values():
            if member.process.poll() is None:
                member.kill()
            else:
                member.bury()


@contextmanager
def crew(settings: Mapping[str, object], topic: str, folder: Path) -> Iterator[Crew]:
    """A crew whose processes are gone at the end of the block."""
    it = Crew(settings, topic, folder)
    try:
        yield it
    finally:
        it.kill_all()


def row_of(name: str, run: int, said: Sequence[Any]) -> Row:
    """The row that a child printed, with the member's name."""
    partition, offset, key, started_ns, ended_ns, generation = said
    return Row(partition, offset, key, started_ns, ended_ns, name, run, generation=generation)


# -- the child -------------------------------------------------------------------------------------


def say(*words: object) -> None:
    """One line in one write: pipes keep lines below 4,096 bytes whole, and files any."""
    os.write(1, (json.dumps(words) + "\n").encode())


generation = -1
"""The newest that this process was told."""

members: list[GroupSide] = []
"""Of the member of this process, once it was assigned something."""


class TellingWorker(Worker):
    """Takes its time, or waits at the gate, and prints each record that it has ended."""

    def __init__(
        self,
        work_ms: float,
        gate: Sequence[str],
        gate_opened: threading.Event | None,
        slow_ms: float = 0,
        slow_every: int = 1,
    ) -> None:
        self._work_s = work_ms / 1_000
        self._slow_s = max(slow_ms, work_ms) / 1_000
        self._slow_every = slow_every
        self._gate = {key.encode() for key in gate}
        self._gate_opened = gate_opened

    def process(self, record: Record) -> None:
        started_ns, key = time.monotonic_ns(), record.key or b""
        told = generation
        if key in self._gate and self._gate_opened is not None:
            self._gate_opened.wait()
        elif self._slow_s:
            is_slow = record.offset % self._slow_every == 0
            if work_s := self._slow_s if is_slow else self._work_s:
                time.sleep(work_s)  # stands for a handler's work
        ended_ns = time.monotonic_ns()
        say("row", record.partition, record.offset, key.decode(), started_ns, ended_ns, told)


def tell_assignments() -> None:
    """Print every assignment before the member takes it, who led, and who was evicted."""
    take, lead, lose = GroupSide.on_assigned, GroupSide.lead_assign, GroupSide.on_lost

    def tell_and_lead(self: GroupSide, *arguments: Any) -> Mapping[str, MemberAssignment]:
        say("leads")
        return lead(self, *arguments)

    def tell_and_take(self: GroupSide, snapshot: AssignmentSnapshot) -> None:
        global generation  # noqa: PLW0603 - one member a process
        generation = snapshot.generation
        members[:] = [self]
        data = self._data_of(snapshot)
        ranges = [
            (tp.topic, tp.partition, [(r.lo, r.hi) for r in own]) for tp, own in data.ranges.items()
        ]
        say("assigned", snapshot.generation, data.members, ranges, time.monotonic_ns())
        take(self, snapshot)

    def tell_and_lose(self: GroupSide, reason: str) -> None:
        say("lost", time.monotonic_ns())
        lose(self, reason)

    GroupSide.on_assigned = tell_and_take  # type: ignore[method-assign]
    GroupSide.on_lost = tell_and_lose  # type: ignore[method-assign]
    GroupSide.lead_assign = tell_and_lead  # type: ignore[method-assign, assignment]


_LONG_CALL_S = 1.0

halts: dict[str, float] = {}
"""At which call of a transaction this process is to stop, and how many ms behind its beginning."""


def tell_transactions() -> None:
    """Print the id of each run, and how each transaction has ended; stop where that is asked."""
    make, ask, end = Transactor.__post_init__, Transactor._asked, Transactor._told

    def tell_and_make(self: Transactor) -> None:
        say("transacts", self.settings["transactional.id"])
        make(self)

    def halt_and_ask(self: Transactor, call: TransactionCall, action: Commit) -> Said:
        later_ms = halts.pop(call.name, None)
        if later_ms is not None:
            say("halts", call.name)
            if later_ms:
                threading.Timer(later_ms / 1_000, os.kill, (os.getpid(), signal.SIGSTOP)).start()
            else:
                os.kill(os.getpid(), signal.SIGSTOP)
        begun_s = time.monotonic()
        said = ask(self, call, action)
        if (took_s := time.monotonic() - begun_s) > _LONG_CALL_S:
            log.info("%s took %.1f s: %s %s", call.name, took_s, said, self._client.why)
        return said

    def tell_and_end(self: Transactor, action: Commit, outcome: Outcome | None) -> events.Event:
        say("transaction", outcome.name if outcome else "UNENDED")
        return end(self, action, outcome)

    Transactor.__post_init__ = tell_and_make  # type: ignore[method-assign]
    Transactor._asked = halt_and_ask  # type: ignore[method-assign]
    Transactor._told = tell_and_end  # type: ignore[method-assign]


def plant(mutant: str) -> None:
    """Plant a bug for as long as this process lives."""
    import pytest

    from tests.chaos.mutants import named

    named(mutant)(pytest.MonkeyPatch())


def obey_parent(gate_opened: threading.Event, may_join: threading.Event) -> None:
    """Open the gate, join, halt and explain when told; end when the parent has gone."""
    for word in sys.stdin:
        match word.split():
            case ["open"]:
                gate_opened.set()
            case ["join"]:
                may_join.set()
            case ["halt", call, later_ms]:
                halts[call] = float(later_ms)
            case _:
                explain()
    os._exit(0)


def explain() -> None:
    """Log where all threads are, and all that the member knows."""
    faulthandler.dump_traceback(sys.stderr)
    for thread in threading.enumerate():
        status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
        log.info("EXPLAIN thread %s: %s", thread.name, " ".join(status.split()[-4:]))
    if members:
        core = members[-1].core
        for line in members[-1].inbox.find(lambda: knowledge(core)).result(WAIT_S):
            log.info("EXPLAIN %s", line)


def knowledge(core: MemberCore) -> list[str]:
    """What the core knows, a line for each part of it."""
    state = core.state
    lines = [shown(state, leave_out=("partitions", "views", "lanes", "actions", "topics"))]
    lines += [shown(view, leave_out=("store",)) for view in state.views.values()]
    for partition in state.partitions.values():
        lines.append(shown(partition, leave_out=("view", "tenures", "draining")))
        lines += [
            f"{partition.tp} {tenure.state} {tenure.id} ranges={tenure.ranges} "
            f"waits={tenure.blocked.waits} blocked={tenure.blocked.hashes} "
            f"draining={tenure.draining} pending={len(tenure.pending)} "
            f"acked_stable={tenure.logged.stable}"
            for tenure in partition.all_tenures()
        ]
    return lines


def shown(it: Any, leave_out: Sequence[str]) -> str:
    """The fields of a dataclass, but for some."""
    told = {
        one.name: getattr(it, one.name)
        for one in dataclasses.fields(it)
        if one.name not in leave_out
    }
    return f"{type(it).__name__} {told}"


def main() -> None:
    plan = json.loads(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    gate_opened, may_join = threading.Event(), threading.Event()
    threading.Thread(target=obey_parent, args=(gate_opened, may_join), daemon=True).start()
    if plan.get("mutant"):
        plant(plan["mutant"])
    tell_assignments()
    tell_transactions()
    if plan["waits"]:
        say("waits")
        may_join.wait()
    error: CoopConsumerError | None = None
    try:
        slow = {name: plan[name] for name in ("slow_ms", "slow_every") if name in plan}
        make: type[TellingWorker] = TellingWorker
        if "worker" in plan:
            module, _, name = plan["worker"].partition(":")
            make = getattr(import_module(module), name)
        executor = plan.get("executor", "thread")
        opened = gate_opened if executor == "thread" else None
        worker = make(plan["work_ms"], plan["gate"], opened, **slow)
        WorkerPool(
            worker, plan["settings"], [plan["topic"]], workers=plan["workers"], executor=executor
        ).run()
    except CoopConsumerError as caught:
        error = caught
    say("ended", [type(error).__name__, str(error)] if error else None)


if __name__ == "__main__":
    # Workers of other modules import this one by its name. There must not be two of it.
    import_module("tests.support.members").main()
