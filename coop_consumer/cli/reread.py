"""SIGHUP: the file of settings is read again, and what can change while a member runs is changed.

Room: `coop_consumer.cli`. In: signals. Out: calls of a running pool, and what to expect in the log.
Of all settings that is `workers`; the others hold from the next start on. Without a file of
settings a SIGHUP is what it is elsewhere: an order to end.
"""

from __future__ import annotations

import logging
import signal
import threading
from dataclasses import dataclass
from types import FrameType

from coop_consumer.cli.options import Connection
from coop_consumer.config import Config, ExecutorName
from coop_consumer.errors import CoopConsumerError
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted
from coop_consumer.pool import WorkerPool
from coop_consumer.signals import TakenSignals

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Signals:
    """Handles the signals of `coop-consumer run`.

    Attributes:
        pool: The running pool.
        connection: Where its settings come from.
        config: The settings at its start.
        executor: The executor of its handlers, see `WorkerPool`.
        workers: The number on the command line; None: the settings decide.
    """

    pool: WorkerPool
    connection: Connection
    config: Config
    executor: ExecutorName
    workers: int | None

    def listen(self) -> None:
        """Take SIGHUP, if it is not ignored (nohup). The pool takes the others while it runs."""
        TakenSignals((signal.SIGHUP,), self._on_signal)

    def come(self, number: int, *, passed_on: bool = False) -> None:
        """As `WorkerPool.signalled`."""
        if number != signal.SIGHUP or self.connection.file is None:
            self.pool.signalled(number, passed_on=passed_on)
            return
        # A handler may interrupt a thread that holds a lock of ours.
        threading.Thread(target=self._read_again, name="coop-reread").start()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self.come(number)

    def _read_again(self) -> None:
        group = self.config.group_id
        try:
            config = self.connection.config(group)
            workers = self.workers or config.workers_on(self.executor)
            if workers != self.pool.workers:
                self.pool.resize(workers)
        except CoopConsumerError as error:
            told = "group %s: SIGHUP: nothing has changed: %s"
            extra = LogEvent.SETTINGS_REFUSED.extra(group=group, error=error)
            log.error(told, group, error, extra=extra)  # noqa: TRY400
            return
        told = "group %s: SIGHUP: settings read again, %s"
        extra = LogEvent.SETTINGS_READ.extra(group=group)
        log.info(told, group, counted(self.pool.workers, "worker"), extra=extra)
        if self.workers is not None and config.workers not in (None, self.workers):
            log.warning(
                "group %s: --workers=%d of the command line overrides the file's workers",
                group,
                self.workers,
                extra=LogEvent.SETTINGS_OVERRIDDEN.extra(group=group),
            )
        others = [name for name in config.differences(self.config) if name != "workers"]
        if others:
            names = ", ".join(others)
            log.warning(
                "group %s: changed in the file, and in force from the next start on: %s",
                group,
                names,
                extra=LogEvent.SETTINGS_WAIT.extra(group=group),
            )
