"""A tenure, whatever happens to it, tells nothing that is not done (I2), takes nothing back (I3).

The model is the truth about every cell of a small space of hash x offset, and a topic in which each
offset holds a record of one hash, or a hole.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from assignors.key_range import KeyRange, intersect
from offsets import GapTracker, OffsetRange, PartitionProgress, RangeProgress, range_progress
from offsets.offset_range import union

HASHES, OFFSETS = 8, 20
Cell = tuple[int, int]

gap_ranges = st.lists(
    st.builds(
        lambda first, length: OffsetRange(first, first + length),
        st.integers(0, OFFSETS - 4),
        st.integers(0, 3),
    ),
    max_size=4,
)
stables = st.integers(0, OFFSETS // 2)
hash_pairs = st.tuples(st.integers(0, HASHES - 1), st.integers(0, HASHES - 1))


def cells(facts: tuple[RangeProgress, ...]) -> set[Cell]:
    return {
        (h, o)
        for fact in facts
        for o in range(OFFSETS)
        if fact.is_done(o)
        for h in range(fact.range.lo, fact.range.hi + 1)
    }


class TenureIsHonest(RuleBasedStateMachine):
    tracker: GapTracker

    @initialize(
        cuts=st.sets(st.integers(1, HASHES - 1), max_size=3),
        data=st.data(),
        topic=st.lists(st.none() | st.integers(0, HASHES - 1), min_size=OFFSETS, max_size=OFFSETS),
    )
    def begin(self, cuts: set[int], data: st.DataObject, topic: list[int | None]) -> None:
        los = [0, *sorted(cuts)]
        his = [lo - 1 for lo in los[1:]] + [HASHES - 1]
        inherited = tuple(
            range_progress(KeyRange(lo, hi), data.draw(stables), data.draw(gap_ranges))
            for lo, hi in zip(los, his, strict=True)
        )
        self.topic = topic
        self.tracker = GapTracker(inherited)
        self.done = cells(inherited)
        self.told = cells(inherited)
        self.held = set(range(HASHES))
        self.pending: dict[int, int] = {}

    @rule(back=st.integers(0, 3), length=st.integers(0, 6))
    def batch(self, back: int, length: int) -> None:
        start = max(0, self.tracker.seen_to - back)
        end = min(OFFSETS, self.tracker.seen_to + length)
        hashes = {offset: self.topic[offset] for offset in range(self.tracker.seen_to, end)}
        ours = {o: h for o, h in hashes.items() if h is not None and h in self.held}
        if not self.tracker.ahead:
            self.tracker.admit_many(list(ours), list(ours.values()), end)
            self.pending |= ours
            return
        for offset, key_hash in ours.items():
            admitted = self.tracker.admit(offset, key_hash)
            assert admitted == ((key_hash, offset) not in self.done)
            if admitted:
                self.pending[offset] = key_hash
        self.tracker.cover(start, max(end, start))

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.pending)))
        self.done.add((self.pending.pop(offset), offset))
        assert self.tracker.done_many([offset]) == []
        assert self.tracker.done_many([offset]) == [offset]

    @rule(ends=hash_pairs, stable=stables, gaps=gap_ranges)
    def learn(self, ends: tuple[int, int], stable: int, gaps: list[OffsetRange]) -> None:
        fact = range_progress(KeyRange(min(ends), max(ends)), stable, gaps)
        facts = cells((fact,))
        dropped = self.tracker.learn([fact])
        mine = {(h, o) for h, o in facts if h in self.held}
        assert dropped == [o for o, h in sorted(self.pending.items()) if (h, o) in mine]
        self.pending = {o: h for o, h in self.pending.items() if (h, o) not in mine}
        self.done |= mine
        assert mine <= cells(self.tracker.facts())

    @rule(ends=hash_pairs)
    def release(self, ends: tuple[int, int]) -> None:
        ranges = intersect(self.tracker.held, (KeyRange(min(ends), max(ends)),))
        frozen = self.tracker.release(ranges)
        given_up = {h for r in ranges for h in range(r.lo, r.hi + 1)}
        assert {h for f in frozen for h in range(f.range.lo, f.range.hi + 1)} == given_up
        self.held -= given_up
        self.pending = {o: h for o, h in self.pending.items() if h not in given_up}
        seen = {(h, o) for h in given_up for o in range(self.tracker.seen_to)}
        told = cells(frozen)
        # Nothing that was seen and finished is lost by a release: the next owner repeats little.
        assert all(cell in told for cell in seen & self.done)

    @invariant()
    def tells_the_truth(self) -> None:
        self.tracker.check()
        assert self.tracker.pending == self.pending
        told = cells(self.tracker.facts())
        for offset, key_hash in enumerate(self.topic):
            if key_hash is not None and (key_hash, offset) in told:
                assert (key_hash, offset) in self.done, "I2: told, but not done"
        assert self.told <= told, "I3: told before, but no longer"
        self.told = told
        finished = {cell for cell in self.done if cell[0] in self.held}
        assert finished <= told, "finished, but not told: it would be done again"

    @invariant()
    def holds_the_stable_offset_for_no_other_reason_than_a_pending_record(self) -> None:
        first = min(self.pending, default=self.tracker.seen_to)
        assert self.tracker.stable == first
        if not self.pending and self.held:
            held = [f for f in self.tracker.facts() if f.range.lo in self.held]
            assert all(f.stable >= self.tracker.seen_to for f in held)

    @invariant()
    def its_facts_are_inherited_as_they_are(self) -> None:
        progress = PartitionProgress()
        for fact in self.tracker.facts():
            progress.merge(fact)
            assert fact.gaps == union(fact.gaps)
        heirs = GapTracker(progress.clip(KeyRange(0, HASHES - 1)))
        assert cells(heirs.facts()) == cells(self.tracker.facts())


TestTenureIsHonest = TenureIsHonest.TestCase
TestTenureIsHonest.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
