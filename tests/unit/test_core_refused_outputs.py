"""An output that a topic refuses fails its record, not its member, and nobody else's records."""

from __future__ import annotations

import pytest

from assignors import WHOLE
from coop_consumer.core import actions, effects, events
from coop_consumer.core.effects import Output
from coop_consumer.errors import RecordTooLargeError
from tests.unit.core_member import HIGH, LOW, TableMember, keys_in
from tests.unit.test_core_effects import running
from tests.unit.test_core_exactly_once import answer, left_in, pending, records, take, work

A, B = keys_in(LOW, 2)
C, D = keys_in(HIGH, 2)
LARGE = RecordTooLargeError("totals", "500 bytes")


def member_of(on_failure: str) -> TableMember:
    member = TableMember(exactly_once=True, on_failure=on_failure)
    member.assign(WHOLE)
    member.kept_back = {actions.Commit}
    return member


def refuse(member: TableMember, offset: int, topic: str = "totals") -> None:
    """A topic refuses what the record at this offset has left behind."""
    commit = pending(member)
    record = next(it.record for it in commit.results if it.record.offset == offset)
    answer(member, events.OutputRefused(commit.token, record, topic, LARGE))


def settle(member: TableMember) -> None:
    """Whatever is to be committed is; ranges begin again, and their records come."""
    member.fetch()
    for _ in range(5):
        member.after(1_000)
        if any(isinstance(it, actions.Commit) for it in member.unanswered):
            take(member)
        member.hear_log()
    member.fetch()


def failed(member: TableMember) -> dict[int, bool]:
    """Offset → whether it is parked, by the log."""
    return {offset: it.parked for offset, it in member.store.attempts().items()}


def test_the_record_is_parked_and_the_others_are_done_again_and_committed() -> None:
    member = member_of("park")
    work(member, A)
    member.after(1_000)
    work(member, B, C)
    take(member)
    member.after(1_000)
    assert left_in(pending(member)) == ["1", "2"]
    refuse(member, 1)
    member.after(1_000)
    (told,) = records(pending(member))
    assert left_in(pending(member)) == []
    assert [(it.offset, it.parked) for it in told.attempts] == [(1, True)]
    assert "RecordTooLargeError" in told.attempts[0].error
    settle(member)
    assert member.finish_all() == [2], "what was committed is not done again"
    settle(member)
    assert failed(member) == {1: True}
    assert [gap.first for gap in member.store.progress().clip(WHOLE)[0].gaps] == [2]


def test_with_skip_it_is_given_up_once_its_partition_goes_on() -> None:
    member = member_of("skip")
    work(member, A, B)
    member.after(1_000)
    refuse(member, 0)
    settle(member)
    member.finish_all()
    settle(member)
    assert member.finished.count(0) == 1, "it was tried once"
    assert (failed(member), member.store.progress().stable) == ({}, 2)
    assert member.core.state.counters.skipped == 1


def test_a_dead_letter_goes_instead_of_the_output() -> None:
    member = member_of("dead_letter")
    work(member, A)
    member.after(1_000)
    refuse(member, 0)
    member.after(1_000)
    take(member)
    member.hear_log()
    member.fetch()
    member.after(1_000)
    (letter,) = [it for result in pending(member).results for it in result.effects]
    assert isinstance(letter, Output)
    assert letter.topic == "t.dlq"
    take(member)
    assert (failed(member), member.store.progress().stable) == ({}, 1)


def test_a_dead_letter_that_is_refused_is_parked() -> None:
    member = member_of("dead_letter")
    work(member, A)
    member.after(1_000)
    refuse(member, 0)
    member.after(1_000)
    take(member)
    member.hear_log()
    member.fetch()
    member.after(1_000)
    refuse(member, 0, "t.dlq")
    settle(member)
    assert failed(member) == {0: True}


@pytest.mark.parametrize("why", ["lost", "unassigned"])
def test_what_is_not_ours_any_more_is_not_failed(why: str) -> None:
    member = member_of("park")
    work(member, A)
    member.after(1_000)
    commit = pending(member)
    if why == "lost":
        member.tell(events.Lost("evicted"))
    else:
        member.assign()
    record = commit.results[0].record
    answer(member, events.OutputRefused(commit.token, record, "totals", LARGE))
    settle(member)
    assert failed(member) == ({} if why == "lost" else {0: True})


@pytest.mark.parametrize("on_failure", ["park", "skip"])
def test_what_comes_before_it_of_its_key_is_done_again_first(on_failure: str) -> None:
    member = member_of(on_failure)
    work(member, B)
    member.after(1_000)
    for _ in range(3):
        work(member, A)
    take(member)
    member.after(1_000)
    assert left_in(pending(member)) == ["1", "2", "3"]
    refuse(member, 2)
    settle(member)
    done = member.finish_all()
    settle(member)
    done += member.finish_all()
    settle(member)
    assert done == ([1] if on_failure == "park" else [1, 3])
    assert failed(member) == ({2: True} if on_failure == "park" else {})
    assert member.store.progress().stable == (2 if on_failure == "park" else 4)


def sent(value: bytes) -> Output:
    return Output("totals", b"k", value, size=1)


@pytest.mark.parametrize("order", ["together", "later"])
def test_a_block_is_not_split_by_a_refusal_of_another_record(order: str) -> None:
    """One tenure of the block went back to what is committed, and the other one was committed."""
    member = member_of("park")
    member.kept_back = set()
    member.assign(LOW)
    settle(member)
    member.assign(LOW, HIGH)
    settle(member)
    member.produce(A, C, D)
    member.after(1_000)
    member.start()
    member.after(1_000)
    member.kept_back = {actions.Commit}
    first, second, refused = (running(member, offset) for offset in range(3))
    assert first.tenure is not second.tenure is refused.tenure
    effects.file(refused, sent(b"refused"))
    if order == "later":
        member.finish(2)
        member.after(1_000)
    effects.file_together({first: [sent(b"one")], second: [sent(b"two")]})
    for offset in (0, 1) if order == "later" else (0, 1, 2):
        entry, record, _ = member._of(offset)
        member.core.lanes.finished.append(record)
        member.core.lanes.ended.append(entry)
    member.after(1_000)
    refuse(member, 2)
    seen: list[list[str]] = []
    for _ in range(6):
        member.after(1_000)
        if any(isinstance(it, actions.Commit) for it in member.unanswered):
            seen.append([it.value for result in pending(member).results for it in result.effects])
            take(member)
        member.hear_log()
        member.fetch()
    assert not any(seen), "both records of the block come again"
    assert member.start() == [0, 1]
