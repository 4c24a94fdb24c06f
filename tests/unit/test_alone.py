"""Who reads a group from outside asks again while its coordinator moves."""

from __future__ import annotations

from concurrent.futures import Future
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from coop_consumer.kafka import alone, describe


class Moving:
    """An admin client whose first answers come from a broker that is no coordinator any more."""

    def __init__(self, refusals: int) -> None:
        self.asked = 0
        self._refusals = refusals

    def describe_consumer_groups(self, groups: list[str]) -> dict[str, Future[object]]:
        self.asked += 1
        code = KafkaError.NOT_COORDINATOR if self.asked <= self._refusals else None
        answer = Future[object]()
        answer.set_exception(KafkaException(KafkaError(code or KafkaError.GROUP_ID_NOT_FOUND)))
        return dict.fromkeys(groups, answer)


def test_a_group_whose_coordinator_moves_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(describe, "_PAUSE_S", 0.0)
    admin = Moving(refusals=2)
    alone.refuse_if_in_use(cast(AdminClient, admin), "billing")
    assert admin.asked == 3
