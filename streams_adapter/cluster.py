"""What a Spark session must be like for workers to be launched on it; checked on the driver.

In: a session, how many tasks shall run at once. Out: its context, or an error that says what to
change. Every error that the driver can know before the first task starts is raised before.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from threading import Timer
from typing import TYPE_CHECKING, Any

from coop_consumer.errors import MisuseError
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted
from streams_adapter import slots
from streams_adapter.slots import SLOTS_WAIT_S

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

UNSTARTED_S = 20.0
"""After so long the driver reports what it waits for: tasks without a slot, or a group with a
parked record. Nothing else on the driver would report these."""
_LOOK_S = 0.2
_CALL = "launch_workers()"
_KILLS_IDLE = "spark.python.worker.killOnIdleTimeout"
_IDLE_AFTER = "spark.python.worker.idleTimeoutSeconds"
_EXCLUDES = ("spark.excludeOnFailure.enabled", "spark.excludeOnFailure.application.enabled")
_KILLS_EXCLUDED = "spark.excludeOnFailure.killExcludedExecutors"
_INSTALL = (
    "Install it in the executors' Python (PYSPARK_PYTHON names it), or send an environment along: "
    "spark-submit --archives"
)
_CHECKED: set[str] = set()
"""Applications whose executors are known to have what they need: it takes a job to find out."""
_PYTHON_TROUBLE = re.compile(r"Cannot run program[^\n]*|\[?PYTHON_VERSION_MISMATCH[^\n]*")
"""In Spark's words: there is none, or it is of another version than the driver's."""


def context_of(spark: SparkSession, tasks: int, held: int) -> SparkContext:
    """The session's context, on which so many tasks can run at once.

    Args:
        spark: The session.
        tasks: How many.
        held: How many slots other launches have.

    Raises:
        MisuseError: They cannot, or must not.
    """
    context = spark.sparkContext
    if _is_on(context, "spark.speculation"):
        raise MisuseError(
            _CALL,
            "spark.speculation=true would start a twin of a slow task, under the same static name: "
            "the broker would fence the one that works",
            "Set spark.speculation=false for this application",
        )
    check_idle_is_kept(context, _CALL, "a member gives nothing to Spark until it ends")
    excludes = any(_is_on(context, name) for name in _EXCLUDES)
    if excludes and _is_on(context, _KILLS_EXCLUDED):
        raise MisuseError(
            _CALL,
            f"{_KILLS_EXCLUDED}=true would end healthy members where tasks beside them have failed",
            f"Set {_KILLS_EXCLUDED}=false for this application",
        )
    found = _slots(context, tasks + held)
    if found < tasks + held:
        others = f", {held} of them held by other launches" if held else ""
        raise MisuseError(
            _CALL,
            f"tasks={tasks}, but the cluster has {counted(found, 'slot')}{others}: tasks that "
            "never start would hold nothing, and you asked for them",
            f"Choose tasks={found - held} with more threads_per_task, or give the application more "
            "cores"
            if found > held
            else "Stop another launch, or give the application more cores",
        )
    return context


def check_idle_is_kept(context: SparkContext, call: str, why: str) -> None:
    """See that Spark does not end a task for giving nothing.

    Args:
        context: The session's.
        call: What the user called.
        why: Its tasks are silent.

    Raises:
        MisuseError: It does.
    """
    after = context.getConf().get(_IDLE_AFTER, "0").strip()
    if _is_on(context, _KILLS_IDLE) and any(digit in after for digit in "123456789"):
        raise MisuseError(
            call,
            f"{_KILLS_IDLE}=true with {_IDLE_AFTER}={after} would end healthy tasks: {why}",
            f"Set {_KILLS_IDLE}=false for this application",
        )


def _is_on(context: SparkContext, name: str) -> bool:
    return bool(context.getConf().get(name, "false").strip().lower() == "true")


def is_connect(spark: SparkSession) -> bool:
    """Whether it is a session of Spark Connect: its driver is a server, without RDDs for us."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def check_connect(
    spark: SparkSession,
    call: str,
    lacks: str,
    remedy: str = "Call it in the driver program (spark-submit), on a classic session",
) -> None:
    """See that the session is a classic one.

    Args:
        spark: The session.
        call: What the user called.
        lacks: What it needs that a session of Spark Connect does not have.
        remedy: What to do instead.

    Raises:
        MisuseError: It is a session of Spark Connect.
    """
    if is_connect(spark):
        raise MisuseError(call, f"a Spark Connect session has no {lacks}", remedy)


