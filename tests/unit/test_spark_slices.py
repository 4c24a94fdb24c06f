"""What a partition has left, cut into slices; what a finished plan tells. No broker, no Spark."""

from __future__ import annotations

import pickle
from itertools import pairwise

import pytest

from assignors import KEY_HASH_MAX, WHOLE, KeyRange, TopicPartition, union
from coop_consumer import Config
from coop_consumer.admin.planned import Measured, Pending, measured, pending, sample_places
from coop_consumer.errors import DataLossError, MisuseError
from coop_consumer.status.history import done_within, history_of, rectangle, told_at_once
from coop_consumer.status.seen import PartitionSeen
from offsets import (
    Attempt,
    Committed,
    OffsetRange,
    PartitionProgress,
    RangeProgress,
    TenureId,
    TenureRecord,
)
from streams_adapter.cutting import (
    RANGES_MAX,
    checked_ranges,
    checked_until,
    cut,
    records_left,
    shares,
    weight,
)
from streams_adapter.planned import sliced
from tests.support.written_log import ORDERS, TOPIC_ID, WrittenLog, facts

LOW, HIGH = WHOLE.parts(2)
QUARTERS = WHOLE.parts(4)
HUNDRED = OffsetRange(0, 99)
MEMBER = TenureId("m", 1, 1)
CONFIG = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g"})


def seen(
    log: WrittenLog, committed: Committed | None = None, *, begin: int = 0, end: int = 100
) -> PartitionSeen:
    return PartitionSeen(ORDERS, TOPIC_ID, begin, end, committed, log.store.partition(TOPIC_ID, 0))


def left(progress: PartitionProgress, offsets: OffsetRange = HUNDRED) -> Pending:
    return Pending(ORDERS, TOPIC_ID, 1, 0, progress.clip(WHOLE), offsets)


def progress_of(*told: RangeProgress) -> PartitionProgress:
    progress = PartitionProgress()
    for fact in told:
        progress.merge(fact)
    return progress


# -- cutting ---------------------------------------------------------------------------------------


def test_what_nobody_has_begun_is_cut_as_assignors_cut_it() -> None:
    assert cut([RangeProgress(WHOLE, 0)], HUNDRED, 5) == list(WHOLE.parts(5))
    assert cut([RangeProgress(WHOLE, 0)], HUNDRED, 1) == [WHOLE]


def test_what_is_done_to_the_end_is_in_no_slice() -> None:
    pieces = progress_of(facts(QUARTERS[1], 100), facts(QUARTERS[3], 100)).clip(WHOLE)
    assert cut(pieces, HUNDRED, 2) == [QUARTERS[0], QUARTERS[2]]
    four = cut(pieces, HUNDRED, 4)
    assert len(four) == 4
    assert not any(part.overlaps(done) for part in four for done in QUARTERS[1::2])


