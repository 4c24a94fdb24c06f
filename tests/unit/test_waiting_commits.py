"""Commits that wait for a log partition: which go together, and who is told of a conflict."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from assignors import TopicPartition
from coop_consumer.logs.appender import APPEND_MAX_BYTES
from coop_consumer.logs.records import size_of
from coop_consumer.offset_stores import waiting
from coop_consumer.offset_stores.machine import records_of
from coop_consumer.offset_stores.waiting import CommitQueue, Unfit, WaitingCommit, unfit
from offsets import OffsetCommit, OffsetConflict, OffsetEntry, OffsetRange, OffsetTable

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
NOW = OffsetTable()
NOW.put("g", A, OffsetEntry(4))


def wants(
    offset: int | None, expected: int | None = -1, place: TopicPartition = A, group: str = "g"
) -> WaitingCommit:
    """A commit of one entry, or none; -1: it expects nothing."""
    entries = {} if offset is None else {place: OffsetEntry(offset)}
    commit = OffsetCommit(group, entries, {} if expected == -1 else {place: expected})
    return WaitingCommit(commit, records_of(commit), Future())


def conflict(place: TopicPartition, offset: int | None) -> OffsetConflict:
    return OffsetConflict("g", {place: None if offset is None else OffsetEntry(offset)})


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        ([wants(5), wants(6)], None),
        ([wants(5, 4), wants(6, 5), wants(0, None, B)], None),
        ([wants(5, 4, group="other")], Unfit({0: OffsetConflict("other", {A: None})}, 0)),
        ([wants(5, 3)], Unfit({0: conflict(A, 4)}, 0)),
        # The first is decided. The third waits: what it contradicts may not come to be.
        ([wants(5, 3), wants(6), wants(7, 5), wants(8)], Unfit({0: conflict(A, 4)}, 1)),
        # What the first expects is not there, so the second sees nothing of it.
        ([wants(6, 5), wants(7, 6), wants(9)], Unfit(dict.fromkeys((0, 1), conflict(A, 4)), 1)),
        ([wants(1, None, B), wants(None, 4), wants(2, 1, B)], None),
        ([wants(None, 3)], Unfit({0: conflict(A, 4)}, 0)),
    ],
)
def test_a_commit_sees_those_before_it_and_is_only_told_of_what_is_there(
    batch: list[WaitingCommit], found: Unfit | None
) -> None:
    assert unfit(batch, NOW.get) == found


def test_commits_are_taken_in_order_and_what_comes_back_is_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "RECORDS_MAX", 3)
    queue, commits = CommitQueue(), [wants(n) for n in range(7)]
    for one in commits:
        queue.add(one)

    assert queue.take() == commits[:3]
    queue.give_back(commits[1:3], 1)
    assert queue.take() == commits[1:2]
    assert queue.take() == commits[2:5]
    assert len(queue) == 2
    assert queue.take() == commits[5:]
    assert queue.take() == []


def test_a_commit_of_many_records_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "RECORDS_MAX", 3)
    places = [TopicPartition("orders", number) for number in range(5)]
    commit = OffsetCommit("g", dict.fromkeys(places, OffsetEntry(1)), {})
    large = WaitingCommit(commit, records_of(commit), Future())
    queue = CommitQueue()
    for one in (small := wants(1), large, other := wants(2)):
        queue.add(one)

    assert [queue.take() for _ in range(3)] == [[small], [large], [other]]


def test_large_commits_go_in_appends_of_bounded_size() -> None:
    """Together they would be above what a log takes, and all callers would be refused."""
    gaps = tuple(OffsetRange(at, at) for at in range(2**40, 2**40 + 2**21, 2**8))
    places = [TopicPartition("orders", number) for number in range(100)]
    commit = OffsetCommit("g", dict.fromkeys(places, OffsetEntry(1, "m" * 4_096, gaps)), {})
    size = sum(map(size_of, records := records_of(commit)))
    assert waiting.BYTES_MAX / 2 < size < waiting.BYTES_MAX
    large = [WaitingCommit(commit, records, Future()) for _ in range(3)]
    queue = CommitQueue()
    for one in (*large, small := wants(1), huge := WaitingCommit(commit, records * 5, Future())):
        queue.add(one)

    batches = [queue.take() for _ in range(4)]
    assert batches == [large[:1], large[1:2], [large[2], small], [huge]]
    assert waiting.BYTES_MAX <= APPEND_MAX_BYTES


def test_whoever_has_cancelled_is_left_out() -> None:
    queue, gone, stays = CommitQueue(), wants(1), wants(2)
    queue.add(gone)
    queue.add(stays)
    gone.answer.cancel()

    assert queue.take() == [stays]
    assert not stays.answer.cancel(), "it is under way"
