"""A read that an undecided transaction holds up: who is to be fenced."""

from __future__ import annotations

from coop_consumer.core.blocked_read import WAIT_MS, BlockedRead, RunId, to_fence, writers
from offsets import AnnounceKey, TenureId, TenureKey, encode_key

PLACE = ("billing", b"topic-id-of-t---", 0)
DEAD, LIVING = RunId("m1", 7), RunId("m2", 8)


def test_an_end_is_waited_for_as_long_as_the_stable_offset_moves() -> None:
    read = BlockedRead()
    assert not read.looked(5, now_ms=0)
    assert not read.looked(5, WAIT_MS - 1)
    assert read.looked(5, WAIT_MS) == WAIT_MS
    assert not read.looked(5, WAIT_MS + 1), "somebody has just looked"
    assert read.looked(5, 2 * WAIT_MS) == 2 * WAIT_MS
    assert not read.looked(6, 2 * WAIT_MS + 1)
    assert not read.looked(6, 3 * WAIT_MS)
    assert read.looked(6, 3 * WAIT_MS + 1) == WAIT_MS


def test_keys_name_the_runs_whose_transactions_are_undecided() -> None:
    keys = [
        encode_key(TenureKey(*PLACE, TenureId("m1", 7, 1))),
        encode_key(TenureKey(*PLACE, TenureId("m1", 7, 2))),
        encode_key(TenureKey(*PLACE, TenureId("m2", 8, 1))),
        encode_key(AnnounceKey("billing", "m3")),
        b"a stranger's",
    ]
    assert writers(keys) == {DEAD, LIVING}


def test_who_is_in_the_group_decides_its_transaction_itself() -> None:
    assert to_fence({DEAD, LIVING}, {LIVING}) == [DEAD]
    assert to_fence({RunId("m1", 6), DEAD}, {DEAD}) == [RunId("m1", 6)], (
        "an earlier run of its name"
    )


def test_nobody_is_fenced_while_the_group_is_not_stable() -> None:
    assert to_fence({DEAD, LIVING}, None) == []
