"""What one group's progress log tells, record by record."""

from dataclasses import replace

from assignors.key_range import WHOLE, KeyRange
from offsets import (
    AnnounceKey,
    AnnounceRecord,
    Attempt,
    BaseKey,
    BaseRecord,
    DecisionKey,
    DecisionRecord,
    Key,
    LogRecord,
    MemoryLog,
    OffsetRange,
    PartitionStore,
    PolicyKey,
    PolicyRecord,
    ProgressStore,
    RangeProgress,
    StopKey,
    StopRecord,
    TenureId,
    TenureKey,
    TenureRecord,
    Value,
    encode_key,
    encode_value,
)

TOPIC = bytes(16)
LOW, HIGH = WHOLE.parts(2)
M1, M2, M3 = (TenureId(f"m{i}", 10 * i, 0) for i in (1, 2, 3))


class Story:
    """A log written line by line, and the store that follows it."""

    def __init__(self, group: str = "g") -> None:
        self.log = MemoryLog()
        self.store = ProgressStore(group)

    def write(self, key: Key, value: Value | None) -> int:
        return self.append(encode_key(key), None if value is None else encode_value(value))

    def append(self, key: bytes, value: bytes | None) -> int:
        offset = self.log.append(key, value)
        self.store.apply(self.log.read(offset, 1).records[0])
        self.store.check()
        return offset

    def base(self, epoch: int, offset: int, writer: str = "w") -> int:
        return self.write(BaseKey("g", TOPIC, 0, epoch, writer), BaseRecord(epoch, offset))

    def tenure(
        self,
        id_: TenureId,
        *facts: RangeProgress,
        epoch: int = 0,
        first: int = -1,
        released: tuple[KeyRange, ...] = (),
        attempts: tuple[Attempt, ...] = (),
        part: int = 0,
        parts: int = 1,
    ) -> int:
        record = TenureRecord(epoch, first, facts, released, attempts, parts)
        return self.write(TenureKey("g", TOPIC, 0, id_, part), record)

    def announce(self, id_: TenureId) -> int:
        announced = AnnounceRecord(id_.incarnation, self.log.end_offset, "", "host")
        return self.write(AnnounceKey("g", id_.member), announced)

    def superseded(self, *live: str) -> list[str]:
        keys = self.partition.superseded(live, self.log.end_offset)
        return [key.tenure.member for key in keys if isinstance(key, TenureKey)]

    @property
    def partition(self) -> PartitionStore:
        return self.store.partition(TOPIC, 0)


def gap(first: int, last: int) -> tuple[OffsetRange, ...]:
    return (OffsetRange(first, last),)


class TestEpochs:
    def test_without_a_base_nothing_is_done(self) -> None:
        story = Story()
        story.tenure(M1, RangeProgress(WHOLE, 9))
        assert story.partition.epoch is None
        assert story.partition.progress().stable == 0

    def test_the_first_base_of_an_epoch_holds(self) -> None:
        story = Story()
        story.base(0, 40, "w1")
        story.base(0, 90, "w2")
        assert (story.partition.epoch, story.partition.base_offset) == (0, 40)

    def test_the_highest_epoch_holds_and_facts_of_others_do_not_enter(self) -> None:
        story = Story()
        story.base(0, 40)
        story.tenure(M1, RangeProgress(WHOLE, 80))
        story.base(1, 10)
        story.tenure(M2, RangeProgress(LOW, 30), epoch=1)
        story.tenure(M3, RangeProgress(WHOLE, 70), epoch=2)
        progress = story.partition.progress()
        assert story.partition.epoch == 1
        assert [str(piece.stable) for piece in progress.clip(WHOLE)] == ["30", "10"]

    def test_the_next_one_is_above_bases_tenures_and_what_the_caller_knows(self) -> None:
        story = Story()
        assert story.partition.next_epoch() == 1
        assert story.partition.next_epoch(4, 7) == 8
        story.base(3, 40)
        assert story.partition.next_epoch() == 4
        story.tenure(M1, RangeProgress(WHOLE, 9), epoch=5)
        assert story.partition.next_epoch(4) == 6

    def test_what_a_caller_does_to_its_copy_stays_there(self) -> None:
        story = Story()
        story.base(0, 40)
        story.partition.progress().merge(RangeProgress(WHOLE, 99))
        assert story.partition.progress().stable == 40


