"""What handlers in child processes count with `prometheus_client`, added up by the parent.

In: a directory, in which each child keeps its figures (`prometheus_client.multiprocess`). Out:
families. Gauges of the kinds that count for living processes only are dropped with their process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prometheus_client.core import Metric as Family
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector


class ChildFigures(Collector):
    """Collects from a directory.

    Args:
        folder: The directory.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def collect(self) -> Iterable[Family]:
        """The sums over all children so far; none once the directory is gone."""
        if not self._folder.is_dir():
            return []
        for path in self._folder.glob("gauge_live*_*.db"):
            number = path.stem.rpartition("_")[2]
            if number.isdigit() and not _lives(int(number)):
                mark_process_dead(int(number), str(self._folder))  # type: ignore[no-untyped-call]
        sums: Collector = MultiProcessCollector(None, str(self._folder))  # type: ignore[no-untyped-call]
        return list(sums.collect())


def _lives(process: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False
