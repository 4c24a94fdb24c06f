"""A group's coordinator that has moved is looked up, and not asked for ever where it was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.cluster import ClusterMetadata, CoordinatorType

from coop_consumer.kafka import group_view
from coop_consumer.kafka.group_view import _when_loaded


def test_the_next_question_goes_to_where_the_coordinator_is_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_view, "PAUSE_S", 0.0)
    cluster = ClusterMetadata(bootstrap_servers="localhost:1")
    client: Any = SimpleNamespace(_manager=SimpleNamespace(cluster=cluster))
    for group, node in (("billing", 1), ("others", 3)):
        cluster._coordinators[CoordinatorType.GROUP, group] = node

    def ask() -> int:
        """As kafka-python: who is not known is looked up, and known from then on."""
        node = cluster.get_coordinator("billing", CoordinatorType.GROUP)
        if node is None:
            node = cluster._coordinators[CoordinatorType.GROUP, "billing"] = 2
        if node != 2:
            raise kafka_errors.NotCoordinatorError
        return node

    assert _when_loaded(client, "billing", ask) == 2
    assert cluster.get_coordinator("others", CoordinatorType.GROUP) == 3, "it has not moved"