class TestWhoTellsOfFailures:
    PARKED = Attempt(5, LOW.lo, 2, True, "ValueError: no route", 0)

    def test_an_old_owners_last_record_does_not_hide_what_its_successor_has_parked(self) -> None:
        story = Story()
        story.base(1, 0)
        first = story.tenure(M1, RangeProgress(WHOLE, 5), epoch=1)
        story.tenure(M2, RangeProgress(LOW, 5), epoch=1, attempts=(self.PARKED,))
        story.tenure(M1, RangeProgress(WHOLE, 5), epoch=1, first=first, released=(WHOLE,))
        assert story.partition.attempts() == {5: self.PARKED}

    def test_also_not_once_its_successor_has_released_it_too(self) -> None:
        """A slow handler at another hash keeps the old owner: its last record comes last."""
        story = Story()
        story.base(1, 0)
        first = story.tenure(M1, RangeProgress(WHOLE, 5), epoch=1)
        known = RangeProgress(LOW, 5)
        story.tenure(M2, known, epoch=1, attempts=(self.PARKED,), released=(LOW,))
        story.tenure(M1, RangeProgress(WHOLE, 5), epoch=1, first=first, released=(WHOLE,))
        assert story.partition.attempts() == {5: self.PARKED}

    def test_of_owners_that_have_released_it_the_one_with_most_attempts_tells(self) -> None:
        """An old owner's last record comes late: the attempts since had been forgotten."""
        story = Story()
        story.base(1, 0)
        once, twice = replace(self.PARKED, attempts=1, parked=False), replace(self.PARKED)
        first = story.tenure(M1, RangeProgress(WHOLE, 5), epoch=1, attempts=(once,))
        story.tenure(M2, RangeProgress(LOW, 5), epoch=1, attempts=(twice,), released=(LOW,))
        story.tenure(
            M1, RangeProgress(WHOLE, 5), epoch=1, first=first, attempts=(once,), released=(WHOLE,)
        )
        assert story.partition.attempts() == {5: twice}

    def test_who_began_after_its_last_word_knows_better(self) -> None:
        """It was decided to try the record again, and the next owner has nothing to tell yet."""
        story = Story()
        story.base(1, 0)
        known = RangeProgress(LOW, 5)
        story.tenure(M1, known, epoch=1, attempts=(self.PARKED,), released=(LOW,))
        story.tenure(M2, known, epoch=1, released=(LOW,))
        assert story.partition.attempts() == {}

    def test_a_crashed_owner_that_never_released_does_not_hide_what_came_after_it(self) -> None:
        """A simulation's seed: an orderly handover forgot the attempts of the last owner."""
        story = Story()
        story.base(1, 0)
        known = RangeProgress(LOW, 5)
        story.tenure(M1, known, epoch=1)
        story.tenure(M2, known, epoch=1, attempts=(self.PARKED,), released=(LOW,))
        assert story.partition.attempts() == {5: self.PARKED}

    def test_nor_does_one_whose_first_record_came_late(self) -> None:
        """It began after its successor, as the log tells, and never releases."""
        story = Story()
        story.base(1, 0)
        known = RangeProgress(LOW, 5)
        second = story.tenure(M2, known, epoch=1)
        story.tenure(M1, known, epoch=1)
        story.tenure(M2, known, epoch=1, first=second, attempts=(self.PARKED,), released=(LOW,))
        assert story.partition.attempts() == {5: self.PARKED}

    def test_an_evicted_owner_that_wrote_late_does_not_hide_what_came_after_it(self) -> None:
        """Two of the simulation's seeds: a commit of its own came after its successor's first."""
        story = Story()
        story.base(1, 0)
        known = RangeProgress(LOW, 5)
        first = story.tenure(M1, known, epoch=1)
        second = story.tenure(M2, known, epoch=1)
        story.tenure(M1, known, epoch=1, first=first)
        story.tenure(M2, known, epoch=1, first=second, attempts=(self.PARKED,), released=(LOW,))
        assert story.partition.attempts() == {5: self.PARKED}


