"""What a group may share by the policies that operators have set."""

from __future__ import annotations

from coop_consumer.core.policies import Policies, policies_of
from offsets import PolicyKey, PolicyRecord

NO_RANGES = PolicyRecord({"accept.range.fetch": "false"})
NO_PROGRESS = PolicyRecord({"accept.individual.commit": "false"})


def test_without_a_policy_everything_may_be_shared() -> None:
    assert policies_of({}, "billing") == Policies()
    assert Policies().topic_allows_sharing(["orders"]) == {"orders": True}


def test_a_topics_policy_holds_for_every_group_and_this_topic_alone() -> None:
    found = policies_of({PolicyKey("topic", "orders"): NO_RANGES}, "billing")
    assert found.topic_allows_sharing(["orders", "bills"]) == {"orders": False, "bills": True}
    assert not found.group


def test_policies_are_told_as_far_as_they_concern_a_group() -> None:
    found = Policies(frozenset({"orders", "bills"}), group=True).of_topics({"orders"})
    assert list(found.refusals("billing")) == [
        PolicyKey("group", "billing"),
        PolicyKey("topic", "orders"),
    ]


def test_a_groups_policy_is_its_own() -> None:
    found = {PolicyKey("group", "billing"): NO_PROGRESS}
    assert policies_of(found, "billing").group
    assert not policies_of(found, "stock").group


def test_a_policy_that_says_something_else_forbids_nothing() -> None:
    strange = {
        PolicyKey("topic", "orders"): NO_PROGRESS,
        PolicyKey("group", "billing"): PolicyRecord({"accept.individual.commit": "perhaps"}),
    }
    assert policies_of(strange, "billing") == Policies()