def _slots(context: SparkContext, wanted: int) -> int:
    """How many tasks can run at once, at most; waits for executors that are about to register.

    It is as many as are wanted, if the cluster grows without a bound that is known here.
    """
    if slots.grows(context):
        bound = slots.bound_of(context)
        return wanted if bound is None else bound
    until_s = time.monotonic() + SLOTS_WAIT_S
    while (found := slots.registered(context)) < wanted:
        if time.monotonic() > until_s:
            break
        time.sleep(_LOOK_S)
    return found


def executor_cores(context: SparkContext) -> int:
    """How many cores an executor has; of several sizes, the smallest that has registered."""
    executors = context._jsc.sc().statusStore().executorList(True)
    known = [executors.apply(number).totalCores() for number in range(executors.size())]
    named = int(context.getConf().get("spark.executor.cores", "1"))
    return min((int(cores) for cores in known if cores), default=named)  # the driver has 0


@contextmanager
def told_if_slow(text: str) -> Iterator[None]:
    """Log a warning if the block takes long."""
    timer = Timer(UNSTARTED_S, lambda: log.warning(text, extra=LogEvent.SPARK_UNSTARTED.extra()))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def use_own_python(context: SparkContext) -> None:
    """Have executors run the driver's Python, unless the user has named another one.

    Spark by itself takes whatever `python3` is on their path. It holds for all of the application.
    """
    named = os.environ.get("PYSPARK_PYTHON") or context.getConf().get("spark.pyspark.python")
    if named is None:
        context.pythonExec = sys.executable


def check_executors(context: SparkContext, call: str) -> None:
    """Have executors run the driver's Python, and see that it has this library. Once a session.

    Raises:
        MisuseError: One has not.
    """
    if context.applicationId not in _CHECKED:
        use_own_python(context)
        check_packages(context, slots.slots_here(context), call)


def check_server(spark: SparkSession, call: str) -> None:
    """See that the Python behind a Spark Connect session has this library. One task.

    Raises:
        MisuseError: It has not.
    """
    functions: Any = import_module("pyspark.sql.functions")
    probe = _probe(())
    look = functions.udf(lambda number: "\n".join(probe(number)), "string")
    [[found]] = spark.range(1).select(look("id")).collect()
    host, _, its = found.partition("\n")
    _check_found(call, [(host, its)], ())


def check_packages(
    context: SparkContext, tasks: int, call: str = _CALL, needed: Sequence[str] = ()
) -> None:
    """See that executors have a Python with this library, both of the driver's version.

    Args:
        context: Whose executors.
        tasks: How many tasks look.
        call: What the user called.
        needed: Other modules that have to be there.

    Raises:
        MisuseError: One has not.
    """
    numbers = context.parallelize(range(tasks), tasks)
    try:
        with told_if_slow(f"{call}: still waits for a slot of the cluster, to look at its Python"):
            found_on = set(numbers.map(_probe(tuple(needed))).collect())
    except Exception as error:
        trouble = _PYTHON_TROUBLE.search(str(error))
        if trouble is None:
            raise
        raise MisuseError(call, f"executors lack this Python: {trouble[0]}", _INSTALL) from error
    _check_found(call, found_on, needed)
    if tasks >= slots.slots_here(context):  # also by a launch that then holds all slots for long
        _CHECKED.add(context.applicationId)


def _check_found(call: str, found_on: Iterable[tuple[str, str]], needed: Sequence[str]) -> None:
    ours = version("coop-consumer")
    wanted = " with ".join([f"coop-consumer {ours}", *needed])
    for host, found in sorted(found_on):
        if found != ours:
            raise MisuseError(
                call, f"the executor on {host} has {found}, and {wanted} is needed", _INSTALL
            )


def _probe(needed: tuple[str, ...]) -> Callable[[int], tuple[str, str]]:
    """Made here, so that it travels as code: the executor may not know this module."""

    def probe(_: int) -> tuple[str, str]:
        wanted = "coop-consumer"
        try:
            import_module("streams_adapter")
            found = version(wanted)
            for wanted in needed:
                import_module(wanted)
        except (ImportError, PackageNotFoundError) as error:
            return socket.gethostname(), f"no {wanted} ({error})"
        return socket.gethostname(), found

    return probe
