"""Lists the groups that progress topics hold records of, and what Kafka says of them.

In: a configuration. Out: a row for each group and topic. It reads all progress topics to their
ends, joins no group, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from coop_consumer.admin.remains import Inventory, Remains
from coop_consumer.config import Config, Guarantee
from coop_consumer.errors import AuthorizationError
from coop_consumer.kafka.groups import Groups
from coop_consumer.kafka.log_scan import LogScan
from coop_consumer.kafka.topics import Topics
from coop_consumer.status.seen import NO_GROUP

FORGOTTEN = "Forgotten"
"""The state of a group that Kafka does not know any more."""
CLEARED = "Cleared"
"""The state of a forgotten group of which only tombstones count; brokers have to compact yet."""
HIDDEN = "Hidden"
"""The state of a group that this user may not describe."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """What a group has in a progress topic.

    Attributes:
        group: The group.
        state: The coordinator's word for its state, `FORGOTTEN`, `CLEARED` or `HIDDEN`.
        guarantee: Of the group that uses such a topic.
        topic: The progress topic.
        last_ms: When the group wrote last, Unix time; 0: it never did, only policies are left.
        records: How many records of it the topic holds.
        size_bytes: Their keys and values.
    """

    group: str
    state: str
    guarantee: Guarantee
    topic: str
    last_ms: int
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class GroupList:
    """All groups.

    Attributes:
        rows: By group and topic.
        unreadable: Records that could not be read, by reason.
        hidden_topics: Progress topics that this user may not read.
    """

    rows: tuple[GroupRow, ...]
    unreadable: Mapping[str, int]
    hidden_topics: tuple[str, ...]


def list_groups(config: Config) -> GroupList:
    """All groups with records in a progress topic. Blocks; O(records).

    Args:
        config: Names the brokers, and the progress topic; its group is not used.

    Raises:
        AuthorizationError, BrokerUnreachableError: As they say.
    """
    topics = Topics(config)
    topics.check_broker()
    partitions, hidden = progress_topics(config, topics)
    inventory = Inventory()
    with closing(LogScan(config, topics, partitions)) as scan:
        scan.read_on(lambda tp, record: inventory.take(tp.topic, tp.partition, record))
    remains = inventory.remains()
    with closing(Groups(config)) as groups:
        states = states_of(groups, {it.group for it in remains})
    rows = tuple(_row(config, it, states[it.group]) for it in remains)
    return GroupList(rows, inventory.unreadable, hidden)


def progress_topics(config: Config, topics: Topics) -> tuple[dict[str, int], tuple[str, ...]]:
    """The progress topics with their numbers of partitions, and those that may not be read.

    Raises:
        AuthorizationError: This user may not read the shared one.
        BrokerUnreachableError: No broker answered.
    """
    shared = config.progress_topic
    own = topics.names_that_begin(f"{shared}-")
    found = topics.readable([shared, *own])
    if found.get(shared, True) is None:
        raise AuthorizationError(f"topic {shared}", "read", config.user)
    readable = {name: facts.partitions for name, facts in found.items() if facts is not None}
    return readable, tuple(sorted(found.keys() - readable.keys()))


def states_of(groups: Groups, names: Iterable[str]) -> dict[str, str]:
    """The state of each of these groups: Kafka's word, `FORGOTTEN` or `HIDDEN`.

    Raises:
        BrokerUnreachableError, UnexpectedAnswerError: As they say.
    """
    listed = groups.listed().result()
    states = {name: listed.get(name, "") for name in names}
    asked = {name: groups.state(name) for name, state in states.items() if not state}
    for name, answer in asked.items():
        try:
            state = answer.result()
        except AuthorizationError:
            states[name] = HIDDEN
        else:
            states[name] = FORGOTTEN if state == NO_GROUP.state else state
    return states


def _row(config: Config, it: Remains, state: str) -> GroupRow:
    # A topic that begins like that may also be the progress.topic of other groups.
    is_own = it.topic == replace(config, group_id=it.group).own_progress_log
    guarantee = Guarantee.EXACTLY_ONCE if is_own else Guarantee.AT_LEAST_ONCE
    state = CLEARED if state == FORGOTTEN and not it.keys else state
    return GroupRow(it.group, state, guarantee, it.topic, it.last_ms, it.records, it.size_bytes)
