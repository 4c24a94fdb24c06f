"""Offsets are committed by one request at a time, each with all that was asked for before."""

from __future__ import annotations

from collections.abc import Mapping

from assignors import TopicPartition
from coop_consumer.core.actions import CommitOffsets
from coop_consumer.errors import CoopConsumerError, MemberLostError, Told
from coop_consumer.member.offset_commits import OffsetCommits
from offsets import Committed

A, B, C = (TopicPartition("t", number) for number in range(3))
LOST = MemberLostError("g", "m", "a test")


def commit(token: int, *partitions: TopicPartition, generation: int = 7) -> CommitOffsets:
    return CommitOffsets({tp: Committed(token) for tp in partitions}, generation, token)


class Coordinator:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[dict[TopicPartition, int], int]] = []
        self.told: list[tuple[int, CoopConsumerError | None]] = []
        self.answers: list[Told] = []
        self.commits = OffsetCommits(
            self.commit, lambda asked, error: self.told.append((asked.token, error))
        )

    def commit(
        self, offsets: Mapping[TopicPartition, Committed], generation: int, done: Told
    ) -> None:
        self.asked.append(({tp: it.offset for tp, it in offsets.items()}, generation))
        self.answers.append(done)

    def answer(self, error: CoopConsumerError | None = None) -> None:
        self.answers.pop(0)(error)


def test_what_is_committed_while_an_answer_is_awaited_is_one_request() -> None:
    it = Coordinator()
    it.commits.add(commit(1, A))
    it.commits.add(commit(2, B))
    it.commits.add(commit(3, C))
    assert it.asked == [({A: 1}, 7)]
    it.answer()
    assert it.asked[1:] == [({B: 2, C: 3}, 7)]
    it.answer()
    assert it.told == [(1, None), (2, None), (3, None)]
    it.commits.add(commit(4, A))
    assert it.asked[2:] == [({A: 4}, 7)]


def test_what_belongs_to_another_generation_goes_by_itself() -> None:
    it = Coordinator()
    it.commits.add(commit(1, A))
    it.commits.add(commit(2, B))
    it.commits.add(commit(3, A, generation=8))
    it.answer()
    it.answer()
    assert it.asked == [({A: 1}, 7), ({B: 2}, 7), ({A: 3}, 8)]


def test_what_one_of_them_lacks_fails_no_other() -> None:
    it = Coordinator()
    for token, tp in enumerate((A, B, C), 1):
        it.commits.add(commit(token, tp))
    it.answer()
    it.answer(LOST)
    assert it.asked[2:] == [({B: 2}, 7), ({C: 3}, 7)]
    it.answer()
    it.answer(LOST)
    assert it.told == [(1, None), (2, None), (3, LOST)]


def test_an_answer_that_is_there_at_once_is_told_at_once() -> None:
    told: list[int] = []
    commits = OffsetCommits(lambda *asked: asked[-1](LOST), lambda it, _: told.append(it.token))
    commits.add(commit(1, A))
    commits.add(commit(2, B))
    assert told == [1, 2]
