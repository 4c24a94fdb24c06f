"""Executors end lanes at any moment: the member looks through them only under their lock."""

from __future__ import annotations

from collections.abc import Hashable, ValuesView

from assignors import WHOLE
from coop_consumer.core import actions
from coop_consumer.core.lane import Lane
from offsets import DecisionKey, DecisionRecord, encode_key, encode_value
from tests.unit.core_member import GROUP, T0, TOPIC_ID, TableMember


class Lock:
    """Knows whether it is held."""

    held = False

    def __enter__(self) -> None:
        self.held = True

    def __exit__(self, *_: object) -> None:
        self.held = False


class Guarded(dict[Hashable, Lane]):
    """Lanes that whoever looks through them without the lock does not get."""

    def __init__(self, lock: Lock) -> None:
        super().__init__()
        self.lock = lock
        self.looks = 0

    def values(self) -> ValuesView[Lane]:
        assert self.lock.held, "an executor that ends a lane now would end the member"
        self.looks += 1
        return super().values()


def guarded(**settings: object) -> tuple[TableMember, Guarded]:
    """A member with two keys at work, whose lanes are guarded."""
    lock = Lock()
    member, table = TableMember(lock=lock, max_attempts=1, **settings), Guarded(lock)
    member.core.lanes.tables.by_partition[T0] = table
    member.assign(WHOLE)
    member.produce(b"a", b"b")
    member.start()
    return member, table


def test_when_it_looks_for_handlers_that_run_for_too_long() -> None:
    member, table = guarded(max_processing_ms=1_000)
    for _ in range(20):
        member.after(100)
    assert len(member.told(actions.HandlerOverdue)) == 2
    assert table.looks


def test_when_it_looks_for_what_a_decision_is_about() -> None:
    member, table = guarded()
    member.fail(1)
    member.after(1_000)
    looks = table.looks
    key = DecisionKey(GROUP, TOPIC_ID, 0, 1)
    member.log.append(encode_key(key), encode_value(DecisionRecord("skip", 7)))
    member.hear_log()
    assert member.core.state.counters.skipped == 1
    assert table.looks > looks
