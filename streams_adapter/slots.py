"""How many tasks an application can run at once; asked anew whenever a scan is planned.

In: a driver's context. Out: a number. Spark plans a data source in a Python process beside the
driver, which has no context. So the driver answers on a port of the loopback device, if it is shown
a secret that travels with the format.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
import socket
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING

from coop_consumer.log_events import LogEvent

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)

SLOTS_WAIT_S = 30.0
"""Executors register one after the other; Spark's own scheduler waits as long for them."""
STEADY_S = 1.0
"""If the number of executors is not known, all are there once none has come for this long."""
_LOOK_S = 0.1
_ANSWER_S = SLOTS_WAIT_S + 10.0
_SECRET_MAX = 256
_LOOPBACK = "127.0.0.1"
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]")
_DESKS: dict[str, SlotsDesk] = {}
"""Of applications, by their ids."""


def slots_of(context: SparkContext) -> int:
    """How many tasks can run at once: on executors that are there, or may come."""
    return bound_of(context) or slots_here(context)


def slots_here(context: SparkContext) -> int:
    """On executors that are there; while an application is young, it waits for them.

    `spark.default.parallelism` says nothing here: it is about shuffles.
    """
    if getattr(context, "_jsc", None) is None:  # it was stopped
        return context.defaultParallelism
    expected, seen = _expected(context), registered(context)
    until_s, steady_s = _until_s(context), time.monotonic() + STEADY_S
    while time.time() < until_s:
        is_steady = seen > 0 and time.monotonic() >= steady_s
        if is_steady if expected is None else seen >= expected:
            break
        time.sleep(_LOOK_S)
        before, seen = seen, registered(context)
        if seen != before:
            steady_s = time.monotonic() + STEADY_S
    return max(seen, 1)


def registered(context: SparkContext) -> int:
    """On the executors that are there now."""
    scheduler = context._jsc.sc()
    profile = scheduler.resourceProfileManager().defaultResourceProfile()
    return int(scheduler.maxNumConcurrentTasks(profile))


def bound_of(context: SparkContext) -> int | None:
    """Of a cluster that grows, if it has a bound that is known here; else None."""
    conf = context.getConf()
    if not grows(context):
        return None
    most, cores = conf.get("spark.dynamicAllocation.maxExecutors"), conf.get("spark.executor.cores")
    if most is None or cores is None:
        return None
    return int(most) * (int(cores) // _task_cpus(context))


def grows(context: SparkContext) -> bool:
    """Whether executors come when they are needed."""
    enabled = context.getConf().get("spark.dynamicAllocation.enabled", "false")
    return str(enabled).lower() == "true"


def _task_cpus(context: SparkContext) -> int:
    return int(context.getConf().get("spark.task.cpus", "1") or 1)


def _until_s(context: SparkContext) -> float:
    return float(context.startTime) / 1_000 + SLOTS_WAIT_S


def _expected(context: SparkContext) -> int | None:
    """As far as the settings tell; None: they do not."""
    conf, cpus, master = context.getConf(), _task_cpus(context), str(context.master)
    if grows(context):
        return 0
    if cluster := _LOCAL_CLUSTER.fullmatch(master):
        return int(cluster[1]) * (int(cluster[2]) // cpus)
    if master.startswith("local"):
        return 0
    instances, cores = conf.get("spark.executor.instances"), conf.get("spark.executor.cores")
    if instances is not None:
        return int(instances) * (int(cores or 1) // cpus)
    most = conf.get("spark.cores.max")
    return None if most is None else int(most) // cpus


@dataclass(frozen=True, slots=True)
class SlotsAddress:
    """Where a driver says how many slots there are; called to plan a scan.

    Attributes:
        port: Of the loopback device.
        secret: Is shown first.
        at_first: How many there were at the beginning.
    """

    port: int
    secret: str = field(repr=False)
    at_first: int

    def __call__(self) -> int:
        """How many there are now; or were at the beginning, if the driver does not answer."""
        try:
            with closing(socket.create_connection((_LOOPBACK, self.port), _ANSWER_S)) as line:
                line.sendall(self.secret.encode() + b"\n")
                with line.makefile("rb") as told:
                    return int(told.readline())
        except (OSError, ValueError) as error:
            log.warning(
                "keyRanges=auto: the driver does not say how many tasks can run at once (%s); "
                "goes by the %d of when the format was registered",
                error,
                self.at_first,
                extra=LogEvent.SPARK_SLOTS_UNKNOWN.extra(error=error),
            )
            return self.at_first


class SlotsDesk:
    """The driver's side.

    Args:
        context: Whose slots.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        secret = secrets.token_hex(16)

        class SlotsVisit(StreamRequestHandler):
            timeout = _ANSWER_S

            def handle(self) -> None:
                with suppress(OSError):
                    said = self.rfile.readline(_SECRET_MAX).strip()
                    if hmac.compare_digest(said, secret.encode()):
                        self.wfile.write(b"%d\n" % slots_of(context))

        class SlotsServer(ThreadingTCPServer):
            daemon_threads = True

        self._server = SlotsServer((_LOOPBACK, 0), SlotsVisit)
        port = self._server.server_address[1]
        self.address = SlotsAddress(port, secret, slots_of(context))
        threading.Thread(
            target=self._server.serve_forever, name="coop-slots-desk", daemon=True
        ).start()

    @property
    def is_over(self) -> bool:
        """Whether its application has ended."""
        return self._context._jsc is None

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()


def slots_address(context: SparkContext) -> SlotsAddress:
    """Where this application's driver tells its slots; one place each application."""
    for application, desk in [*_DESKS.items()]:
        if desk.is_over:
            del _DESKS[application]
            desk.close()
    application = str(context.applicationId)
    if application not in _DESKS:
        _DESKS[application] = SlotsDesk(context)
    return _DESKS[application].address
