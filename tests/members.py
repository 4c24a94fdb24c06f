"""Members in processes of their own, to be watched, stopped and killed by a test.

In: a name and settings for each process. Out: everything they process in one `Journal`, every
assignment they are given, and how they ended. A child tells what happens in lines of JSON on its
standard output, each written in one piece, so what was said before a kill is not lost. It ends when
its parent does. `python -m tests.members` is the child.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from assignors import WHOLE, KeyRange, TopicPartition, union
from coop_consumer import CoopConsumerError, Record, Worker, WorkerPool
from coop_consumer.kafka.membership import AssignmentSnapshot
from coop_consumer.kafka.runtime import Member
from tests.journal import WAIT_S, Journal, Row

_ROOT = Path(__file__).parent.parent

Ranges = dict[TopicPartition, tuple[KeyRange, ...]]


class MemberProcess:
    """One child: a `WorkerPool` named by its `client.id`, which its name in the group begins with.

    Attributes:
        ended: Set when it has said its last word.
        error: The name and text of the error that ended it, or None.
    """

    def __init__(self, crew: Crew, name: str, plan: Mapping[str, Any], log_path: Path) -> None:
        self.name = name
        self.ended = threading.Event()
        self.error: tuple[str, str] | None = None
        self.log_path = log_path
        self._crew = crew
        with log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.members", json.dumps(plan)],
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._reader = threading.Thread(target=self._read, name=f"member-{name}")
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            kind, *rest = json.loads(line)
            if kind == "row":
                self._crew.journal.note(self._row(*rest))
            elif kind == "assigned":
                self._crew.assigned(self.name, *rest)
            else:
                self.error = tuple(rest[0]) if rest[0] else None
        self.ended.set()
        with self._crew.journal.news:
            self._crew.journal.news.notify_all()

    def _row(self, partition: int, offset: int, key: str, started_ns: int, ended_ns: int) -> Row:
        return Row(partition, offset, key, started_ns, ended_ns, self.name, self.process.pid)

    def open_gate(self) -> None:
        """Let the handlers end that wait at the gate."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"open\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """End it as the out-of-memory killer would."""
        self.process.kill()
        self._bury()

    def stop(self) -> None:
        """Ask it to end in order, and wait until it has."""
        self.process.terminate()
        self.wait()

    def wait(self, wait_s: float = WAIT_S) -> None:
        """Wait for its end; a child that fails without a word fails the test."""
        in_time = self.ended.wait(wait_s)
        if not in_time:
            self.kill()
        assert in_time, f"{self.name} has not ended in {wait_s} s:\n{self.log()}"
        self._bury()
        assert self.process.returncode == 0, self.log()

    def _bury(self) -> None:
        self.process.wait(WAIT_S)
        self._reader.join(WAIT_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def log(self) -> str:
        """The end of what it logged."""
        return self.log_path.read_text()[-5_000:]


class Crew:
    """The member processes of one group, and all they tell.

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
        """Start members; each record takes `work_ms`, those of the keys in `gate` until told."""
        for name in names:
            plan = {
                "settings": {**self._settings, **settings, "client.id": name},
                "topic": self._topic,
                "work_ms": work_ms,
                "gate": list(gate),
                "workers": workers,
            }
            self.members[name] = MemberProcess(self, name, plan, self._folder / f"{name}.log")

    def assigned(
        self, name: str, generation: int, size: int, ranges: Sequence[tuple[str, int, Any]]
    ) -> None:
        """A member tells what a generation of `size` members gives it."""
        own = {TopicPartition(t, p): tuple(KeyRange(*r) for r in held) for t, p, held in ranges}
        with self.journal.news:
            self.generations.setdefault(generation, {})[name] = own
            self._sizes[generation] = size
            self.journal.news.notify_all()

    def settle(self, *names: str) -> dict[str, Ranges]:
        """Wait until one generation holds exactly these members; returns who has what in it."""

        def newest() -> dict[str, Ranges]:
            return self.generations.get(max(self.generations, default=-1), {})

        with self.journal.news:
            in_time = self.journal.news.wait_for(
                lambda: set(newest()) == set(names) == self._named(), WAIT_S
            )
            assert in_time, f"no generation of {names} in {WAIT_S} s: {self._story()}"
            return newest()

    def _named(self) -> set[str]:
        """Who is in the newest generation, if all of them have told."""
        newest = max(self.generations, default=-1)
        told = set(self.generations.get(newest, {}))
        return told if len(told) == self._sizes.get(newest) else set()

    def _story(self) -> str:
        logs = "\n".join(f"--- {name}\n{it.log()}" for name, it in self.members.items())
        told = {number: sorted(told) for number, told in self.generations.items()}
        return f"{told} of {self._sizes}\n{logs}"

    def check_generations(self, partitions: Sequence[TopicPartition]) -> int:
        """Assert I1 of every generation; returns how many had all of their members tell."""
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
        """Leave no child behind, whatever happened."""
        for member in self.members.values():
            if member.process.poll() is None:
                member.kill()
            else:
                member._bury()


@contextmanager
def crew(settings: Mapping[str, object], topic: str, folder: Path) -> Iterator[Crew]:
    """A crew whose processes are gone at the end of the block."""
    it = Crew(settings, topic, folder)
    try:
        yield it
    finally:
        it.kill_all()


# -- the child -------------------------------------------------------------------------------------


def say(*words: object) -> None:
    """One line in one write: pipes keep lines below 4,096 bytes whole."""
    os.write(1, (json.dumps(words) + "\n").encode())


class TellingWorker(Worker):
    """Takes its time, or waits at the gate, and tells each record that it has ended."""

    def __init__(self, work_ms: float, gate: Sequence[str], gate_opened: threading.Event) -> None:
        self._work_s = work_ms / 1_000
        self._gate = {key.encode() for key in gate}
        self._gate_opened = gate_opened

    def process(self, record: Record) -> None:
        started_ns, key = time.monotonic_ns(), record.key or b""
        if key in self._gate:
            self._gate_opened.wait()
        elif self._work_s:
            time.sleep(self._work_s)  # stands for the work of a real handler
        ended_ns = time.monotonic_ns()
        say("row", record.partition, record.offset, key.decode(), started_ns, ended_ns)


def tell_assignments() -> None:
    """Have every assignment told before the member takes it."""
    take = Member.on_assigned

    def tell_and_take(self: Member, snapshot: AssignmentSnapshot) -> None:
        data = self._data_of(snapshot)
        ranges = [
            (tp.topic, tp.partition, [(r.lo, r.hi) for r in own]) for tp, own in data.ranges.items()
        ]
        say("assigned", snapshot.generation, data.members, ranges)
        take(self, snapshot)

    Member.on_assigned = tell_and_take  # type: ignore[method-assign]


def obey_parent(gate_opened: threading.Event) -> None:
    """Open the gate when told; end when the parent has gone."""
    for _ in sys.stdin:
        gate_opened.set()
    os._exit(0)


def main() -> None:
    plan = json.loads(sys.argv[1])
    gate_opened = threading.Event()
    threading.Thread(target=obey_parent, args=(gate_opened,), daemon=True).start()
    tell_assignments()
    error: CoopConsumerError | None = None
    try:
        worker = TellingWorker(plan["work_ms"], plan["gate"], gate_opened)
        WorkerPool(worker, plan["settings"], [plan["topic"]], workers=plan["workers"]).run()
    except CoopConsumerError as caught:
        error = caught
    say("ended", [type(error).__name__, str(error)] if error else None)


if __name__ == "__main__":
    main()