class TestTenures:
    def test_are_ordered_by_their_first_record_also_when_compaction_removed_it(self) -> None:
        story = Story()
        story.base(0, 0)
        first = story.tenure(M2, RangeProgress(LOW, 1))
        story.tenure(M1, RangeProgress(HIGH, 1))
        story.tenure(M2, RangeProgress(LOW, 5), first=first)
        story.log.compact()
        late = ProgressStore("g")
        for record in story.log.read(0, 99).records:
            late.apply(record)
        for store in (story.store, late):
            tenures = store.partition(TOPIC, 0).tenures()
            assert [(t.id, t.first_offset, t.last_offset) for t in tenures] == [
                (M2, 1, 3),
                (M1, 2, 2),
            ]

    def test_the_facts_of_all_parts_count_and_part_0_tells_what_is_released(self) -> None:
        story = Story()
        story.base(0, 0)
        story.tenure(M1, RangeProgress(HIGH, 7), part=1, parts=2)
        assert story.partition.unreleased(M1, (WHOLE,)) == (WHOLE,)
        story.tenure(M1, RangeProgress(LOW, 5), released=(LOW, HIGH), parts=2)
        (tenure,) = story.partition.tenures()
        assert (tenure.parts, tenure.first_offset, tenure.is_released) == ((0, 1), 1, True)
        assert story.partition.progress().clip(HIGH) == (RangeProgress(HIGH, 7),)
        assert story.partition.unreleased(M1, (WHOLE,)) == ()


class TestUnreleased:
    def test_of_a_tenure_unknown_to_the_log_is_everything(self) -> None:
        assert Story().partition.unreleased(M1, (HIGH, LOW)) == (WHOLE,)

    def test_is_what_it_has_not_released(self) -> None:
        story = Story()
        story.tenure(M1, RangeProgress(WHOLE, 1), released=(LOW,))
        assert story.partition.unreleased(M1, (WHOLE,)) == (HIGH,)

    def test_is_nothing_once_a_later_incarnation_announced_itself(self) -> None:
        story = Story()
        story.announce(M1)
        story.tenure(M1, RangeProgress(WHOLE, 1))
        assert story.partition.unreleased(M1, (WHOLE,)) == (WHOLE,)
        announced = story.announce(TenureId("m1", 3, 0))
        assert story.partition.unreleased(M1, (WHOLE,)) == ()
        incarnation, offset, _ = story.store.announced("m1") or (0, 0, None)
        assert (incarnation, offset) == (3, announced)

    def test_stays_when_another_run_announces_itself_that_had_looked_before_it_began(self) -> None:
        story = Story()
        looked = story.log.end_offset
        story.tenure(M1, RangeProgress(WHOLE, 1))
        late = AnnounceRecord(3, looked, "", "host")
        story.write(AnnounceKey("g", "m1"), late)
        assert story.partition.unreleased(M1, (WHOLE,)) == (WHOLE,)


class TestHeldByOthers:
    def test_is_what_they_began_and_have_not_released(self) -> None:
        story = Story()
        story.base(0, 0)
        story.tenure(M1, RangeProgress(WHOLE, 1))
        assert story.partition.held_by_others("m1") == ()
        assert story.partition.held_by_others("m2") == (WHOLE,)
        story.tenure(M1, RangeProgress(WHOLE, 1), released=(LOW,))
        assert story.partition.held_by_others("m2") == (HIGH,)

    def test_leaves_out_where_another_tenure_began_later(self) -> None:
        story = Story()
        story.base(0, 0)
        begun = story.tenure(M1, RangeProgress(WHOLE, 1))
        story.tenure(M2, RangeProgress(HIGH, 1), released=(HIGH,))
        story.tenure(M1, RangeProgress(WHOLE, 2), first=begun)
        assert story.partition.held_by_others("m3") == (LOW,)
        story.tenure(M3, RangeProgress(LOW, 1))
        assert story.partition.held_by_others("m2") == (LOW,)
        assert story.partition.held_by_others("m3") == ()


