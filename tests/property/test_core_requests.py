"""Pauses, seeks and moving ranges in any order: nothing is lost, and no key is in two hands.

The model is plain: which records were finished, by offset. All records that the log calls done were
finished (I2). The log never has fewer facts than before (I3). A key runs at most once at a time
(I4). In the end, without seeks, everything is finished once.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from assignors import KEY_HASH_MAX, WHOLE, KeyRange, key_hash
from coop_consumer.core import events
from tests.unit.core_member import T0, TableMember

LOW = KeyRange(0, KEY_HASH_MAX // 2 - 1)
KEYS = [b"key-%d" % number for number in range(6)]

MOVES = st.one_of(
    st.tuples(st.just("produce"), st.integers(0, len(KEYS) - 1)),
    st.tuples(st.sampled_from(["start", "pause", "resume", "shrink", "whole", "tick"]), st.just(0)),
    st.tuples(st.sampled_from(["finish", "fail"]), st.integers(0, 9)),
)
SEEKS = st.tuples(st.just("seek"), st.integers(0, 30))


class Model:
    """A member on a table, and what is true of its records."""

    def __init__(self) -> None:
        self.member = TableMember(
            max_attempts=100, attempt_backoff_ms=10, attempt_backoff_max_ms=10
        )
        self.member.assign(WHOLE)
        self.told: set[int] = set()

    def move(self, name: str, number: int) -> None:
        member = self.member
        running = sorted(offset for _, offset in member.running)
        match name:
            case "produce":
                member.produce(KEYS[number])
            case "finish" if running:
                member.finish(running[number % len(running)])
            case "fail" if running:
                member.fail(running[number % len(running)])
            case "start":
                member.start()
            case "pause":
                member.tell(events.Pause(1, [T0]))
            case "resume":
                member.tell(events.Resume(1, [T0]))
            case "shrink":
                member.assign(LOW)
            case "whole":
                member.assign(WHOLE)
            case "seek":
                member.tell(events.Seek(1, T0, min(number, len(member.messages))))
            case _:
                member.after(500)
        if T0 in member.core.state.partitions:
            member.fetch()
        self.check()

    def check(self) -> None:
        member = self.member
        keys = [key for key, _ in member.running]
        assert len(keys) == len(set(keys)), "I4: a key is in two hands"
        progress = member.store.progress()
        told = {
            message.offset()
            for message in member.messages
            if progress.is_done(key_hash(message.key() or b""), message.offset())
        }
        assert told <= set(member.finished), "I2: told as done, but never finished"
        assert told >= self.told, "I3: a fact was withdrawn"
        self.told = told

    def end(self) -> None:
        """Let everything come, and finish it."""
        self.move("resume", 0)
        self.move("whole", 0)
        for _ in range(2 * len(self.member.messages) + 2):
            self.move("start", 0)
            while self.member.running:
                self.move("finish", 0)
            self.move("tick", 0)


@settings(deadline=None, max_examples=60)  # the machine may be busy
@given(st.lists(MOVES, max_size=40))
def test_without_seeks_everything_is_finished_once(moves: list[tuple[str, int]]) -> None:
    model = Model()
    for name, number in moves:
        model.move(name, number)
    model.end()
    assert sorted(model.member.finished) == list(range(len(model.member.messages)))


@settings(deadline=None, max_examples=60)  # the machine may be busy
@given(st.lists(st.one_of(MOVES, SEEKS), max_size=40))
def test_seeks_neither_lose_nor_withdraw_anything(moves: list[tuple[str, int]]) -> None:
    model = Model()
    for name, number in moves:
        model.move(name, number)
    model.end()
    model.move("seek", 0)
    model.end()
    assert set(model.member.finished) == set(range(len(model.member.messages)))
    assert len(model.told) == len(model.member.messages)
