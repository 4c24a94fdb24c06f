"""The worked examples of individual commits, and facts about key ranges."""

import pickle

import pytest

from assignors.key_range import WHOLE, KeyRange
from offsets import OffsetRange, PartitionProgress, RangeProgress, melted, range_progress
from offsets.offset_range import complement, contains, covers, offset_ranges, subtract, union

LOW, HIGH = WHOLE.parts(2)


def ranges(text: str) -> tuple[OffsetRange, ...]:
    """The offset ranges of a text such as "[45-47],[50-50]"."""
    pairs = [part.strip("[]").split("-") for part in text.split(",") if part]
    return tuple(OffsetRange(int(first), int(last)) for first, last in pairs)


class TestOffsetRange:
    def test_prints_as_the_kip_prints_it(self) -> None:
        assert str(OffsetRange(45, 47)) == "[45-47]"

    def test_both_ends_belong_to_it(self) -> None:
        offsets = OffsetRange(45, 47)
        assert [o for o in range(44, 49) if o in offsets] == [45, 46, 47]
        assert offsets.size == 3

    @pytest.mark.parametrize(("first", "last"), [(-1, 3), (5, 4), (0, 2**63)])
    def test_bounds_out_of_order_are_refused(self, first: int, last: int) -> None:
        with pytest.raises(ValueError, match="is no offset range"):
            OffsetRange(first, last)

    def test_is_a_value_that_crosses_processes(self) -> None:
        offsets = OffsetRange(45, 47)
        assert pickle.loads(pickle.dumps(offsets)) == offsets  # noqa: S301 -- own bytes
        assert type(offset_ranges([1], [2])[0]) is OffsetRange
        with pytest.raises(AttributeError):
            offsets.first = 3  # type: ignore[misc]


class TestOffsetSets:
    def test_union_joins_what_overlaps_or_touches(self) -> None:
        assert union(ranges("[48-49],[45-47],[52-52],[46-46]")) == ranges("[45-49],[52-52]")

    def test_subtract_lets_a_range_reach_over_several(self) -> None:
        rest = subtract(ranges("[1-3],[5-7],[9-9]"), ranges("[2-5],[7-9]"))
        assert rest == ranges("[1-1],[6-6]")

    def test_complement_is_what_is_missing(self) -> None:
        assert complement(ranges("[45-47]"), OffsetRange(43, 50)) == ranges("[43-44],[48-50]")

    def test_contains_and_covers_look_at_both_ends(self) -> None:
        done = ranges("[45-47],[50-50]")
        assert [o for o in range(44, 52) if contains(done, o)] == [45, 46, 47, 50]
        assert covers(done, ranges("[46-47],[50-50]"))
        assert not covers(done, ranges("[46-48]"))
        assert not covers(done, ranges("[50-51]"))


class TestIndividualCommit:
    """A commit of some offsets is one more fact."""

    BEFORE = RangeProgress(WHOLE, 43, ranges("[45-47],[50-50]"))

    def committed(self, new: str) -> RangeProgress:
        progress = PartitionProgress()
        progress.merge(self.BEFORE)
        progress.merge(range_progress(WHOLE, 0, ranges(new)))
        (piece,) = progress.clip(WHOLE)
        return piece

    def test_between_two_gap_ranges_makes_one_of_three(self) -> None:
        assert self.committed("[48-49]") == RangeProgress(WHOLE, 43, ranges("[45-50]"))

    def test_at_the_stable_offset_raises_it_past_the_next_gap_range(self) -> None:
        assert self.committed("[43-44]") == RangeProgress(WHOLE, 48, ranges("[50-50]"))

    @pytest.mark.parametrize("known", ["[40-42]", "[45-47]", "[46-46]", "[50-50]", "[41-42]"])
    def test_of_what_is_done_changes_nothing_and_is_no_error(self, known: str) -> None:
        assert self.committed(known) == self.BEFORE

    def test_apart_from_all_is_a_gap_range_of_its_own(self) -> None:
        expected = ranges("[45-47],[50-50],[52-53]")
        assert self.committed("[52-53]") == RangeProgress(WHOLE, 43, expected)


