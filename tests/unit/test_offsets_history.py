"""What committed offset and log mean together."""

from __future__ import annotations

import pytest

from assignors import WHOLE
from offsets import (
    Committed,
    Meaning,
    Tag,
    TenureId,
    TenureRecord,
    newest_epoch,
    of_topic,
    range_progress,
)
from tests.support.written_log import TOPIC_ID, WrittenLog

M1 = TenureId("m1", 1, 1)


def tenure(epoch: int) -> TenureRecord:
    return TenureRecord(epoch, -1, (range_progress(WHOLE, 50, ()),))


BASED = [(1, 40)]


def retired(offset: int, log_end: int, tag: Tag = Tag.AT_LEAST_ONCE) -> Committed:
    return Committed.retired(offset, 1, TOPIC_ID, tag, log_end)


@pytest.mark.parametrize(
    ("bases", "tenures", "committed", "newest"),
    [
        ([], [], None, (Meaning.NEW, 1, None)),
        ([], [], Committed(7), (Meaning.DECIDED, 1, 7)),
        ([], [], Committed.mirror(7, 3, TOPIC_ID), (Meaning.LOST, 4, 7)),
        ([], [2], None, (Meaning.NEW, 3, None)),
        (BASED, [], None, (Meaning.UNTAGGED, 1, 40)),
        (BASED, [1], None, (Meaning.UNTAGGED, 1, 40)),
        (BASED, [], Committed(40, "theirs"), (Meaning.UNTAGGED, 1, 40)),
        (BASED, [], Committed(41, "theirs"), (Meaning.DECIDED, 2, 41)),
        (BASED, [1], Committed(40, "theirs"), (Meaning.DECIDED, 2, 40)),
        (BASED, [2], Committed(41, "theirs"), (Meaning.DECIDED, 3, 41)),
        (BASED, [1], Committed.mirror(50, 1, TOPIC_ID), (Meaning.AGREED, 1, 40)),
        (BASED, [1], Committed.mirror(50, 2, TOPIC_ID), (Meaning.LOST, 3, 50)),
        (BASED, [], Committed.mirror(40, 1, TOPIC_ID), (Meaning.AGREED, 1, 40)),
        # Its first base was lost, and another try of its writer, which came late, is left.
        (BASED, [], Committed.mirror(39, 1, TOPIC_ID), (Meaning.LOST, 2, 39)),
        ([*BASED, (2, 9)], [1], Committed.mirror(50, 1, TOPIC_ID), (Meaning.UNTAGGED, 2, 9)),
        ([*BASED, (2, 9)], [1], Committed(9), (Meaning.UNTAGGED, 2, 9)),
        # A retirement ends the epoch that was read, also one that nobody used,
        (BASED, [1], retired(50, 2), (Meaning.DECIDED, 2, 50)),
        (BASED, [], retired(40, 1), (Meaning.DECIDED, 2, 40)),
        # whatever tombstones have removed meanwhile,
        ([], [1], retired(50, 2), (Meaning.DECIDED, 2, 50)),
        ([], [], retired(50, 2), (Meaning.DECIDED, 1, 50)),
        # but it is void if the log has more, or is that of another guarantee.
        (BASED, [1], retired(45, 1), (Meaning.UNTAGGED, 1, 40)),
        ([*BASED, (2, 9)], [1], retired(45, 1), (Meaning.UNTAGGED, 2, 9)),
        (BASED, [1], retired(50, 2, Tag.EXACTLY_ONCE), (Meaning.UNTAGGED, 1, 40)),
        ([], [], retired(50, 2, Tag.EXACTLY_ONCE), (Meaning.DECIDED, 1, 50)),
    ],
)
def test_one_rule_says_which_epoch_counts(
    bases: list[tuple[int, int]],
    tenures: list[int],
    committed: Committed | None,
    newest: tuple[Meaning, int, int | None],
) -> None:
    log = WrittenLog()
    for epoch, offset in bases:
        log.base(epoch, offset)
    for epoch in tenures:
        log.tenure(M1, tenure(epoch))
    store = log.store.partition(TOPIC_ID, 0)
    assert newest_epoch(store, committed) == newest
    following = newest_epoch(store, committed, known=9)
    assert following.epoch == (newest[1] if following.is_begun else 10)


def test_a_retirement_speaks_of_the_topic_that_it_names_and_is_no_tag() -> None:
    found = retired(7, 812)
    assert found.tagged == (None, 0)
    assert of_topic(found, TOPIC_ID) is found
    assert of_topic(found, b"made again under") is None


@pytest.mark.parametrize(
    "metadata",
    [
        "coop-retired",
        "coop-retired:coop:1:00",
        "coop-retired:other:1:5:00",
        "coop-retired:coop:x:5:00",
    ],
)
def test_what_only_looks_like_a_retirement_is_somebodys_decision(metadata: str) -> None:
    assert Committed(7, metadata).retirement is None
