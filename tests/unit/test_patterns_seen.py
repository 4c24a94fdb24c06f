"""Origins in headers, the bits that are kept of them, and copies of messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from assignors import TopicPartition
from coop_consumer.patterns.cleaning import _gathered
from coop_consumer.patterns.messages import time_ms_of
from coop_consumer.patterns.seen import IDENTITY, Seen, identity_of, with_source


@pytest.mark.parametrize(
    ("kind", "time_ms", "written_ms"),
    [(1, 5, 5), (2, 5, 5), (1, 0, 1), (1, -1, -1), (1, 2**63 - 1, 2**63 - 1), (0, 0, -1)],
)
def test_a_copy_has_the_time_of_its_origin_and_never_that_of_the_copying(
    kind: int, time_ms: int, written_ms: int
) -> None:
    """A producer takes 0 for now, and -1 for none."""
    message = SimpleNamespace(timestamp=lambda: (kind, time_ms))
    assert time_ms_of(message) == written_ms


@given(some.lists(some.tuples(some.integers(0, 3), some.integers(0, 2**40))))
def test_seen_is_a_set_of_places(places: list[tuple[int, int]]) -> None:
    seen, model = Seen(), set[tuple[int, int]]()
    for origin, offset in places:
        is_new = (origin, offset) not in model
        assert seen.add((str(origin).encode(),), offset) == is_new
        model.add((origin, offset))


def test_an_identity_is_read_from_headers() -> None:
    headers = [("a", b"x"), ("source.partition", b"0"), ("source.offset", b"7")]
    assert identity_of(headers, IDENTITY) == ((b"0",), 7)
    assert identity_of([*headers, ("source.offset", b"8")], IDENTITY) == ((b"0",), 8)
    assert identity_of(headers[:2], IDENTITY) is None
    assert identity_of([*headers, ("source.offset", None)], IDENTITY) is None
    assert identity_of(headers, ("source.partition", "a", "source.offset")) == ((b"0", b"x"), 7)
    with pytest.raises(ValueError, match="no offset in digits"):
        identity_of([("source.partition", b"0"), ("source.offset", b"-7")], IDENTITY)


def test_small_slices_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coop_consumer.patterns.cleaning.TRANSACTION_RECORDS", 3)
    slices: list[tuple[list[Any], int]] = [([1], 1), ([2, 3], 4), ([], 5), ([4], 6), ([], 9)]
    assert list(_gathered(iter(slices))) == [([1, 2, 3], 4), ([4], 9)]
    assert list(_gathered(iter([]))) == []


def test_a_source_in_headers_is_read_again_and_replaces_the_one_before() -> None:
    first = with_source([("unit", b"EUR")], TopicPartition("orders", 3), 41)
    second = with_source(first, TopicPartition("totals", 0), 7)
    assert identity_of(first, IDENTITY) == ((b"3",), 41)
    assert identity_of(second, IDENTITY) == ((b"0",), 7)
    assert second[0] == ("unit", b"EUR")
    assert len(second) == 3
