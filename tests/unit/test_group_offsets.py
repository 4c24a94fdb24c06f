"""How long a commit of no member waits for a coordinator that comes back."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.errors import UnexpectedAnswerError
from coop_consumer.kafka import group_offsets
from coop_consumer.kafka.group_offsets import GroupOffsets
from offsets import Committed

ORDERS = TopicPartition("orders", 0)


class LoadingCoordinator:
    """Answers that it loads until its own clock says otherwise; asking takes no time."""

    def __init__(self, loaded_at_s: float) -> None:
        self._loaded_at_s = loaded_at_s
        self.now_s = 0.0
        self._manager = SimpleNamespace(cluster=SimpleNamespace(_coordinators={}))

    def begin(self, ask: Any) -> None:
        asyncio.run(ask())

    async def pause(self, seconds: float) -> None:
        self.now_s += seconds

    async def commit(self, _: str, offsets: dict[Any, Any]) -> dict[Any, type[Exception]]:
        loads = self.now_s < self._loaded_at_s
        answer = kafka_errors.CoordinatorLoadInProgressError if loads else kafka_errors.NoError
        return dict.fromkeys(offsets, answer)


def committed_by(coordinator: LoadingCoordinator, monkeypatch: pytest.MonkeyPatch) -> Future[None]:
    monkeypatch.setattr(group_offsets, "_Client", lambda **_: coordinator)
    monkeypatch.setattr(group_offsets, "monotonic", lambda: coordinator.now_s)
    config = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "billing"})
    return GroupOffsets(config).commit("billing", {ORDERS: Committed(1)})


def test_a_coordinator_that_loads_for_long_answers_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert committed_by(LoadingCoordinator(100.0), monkeypatch).result(0) is None


def test_one_that_never_answers_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = LoadingCoordinator(float("inf"))
    with pytest.raises(UnexpectedAnswerError, match="CoordinatorLoadInProgress"):
        committed_by(coordinator, monkeypatch).result(0)
    assert 120.0 <= coordinator.now_s < 121.0