@pytest.mark.parametrize("at", [0, 12_345, KEY_HASH_MAX // 2, KEY_HASH_MAX])
def test_a_heavy_hash_is_a_slice_with_little_beside_it(at: int) -> None:
    heavy = {at: 0.6}
    parts = cut([RangeProgress(WHOLE, 0)], HUNDRED, 10, heavy)
    pieces = [[RangeProgress(part, 0)] for part in parts]
    counts = [records_left(piece, HUNDRED, heavy) for piece in pieces]
    assert sum(counts) == pytest.approx(100)
    [hot] = [count for part, count in zip(parts, counts, strict=True) if at in part]
    assert 60 <= hot < 80
    assert all(count < 10.5 for count in counts if count != hot)
    assert union(parts) == (WHOLE,)


def test_two_heavy_hashes_side_by_side_and_one_in_what_is_done_are_cut_as_well() -> None:
    pieces = progress_of(facts(QUARTERS[1], 100)).clip(WHOLE)
    heavy = {7: 0.3, 8: 0.3, QUARTERS[1].lo: 0.2}
    parts = cut(pieces, HUNDRED, 4, heavy)
    assert [part.hi for part in parts] == [7, 8, KEY_HASH_MAX]


def test_samples_tell_heavy_hashes_and_eight_records_are_no_chance() -> None:
    assert measured(10, [(1, 10), (None, 30)] * 4) == Measured(16.0)
    assert measured(10, [(1, 10), (None, 30)] * 8).heavy == {1: 0.25}
    assert measured(900, [(n, 10) for n in range(1, 900)]).heavy == {}
    assert measured(10, []) == Measured(0.0)


def test_nothing_left_makes_no_slice() -> None:
    assert cut([RangeProgress(WHOLE, 100)], HUNDRED, 4) == []


def test_slices_have_about_as_much_left_each() -> None:
    pieces = progress_of(facts(LOW, 80)).clip(WHOLE)  # 20 offsets left of one half, 100 of another
    parts = cut(pieces, HUNDRED, 6)
    assert len(parts) == 6
    weights = [
        records_left(
            [
                RangeProgress(common, piece.stable, piece.gaps)
                for piece in pieces
                if (common := piece.range.intersection(part))
            ],
            HUNDRED,
        )
        for part in parts
    ]
    assert weights == pytest.approx([10] * 6)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50])
def test_slices_are_disjoint_and_leave_nothing_out(count: int) -> None:
    pieces = progress_of(
        facts(QUARTERS[0], 30, (40, 99)), facts(QUARTERS[2], 100), facts(KeyRange(5, 5), 100)
    ).clip(WHOLE)
    parts = cut(pieces, HUNDRED, count)
    assert 1 <= len(parts) <= count
    assert all(one.hi < other.lo for one, other in pairwise(parts))
    for piece in pieces:
        if weight(piece, HUNDRED):
            covered = sum(c.size for p in parts if (c := p.intersection(piece.range)))
            assert covered == piece.range.size


def test_fewer_hashes_than_slices_make_fewer_slices() -> None:
    pieces = progress_of(facts(KeyRange(3, KEY_HASH_MAX), 100)).clip(WHOLE)
    assert cut(pieces, HUNDRED, 9) == [KeyRange(0, 0), KeyRange(1, 2)]


def test_records_that_a_range_has_seen_count_one_by_one() -> None:
    piece = facts(LOW, 40, (42, 79))  # 40 and 41 are its own; of 80 to 99, half
    assert records_left([piece], HUNDRED) == 12
    assert records_left([piece], OffsetRange(41, 79)) == 1


def test_bytes_decide_how_many_slices_a_partition_gets() -> None:
    assert shares({"a": 9e6, "b": 1e6, "c": 0}, {"a": 900, "b": 100, "c": 5}, 20) == {
        "a": 18,
        "b": 2,
        "c": 1,
    }
    assert shares({"a": 9e6}, {"a": 3}, 20) == {"a": 3}
    assert shares({"a": 0.0}, {"a": 3}, 20) == {"a": 1}


# -- slices ----------------------------------------------------------------------------------------


def test_a_slice_knows_what_of_it_is_done_and_nothing_else() -> None:
    progress = progress_of(facts(LOW, 20, (30, 39)), facts(HIGH, 50))
    pendings = [left(progress, OffsetRange(20, 34))]
    [only] = sliced(CONFIG, pendings, {ORDERS: Measured(10.0)}, ranges=1, wanted=9)
    assert only.key_range == LOW
    assert only.done == (facts(LOW, 0, (30, 34)),)


def test_the_largest_slice_comes_first_and_numbers_follow() -> None:
    small, large = TopicPartition("orders", 0), TopicPartition("orders", 1)
    pendings = [
        Pending(tp, TOPIC_ID, 1, 0, (RangeProgress(WHOLE, 0),), HUNDRED) for tp in (small, large)
    ]
    slices = sliced(
        CONFIG, pendings, {small: Measured(10.0), large: Measured(30.0)}, ranges=None, wanted=4
    )
    assert [(piece.number, piece.partition, piece.bytes) for piece in slices] == [
        (0, 0, 1_000),
        (1, 1, 1_000),
        (2, 1, 1_000),
        (3, 1, 1_000),
    ]


