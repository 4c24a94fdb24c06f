"""The style of child processes: each has a copy of the worker, and runs all of its methods.

Loaded when a worker needs it, as multiprocessing is.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coop_consumer.executors.children import Children
from coop_consumer.executors.processes import ProcessExecutor
from coop_consumer.executors.workplace import PoolExecutor, Workplace
from coop_consumer.styles.style import Style
from coop_consumer.worker import Worker, takes_batches

if TYPE_CHECKING:
    from coop_consumer.config import Config


FIGURES = "PROMETHEUS_MULTIPROC_DIR"
"""Where `prometheus_client` keeps the figures of a process that is one of several."""


class Processes(Style):
    """`def process` or `def process_batch`: one child process for each worker.

    Each child has a copy of the worker. A member's calls go to all copies.
    """

    def __init__(self, worker: Worker, config: Config, workers: int) -> None:
        super().__init__(worker, config)
        self._children = Children(worker, workers, self.name)
        self._own_figures: str | None = None

    def start(self) -> None:
        """Start the children."""
        if self._config.ops_address is not None:
            self._keep_figures()
        self._children.start()

    def _keep_figures(self) -> None:
        """Have children keep what they count with `prometheus_client`, for the parent to add up."""
        folder = os.environ.get(FIGURES)
        if folder is None:
            folder = self._own_figures = tempfile.mkdtemp(prefix="coop-metrics-")
            self._children.environment = {FIGURES: folder}
        self.figures = folder

    def _call(self, method: Callable[..., Any], *arguments: object) -> None:
        """Have all children call it."""
        name = method.__name__
        match name, arguments:
            case "setup", _:
                self._children.setup(*arguments)
            case "flush", _:
                self._children.flush()
            case "on_ranges_assigned", (tp, ranges):
                self._children.ranges_assigned(tp, ranges)  # type: ignore[arg-type] # see the worker
            case "on_ranges_revoked" | "on_ranges_lost", (tp, ranges):
                self._children.ranges_gone(name, tp, ranges)  # type: ignore[arg-type] # see the worker
            case _:
                self._children.call(name, *arguments)

    def end(self) -> None:
        """End the children."""
        self._children.end()
        if self._own_figures is not None:
            shutil.rmtree(self._own_figures, ignore_errors=True)

    def _executor(self, place: Workplace) -> PoolExecutor:
        batch_max = self._config.batch_max_records if takes_batches(self.worker) else 0
        return ProcessExecutor(place, self._children, batch_max)
