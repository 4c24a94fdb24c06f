"""A stream's offsets in its checkpoint, and how a limit is shared out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors import TopicPartition
from streams_adapter.source.errors import CheckpointMismatchError
from streams_adapter.source.progress import StreamReached, TopicReached, shared_out

REACHED = StreamReached(
    {"b": TopicReached("00ff", {1: 7, 0: 5}, 4), "a": TopicReached("01", {0: 0})}
)


def test_a_checkpoint_tells_what_was_written() -> None:
    said = json.loads(json.dumps(REACHED.as_json()))
    assert StreamReached.from_json(said) == REACHED
    assert StreamReached.from_json(said).offset(TopicPartition("b", 1)) == 7
    assert StreamReached.from_json(said).offset(TopicPartition("b", 2)) is None


def test_a_first_batch_tells_where_it_began() -> None:
    first = StreamReached(REACHED.topics, {"a": TopicReached("01", {0: 0})})
    assert StreamReached.from_json(json.loads(json.dumps(first.as_json()))) == first
    assert first.before(REACHED) == StreamReached(first.began or {})
    assert first.before(first) == first
    assert REACHED.before(first) == first


def test_equal_progress_is_equal_text() -> None:
    again = StreamReached(
        {"a": TopicReached("01", {0: 0}), "b": TopicReached("00ff", {0: 5, 1: 7}, 4)}
    )
    assert json.dumps(again.as_json()) == json.dumps(REACHED.as_json())


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"orders": {"0": 5}}, "was not made by a query on this source"),
        ({"version": 1, "topics": {}, "began": 5}, "was not made by a query on this source"),
        ({"version": 1, "topics": {"a": 5}}, "was not made by a query on this source"),
        ({"version": 2, "topics": {}}, "is of version 2, this library knows 1"),
    ],
)
def test_what_another_wrote_is_refused(said: dict[str, object], text: str) -> None:
    with pytest.raises(CheckpointMismatchError, match=text):
        StreamReached.from_json(said)


@given(
    pending=st.dictionaries(
        st.builds(TopicPartition, st.just("t"), st.integers(0, 20)), st.integers(0, 10_000)
    ),
    limit=st.integers(1, 20_000),
)
def test_a_limit_is_used_up_and_never_passed(
    pending: dict[TopicPartition, int], limit: int
) -> None:
    taken = shared_out(pending, limit)
    assert taken.keys() == pending.keys()
    assert all(0 <= taken[tp] <= pending[tp] for tp in pending)
    assert sum(taken.values()) == min(limit, sum(pending.values()))


def test_who_has_little_is_not_left_out() -> None:
    many, few = TopicPartition("t", 0), TopicPartition("t", 1)
    assert shared_out({many: 10_000, few: 1}, 100) == {many: 99, few: 1}
