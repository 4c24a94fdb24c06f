"""How processes share the suite: what one of them runs alone, and what begins first.

In: tests as pytest collects them, for `--dist=loadfile`. Out: their groups and their order.
`tests/conftest.py` names the two hooks to pytest. They change nothing for a single process.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling, Scheduling

SPARK = "tests/spark"
FIRST = (SPARK, "tests/chaos", "tests/integration")
"""What waits for brokers and processes. What only computes fills the time until all have ended."""


class Shares(LoadFileScheduling):
    """A file stays together, because its tests share brokers; Spark's files share one session."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return SPARK if file.startswith(f"{SPARK}/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Share by files as above; any other `--dist` is left as it is."""
    return Shares(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order tests by their folder in a process that shares them with others."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: rank_of(item.nodeid))


def rank_of(nodeid: str) -> int:
    """When a test begins: with the first ones (0), or behind all others."""
    ranks = (at for at, folder in enumerate(FIRST) if nodeid.startswith(f"{folder}/"))
    return next(ranks, len(FIRST))
