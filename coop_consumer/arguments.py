"""Checks of the arguments that users pass to public methods. Pure.

In: a call's name, for the message, and an argument. Out: the argument, of its type; or a
`MisuseError` that says what was expected. Only `a_record` is called once a record; it costs one
look at a type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import SupportsIndex, TypeVar

from assignors import KeyRange, TopicPartition
from coop_consumer.config import sendable
from coop_consumer.config.patterns import KAFKA_NAME
from coop_consumer.config.setting import shown
from coop_consumer.core.record import Record
from coop_consumer.errors import MisuseError
from coop_consumer.plain_text import printable

T = TypeVar("T")

_LONGEST_S = 1e8
"""Three years: locks take no time that is much longer."""


def a_record(call: str, value: object) -> Record:
    """A record."""
    remedy = "Give it the record itself that poll or consume returned"
    if not isinstance(value, Record):
        raise _misuse(call, value, "no record", remedy)
    if value.is_copy:
        raise MisuseError(call, f"{printable(repr(value))} is a copy, pickled or copied", remedy)
    return value


def an_error(call: str, value: object) -> BaseException:
    """Why a record has failed."""
    if not isinstance(value, BaseException):
        raise _misuse(call, value, "no exception", "Give it an exception that says what failed")
    return value


def seconds(call: str, value: object) -> float | None:
    """How long to wait; None: for ever."""
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or value != value:  # noqa: PLR0124 - which NaN alone is
        raise _misuse(call, value, "no time in seconds", "Give a number of seconds, or None")
    return float(max(-_LONGEST_S, min(value, _LONGEST_S)))  # type: ignore[call-overload]


def whole(call: str, value: object, what: str) -> int:
    """A whole number: an offset, a count."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise _misuse(call, value, f"no {what}", f"Give the {what} as a whole number")
    return index(value)


def a_place(call: str, value: object) -> TopicPartition:
    """A partition; one of confluent-kafka's would be found in no table of ours, in silence."""
    remedy = "Name partitions by coop_consumer.TopicPartition(topic, number)"
    if not isinstance(value, TopicPartition):
        raise _misuse(call, value, "no coop_consumer.TopicPartition", remedy)
    topic: object = value.topic
    number: object = value.partition
    if not isinstance(topic, str) or not sendable(topic):
        raise _misuse(call, topic, "no name of a topic", remedy)
    if not isinstance(number, int) or isinstance(number, bool):
        raise _misuse(call, number, "no number of a partition", remedy)
    return value


def places(call: str, values: object) -> list[TopicPartition]:
    """Partitions."""
    remedy = "Give a list of coop_consumer.TopicPartition(topic, number)"
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise _misuse(call, values, "no list of partitions", remedy)
    return [a_place(call, value) for value in values]


def shares(call: str, values: object) -> Mapping[TopicPartition, Sequence[KeyRange]]:
    """For each partition its key ranges."""
    remedy = "Give a dict from TopicPartition to a list of KeyRange; an empty list means all keys"
    if not isinstance(values, Mapping):
        raise _misuse(call, values, "no dict from partitions to key ranges", remedy)
    for place, ranges in values.items():
        a_place(call, place)
        if not isinstance(ranges, Iterable) or not all(isinstance(r, KeyRange) for r in ranges):
            raise _misuse(call, ranges, "no list of key ranges", remedy)
    return values


def instance(call: str, value: object, kind: type[T]) -> T:
    """An instance of a class of ours."""
    if not isinstance(value, kind):
        remedy = f"Give an instance of {kind.__name__}, not its class or another object"
        raise _misuse(call, value, f"no {kind.__name__}", remedy)
    return value


def a_topic(call: str, value: object) -> str:
    """A topic's name."""
    if not isinstance(value, str) or not sendable(value):
        raise _misuse(call, value, "no name of a topic", "Give the topic's name as text")
    return value


def a_name(call: str, value: object) -> str:
    """The name of a writer, which is in a transactional.id: people type it into Kafka's tools."""
    if not isinstance(value, str) or not sendable(value):
        raise MisuseError(call, f"name={shown(value)}", f"A name has {KAFKA_NAME.words}")
    return value


def a_function(call: str, value: object, what: str) -> Callable[..., object]:
    """What will be called; `what` names the argument."""
    if not callable(value):
        raise _misuse(call, value, f"no {what}", f"Give the {what} as a function")
    return value


def a_key(call: str, value: object) -> bytes:
    """A record's key."""
    if not isinstance(value, bytes):
        raise _misuse(call, value, "no key", "Give the key as bytes, as it is in the topic")
    return value


def _misuse(call: str, value: object, what: str, remedy: str) -> MisuseError:
    text = f"{shown(value)} (str)" if isinstance(value, str) else shown(value)
    return MisuseError(call, f"{text} is {what}", remedy)
