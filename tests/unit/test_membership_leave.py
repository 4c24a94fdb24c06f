"""How long a membership waits for the answer to its LeaveGroup."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any
from unittest.mock import Mock

import pytest

from coop_consumer.errors import MemberLostError, MembershipError
from coop_consumer.kafka.membership import membership
from coop_consumer.kafka.membership.membership import Membership
from coop_consumer.kafka.membership.requests import GroupRequests
from coop_consumer.kafka.membership.settings import completed

SETTINGS = completed({"bootstrap_servers": ["b:9092"], "group_id": "billing"})


@pytest.mark.parametrize(("silent_s", "timeout_ms"), [(1, 10_000), (30, 2_000)])
def test_who_is_not_in_the_group_any_more_does_not_wait_long(
    silent_s: float, timeout_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No broker has answered for a session: nobody would hear that the member leaves."""
    monkeypatch.setattr(membership, "KafkaNetClient", Mock())
    kwargs = {"bootstrap_servers": ["b:9092"], "group_id": "billing"}
    member = Membership(kwargs, ["orders"], "by key ranges", Mock())
    alive_until_ms = (monotonic() + 10 - silent_s) * 1_000
    coordinator: Any = Mock(alive_until_ms=alive_until_ms, snapshot=Mock())
    member._client = Mock()
    member._requests.coordinator = coordinator
    member.leave()
    member._end(None)
    coordinator.close.assert_called_once_with(autocommit=False, timeout_ms=timeout_ms)


@pytest.mark.parametrize(("is_closed", "told"), [(True, MemberLostError), (False, MembershipError)])
def test_what_its_client_says_while_it_is_closed_is_no_defect(
    is_closed: bool, told: type[Exception]
) -> None:
    """kafka-python raises what comes to hand: "RuntimeError: NetworkSelector closed!"."""
    requests = GroupRequests(SETTINGS)
    coordinator: Any = Mock()
    requests.coordinator = coordinator
    errors: list[Any] = []

    async def ask(_: object) -> None:
        if is_closed:
            requests.end()
        raise RuntimeError("NetworkSelector closed!")

    asyncio.run(requests._asked(coordinator, ask, lambda _, error: errors.append(error)))
    assert [type(error) for error in errors] == [told]
