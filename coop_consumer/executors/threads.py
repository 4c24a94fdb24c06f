"""Threads that run lanes: how they wait for work, and how the member's own thread joins them.

In: lanes (under the lanes' lock, once a chunk or batch). Out: finished records, ended and failed
lanes, and a wake-up for the member when it should look. Quick handlers get by with few threads:
mostly the member's own thread is enough. One idle thread is on guard. It looks every 5 ms whether a
thread has been at its work for longer, so that nothing waits behind a slow record for long, nor the
member behind its thread. `record_threads` and `batch_threads` say what a thread takes and runs.
Upholds I4 with `KeyLanes`.
"""

from __future__ import annotations

import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from math import ceil

from coop_consumer.core.lane import Entry
from coop_consumer.core.lane_tables import Straight
from coop_consumer.executors.batches import Batch
from coop_consumer.executors.workplace import ConditionExecutor, Workplace

QUICK_S = 0.0005
"""Less work than this is not shared: another thread, and its turn at the interpreter, cost more."""
COST_FADES = 0.9
"""Which share of an old high cost is remembered after each chunk or batch."""
_FIRST_COST_S = 0.002
"""What a record, or a batch, costs as long as nobody knows: much."""
_BACK_S = 0.005
"""A thread that took quick work is back before. If it is not, others take its work back."""
_HELP_S = 0.005
"""How long the member's thread is at quick work in one go. Then it sees to the member."""
_WATCH_S = 0.1
"""How long after that an idle thread stays on guard. To notify it anew would cost as much."""


@dataclass(slots=True, eq=False)
class Runner:
    """A thread at work, what it runs, and what it has taken to run next.

    Attributes:
        straight: What the member's thread runs without a lane.
        taken_s: When it took its work.
        is_lost: Nobody listens to its handler any more, and another thread has its place.
        hand_over: Has another thread go on with the member, if this one is the member's thread.
    """

    thread: threading.Thread | None = None
    entry: Entry | None = None
    batch: Batch = field(default_factory=Batch)
    chunk: deque[Entry] = field(default_factory=deque)
    straight: Straight | None = None
    taken_s: float = 0.0
    is_lost: bool = False
    hand_over: Callable[[], None] | None = None

    @property
    def is_at_work(self) -> bool:
        """Whether it runs a handler, or is between two of them."""
        is_at_one = self.entry is not None or self.straight is not None
        return is_at_one or bool(self.batch.entries)

    def runs(self, entry: Entry) -> bool:
        """Whether its handler runs this entry."""
        return self.entry is entry or entry in self.batch.entries


