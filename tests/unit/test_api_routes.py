"""`/api/status` and `/api/scale`: what the commands print, or the error that they end with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from coop_consumer.errors import AuthorizationError, BrokerUnreachableError, CoopConsumerError
from coop_consumer.ops.api_routes import api_routes
from coop_consumer.ops.feed import GroupFeed
from coop_consumer.ops.group_metrics import GroupLook
from coop_consumer.status.as_json import as_json, scale_as_json
from coop_consumer.status.errors import GroupMissingError
from tests.support.asking import ask, serving
from tests.unit.test_group_metrics import ADVICE, STATUS

SEEN = GroupLook("billing", 0.1, 5.0, STATUS, ADVICE)


@dataclass
class Watched:
    """The feeds of the groups that a test watches."""

    feeds: dict[str, GroupFeed] = field(default_factory=dict)

    def names(self) -> Sequence[str]:
        return sorted(self.feeds)

    def get(self, group: str) -> GroupFeed | None:
        return self.feeds.get(group)


def watched(group: str = "billing", *looks: GroupLook) -> Watched:
    feed = GroupFeed(group)
    for look in looks:
        feed.put(look)
    return Watched({group: feed})


def failed(error: CoopConsumerError) -> GroupLook:
    return GroupLook("billing", 0.1, 5.0, error=error)


def test_the_answers_are_what_the_commands_print() -> None:
    with serving(api_routes(watched("billing", SEEN))) as server:
        status, scale = ask(server, "/api/status/billing"), ask(server, "/api/scale/billing")
    assert status.text == json.dumps(as_json(STATUS)) + "\n"
    assert scale.text == json.dumps(scale_as_json(STATUS, ADVICE), allow_nan=False) + "\n"
    assert json.loads(scale.text)["wanted_members"] == 6
    assert status.headers["content-type"] == scale.headers["content-type"] == "application/json"


def test_a_group_may_have_any_name() -> None:
    with serving(api_routes(watched("a/b ?ü", SEEN))) as server:
        assert ask(server, "/api/scale/a%2Fb%20%3F%C3%BC").status == 200


def test_a_group_that_is_not_watched_is_not_found_and_the_watched_ones_are_named() -> None:
    with serving(api_routes(watched("billing", SEEN))) as server:
        answer = ask(server, "/api/scale/biling")
    assert answer.status == 404
    assert "billing" in json.loads(answer.text)["error"]


def test_before_the_first_look_there_is_no_number() -> None:
    with serving(api_routes(watched("billing"))) as server:
        answer = ask(server, "/api/scale/billing")
    assert answer.status == 503
    assert "retry-after" in answer.headers


def test_before_any_group_was_found_nobody_knows_whether_one_is_missing() -> None:
    """An autoscaler that heard that it is would ask for no members."""
    with serving(api_routes(Watched())) as server:
        assert ask(server, "/api/scale/billing").status == 503


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BrokerUnreachableError("b:9092", "nobody answers"), 503),
        (GroupMissingError("billing"), 404),
        (AuthorizationError("group billing", "read", "ann"), 403),
    ],
    ids=["no broker", "no group", "no right"],
)
def test_while_looks_fail_no_old_number_is_given(error: CoopConsumerError, status: int) -> None:
    with serving(api_routes(watched("billing", SEEN, failed(error)))) as server:
        answer = ask(server, "/api/scale/billing")
    assert answer.status == status
    assert json.loads(answer.text) == {"error": str(error)}


def test_a_look_that_does_not_come_back_makes_a_number_old() -> None:
    its = watched("billing", SEEN)
    feed = its.get("billing")
    assert feed is not None
    seen_at_ms = feed.now.seen_at_ms
    for old_ms, status in ((30_000, 200), (31_000, 503)):
        with serving(api_routes(its, lambda old_ms=old_ms: seen_at_ms + old_ms)) as server:
            answer = ask(server, "/api/scale/billing")
            assert answer.status == status
    assert "31 s ago" in json.loads(answer.text)["error"]


def test_a_group_that_is_seen_again_has_its_number_again() -> None:
    gone = failed(BrokerUnreachableError("b:9092", "nobody answers"))
    with serving(api_routes(watched("billing", gone, SEEN))) as server:
        assert ask(server, "/api/scale/billing").status == 200
