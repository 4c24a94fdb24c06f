"""Which topic or group somebody meant who mistyped its name. Asks the brokers once.

In: a name that does not exist. Out: the nearest one that does, or "". It is a help for an error
message, so it never fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches

from confluent_kafka import KafkaException

from coop_consumer.config import Config
from coop_consumer.errors import CoopConsumerError
from coop_consumer.kafka.topics import Topics

_ANSWER_S = 5.0


def nearest_topic(config: Callable[[], Config], name: str) -> str:
    """The topic whose name is nearest, of those that this user may see; "": none is near."""
    return _nearest(name, lambda: Topics(config()).names())


def nearest_group(config: Callable[[], Config], name: str) -> str:
    """The group whose name is nearest, of those that this user may see; "": none is near."""

    def names() -> list[str]:
        topics = Topics(config())  # a client that is dropped answers nothing
        asked = topics.admin.list_consumer_groups(request_timeout=_ANSWER_S)
        return sorted(it.group_id for it in asked.result(_ANSWER_S).valid)

    return _nearest(name, names)


def _nearest(name: str, names: Callable[[], Iterable[str]]) -> str:
    try:
        found = get_close_matches(name, names(), n=1)
    except (CoopConsumerError, KafkaException, TimeoutError):
        return ""
    return found[0] if found else ""