class ThreadedExecutor(ConditionExecutor, ABC):
    """A fixed number of threads, and how they wait for work.

    Handlers run in contexts: what one handler leaves there (`ContextVar.set`) no other one finds. A
    context that stays empty serves for the next record, too. This costs 8 ns a record.
    """

    _new_context: Callable[[], Context] = staticmethod(Context)

    def __init__(self, place: Workplace) -> None:
        super().__init__(place)
        self._idle = 0
        self._called = 0  # how many of these were notified and have not woken yet
        self._guarded = False  # an idle thread looks after what the others have taken
        self._needs_guard = False  # the next thread that is notified waits a moment, then looks
        self._taken_s = 0.0  # when a thread took work last
        self._cost_s = _FIRST_COST_S  # of a record, or a batch, by recent high values
        self._width = place.workers
        self._runners: list[Runner] = []
        self._helper: Runner | None = None  # the member's own thread, while it is at work
        self._helped_s = 0.0  # when it was last

    def start(self) -> None:
        """Start the threads."""
        for _ in range(self._width):
            self._add_runner()

    def resize(self, workers: int) -> None:
        """Let this many threads work from now on; a surplus one ends after what it has taken."""
        with self._condition:
            self._width = self._lanes.work.workers = workers
            for _ in range(workers - self._at_work()):
                self._add_runner()
            self._condition.notify_all()

    def _at_work(self) -> int:
        return sum(not (runner.is_lost or runner is self._helper) for runner in self._runners)

    def _are_few(self) -> bool:
        """Whether no more threads are at work than should be."""
        return len(self._runners) <= self._width or self._at_work() <= self._width

    def _add_runner(self) -> None:
        runner = Runner()
        name = self._new_name()
        work = self._work, runner
        runner.thread = threading.Thread(target=self._live, args=work, name=name, daemon=True)
        self._runners.append(runner)
        runner.thread.start()

    def _new_name(self) -> str:
        self._threads += 1
        return f"{self._name}-{self._threads}"

    def _running_s(self) -> float:
        now_s = self._clock()
        at_work = [it for it in list(self._runners) if it.is_at_work and not it.is_lost]
        return sum(max(0.0, now_s - it.taken_s) for it in at_work)

    def stack(self, entry: Entry) -> str:
        """The stack of the thread that runs it now; "" if none does."""
        thread = next((runner.thread for runner in self._runners if runner.runs(entry)), None)
        frame = sys._current_frames().get(thread.ident or 0) if thread else None
        return "".join(traceback.format_stack(frame)) if frame else ""

    def abandon(self, entry: Entry) -> None:
        """Start another thread in place of one whose handler may never end.

        The entry must be marked as abandoned. Its thread ends once the handler does, if there are
        enough others. No more threads than there are workers are replaced: otherwise handlers that
        hang one after the other would fill the process with threads.
        """
        with self._condition:
            lost = next((runner for runner in self._runners if runner.runs(entry)), None)
            if lost is None or lost.is_lost:
                return  # it has ended; or its place was filled for another one of its batch
            lost.is_lost = True
            if len(self._runners) < 2 * self._width and not self._stopping:
                self._add_runner()

    def runs_here(self) -> bool:
        """See `PoolExecutor`."""
        return any(runner.thread is threading.current_thread() for runner in list(self._runners))

    @property
    def waits(self) -> bool:
        """Whether handlers wait for something, and want to go on at once when it has come."""
        return not self._is_quick()

    def offered(self) -> None:
        """Something has become ready: wake as many idle threads as it is worth."""
        if self._idle and self._lanes.startable:
            with self._condition:
                self._wake_threads()

    # ---- the member's thread works, too --------------------------------------------------------

    def help(self, hand_over: Callable[[], None], breathe: Callable[[], None]) -> bool:
        """Run what is ready on the member's own thread for a moment, if handlers are quick.

        For quick work another thread is a waste: the two run in turns, and each turn costs more
        than the work. If a handler does not return soon, another thread becomes the member's, and
        this one becomes a worker.

        Args:
            hand_over: Has another thread go on with the member; called by a worker's thread.
            breathe: Lets other threads run; called between two pieces of work.

        Returns:
            Whether the caller is still the member's thread; if not, all workers have ended.
        """
        lanes = self._lanes
        if not lanes.startable or not self._is_quick():
            return True
        runner = Runner(threading.current_thread(), hand_over=hand_over)
        until_s = self._clock() + _HELP_S
        while self._is_quick() and self._begins_to_help(runner):
            self._work_off(runner)
            if not self._is_back(runner):
                threading.current_thread().name = self._new_name()
                self._work(runner)
                return False
            breathe()
            if self._clock() > until_s:
                break
        if lanes.finished:
            self._wake()
        return True

    def _begins_to_help(self, runner: Runner) -> bool:
        with self._condition:
            self._lanes.settle()
            are_enough = len(self._runners) - self._idle >= self._width
            if are_enough or self._stopping or not self._takes(runner, self._take_to_help):
                return False
            self._runners.append(runner)
            self._helper = runner
            self._helped_s = self._taken_s = runner.taken_s = self._clock()
            if not (self._guarded or self._needs_guard):
                self._needs_guard = True
                self._called += 1
                self._condition.notify()
            return True

    def _is_back(self, runner: Runner) -> bool:
        """Whether this is still the member's thread; it leaves the workers then."""
        with self._condition:
            if self._helper is not runner:
                return False
            self._helper = None
            self._runners.remove(runner)
            return True

    def _take_to_help(self, runner: Runner) -> bool:
        """Take work for the member's thread, under the lock. False: there is none."""
        return self._take(runner)

    def _share_chunk(self, helper: Runner) -> None:
        """Let other threads take what the member's thread has taken and not begun."""

    def _replace_helper(self) -> None:
        """If a handler keeps the member's thread, make it a worker's, and another the member's."""
        helper = self._helper
        if helper is not None and self._clock() - helper.taken_s > _BACK_S:
            self._helper = None
            self._cost_s = max(self._cost_s, _BACK_S)
            self._share_chunk(helper)
            assert helper.hand_over is not None, "only the member's thread helps"
            helper.hand_over()

    # ---- who works -----------------------------------------------------------------------------

    def _wake_threads(self) -> None:
        """Notify as many idle threads as what is ready is worth.

        Threads that were notified and have not woken yet count; otherwise too many are woken. Quick
        handlers need few threads: if those at work may be enough, only one more is notified, to see
        later whether they were.
        """
        worth = ceil(self._lanes.startable / self._share_of_one()) - self._called
        if self._is_quick() and self._clock() - self._taken_s < _BACK_S:
            at_work = len(self._runners) - self._idle
            if 0 < worth <= at_work and not self._guarded and self._idle > self._called:
                self._needs_guard, worth = True, at_work + 1
            worth -= at_work
        worth = min(worth, self._idle - self._called)
        if worth > 0:
            self._called += worth
            self._condition.notify(worth)

    def _late_s(self) -> float:
        """A thread that took its work before this time is late with it."""
        return self._clock() - (_BACK_S if self._is_quick() else 0.0)

    def _is_left(self) -> bool:
        """Whether a thread has taken more than it is at."""
        return False

    @abstractmethod
    def _is_quick(self) -> bool:
        """Whether handlers are so quick that a thread with work is back at once."""

    def stop(self) -> None:
        """End the threads once their running records have ended; returns when they have."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        for runner in list(self._runners):
            if runner.thread is not None and not runner.is_lost and runner is not self._helper:
                runner.thread.join()

    def _work(self, runner: Runner) -> None:
        while self._next(runner):
            self._work_off(runner)
            if len(self._lanes.finished) >= self._wake_after:
                self._wake()
            if runner.is_lost and self._is_replaced(runner):
                return

    def _is_replaced(self, runner: Runner) -> bool:
        """Whether enough other threads are at work; if not, this one goes on."""
        with self._condition:
            runner.is_lost = len(self._runners) > self._width
            if runner.is_lost:
                self._runners.remove(runner)
            return runner.is_lost

    def _next(self, runner: Runner) -> bool:
        """Wait for work. False: there is no more work for this thread."""
        with self._condition:
            while True:
                self._replace_helper()
                if not self._are_few():
                    break
                lanes = self._lanes
                lanes.settle()
                if lanes.failed or lanes.drained:
                    self._wake()
                if self._takes(runner, self._take):
                    self._taken_s = runner.taken_s = self._clock()
                    if self._idle:
                        if lanes.startable:
                            self._wake_threads()
                        elif len(runner.chunk) > 1 and not self._guarded:
                            self._condition.notify()
                    return True
                if self._stopping:
                    break
                if lanes.finished:
                    self._wake()  # nothing left to do: what is finished may be all there is
                if not self._wait():
                    return False
            self._runners.remove(runner)
        self._wake()
        return False

    def _wait(self) -> bool:
        """Wait to be notified. While others have work, one idle thread wakes by itself, and looks.

        Returns:
            Whether there is time to look for work again.
        """
        self._idle += 1
        # The clock may have jumped since the look at the helper. So a helper is always guarded.
        is_helped = self._helper is not None or self._clock() - self._helped_s < _WATCH_S
        self._await_call(guards=not self._guarded and (is_helped or self._is_left()))
        if self._needs_guard and not self._stopping:
            self._needs_guard = False
            self._await_call(guards=True)
        self._idle -= 1
        return True

    def _await_call(self, *, guards: bool) -> None:
        self._guarded |= guards
        is_called = self._condition.wait(_BACK_S if guards else None)
        # After a time-out the thread may have been notified in the same moment: count nobody then.
        self._called = max(0, self._called - 1) if is_called else 0
        if guards:
            self._guarded = False

    def _takes(self, runner: Runner, take: Callable[[Runner], bool]) -> bool:
        """Whether this thread has taken work now."""
        return not self._paused and self._helper is None and take(runner)

    @abstractmethod
    def _share_of_one(self) -> float:
        """How many ready lanes are work for one thread."""

    @abstractmethod
    def _take(self, runner: Runner) -> bool:
        """Take work, under the lock. False: there is none."""

    @abstractmethod
    def _work_off(self, runner: Runner) -> None:
        """Do what was taken."""
