"""What operators allow, whatever members are configured to: policies of topics and groups. Pure.

In: the policy records of the progress log. Out: which topics, and whether a group, may share
partitions by key ranges. Three levels may forbid it: topic, group and consumer. What no policy
speaks of is allowed, so a policy only ever takes away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from offsets import PolicyKey, PolicyRecord

ACCEPT_RANGE_FETCH = "accept.range.fetch"
"""A topic's policy: whether its partitions may be shared."""

ACCEPT_INDIVIDUAL_COMMIT = "accept.individual.commit"
"""A group's policy: whether it may keep progress of key ranges, and thereby share."""

NAMES = {"topic": ACCEPT_RANGE_FETCH, "group": ACCEPT_INDIVIDUAL_COMMIT}
"""The one policy that each scope has."""


@dataclass(frozen=True, slots=True)
class Policies:
    """What is refused, for one group.

    Attributes:
        topics: The topics that must not be shared.
        group: Whether the group must not share anything.
    """

    topics: frozenset[str] = field(default_factory=frozenset)
    group: bool = False

    def of_topics(self, topics: Collection[str]) -> Policies:
        """As far as they concern these topics."""
        return Policies(self.topics & frozenset(topics), self.group)

    def refusals(self, group: str) -> Iterator[PolicyKey]:
        """The policies, one by one: the group's, then its topics'."""
        if self.group:
            yield PolicyKey("group", group)
        for topic in sorted(self.topics):
            yield PolicyKey("topic", topic)

    def topic_allows_sharing(self, topics: Iterable[str]) -> dict[str, bool]:
        """For each of these topics, whether it may be shared."""
        return {topic: topic not in self.topics for topic in topics}


def policies_of(records: Mapping[PolicyKey, PolicyRecord], group: str) -> Policies:
    """What the log's policy records say about a group.

    >>> refused = PolicyRecord({"accept.range.fetch": "false"})
    >>> policies_of({PolicyKey("topic", "orders"): refused}, "billing")
    Policies(topics=frozenset({'orders'}), group=False)
    """
    refused = {key for key, record in records.items() if _refuses(key, record)}
    return Policies(
        topics=frozenset(key.name for key in refused if key.scope == "topic"),
        group=PolicyKey("group", group) in refused,
    )


def _refuses(key: PolicyKey, record: PolicyRecord) -> bool:
    return record.settings.get(NAMES[key.scope], "true") == "false"
