"""Committed offsets are read by one request at a time, each for all that was asked for before."""

from __future__ import annotations

from concurrent.futures import Future

from assignors import TopicPartition
from coop_consumer.member.committed_reads import CommittedReads, Found

A, B, C = (TopicPartition("t", number) for number in range(3))
NOTHING: Found = {}


class Coordinator:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[TopicPartition], Future[Found]]] = []
        self.told: list[list[TopicPartition]] = []
        self.now_s = 0.0
        self.reads = CommittedReads(self.read, self.heard, lambda: self.now_s)

    def read(self, partitions: list[TopicPartition]) -> Future[Found]:
        answer: Future[Found] = Future()
        self.asked.append((partitions, answer))
        return answer

    def heard(self, partitions: list[TopicPartition], done: Future[Found]) -> None:
        done.result()
        self.told.append(partitions)

    @property
    def partitions(self) -> list[list[TopicPartition]]:
        return [partitions for partitions, _ in self.asked]

    def answer(self) -> None:
        self.asked[-1][1].set_result(NOTHING)


def test_what_is_asked_for_while_an_answer_is_awaited_is_one_request() -> None:
    it = Coordinator()
    it.reads.ask([A])
    it.reads.ask([B])
    it.reads.ask([C, B])
    assert it.partitions == [[A]]
    it.answer()
    assert it.partitions == [[A], [B, C]]
    it.answer()
    assert it.told == [[A], [B, C]]
    assert len(it.asked) == 2


def test_what_is_asked_for_again_is_read_again_as_the_answer_under_way_is_older() -> None:
    it = Coordinator()
    it.reads.ask([A])
    it.reads.ask([A])
    it.answer()
    assert it.partitions == [[A], [A]]


def test_after_a_failure_the_next_ones_are_read() -> None:
    it = Coordinator()
    it.reads.ask([A])
    it.reads.ask([B])
    it.asked[-1][1].set_exception(OSError("away"))
    assert it.partitions == [[A], [B]]
    it.answer()
    it.reads.ask([C])
    assert it.partitions == [[A], [B], [C]]
    assert it.told == [[B]]


def test_an_answer_that_is_there_at_once_asks_no_more() -> None:
    done: Future[Found] = Future()
    done.set_result(NOTHING)
    told: list[list[TopicPartition]] = []
    reads = CommittedReads(lambda _: done, lambda partitions, _: told.append(partitions))
    reads.ask([A, B])
    reads.ask([C])
    assert told == [[A, B], [C]]


def test_a_topic_that_cannot_be_read_fails_no_other() -> None:
    it = Coordinator()
    other = TopicPartition("u", 0)
    it.reads.ask([A, other, B])
    it.asked[-1][1].set_exception(OSError("no right"))
    assert it.partitions == [[A, other, B], [A, B], [other]]
    for _, answer in it.asked[1:]:
        answer.set_result(NOTHING)
    assert it.told == [[A, B], [other]]
    it.reads.ask([C])
    assert it.partitions[3:] == [[C]]


def test_an_answer_that_does_not_come_holds_up_nothing_for_long() -> None:
    it = Coordinator()
    it.reads.ask([A])
    it.now_s += 29
    it.reads.ask([B])
    assert it.partitions == [[A]]
    it.now_s += 1
    it.reads.ask([A])
    assert it.partitions == [[A], [B, A]]
    it.reads.ask([C])
    it.asked[0][1].set_result(NOTHING)  # late: the next one has been asked for meanwhile
    assert it.partitions == [[A], [B, A]]
    it.answer()
    assert it.partitions == [[A], [B, A], [C]]
