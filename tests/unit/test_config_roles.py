"""No topic feeds itself: what a group writes is not what it reads, under whatever name."""

from __future__ import annotations

import pytest

from coop_consumer.config import Config
from coop_consumer.errors import ConfigError

PROGRESS = "__individual_commit_offsets"
LETTERS = {"on.failure": "dead_letter"}


def config(**settings: object) -> Config:
    return Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g", **settings})


@pytest.mark.parametrize(
    ("settings", "topics", "told"),
    [
        ({}, [PROGRESS], r"progress\.topic=__individual_commit_offsets is consumed here"),
        ({"progress.topic": "orders"}, ["orders"], r"progress\.topic=orders is consumed here"),
        ({}, ["__consumer_offsets"], r"topics=__consumer_offsets is a topic of the brokers"),
        ({}, ["a", "__transaction_state"], r"topics=__transaction_state is a topic of the brokers"),
        ({"progress.topic": "__consumer_offsets"}, ["a"], r"progress\.topic=__consumer_offsets is"),
        (
            {**LETTERS, "dead.letter.topic": PROGRESS},
            ["a"],
            r"dead\.letter\.topic=__individual_commit_offsets is where progress is kept",
        ),
        (
            {**LETTERS, "progress.topic": "a.dlq"},
            ["a"],
            r"dead\.letter\.topic=\{topic\}\.dlq makes a\.dlq, which is where progress is kept",
        ),
        (
            {**LETTERS, "dead.letter.topic": "__consumer_offsets"},
            ["a"],
            r"dead\.letter\.topic=__consumer_offsets is a topic of the brokers",
        ),
        (
            {**LETTERS, "dead.letter.topic": "a"},
            ["a", "b"],
            r"dead\.letter\.topic=a is consumed here: .* for ever",
        ),
        (
            LETTERS,
            ["a", "a.dlq"],
            r"dead\.letter\.topic=\{topic\}\.dlq makes a\.dlq, which is consumed here: what fails",
        ),
    ],
)
def test_a_topic_of_two_roles_is_refused_by_the_name_of_its_setting(
    settings: dict[str, object], topics: list[str], told: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{told}"):
        config(**settings).refuse_circles(topics)


@pytest.mark.parametrize(
    ("settings", "topics", "told"),
    [
        ({}, ["a", "g-a-state"], r"=\{group\}-\{topic\}-state makes g-a-state, which is consumed"),
        ({"state.changelog.topic": "{topic}-x"}, ["a", "a-x"], r"=\{topic\}-x makes a-x, which is"),
        ({"progress.topic": "g-a-state"}, ["a"], r".* makes g-a-state, which is where progress"),
    ],
)
def test_a_changelog_is_neither_consumed_nor_the_progress_topic(
    settings: dict[str, object], topics: list[str], told: str
) -> None:
    made = config(**settings)
    with pytest.raises(ConfigError, match=rf"^state\.changelog\.topic{told}"):
        made.refuse_circles(topics, keyed_state=True)
    if "progress.topic" not in settings:
        made.refuse_circles(topics)  # a worker without state has no changelog


def test_dead_letters_and_state_do_not_share_a_topic() -> None:
    made = config(**{**LETTERS, "dead.letter.topic": "g-{topic}-state"})
    with pytest.raises(ConfigError, match=r"dead\.letter\.topic.* where state of a goes"):
        made.refuse_circles(["a"], keyed_state=True)


def test_topics_that_go_well_together_are_let_in() -> None:
    config(**LETTERS).refuse_circles(["a", "b", "a.dlq.dlq"], keyed_state=True)
    config(**{**LETTERS, "dead.letter.topic": "letters"}).refuse_circles(["a", "b"])
    config(**{"dead.letter.topic": "a"}).refuse_circles(["a"])  # which on.failure=park never uses
    config(**{"progress.topic": "p"}).refuse_circles([PROGRESS])  # another group's, to look at


def test_nobody_writes_to_the_progress_topic_or_to_those_of_brokers() -> None:
    config().refuse_output("totals")
    for topic in (PROGRESS, "__consumer_offsets"):
        with pytest.raises(ConfigError, match=f"^topic={topic} is"):
            config().refuse_output(topic)