class TestAttempts:
    @staticmethod
    def attempt(count: int, key_hash: int = 5) -> Attempt:
        return Attempt(48, key_hash, count, parked=False, error="", since_ms=0)

    def test_come_from_the_newest_tenure_of_the_hash(self) -> None:
        story = Story()
        story.base(0, 0)
        story.tenure(M1, RangeProgress(WHOLE, 1), attempts=(self.attempt(1),))
        story.tenure(M2, RangeProgress(HIGH, 1))
        assert story.partition.attempts() == {48: self.attempt(1)}
        story.tenure(M3, RangeProgress(LOW, 1), attempts=(self.attempt(2),))
        assert story.partition.attempts() == {48: self.attempt(2)}

    def test_that_the_newest_tenure_no_longer_lists_are_over(self) -> None:
        story = Story()
        story.base(0, 0)
        story.tenure(M1, RangeProgress(LOW, 1), attempts=(self.attempt(1),))
        story.tenure(M2, RangeProgress(LOW, 1))
        assert story.partition.attempts() == {}

    def test_of_all_parts_count_but_not_those_of_a_record_before(self) -> None:
        story = Story()
        story.base(0, 0)
        other = replace(self.attempt(2), offset=49)
        story.tenure(M1, attempts=(other,), part=1, parts=2)
        first = story.tenure(M1, RangeProgress(LOW, 1), attempts=(self.attempt(1),), parts=2)
        assert story.partition.attempts() == {48: self.attempt(1), 49: other}
        story.tenure(M1, RangeProgress(LOW, 1), attempts=(self.attempt(1),), first=first - 1)
        assert story.partition.attempts() == {48: self.attempt(1)}

    def test_of_a_hash_whose_owner_cannot_be_read_are_told_by_who_had_it(self) -> None:
        """That was an error in whoever asked: members, and those who looked after them."""
        story = Story()
        story.base(0, 0)
        story.tenure(M1, RangeProgress(LOW, 1), attempts=(self.attempt(1, HIGH.lo),))
        story.append(encode_key(TenureKey("g", TOPIC, 0, M2, 0)), b"garbage")
        assert story.partition.attempts() == {48: self.attempt(1, HIGH.lo)}
        assert story.superseded() == []


class TestDecisions:
    def test_hold_until_they_are_deleted(self) -> None:
        story = Story()
        key, skip = DecisionKey("g", TOPIC, 0, 48), DecisionRecord("skip", 1)
        story.write(key, skip)
        assert story.partition.decisions == {48: skip}
        story.write(key, None)
        assert story.partition.decisions == {}

    def test_to_stop_count_only_above_a_log_offset(self) -> None:
        story = Story()
        stop = StopRecord(48, 5, "ValueError", "m1")
        offset = story.write(StopKey("g", TOPIC, 0), stop)
        story.write(StopKey("g", TOPIC, 1), stop)
        found = story.store.stop(after_offset=offset - 1)
        assert found is not None
        assert (found.offset, found.key.partition, found.record) == (offset, 0, stop)
        assert story.store.stop(after_offset=offset + 1) is None


