"""All Python threads of this process on one core: only one of them runs at any time anyway.

In: a process on Linux. Out: the same, its Python threads bound to the core that others use least,
and moved when others use it. Threads that wait a millisecond at a time pass the interpreter on tens
of thousands of times a second. To pass it to another core costs a wake-up (20 to 40 us on a virtual
machine), and the data lies in the cache of the first core.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from time import perf_counter, process_time

from coop_consumer.errors import MisuseError
from coop_consumer.log_events import LogEvent

log = logging.getLogger(__name__)

_LOOK_S, _FIRST_LOOK_S = 0.5, 0.1
"""The kernel counts in hundredths of a second: shorter looks would see little."""
_AS_GOOD = 0.1
_WORTH_A_MOVE = 0.25
"""In shares of a core."""

_HINT = "Leave it out: it changes no result"

Ticks = Mapping[int, tuple[int, int]]
"""By core, since the machine started: how long it was busy, and all time."""


def choice(own: int | None, busy: Mapping[int, float], ours: float, rng: Random) -> int:
    """The core to use.

    Among equally good cores, chance decides: otherwise processes that look at the same moment would
    all choose the same core.

    Args:
        own: The present core of this process; None: all of them.
        busy: How busy each core was lately, 0 to 1.
        ours: This process's part of that, in cores.
        rng: The source of chance.

    >>> choice(None, {0: 0.9, 1: 0.2}, 0.0, Random(1)), choice(0, {0: 0.9, 1: 0.2}, 0.8, Random(1))
    (1, 0)
    """
    others = dict(busy)
    if own is not None:
        others[own] = max(0.0, others[own] - ours)
    least = min(others.values())
    if own is not None and others[own] <= least + _WORTH_A_MOVE:
        return own
    best = [core for core, share in others.items() if share <= least + _AS_GOOD]
    if own is not None:
        best.append(own)
    return rng.choice(best)


def ticks_of(text: str) -> Ticks:
    r"""The busy and total ticks of each core, from the text of /proc/stat.

    >>> ticks_of("cpu  9 9\ncpu1 10 0 5 100 20 0 1 0 0 0\\nintr 7")
    {1: (16, 136)}
    """
    lines = [line.split() for line in text.splitlines() if line.startswith("cpu")]
    found = {name[3:]: list(map(int, counts[:8])) for name, *counts in lines}
    return {
        int(core): (sum(counts) - counts[3] - counts[4], sum(counts))
        for core, counts in found.items()
        if core
    }


@contextmanager
def threads_on_one_core() -> Iterator[None]:
    """Within the block, Python threads share one core; threads that libraries made stay free.

    Use it if many handlers wait a few milliseconds each, or take microseconds. Do not use it if
    handlers compute without the interpreter's lock (numpy, zlib) on several cores. Processes that
    are started within the block inherit the core.

    Raises:
        MisuseError: The system is not Linux, or does not say how busy each core is.

    Example::

        with threads_on_one_core():
            WorkerPool(Billing, config, ["orders"], workers=64).run()
    """
    if not hasattr(os, "sched_setaffinity"):
        raise MisuseError("threads_on_one_core()", "needs Linux", _HINT)
    binding = _Binding()
    binding.start()
    try:
        yield
    finally:
        binding.end()


class _Binding:
    """Keeps the threads where they belong, those that are started meanwhile, too."""

    def __init__(self) -> None:
        self._allowed = os.sched_getaffinity(0)
        self._core: int | None = None
        self._used: set[int] = set()  # the core, and those before it
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="coop-one-core", daemon=True)

    def start(self) -> None:
        """Begin; the threads are bound a moment later."""
        try:
            is_told = self._ticks().keys() == self._allowed
        except OSError:
            is_told = False
        if not is_told:
            raise MisuseError(
                "threads_on_one_core()", "/proc/stat does not tell of each core", _HINT
            )
        if len(self._allowed) > 1:
            self._thread.start()

    def end(self) -> None:
        """Let all threads go where they like."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._follow()
        except OSError as error:  # a container's cores may change
            extra = LogEvent.ONE_CORE_FAILED.extra(error=error)
            told = "Python threads run on any core (%s): they may be slower, and nothing is lost"
            log.warning(told, error, extra=extra)
        with suppress(OSError):
            self._bind(self._allowed)

    def _follow(self) -> None:
        rng = Random()  # noqa: S311 - processes shall differ, no more
        before, then_s, used_s = self._ticks(), perf_counter(), process_time()
        while not self._over.wait(_FIRST_LOOK_S if self._core is None else _LOOK_S):
            ticks, now_s, cpu_s = self._ticks(), perf_counter(), process_time()
            busy = {
                core: (ticks[core][0] - it[0]) / max(1, ticks[core][1] - it[1])
                for core, it in before.items()
                if core in ticks
            }
            ours = (cpu_s - used_s) / (now_s - then_s)  # with what libraries' threads use
            core = choice(self._core, busy, ours, rng)
            if core != self._core:
                extra = LogEvent.ONE_CORE_MOVED.extra()
                log.info("Python threads run on core %d now", core, extra=extra)
            self._core = core
            self._used.add(core)
            self._bind({core})
            before, then_s, used_s = ticks, now_s, cpu_s

    def _ticks(self) -> Ticks:
        ticks = ticks_of(Path("/proc/stat").read_text())
        return {core: it for core, it in ticks.items() if core in self._allowed}

    def _bind(self, cores: set[int]) -> None:
        """Bind the Python threads; free the others, which inherited their creators' core."""
        ours = {thread.native_id for thread in threading.enumerate()}
        for tid in map(int, os.listdir("/proc/self/task")):
            with suppress(ProcessLookupError):  # it has ended meanwhile
                if tid in ours:
                    os.sched_setaffinity(tid, cores)
                elif os.sched_getaffinity(tid) in [{core} for core in self._used]:
                    os.sched_setaffinity(tid, self._allowed)
