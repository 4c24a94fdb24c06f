"""Questions to a group's coordinator by librdkafka's clients, repeated while it moves or loads.

In: a question. Out: its answer. When a coordinator restarts, the group moves to another broker,
which takes a moment to load it. Until then the answer is an error that only means "ask again".
Blocks.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from coop_consumer.errors import BrokerUnreachableError
from coop_consumer.kafka.translate import translated
from offsets import RETIRED, Committed, Tag

T = TypeVar("T")

_TAG = re.compile(rf"({RETIRED}:({'|'.join(Tag)}):\d+|{'|'.join(Tag)}):\d+:[0-9a-f]{{8}}")

MOVES_OR_LOADS = (
    KafkaError.NOT_COORDINATOR,  # the client's knowledge of the coordinator is old
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
PAUSE_S = 0.1

_TIMEOUT_S = 10.0
_FIRST_S = 30.0  # the first group of a new cluster waits until the offsets topic exists


def ask_coordinator(ask: Callable[[float], T], patience_s: float) -> T:
    """Ask until the group's coordinator is there, or the patience is over.

    Args:
        ask: The question; it gets the seconds that are left.
        patience_s: How long to repeat it.

    Raises:
        KafkaException: Any other error, or the last one if the coordinator did not answer.
        TimeoutError: As `ask` does.
    """
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            return ask(max(deadline_s - time.monotonic(), 0.0))
        except KafkaException as error:
            if error.args[0].code() not in MOVES_OR_LOADS or time.monotonic() >= deadline_s:
                raise
            time.sleep(PAUSE_S)


def ask_about_group(group: str, ask: Callable[[float], T], patience_s: float) -> T:
    """The same, its errors in our words.

    Raises:
        AuthorizationError, BrokerUnreachableError, UnexpectedAnswerError: As they say.
    """
    try:
        return ask_coordinator(ask, patience_s)
    except KafkaException as error:
        raise translated(error.args[0], f"group {group}") from error
    except TimeoutError as error:
        detail = "its coordinator does not answer"
        raise BrokerUnreachableError(f"group {group}", detail) from error


def description_of(admin: AdminClient, group: str) -> ConsumerGroupDescription | None:
    """A group of either protocol, from its coordinator; None if it does not exist. Blocks.

    Raises:
        AuthorizationError, BrokerUnreachableError: As they say.
    """

    def ask(left_s: float) -> ConsumerGroupDescription | None:
        [future] = admin.describe_consumer_groups([group]).values()
        try:
            found: ConsumerGroupDescription = future.result(left_s)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return None
            raise
        return found

    return ask_about_group(group, ask, _FIRST_S)


def allowed_on_group(admin: AdminClient, group: str) -> list[str]:
    """The operations that this user may do on a group, from its coordinator. Blocks.

    Raises:
        AuthorizationError, BrokerUnreachableError, UnexpectedAnswerError: As they say.
    """

    def ask(left_s: float) -> list[str]:
        [future] = admin.describe_consumer_groups(
            [group], include_authorized_operations=True
        ).values()
        return [operation.name for operation in future.result(left_s).authorized_operations]

    return ask_about_group(group, ask, _TIMEOUT_S)


def committed_at(place: Place) -> Committed:
    """A committed offset as librdkafka's clients return it, with its tag as it was written.

    confluent-kafka reads metadata up to a NUL. Metadata that kafka-python wrote have none, so what
    happens to lie behind them in memory follows, and need not even be text. The form of a tag tells
    where it ends.
    """
    try:
        metadata = place.metadata or ""
    except UnicodeDecodeError as error:
        metadata = error.object.decode(errors="replace")
    tag = _TAG.match(metadata)
    return Committed(place.offset, metadata if tag is None else tag.group())