class TestSuperseded:
    def test_a_tenure_whose_ranges_and_facts_later_ones_contain_may_go(self) -> None:
        story = Story()
        story.base(0, 0)
        story.tenure(M1, RangeProgress(WHOLE, 5, gap(7, 8)), released=(WHOLE,))
        story.tenure(M2, RangeProgress(LOW, 9))
        assert story.superseded() == []
        story.tenure(M3, RangeProgress(HIGH, 5, gap(7, 9)))
        assert story.superseded("m2", "m3") == ["m1"]

    def test_what_is_covered_by_facts_but_not_by_ranges_stays(self) -> None:
        story = Story()
        story.base(0, 0)
        story.tenure(M1, RangeProgress(LOW, 5), RangeProgress(HIGH, 0), released=(WHOLE,))
        story.tenure(M2, RangeProgress(LOW, 5))
        assert story.superseded() == []
        # So that whoever gets the other half finds it released:
        assert story.partition.unreleased(M1, (HIGH,)) == ()

    def test_what_is_covered_by_ranges_but_not_by_facts_stays(self) -> None:
        story = Story()
        story.base(0, 0)
        story.tenure(M1, RangeProgress(WHOLE, 5, gap(7, 8)), released=(WHOLE,))
        story.tenure(M2, RangeProgress(WHOLE, 5, gap(8, 8)))
        assert story.superseded() == []

    def test_only_later_tenures_supersede(self) -> None:
        story = Story()
        story.base(0, 0)
        first = story.tenure(M1, RangeProgress(WHOLE, 5))
        story.tenure(M2, RangeProgress(WHOLE, 5), released=(WHOLE,))
        story.tenure(M1, RangeProgress(WHOLE, 9), first=first, released=(WHOLE,))
        assert story.superseded() == []

    def test_who_held_it_only_before_the_release_does_not_supersede(self) -> None:
        story = Story()
        story.base(0, 0)
        first = story.tenure(M1, RangeProgress(WHOLE, 5))
        # An evicted owner's first record came late; it is back in the group, and has let go.
        story.tenure(M2, RangeProgress(WHOLE, 5), released=(WHOLE,))
        story.tenure(M1, RangeProgress(WHOLE, 5), first=first, released=(WHOLE,))
        story.tenure(M3, RangeProgress(LOW, 5))
        assert story.superseded("m1", "m2", "m3") == []
        # So that whoever waits for the other half finds it released:
        assert story.partition.unreleased(M1, (HIGH,)) == ()
        story.tenure(TenureId("m4", 40, 0), RangeProgress(HIGH, 5))
        assert story.superseded("m1", "m2", "m3", "m4") == ["m2", "m1"]

    def test_a_live_tenure_stays_till_it_is_released_or_its_member_begins_anew(self) -> None:
        story = Story()
        story.base(0, 0)
        story.announce(M1)
        first = story.tenure(M1, RangeProgress(WHOLE, 5))
        story.tenure(M2, RangeProgress(WHOLE, 5))
        assert story.superseded("m1", "m2") == []
        assert story.superseded("m2") == ["m1"]
        story.tenure(M1, RangeProgress(WHOLE, 5), first=first, released=(WHOLE,))
        assert story.superseded("m1", "m2") == ["m1"]
        story.tenure(M1, RangeProgress(WHOLE, 5), first=first)
        story.announce(TenureId("m1", 99, 0))
        assert story.superseded("m1", "m2") == ["m1"]

    def test_records_at_or_above_the_end_that_was_seen_do_not_supersede(self) -> None:
        story = Story()
        story.base(0, 0)
        story.tenure(M1, RangeProgress(WHOLE, 5), released=(WHOLE,))
        offset = story.tenure(M2, RangeProgress(WHOLE, 5))
        assert story.partition.superseded((), offset) == ()

    def test_an_unreadable_record_or_one_of_a_newer_version_stays(self) -> None:
        story = Story()
        story.base(0, 0)
        story.tenure(M1, RangeProgress(WHOLE, 5), released=(WHOLE,), parts=2)
        key = encode_key(TenureKey("g", TOPIC, 0, M1, part=1))
        story.append(key, b"\x09\x01")
        story.tenure(M2, RangeProgress(WHOLE, 5))
        story.base(1, 0)
        story.tenure(M3, RangeProgress(WHOLE, 0), epoch=1)
        assert story.superseded() == ["m2"]
        assert story.store.unreadable == {"unknown version": 1}

    def test_older_epochs_go_once_the_current_base_is_there(self) -> None:
        story = Story()
        story.base(0, 0)
        story.tenure(M1, RangeProgress(WHOLE, 5))
        story.tenure(M2, RangeProgress(WHOLE, 5), epoch=1)
        assert story.superseded() == []
        story.base(1, 0)
        assert story.partition.superseded((), 99) == (
            BaseKey("g", TOPIC, 0, 0, "w"),
            TenureKey("g", TOPIC, 0, M1),
        )

    def test_of_an_older_epoch_stays_whose_ranges_are_nobodys_in_the_current_one(self) -> None:
        story = Story()
        story.base(0, 0)
        story.tenure(M1, RangeProgress(WHOLE, 5), released=(WHOLE,))
        story.base(1, 0)
        story.tenure(M2, RangeProgress(LOW, 0), epoch=1)
        assert story.superseded() == []
        # So that whoever gets the other half finds it released:
        assert story.partition.unreleased(M1, (HIGH,)) == ()
        story.tenure(M3, RangeProgress(HIGH, 0), epoch=1)
        assert story.superseded() == ["m1"]

    def test_all_parts_go_and_part_0_last(self) -> None:
        story = Story()
        story.base(0, 0)
        story.tenure(M1, RangeProgress(HIGH, 7), part=1, parts=2)
        story.tenure(M1, RangeProgress(LOW, 5), released=(LOW, HIGH), parts=2)
        story.tenure(M2, RangeProgress(WHOLE, 7))
        keys = story.partition.superseded((), 99)
        assert keys == (TenureKey("g", TOPIC, 0, M1, 1), TenureKey("g", TOPIC, 0, M1, 0))