def test_a_heavy_key_of_the_samples_is_a_slice_with_little_beside_it() -> None:
    heavy = {HIGH.lo: 0.6}
    sizes = {ORDERS: Measured(10.0, heavy)}
    slices = sliced(CONFIG, [left(PartitionProgress())], sizes, ranges=None, wanted=10)
    first, *others = slices
    assert HIGH.lo in first.key_range
    assert 600 <= first.bytes < 800
    assert [piece.bytes for piece in others] == pytest.approx([100] * 4, abs=5)
    assert union(piece.key_range for piece in slices) == (WHOLE,)


def test_what_must_not_be_shared_is_one_slice() -> None:
    whole = Pending(
        ORDERS, TOPIC_ID, 1, 0, (RangeProgress(WHOLE, 0),), HUNDRED, whole_because="policy"
    )
    [only] = sliced(CONFIG, [whole], {ORDERS: Measured(10.0)}, ranges=None, wanted=8)
    assert only.key_range == WHOLE


def test_a_slice_travels_and_shows_no_secret() -> None:
    secret = Config.from_dict(
        {
            "bootstrap.servers": "b:9092",
            "group.id": "g",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "u",
            "sasl.password": "hidden",
        }
    )
    [piece] = sliced(
        secret, [left(PartitionProgress())], {ORDERS: Measured(1.0)}, ranges=1, wanted=1
    )
    arrived = pickle.loads(pickle.dumps(piece))  # noqa: S301 - our own bytes
    assert arrived == piece
    assert arrived.config == secret
    assert "hidden" not in repr(piece)
    assert str(piece) == f"orders-0 keys {WHOLE} offsets [0-99]"


# -- arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranges", [0, -1, RANGES_MAX + 1, True, 2.0, "4"])
def test_a_number_of_ranges_that_is_none_is_refused(ranges: object) -> None:
    with pytest.raises(MisuseError, match="whole number from 1 to"):
        checked_ranges(ranges)  # type: ignore[arg-type]


def test_an_end_has_two_forms() -> None:
    assert checked_until({"orders": {0: 5}}) == checked_until({ORDERS: 5}) == {ORDERS: 5}
    assert checked_until(None) == {}
    for wrong in ({"orders": 5}, {ORDERS: "5"}, {"orders": {"0": 5}}, {3: 5}):
        with pytest.raises(MisuseError, match="until has"):
            checked_until(wrong)  # type: ignore[arg-type]


# -- where a group stands --------------------------------------------------------------------------


def test_without_any_history_the_first_epoch_begins_where_it_is_told_to() -> None:
    history = history_of(seen(WrittenLog()), 7)
    assert (history.epoch, history.base, history.progress.stable) == (1, 7, 7)
    assert (history.is_based, history.is_tagged) == (False, False)


def test_tag_and_log_agree() -> None:
    log = WrittenLog().base(1, 40).tenure(MEMBER, TenureRecord(1, -1, (facts(LOW, 60),)))
    history = history_of(seen(log, Committed.mirror(45, 1, TOPIC_ID)), 0)
    assert (history.epoch, history.base, history.is_tagged) == (1, 40, True)
    assert [fact.stable for fact in history.progress.clip(WHOLE)] == [60, 45]


def test_an_offset_of_somebody_else_begins_the_next_epoch() -> None:
    log = WrittenLog().base(1, 40).tenure(MEMBER, TenureRecord(1, -1, (facts(LOW, 60),)))
    history = history_of(seen(log, Committed(10, "theirs")), 0)
    assert (history.epoch, history.base, history.progress.next_offset) == (2, 10, 10)
    assert not history.is_based


