"""Offset sets, facts and their union are equal to plain sets of offsets and of (hash, offset)."""

from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from assignors.key_range import WHOLE, KeyRange
from offsets import OffsetRange, PartitionProgress, RangeProgress, range_progress
from offsets.offset_range import complement, contains, covers, subtract, union
from offsets.progress import normalised

HASHES, OFFSETS = 6, 14
SPACE = OffsetRange(0, OFFSETS - 1)

offset_ranges = st.builds(
    lambda first, length: OffsetRange(first, min(first + length, OFFSETS - 1)),
    st.integers(0, OFFSETS - 1),
    st.integers(0, 3),
)
offset_sets = st.lists(offset_ranges, max_size=6).map(union)
key_ranges = st.tuples(st.integers(0, HASHES - 1), st.integers(0, HASHES - 1)).map(
    lambda ends: KeyRange(min(ends), max(ends))
)
facts = st.builds(
    range_progress, key_ranges, st.integers(0, OFFSETS), st.lists(offset_ranges, max_size=4)
)


def plain(ranges: tuple[OffsetRange, ...], stable: int = 0) -> set[int]:
    return set(range(stable)) | {o for r in ranges for o in range(r.first, r.last + 1)}


def cells(fact: RangeProgress) -> set[tuple[int, int]]:
    hashes = range(fact.range.lo, min(fact.range.hi, HASHES - 1) + 1)
    return {(h, o) for h in hashes for o in range(OFFSETS) if fact.is_done(o)}


def is_normal(ranges: tuple[OffsetRange, ...]) -> bool:
    return all(a.last + 1 < b.first for a, b in pairwise(ranges))


@given(st.lists(offset_ranges), offset_sets)
def test_offset_sets_are_plain_sets(
    ranges: list[OffsetRange], other: tuple[OffsetRange, ...]
) -> None:
    joined = union(ranges)
    assert is_normal(joined)
    assert plain(joined) == plain(tuple(ranges))
    rest = subtract(joined, other)
    assert is_normal(rest)
    assert plain(rest) == plain(joined) - plain(other)
    assert plain(complement(joined, SPACE)) == set(range(OFFSETS)) - plain(joined)
    assert covers(joined, other) == (plain(other) <= plain(joined))
    assert {o for o in range(OFFSETS) if contains(joined, o)} == plain(joined)


@given(st.integers(0, OFFSETS), offset_sets, offset_ranges)
@example(stable=43, done=(OffsetRange(45, 47), OffsetRange(50, 50)), new=OffsetRange(48, 49))
@example(stable=43, done=(OffsetRange(45, 47), OffsetRange(50, 50)), new=OffsetRange(43, 44))
@example(stable=43, done=(OffsetRange(45, 47),), new=OffsetRange(42, 42))
def test_an_individual_commit_adds_its_offsets(
    stable: int, done: tuple[OffsetRange, ...], new: OffsetRange
) -> None:
    before = RangeProgress(WHOLE, *normalised(stable, done))
    progress = PartitionProgress()
    progress.merge(before)
    progress.merge(range_progress(WHOLE, 0, [new]))
    (after,) = progress.clip(WHOLE)  # its class refuses what is not in normal form
    assert plain(after.gaps, after.stable) == plain((*before.gaps, new), before.stable)


class ProgressIsASet(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.progress = PartitionProgress(floor=2)
        self.done = {(h, o) for h in range(HASHES) for o in range(2)}

    @rule(fact=facts)
    def merge(self, fact: RangeProgress) -> None:
        assert self.progress.contains(fact) == (cells(fact) <= self.done)
        self.progress.merge(fact)
        self.done |= cells(fact)
        assert self.progress.contains(fact)

    @rule(key_range=key_ranges)
    def clip(self, key_range: KeyRange) -> None:
        pieces = self.progress.clip(key_range)
        assert pieces[0].range.lo == key_range.lo
        assert pieces[-1].range.hi == key_range.hi
        for piece, following in pairwise(pieces):
            assert piece.range.hi + 1 == following.range.lo
            assert (piece.stable, piece.gaps) != (following.stable, following.gaps)
        clipped = {cell for piece in pieces for cell in cells(piece)}
        assert clipped == {(h, o) for h, o in self.done if h in key_range}

    @invariant()
    def is_the_model(self) -> None:
        self.progress.check()
        space = [(h, o) for h in range(HASHES) for o in range(OFFSETS)]
        assert {cell for cell in space if self.progress.is_done(*cell)} == self.done
        assert self.progress.stable == 2  # where the hashes above the model's stand
        missing = [o for h in range(HASHES) for o in range(OFFSETS) if (h, o) not in self.done]
        low = self.progress.clip(KeyRange(0, HASHES - 1))
        assert min(*(piece.stable for piece in low), OFFSETS) == min(missing, default=OFFSETS)


TestProgressIsASet = ProgressIsASet.TestCase
TestProgressIsASet.settings = settings(max_examples=50, stateful_step_count=20, deadline=None)