class TestHarm:
    def test_records_of_other_groups_pass_unnoticed(self) -> None:
        story = Story(group="other")
        story.base(0, 40)
        assert story.store.partitions() == ()
        assert story.store.unreadable == {}

    def test_unreadable_records_are_counted_and_harm_nothing(self) -> None:
        story = Story()
        story.base(0, 40)
        story.append(b"", b"x")
        story.append(b"\x07key", b"x")
        story.append(encode_key(AnnounceKey("g", "m1")), b"")
        story.append(encode_key(TenureKey("g", TOPIC, 0, M1)), b"\x01\x01rubbish")
        assert story.partition.progress().stable == 40
        assert story.partition.tenures() == ()
        assert story.partition.unreleased(M1, (LOW,)) == (LOW,)
        assert story.store.unreadable == {
            "corrupt key": 1,
            "unknown version": 1,
            "corrupt value": 2,
        }

    def test_a_base_whose_key_and_value_differ_is_none(self) -> None:
        story = Story()
        story.write(BaseKey("g", TOPIC, 0, 5, "w"), BaseRecord(4, 40))
        assert story.partition.epoch is None

    def test_what_was_applied_is_not_applied_again(self) -> None:
        store = ProgressStore("g")
        key = BaseKey("g", TOPIC, 0, 0, "w")
        for offset, start in ((5, 40), (5, 50), (4, 60)):
            value = encode_value(BaseRecord(0, start))
            store.apply(LogRecord(offset, encode_key(key), value))
        assert store.partition(TOPIC, 0).base_offset == 40
        assert store.next_offset == 6


def test_policies_of_topics_and_of_the_own_group_are_kept_until_deleted() -> None:
    story = Story()
    policy = PolicyRecord({"accept.range.fetch": "false"})
    for key in (PolicyKey("topic", "t"), PolicyKey("group", "g"), PolicyKey("group", "other")):
        story.write(key, policy)
    assert set(story.store.policies) == {PolicyKey("topic", "t"), PolicyKey("group", "g")}
    story.write(PolicyKey("topic", "t"), None)
    assert set(story.store.policies) == {PolicyKey("group", "g")}
