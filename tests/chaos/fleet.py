"""The members of one group, each a process that writes what it did to a file of its own.

In: settings, and what shall happen to whom. Out: every row that any of them wrote, also before a
kill -9; who leads; who ended by itself and why. A member that ends by itself is started again, as
an init system would. One thread reads the files and watches the processes.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from tests.chaos.absence import Absence
from tests.support.journal import Place, Row
from tests.support.members import Child, row_of
from tests.support.stock import eventually

_LOOK_S = 0.05
EXPLAINING_S = 3.0
WORK_MS, SLOW_MS = 3, 120
"""Of most records, and of the few that are still at it when ranges move."""
SLOW_EVERY, SLOW_AMONG_QUICK = 20, 500
"""One record in so many is slow; fewer where the others take no time, and the member's own thread
works them off until it comes to a slow one."""

WORKERS = 4
"""Of each member."""

STEP_TIMEOUT_S = 90.0
"""Whatever is waited for comes within this time, or the group is stuck."""


class StuckError(Exception):
    """Something that has to happen did not."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A member that ended without being asked, or not with exit code 0.

    Attributes:
        had_joined: Whether it had been in the group; who finds no broker at its start may end.
    """

    name: str
    exit_code: int
    error: str
    had_joined: bool


class Member(Child):
    """One run of a member; what it says goes to a file."""

    def __init__(self, name: str, number: int, plan: Mapping[str, Any], folder: Path) -> None:
        self.rows_path = folder / f"{name}.{number}.jsonl"
        with self.rows_path.open("ab") as said:
            super().__init__(name, plan, folder / f"{name}.{number}.log", said)
        self._read_to = 0

    def news(self) -> list[list[Any]]:
        """What it said since the last call; a line that is not whole yet waits."""
        with self.rows_path.open("rb") as file:
            file.seek(self._read_to)
            whole = file.read().rpartition(b"\n")[0]
        self._read_to += len(whole) + bool(whole)
        return [json.loads(line) for line in whole.splitlines()]


class Fleet:
    """Starts members, breaks them, and gathers what they wrote.

    Args:
        settings: What every member's configuration has.
        topic: What they consume.
        folder: Where their files and logs go.
        slow_ms: How long the few slow records take.
        quick: Whether all others take no time.
        mutant: The planted bug that all members have (`tests/chaos/mutants.py`), or "".
        worker: What handles records, as `module:Class`; "": what only tells that it did.
        executor: What runs it.

    Attributes:
        rows: Everything that was processed, in no order.
        ended: The members that ended by themselves.
        leader: Who led the newest generation.
        size: How many members the newest generation has.
        transactions: How many have ended, by the name of their `Outcome`.
    """

    def __init__(
        self,
        settings: Mapping[str, object],
        topic: str,
        folder: Path,
        *,
        slow_ms: float = SLOW_MS,
        quick: bool = False,
        mutant: str = "",
        worker: str = "",
        executor: str = "thread",
    ) -> None:
        self.rows: list[Row] = []
        self.places: set[Place] = set()
        self.ended: list[Ended] = []
        self.leader = ""
        self.size = 0
        self.transactions: Counter[str] = Counter()
        self._transactional_ids: dict[str, str] = {}
        self._halted: dict[str, str] = {}
        self._absences: list[Absence] = []
        self._put_out: list[Absence] = []
        self._begun_ns: dict[int, int] = {}
        self._generation = -1
        self._settings = dict(settings)
        self._topic = topic
        self._folder = folder
        self._work_ms, self._slow_every = (0, SLOW_AMONG_QUICK) if quick else (WORK_MS, SLOW_EVERY)
        self._slow_ms = slow_ms
        self._mutant = mutant
        self._handles = {"executor": executor, **({"worker": worker} if worker else {})}
        self._members: dict[str, Member] = {}
        self._plans: dict[str, dict[str, Any]] = {}
        self._ready: set[str] = set()
        self._own_generation: dict[str, int] = {}
        self._errors: dict[str, str] = {}
        self._runs = 0
        self._news = threading.Condition(threading.RLock())
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="fleet")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave no process behind."""
        self._closing.set()
        self._thread.join()
        for name in self.names:
            self.kill(name)

    @property
    def names(self) -> list[str]:
        """The members whose process runs, sorted."""
        with self._news:
            return sorted(self._members)

    @property
    def put_out(self) -> list[str]:
        """The members that the group has given up at some time: asleep, cut off, or starved."""
        return sorted({absence.name for absence in self._put_out})

    @property
    def absences(self) -> list[Absence]:
        """The runs that were away for so long that they are not live members.

        A run that was put out without our doing is a zombie from the next generation on.
        """
        found = list(self._absences)
        for out in self._put_out:
            later = [ns for number, ns in self._begun_ns.items() if number > out.generation]
            found.append(replace(out, since_ns=min([out.since_ns, *later])))
        return found

    @property
    def zombies(self) -> list[Absence]:
        """The runs that were put out, and since when."""
        out = {(it.run, it.generation) for it in self._put_out}
        return [it for it in self.absences if (it.run, it.generation) in out]

    def pid(self, name: str) -> int:
        return self._members[name].process.pid

    def children(self, name: str) -> list[int]:
        """The processes that run a member's handlers."""
        found: list[int] = []
        for thread in Path(f"/proc/{self.pid(name)}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):  # the thread has ended meanwhile
                found += map(int, (thread / "children").read_text().split())
        return [it for it in found if is_handling(it)]

    def transactional_id(self, name: str) -> str:
        """Of a member that runs."""
        self.wait(lambda: name in self._transactional_ids, f"a transactional.id of {name}")
        return self._transactional_ids[name]

    # ---- what happens to members ---------------------------------------------------------------

    def start(
        self, name: str, own: Mapping[str, object] = MappingProxyType({}), *, waits: bool = False
    ) -> None:
        """Start a member with settings of its own; one that `waits` joins when `let_join` says."""
        plan = {
            "settings": {**self._settings, **own, "client.id": name},
            "topic": self._topic,
            "work_ms": self._work_ms,
            "slow_ms": self._slow_ms,
            "slow_every": self._slow_every,
            "gate": [],
            "workers": WORKERS,
            "waits": waits,
            "mutant": self._mutant,
            **self._handles,
        }
        with self._news:
            self._plans[name] = plan
            self._launch(name)

    def start_again(self, name: str) -> None:
        """Start a member that was killed, as it was."""
        with self._news:
            self._launch(name)

    def wait_until_ready(self, names: Iterable[str]) -> None:
        """Wait until these wait for `let_join`."""
        wanted = set(names)
        self.wait(lambda: wanted <= self._ready, f"{sorted(wanted)} to be ready")

    def let_join(self, name: str) -> None:
        self._members[name].let_join()

    def kill(self, name: str) -> None:
        """End a member as the out-of-memory killer would."""
        with self._news:
            member = self._members.pop(name)
            member.process.kill()
            member.bury()
            self._take(member)

    def freeze(self, name: str) -> None:
        """Stop a member in the middle of whatever it does, for longer than its session."""
        self._members[name].process.send_signal(signal.SIGSTOP)
        self.note_absence(name)

    def halt(self, name: str, call: str, later_ms: float = 0) -> None:
        """Stop a member at its next such call of a transaction; returns once it stands still."""
        with self._news:
            self._halted.pop(name, None)
            self._members[name].halt(call, later_ms)
        self.wait(lambda: name in self._halted, f"{name} to come to {call} of a transaction")
        stat = Path(f"/proc/{self.pid(name)}/stat")
        eventually(stat.read_text, lambda text: text.rpartition(")")[2].split()[0] == "T")

    def doze(self, name: str) -> None:
        """Stop a member for a time that its session outlasts."""
        self._members[name].process.send_signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        self._members[name].process.send_signal(signal.SIGCONT)

    def note_absence(self, name: str) -> None:
        """From now until its next generation, this one is no live member."""
        since_ns = time.monotonic_ns()
        with self._news:
            member = self._members[name]
            self._take(member)
            generation = self._own_generation.get(name, -1)
            self._absences.append(Absence(name, member.process.pid, since_ns, generation))

    def stop(self, *names: str) -> None:
        """Ask members to leave, all at once, and wait until they have.

        Raises:
            StuckError: One does not end.
        """
        with self._news:
            leaving = [self._members.pop(name) for name in names]
        for member in leaving:
            member.process.terminate()
        deadline_s = time.monotonic() + STEP_TIMEOUT_S
        try:
            for member in leaving:
                if not self._has_ended(member, deadline_s):
                    member.explain()
                    self._closing.wait(EXPLAINING_S)
                    raise StuckError(f"{member.name} does not leave")
                if member.process.returncode != 0 and not self._never_heard(member):
                    self._note_end(member)
        finally:
            for member in leaving:
                member.process.kill()
                member.bury()
                with self._news:
                    self._take(member)

    def explain(self) -> None:
        """Have every member log what it knows, twice: what moves shows in the difference."""
        for _ in range(2):
            for name in self.names:
                with contextlib.suppress(BrokenPipeError):
                    self._members[name].explain()
            self._closing.wait(EXPLAINING_S)

    # ---- waiting -------------------------------------------------------------------------------

    def wait(self, seen: Callable[[], bool], what: str) -> None:
        """Wait until `seen()`; it is asked whenever members have told something.

        Raises:
            StuckError: It is not seen in time.
        """
        with self._news:
            if not self._news.wait_for(seen, STEP_TIMEOUT_S):
                raise StuckError(f"waited {STEP_TIMEOUT_S:.0f} s for {what}")

    def wait_for_generation_of(self, name: str) -> None:
        """Wait until a member has been given its share of the group's newest generation."""
        self.wait(
            lambda: self._own_generation[name] == self._generation >= 0,
            f"{name} to be in the group",
        )

    def wait_for_more(self, count: int) -> None:
        """Wait until `count` records more are processed."""
        wanted = len(self.places) + count
        self.wait(lambda: len(self.places) >= wanted, f"{count} records more")

    def wait_for(self, places: set[Place]) -> None:
        """Wait until all of these are processed; each one more starts the clock anew."""
        what = f"all of {len(places)} records"
        seen = -1

        def goes_on() -> bool:
            return len(self.places) > seen or places <= self.places

        try:
            while not places <= self.places:
                seen = len(self.places)
                self.wait(goes_on, what)
        except StuckError as error:
            missing = sorted(places - self.places)
            raise StuckError(f"{error}; {len(missing)} are missing: {missing[:8]}") from None

    # ---- the thread ----------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._closing.wait(_LOOK_S):
            with self._news:
                for name in self.names:
                    self._look_after(name)
                self._news.notify_all()

    def _look_after(self, name: str) -> None:
        member = self._members[name]
        has_ended = member.process.poll() is not None
        self._take(member)
        if has_ended:
            self._note_end(member)
            member.bury()
            self._launch(name)

    def _launch(self, name: str) -> None:
        self._runs += 1
        self._own_generation[name] = -1
        self._ready.discard(name)
        self._transactional_ids.pop(name, None)
        self._members[name] = Member(name, self._runs, self._plans[name], self._folder)

    def _note_end(self, member: Member) -> None:
        with self._news:
            self._take(member)
            exit_code = member.process.returncode
            error = self._errors.get(member.name, f"no word, exit code {exit_code}")
            had_joined = self._own_generation[member.name] >= 0
            self.ended.append(Ended(member.name, exit_code, error, had_joined))

    def _never_heard(self, member: Member) -> bool:
        """Whether it was asked to leave before it had begun, and so ended by the signal."""
        with self._news:
            self._take(member)
            has_joined = self._own_generation[member.name] >= 0
        by_signal = {-signal.SIGTERM, 128 + signal.SIGTERM}  # without our handler, and with it
        return member.process.returncode in by_signal and not has_joined

    def _take(self, member: Member) -> None:
        for kind, *rest in member.news():
            match kind:
                case "row":
                    row = row_of(member.name, member.process.pid, rest)
                    self.rows.append(row)
                    self.places.add(row.place)
                case "assigned":
                    generation, size, _, at_ns = rest
                    self._begun_ns[generation] = min(at_ns, self._begun_ns.get(generation, at_ns))
                    self._own_generation[member.name] = generation
                    if generation > self._generation:
                        self._generation, self.size = generation, size
                case "lost":
                    own = self._own_generation[member.name]
                    self._put_out.append(Absence(member.name, member.process.pid, rest[0], own))
                case "transacts":
                    self._transactional_ids[member.name] = rest[0]
                case "transaction":
                    self.transactions[rest[0]] += 1
                case "halts":
                    self._halted[member.name] = rest[0]
                case "leads":
                    self.leader = member.name
                case "waits":
                    self._ready.add(member.name)
                case _:  # its last word
                    self._errors[member.name] = ": ".join(rest[0] or ())

    @staticmethod
    def _has_ended(member: Member, deadline_s: float) -> bool:
        try:
            member.process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True


def is_handling(pid: int) -> bool:
    """Whether a process is a child that runs handlers; one that has just ended is none."""
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