def test_a_reset_that_lacks_its_tag_is_honoured() -> None:
    log = WrittenLog().base(1, 40).base(2, 5)
    history = history_of(seen(log, Committed.mirror(50, 1, TOPIC_ID)), 0)
    assert (history.epoch, history.progress.stable) == (2, 5)
    assert (history.is_based, history.is_tagged) == (True, False)


def test_an_epoch_that_the_log_has_lost_begins_again_at_the_committed_offset() -> None:
    history = history_of(seen(WrittenLog(), Committed.mirror(50, 3, TOPIC_ID)), 0)
    assert (history.epoch, history.base) == (4, 50)


def test_what_is_left_begins_at_the_stable_offset_and_ends_where_it_is_told_to() -> None:
    partition = seen(WrittenLog().base(1, 40), Committed.mirror(40, 1, TOPIC_ID))
    history = history_of(partition, 0)
    assert pending(partition, history, 70).offsets == OffsetRange(40, 69)
    assert pending(partition, history, 40).offsets is None
    assert pending(partition, history, 10).offsets is None


def test_a_partition_that_ends_below_what_is_done_was_cut_off() -> None:
    partition = seen(WrittenLog().base(1, 40), Committed.mirror(40, 1, TOPIC_ID), end=30)
    with pytest.raises(DataLossError, match=r"\[30-39\]"):
        pending(partition, history_of(partition, 0), 30)


def test_samples_are_few_and_inside() -> None:
    offsets = OffsetRange(5, 1_000_004)
    places = sample_places(offsets, 3)
    assert [place.size for place in places] == [200] * 3
    assert (places[0].first, places[-1].last) == (5, 1_000_004)
    assert sample_places(OffsetRange(5, 9), 3) == [OffsetRange(5, 9)]
    assert sample_places(offsets, 1)[0].first == 5


# -- what a plan tells -----------------------------------------------------------------------------


def test_what_is_told_is_true_of_no_other_offset() -> None:
    assert rectangle(LOW, OffsetRange(5, 9)) == facts(LOW, 0, (5, 9))
    assert rectangle(LOW, OffsetRange(0, 9)) == facts(LOW, 10)
    assert done_within(facts(LOW, 7, (9, 20)), OffsetRange(5, 9)) == facts(LOW, 0, (5, 6), (9, 9))
    assert done_within(facts(LOW, 0), OffsetRange(5, 9)) == facts(LOW, 0)


def test_a_plan_tells_what_it_inherits_so_that_older_records_may_go() -> None:
    log = WrittenLog().base(1, 40)
    log.tenure(MEMBER, TenureRecord(1, -1, (facts(LOW, 40, (50, 60)),), released=(LOW,)))
    partition = seen(log, Committed.mirror(40, 1, TOPIC_ID))
    history = history_of(partition, 0)
    record = told_at_once(partition, history, [rectangle(LOW, OffsetRange(40, 48))], 3)
    assert record is not None
    assert record.facts == (facts(LOW, 49, (50, 60)),)
    assert (record.released, record.leader_epoch, record.epoch) == ((LOW,), 3, 1)
    plan_id = TenureId("spark-plan", 9, 1)
    log.tenure(plan_id, record)
    partition_store = log.store.partition(TOPIC_ID, 0)
    assert [key.tenure for key in partition_store.superseded((), 10)] == [MEMBER]  # type: ignore[union-attr]
    assert told_at_once(partition, history_of(partition, 0), record.facts, 3) is None


def test_a_plan_keeps_failures_that_it_did_not_get_to() -> None:
    failed = tuple(Attempt(at, 5, 2, True, "no", 0) for at in (45, 70))
    log = WrittenLog().base(1, 40)
    log.tenure(
        MEMBER,
        TenureRecord(1, -1, (facts(WHOLE, 40, (46, 69)),), released=(WHOLE,), attempts=failed),
    )
    partition = seen(log, Committed.mirror(40, 1, TOPIC_ID))
    told = [rectangle(WHOLE, OffsetRange(40, 60))]
    record = told_at_once(partition, history_of(partition, 0), told, -1)
    assert record is not None
    assert record.attempts == failed[1:]
