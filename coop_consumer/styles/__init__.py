"""Work styles: where a worker's methods run, and what runs its records.

In: a worker. Out: an executor for its records; its other methods as plain calls, which return when
they are done. A handler defined with `def` runs on threads. One with `async def` runs on an event
loop that the style keeps for this worker; so do other methods that are coroutine functions. Or
child processes have a copy of the worker each, and run all of its methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from coop_consumer.config.choices import ExecutorName, OnOverdue
from coop_consumer.config.sections.sharing import WORKERS_MAX
from coop_consumer.config.setting import shown
from coop_consumer.cores import usable_cores
from coop_consumer.errors import ConfigError, MisuseError
from coop_consumer.plain_text import counted
from coop_consumer.styles.threads import OneThread, ThreadStyle
from coop_consumer.worker import Worker, is_async

if TYPE_CHECKING:
    from coop_consumer.config import Config
    from coop_consumer.styles.style import Style

EXECUTORS: tuple[ExecutorName, ...] = get_args(ExecutorName)
_PROCESSES_MIN, _PROCESSES_PER_CORE = 16, 4
"""More than so many children are taken for a mistake."""


def style_of(worker: Worker, config: Config, workers: int, executor: ExecutorName) -> Style:
    """The style that a worker is written in, and is to run in.

    Args:
        worker: The worker.
        config: Its pool's configuration.
        workers: How many records, or batches, are processed at a time.
        executor: "thread", "process" or "inline".

    Raises:
        MisuseError: The one does not go with the other.
    """
    executor = checked_executor(executor)
    if executor == "thread":
        if not is_async(worker):
            return ThreadStyle(worker, config)
        from coop_consumer.styles.event_loop import EventLoop  # noqa: PLC0415 - takes 10 ms

        return EventLoop(worker, config)
    if is_async(worker):
        raise MisuseError(
            f"WorkerPool({type(worker).__name__}, executor={executor!r})",
            "its handler is async, and needs an event loop",
            "Define the handler with def, or leave executor out",
            "Nothing was started",
        )
    if executor == "inline":
        if config.on_overdue is OnOverdue.FAIL:
            raise ConfigError(
                "on.overdue",
                "=fail has another thread go on, and executor='inline' has none",
                "Choose leave or exit, or another executor",
            )
        return OneThread(worker, config)
    from coop_consumer.styles.processes import Processes  # noqa: PLC0415 - as above

    return Processes(worker, config, workers)


def checked_executor(executor: object) -> ExecutorName:
    """The name of an executor.

    Raises:
        MisuseError: There is none of this name.
    """
    found = next((name for name in EXECUTORS if executor == name), None)
    if found is None:
        raise MisuseError(
            f"WorkerPool(executor={shown(executor)})",
            "there is no such executor",
            f"Use {', '.join(EXECUTORS[:-1])} or {EXECUTORS[-1]}",
            "Nothing was started",
        )
    return found


def refuse_useless(workers: object, executor: ExecutorName) -> None:
    """Check that there are workers, and that all of them can be of use.

    Raises:
        ConfigError: They cannot.
    """
    cores = usable_cores()
    if not isinstance(workers, int) or isinstance(workers, bool):
        problem = f"={workers!r} ({type(workers).__name__}) is not a whole number"
        raise ConfigError("workers", problem, "Use 1 or more")
    if workers < 1:
        raise ConfigError("workers", f"={workers} processes nothing", "Use 1 or more")
    if workers > WORKERS_MAX:
        raise ConfigError(
            "workers",
            f"={workers} are more than one member can use",
            f"Use {WORKERS_MAX:,} at most, and more members",
        )
    if executor == "inline" and workers > 1:
        raise ConfigError(
            "workers",
            f"={workers} contradicts executor='inline', which processes on one thread",
            "Leave workers out, or choose another executor",
        )
    if executor == "process" and workers > max(_PROCESSES_MIN, _PROCESSES_PER_CORE * cores):
        raise ConfigError(
            "workers",
            f"={workers} processes are more than {counted(cores, 'core')} can use",
            "Use about as many as there are cores; for handlers that wait, leave executor out",
        )


def refuse_state(config: Config, executor: ExecutorName) -> None:
    """Check that a worker with `keyed_state` can have it.

    Raises:
        MisuseError: Of child processes none has the store.
        ConfigError: A key has no owner, or no order.
    """
    if executor == "process":
        raise MisuseError(
            "WorkerPool(executor='process')",
            "keyed state lies in this process, and its children do not reach it",
            "Leave executor out, and run several processes",
            "Nothing was started",
        )
    if config.ordering == "none":
        raise ConfigError(
            "ordering",
            "=none gives records of a key to several workers at once, and keyed_state wants one",
            "Set ordering=key",
        )
