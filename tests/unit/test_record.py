"""Records: our books do not rest on what a handler assigns; a copy is plain data, and nobody's."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from confluent_kafka import Message

from assignors import WHOLE, KeyRange, TopicPartition
from coop_consumer import Context, Record
from coop_consumer.config import Config
from coop_consumer.core.record import ASSIGNABLE, OFFSET, again
from tests.unit.core_member import T0, TableMember

NAMES = [name for name in vars(Record) if not name.startswith("_") and name != "contents"]


@pytest.fixture
def record() -> Record:
    """A record as a member takes it in."""
    member = TableMember()
    member.assign(WHOLE)
    (tenure,) = member.core.state.partitions[T0].tenures
    made: Any = Message(
        topic="t",
        partition=0,
        offset=7,
        key=b"k",
        value=b"v" * 99,
        headers=[("h", b"1"), ("h", None)],
        timestamp=(1, 1_700_000_000_000),
    )
    return Record(tenure, 7, b"k", 5, made)


def test_what_a_record_tells_is_all_listed() -> None:
    assert {"key", "offset", "key_hash", "attempt", "size", "value", "headers"} <= set(NAMES)


@pytest.mark.parametrize("name", ["tenure", "is_copy", "extra"])
def test_what_the_member_alone_knows_cannot_be_assigned(name: str, record: Record) -> None:
    with pytest.raises(AttributeError):
        setattr(record, name, 0)


@pytest.mark.parametrize("name", ASSIGNABLE)
def test_what_is_assigned_is_read_until_the_next_attempt_and_is_not_in_the_books(
    name: str, record: Record
) -> None:
    told, contents = {it: getattr(record, it) for it in ASSIGNABLE}, record.contents()
    setattr(record, name, "changed")
    changed = [getattr(record, it) for it in ASSIGNABLE]
    assert changed == ["changed" if it == name else was for it, was in told.items()]
    assert record.contents() == contents
    assert getattr(sent(record), name) == getattr(copy.copy(record), name) == "changed"
    with pytest.raises(AttributeError):
        delattr(record, name)
    record = again(record)
    assert {it: getattr(record, it) for it in ASSIGNABLE} == told
    other = next(it for it in ASSIGNABLE if it != name)
    setattr(record, other, "again")
    assert getattr(record, name) == told[name]


def test_all_that_a_record_tells_can_be_assigned() -> None:
    assert {*ASSIGNABLE} == {*NAMES} - {"tenure", "is_copy"}


def test_a_record_without_a_time_has_none(record: Record) -> None:
    made: Any = Message(topic="t", partition=0, offset=7, value=b"v", timestamp=(0, 0))
    assert Record(record.tenure, 7, b"k", 5, made).timestamp_ms == -1


def test_the_headers_are_the_callers_own(record: Record) -> None:
    record.headers.clear()
    assert record.headers == [("h", b"1"), ("h", None)]


def sent(record: Record) -> Any:
    """As it comes to another process."""
    return pickle.loads(pickle.dumps(record))  # noqa: S301 - our own


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, sent])
def test_a_copy_tells_the_same_and_holds_nothing_of_the_member(copied: Any, record: Record) -> None:
    found = copied(record)
    assert [getattr(found, name) for name in NAMES if name not in ("tenure", "is_copy")] == [
        getattr(record, name) for name in NAMES if name not in ("tenure", "is_copy")
    ]
    assert (found.is_copy, record.is_copy) == (True, False)
    assert repr(found) == repr(record)
    assert found != record
    assert copied(found).value == record.value, "and can be copied again"
    assert len(pickle.dumps(record)) < 500, "no state of the member goes with it"


def test_a_record_has_its_slots_alone(record: Record) -> None:
    assert not hasattr(record, "__dict__")
    assert OFFSET(record) == record.offset == 7


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (TopicPartition("t", 0), ["topic", "partition"]),
        (KeyRange(0, 9), ["lo", "hi"]),
        (
            Context(Config.from_dict({"bootstrap.servers": "b:1", "group.id": "g"}), "m", 1),
            ["config", "member", "workers", "keyed", "state"],
        ),
        (
            Config.from_dict({"bootstrap.servers": "b:1", "group.id": "g"}),
            ["group_id", "passed", "max_attempts", "on_failure"],
        ),
    ],
)
def test_nothing_else_that_a_worker_is_given_can_be_assigned(
    given: object, names: list[str]
) -> None:
    for name in names:
        with pytest.raises((AttributeError, TypeError)):  # (a slotted property's is the latter)
            setattr(given, name, None)


def test_a_value_of_a_configuration_is_none_that_changes_in_place() -> None:
    config = Config.from_dict({"bootstrap.servers": "b:1", "group.id": "g", "linger.ms": 5})
    for name in config.__slots__ if hasattr(config, "__slots__") else vars(config):
        value = getattr(config, name)
        assert not isinstance(value, dict | list | set), f"{name}={value}"