class TestRangeProgress:
    def test_prints_range_stable_offset_and_gap_ranges(self) -> None:
        fact = RangeProgress(KeyRange(0, 9), 43, ranges("[45-47],[50-50]"))
        assert str(fact) == "[0, 9] stable 43 gaps [45-47],[50-50]"
        assert fact.next_offset == 51

    @pytest.mark.parametrize("gaps", ["[43-44]", "[45-46],[47-48]", "[50-50],[45-47]"])
    def test_gap_ranges_out_of_form_are_refused(self, gaps: str) -> None:
        with pytest.raises(ValueError, match=r"gap ranges above stable offset 43"):
            RangeProgress(WHOLE, 43, ranges(gaps))

    def test_normalising_joins_gap_ranges_to_the_stable_offset(self) -> None:
        fact = range_progress(WHOLE, 43, ranges("[50-50],[43-44],[40-41],[45-47]"))
        assert fact == RangeProgress(WHOLE, 48, ranges("[50-50]"))

    def test_a_stable_offset_that_is_none_is_refused(self) -> None:
        with pytest.raises(ValueError, match="stable offset -1"):
            RangeProgress(WHOLE, -1)

    def test_equal_neighbours_melt(self) -> None:
        facts = [RangeProgress(HIGH, 7), RangeProgress(LOW, 7)]
        assert melted(facts) == (RangeProgress(WHOLE, 7),)


class TestPartitionProgress:
    def test_hashes_nobody_speaks_of_stand_at_the_floor(self) -> None:
        progress = PartitionProgress(floor=40)
        progress.merge(RangeProgress(LOW, 43, ranges("[45-47]")))
        assert progress.stable == 40
        assert progress.clip(HIGH) == (RangeProgress(HIGH, 40),)
        assert not progress.is_done(HIGH.lo, 42)

    def test_stable_offset_is_the_minimum_over_the_hash_space(self) -> None:
        progress = PartitionProgress()
        progress.merge(RangeProgress(LOW, 43))
        progress.merge(RangeProgress(HIGH, 50))
        assert (progress.stable, progress.next_offset) == (43, 50)

    def test_facts_of_one_range_complete_each_other_in_any_order(self) -> None:
        facts = [
            RangeProgress(LOW, 43, ranges("[46-47]")),
            RangeProgress(WHOLE, 40, ranges("[43-45]")),
        ]
        one, other = PartitionProgress(), PartitionProgress()
        for fact in facts:
            one.merge(fact)
        for fact in reversed(facts):
            other.merge(fact)
        low, high = RangeProgress(LOW, 48), RangeProgress(HIGH, 40, ranges("[43-45]"))
        assert one.clip(WHOLE) == other.clip(WHOLE) == (low, high)

    def test_clip_tiles_exactly_the_range(self) -> None:
        progress = PartitionProgress()
        progress.merge(RangeProgress(KeyRange(10, 19), 5))
        pieces = progress.clip(KeyRange(15, 25))
        assert pieces == (RangeProgress(KeyRange(15, 19), 5), RangeProgress(KeyRange(20, 25), 0))

    def test_contains_only_what_adds_nothing(self) -> None:
        progress = PartitionProgress()
        progress.merge(RangeProgress(LOW, 43, ranges("[45-47]")))
        assert progress.contains(RangeProgress(LOW, 41, ranges("[43-43]"))) is False
        assert progress.contains(RangeProgress(LOW, 41, ranges("[46-47]")))
        assert not progress.contains(RangeProgress(WHOLE, 41))

    def test_a_copy_goes_its_own_way(self) -> None:
        progress = PartitionProgress()
        progress.copy().merge(RangeProgress(WHOLE, 9))
        assert progress.stable == 0
