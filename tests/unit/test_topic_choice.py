"""Which topics a pattern takes, and which it spares."""

from __future__ import annotations

import pytest

from coop_consumer.config import Config, checked_topics, choice_of, chosen_topics
from coop_consumer.errors import ConfigError

LEAST = {"bootstrap.servers": "b:9092", "group.id": "billing"}


def matching(patterns: list[str], topics: list[str], **settings: object) -> set[str]:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return set(choice_of(Config.from_dict({**LEAST, **named}), patterns).among(topics))


@pytest.mark.parametrize(
    ("pattern", "taken"),
    [
        ("^orders-.*", {"orders-eu", "orders-us"}),
        ("^orders-", {"orders-eu", "orders-us"}),
        ("^orders-e", {"orders-eu"}),
        ("^orders$", {"orders"}),
        ("^.*-eu$", {"orders-eu"}),
        ("^(orders|bills)$", {"orders", "bills"}),
        ("^ORDERS", set()),
    ],
)
def test_a_pattern_is_a_regular_expression_for_the_beginning(pattern: str, taken: set[str]) -> None:
    topics = ["orders", "orders-eu", "orders-us", "old-orders-us", "bills"]
    assert matching([pattern], topics) == taken


def test_a_pattern_spares_what_the_group_itself_writes() -> None:
    own = [
        "__consumer_offsets",
        "__individual_commit_offsets",
        "progress",
        "progress-billing",
        "orders.dlq",
        "gone.dlq",
        "billing-orders-state",
        "totals",
    ]
    kept = ["orders", "progress-others", "other-orders-state", "orders.dlq2"]
    settings = {"progress_topic": "progress", "output_topics": "totals"}
    assert matching(["^.*"], [*own, *kept], **settings) == set(kept)
    named = [*own[2:], "^.*"]
    assert matching(named, [*own, *kept], **settings) == {*own[2:], *kept}


def test_outputs_of_a_worker_are_spared_too() -> None:
    choice = choice_of(Config.from_dict(LEAST), ["^.*"], outputs=("orders-done",))
    assert choice.among(["orders", "orders-done"]) == {"orders"}


def test_a_dead_letter_topic_of_any_form_is_spared() -> None:
    assert matching(["^.*"], ["dead", "deads"], dead_letter_topic="dead") == {"deads"}
    topics = ["dead-orders", "orders", "dead-"]
    assert matching(["^.*"], topics, dead_letter_topic="dead-{topic}") == {"orders", "dead-"}


def test_named_topics_are_there_whether_they_exist_or_not() -> None:
    assert matching(["bills", "^orders"], ["orders-eu"]) == {"bills", "orders-eu"}
    choice = choice_of(Config.from_dict(LEAST), ["bills", "^b"])
    assert choice.follows("bills") is None, "it is named: its end is no calm one"


@pytest.mark.parametrize(
    "topics", [["^orders-.*"], ["orders", "^b"], ["^(orders|bills)$"], [" ^a , b "], ["^Größe"]]
)
def test_patterns_pass_wherever_members_are_given_topics(topics: list[str]) -> None:
    names = chosen_topics(topics)
    assert Config.from_dict({**LEAST, "topics": topics}).topic_names == names
    assert Config.from_dict({**LEAST, "topics": ",".join(topics)}).topic_names == names


@pytest.mark.parametrize("topics", [["^(orders"], ["^a{1,2}"], ["^"], ["^ "], ["orders-.*"]])
def test_what_is_no_pattern_is_told_before_a_broker_is_asked(topics: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"^topics="):
        chosen_topics(topics)
    with pytest.raises(ConfigError, match=r"^topics="):
        Config.from_dict({**LEAST, "topics": topics})


def test_where_topics_can_only_be_named_a_pattern_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"\^orders is a pattern, and only members of a group"):
        checked_topics(["bills", "^orders"])


def test_a_pattern_is_no_topic_that_could_feed_itself() -> None:
    Config.from_dict(LEAST).refuse_circles(["^__individual_commit_offsets"], keyed_state=True)
