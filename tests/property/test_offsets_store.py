"""Deleting what is superseded, and compaction at any time, change nothing that is told (I3)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from assignors.key_range import WHOLE, KeyRange
from offsets import (
    BaseKey,
    BaseRecord,
    MemoryLog,
    OffsetRange,
    ProgressStore,
    RangeProgress,
    TenureId,
    TenureKey,
    TenureRecord,
    encode_key,
    encode_value,
    range_progress,
)

TOPIC = bytes(16)
MEMBERS = ("m0", "m1", "m2", "m3")

ranges = st.sampled_from([WHOLE, *WHOLE.parts(2), *WHOLE.parts(4)])
gaps = st.lists(st.builds(lambda o: OffsetRange(o, o + 1), st.integers(3, 12)), max_size=2)
facts = st.builds(range_progress, ranges, st.integers(0, 8), gaps)
writes = st.tuples(st.sampled_from(MEMBERS), facts, st.booleans(), st.integers(0, 1))
steps = st.lists(writes | st.sampled_from(["clean", "compact", "drop"]), max_size=25)


def fold(log: MemoryLog) -> ProgressStore:
    """What somebody reads who begins now."""
    store = ProgressStore("g")
    for record in log.read(0, 1_000).records:
        store.apply(record)
    return store


class Writers:
    """One tenure a member: each commit unites what the tenure told before with a new fact."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.told: dict[str, tuple[RangeProgress, ...]] = {}
        self.first: dict[str, int] = {}
        self.over: set[str] = set()
        self.log.append(encode_key(BaseKey("g", TOPIC, 0, 0, "w")), encode_value(BaseRecord(0, 2)))

    def write(self, member: str, fact: RangeProgress, releases: bool, part: int) -> None:
        """A commit of a tenure that is not over; its ranges are those of its first fact."""
        if member in self.over:
            return
        before = self.told.get(member, ())
        mine: KeyRange = before[0].range if before else fact.range
        self.told[member] = (*before, RangeProgress(mine, fact.stable, fact.gaps))
        released = (mine,) if releases else ()
        record = TenureRecord(
            0, self.first.get(member, -1), self.told[member], () if part else released
        )
        key = encode_key(TenureKey("g", TOPIC, 0, TenureId(member, 1, 0), part))
        offset = self.log.append(key, encode_value(record))
        self.first.setdefault(member, offset)
        if releases and not part:
            self.over.add(member)

    def clean(self) -> None:
        """The lead writes tombstones; a member whose tenure is not over is live."""
        store = fold(self.log)
        live = set(MEMBERS) - self.over
        for key in store.partition(TOPIC, 0).superseded(live, self.log.end_offset):
            assert isinstance(key, TenureKey)
            assert key.tenure.member in self.over
            self.log.append(encode_key(key), None)


@given(steps)
@settings(max_examples=200, deadline=None)
def test_progress_and_releases_survive_cleaning_and_compaction(
    todo: list[tuple[str, RangeProgress, bool, int] | str],
) -> None:
    writers = Writers()
    follower = ProgressStore("g")
    for step in todo:
        before = fold(writers.log).partition(TOPIC, 0).progress()
        if isinstance(step, tuple):
            writers.write(*step)
        elif step == "clean":
            writers.clean()
        else:
            writers.log.compact(drop_tombstones=step == "drop")
        for record in writers.log.read(0, 1_000).records:
            follower.apply(record)
        fresh = fold(writers.log)
        fresh.check()
        progress = fresh.partition(TOPIC, 0).progress()
        assert all(map(progress.contains, before.clip(WHOLE))), "I3: progress shrank"
        for told in writers.told.values():
            assert all(map(progress.contains, told)), "I3: a fact was lost"
        known = follower.partition(TOPIC, 0)
        assert known.progress().clip(WHOLE) == progress.clip(WHOLE)
        assert known.tenures() == fresh.partition(TOPIC, 0).tenures()
