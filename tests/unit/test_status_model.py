"""The status of a group, from what was seen of it: worked examples, no broker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assignors import (
    WHOLE,
    AssignmentData,
    KeyRange,
    Subscription,
    Wait,
    encode_assignment,
    encode_subscription,
    key_hash,
)
from coop_consumer.ops.group_metrics import FirstSeen, GroupLook, group_samples
from coop_consumer.status.model import GroupStatus, PartitionStatus, RecordStatus, group_status
from coop_consumer.status.seen import (
    GroupSeen,
    Hashing,
    MemberSeen,
    RecordSeen,
    member_seen,
)
from coop_consumer.status.standing import RecordState
from offsets import (
    Act,
    Attempt,
    Committed,
    Doing,
    OffsetRange,
    TenureId,
    TenureRecord,
)
from tests.support.written_log import NOW_MS, OLD, ORDERS, TOPIC_ID, WrittenLog, facts, seen

MIRROR = Committed.mirror(43, 1, TOPIC_ID)
LOW, HIGH = WHOLE.parts(2)
NEW = TenureId("new", 2, 1)


def only(status: GroupStatus) -> PartitionStatus:
    [partition] = status.partitions
    return partition


def worked_example() -> WrittenLog:
    """Stable 43 and gap ranges [45-47],[50-50], over the whole hash space."""
    record = TenureRecord(1, -1, (facts(WHOLE, 43, (45, 47), (50, 50)),))
    return WrittenLog().base(1, 40).tenure(OLD, record)


def test_stable_offset_gap_ranges_and_lag_are_those_of_the_worked_example() -> None:
    status = only(group_status(seen(worked_example(), committed=MIRROR)))
    assert status.stable == 43
    assert status.gaps == (OffsetRange(45, 47), OffsetRange(50, 50))
    assert (status.committed, status.lag, status.epoch) == (43, 17, 1)


def test_records_below_the_last_gap_are_counted_and_those_above_it_estimated() -> None:
    left = only(group_status(seen(worked_example(), committed=MIRROR))).remaining
    assert (left.known, left.estimated) == (4, 9)
    assert str(left) == "about 13"
    exact = only(group_status(seen(worked_example(), end=51, committed=MIRROR))).remaining
    assert exact.is_exact
    assert exact.records == 4


def test_an_undone_offset_in_two_ranges_is_one_record() -> None:
    log = worked_example()
    log.tenure(NEW, TenureRecord(1, -1, (facts(LOW, 43, (45, 50)),)))
    left = only(group_status(seen(log, end=51, committed=MIRROR))).remaining
    assert left.records == 4  # 43, 44; 48 and 49 only in the upper half


def test_a_partition_gap_range_is_done_for_every_key() -> None:
    log = worked_example()
    log.tenure(NEW, TenureRecord(1, -1, (facts(LOW, 43, (45, 50)),)))
    assert only(group_status(seen(log, committed=MIRROR))).gaps == (
        OffsetRange(45, 47),
        OffsetRange(50, 50),
    )


def test_a_plain_groups_commit_counts_as_itself_and_is_announced() -> None:
    status = group_status(seen(worked_example(), committed=Committed(30, "")))
    assert only(status).stable == 30
    assert only(status).gaps == ()
    assert "orders-0: someone else committed offset 30" in status.warnings[0]
    assert "epoch 2" in status.warnings[0]


def test_a_log_ahead_of_the_tag_wins_as_it_does_for_a_member() -> None:
    log = worked_example().base(2, 10)
    status = only(group_status(seen(log, committed=MIRROR)))
    assert (status.stable, status.epoch) == (10, 2)


def test_a_tag_that_the_log_does_not_know_falls_back_to_the_committed_offset() -> None:
    status = group_status(seen(WrittenLog(), committed=Committed.mirror(43, 3, TOPIC_ID)))
    assert only(status).stable == 43
    assert "epoch 3 is not in the progress log" in status.warnings[0]


def test_a_group_that_has_not_begun_has_no_stable_offset_and_all_is_left() -> None:
    status = only(group_status(seen(WrittenLog(), begin=10)))
    assert (status.stable, status.lag, status.holder) == (None, None, None)
    assert status.remaining.records == 50


def test_records_that_retention_took_are_told() -> None:
    status = group_status(seen(worked_example(), begin=50, committed=MIRROR))
    assert "orders-0: offsets [43-49] are gone from the topic" in status.warnings


# -- members ---------------------------------------------------------------------------------------


def ours(name: str, ranges: tuple[KeyRange, ...], *waits: Wait) -> MemberSeen:
    assignment = AssignmentData({ORDERS: ranges}, waits, "lead", 2, assigned_at_ms=NOW_MS - 5_000)
    return member_seen(
        f"{name}-id",
        "10.0.0.1",
        topics=["orders"],
        subscription=encode_subscription(
            Subscription(name, 7, f"host-{name}", 4, True, "ordering=none,block=10", 1)
        ),
        assignment=encode_assignment(assignment),
        partitions=[ORDERS],
    )


def test_owners_are_those_of_the_assignments_user_data() -> None:
    status = only(group_status(seen(worked_example(), ours("b", (HIGH,)), ours("a", (LOW,)))))
    assert [(owner.range, owner.member, owner.host) for owner in status.owners] == [
        (LOW, "a", "host-a"),
        (HIGH, "b", "host-b"),
    ]
    assert status.unowned == ()


def test_keys_assigned_to_nobody_are_a_warning_once_the_group_has_settled() -> None:
    group = seen(worked_example(), ours("a", (LOW,)), committed=MIRROR)
    assert only(group_status(group)).unowned == (HIGH,)
    assert group_status(group).warnings == (f"orders-0: assigned to nobody: {HIGH}",)
    assert group_status(replace(group, state="PreparingRebalance")).warnings == ()
    assert group_status(replace(group, state="Empty", members=())).warnings == ()


@pytest.mark.parametrize("data", [b"\x00", b"S", b"S\x01\xff\xff\xff", b"hello" * 40])
def test_a_member_whose_user_data_cannot_be_read_owns_nothing(data: bytes) -> None:
    member = member_seen(
        "m", "h", topics=["orders"], subscription=data, assignment=b"", partitions=[ORDERS]
    )
    assert member.ranges == {}
    assert member.note.startswith("cannot be read")
    status = group_status(seen(worked_example(), member, committed=MIRROR))
    assert status.warnings[0].startswith("member m cannot be read")


def test_a_plain_member_owns_whole_partitions() -> None:
    member = member_seen(
        "m", "h", topics=["orders"], subscription=b"", assignment=b"", partitions=[ORDERS]
    )
    [owner] = only(group_status(seen(WrittenLog(), member, committed=Committed(5, "")))).owners
    assert (owner.range, owner.member, owner.stable) == (WHOLE, "m", 5)


def test_records_are_hashed_as_the_members_contract_says() -> None:
    hashing = Hashing("key", 1_000).agreed_by([ours("a", (WHOLE,))])
    assert hashing == Hashing("none", 10)
    assert hashing.place(0, 11, b"k") == hashing.place(0, 19, b"other")
    assert Hashing("key", 1_000).place(0, 11, b"k") == key_hash(b"k")
    assert Hashing("key", 1_000).place(0, 11, None) != Hashing("key", 1_000).place(0, 12, None)


# -- handover --------------------------------------------------------------------------------------

WAIT = Wait("old", 1, 1, ORDERS, (LOW,))


def handover_of(log: WrittenLog) -> list[tuple[tuple[KeyRange, ...], str, str, int]]:
    found = only(group_status(seen(log, ours("new", (LOW,), WAIT), committed=MIRROR)))
    return [(h.ranges, h.waiting, h.holder, NOW_MS - h.since_ms) for h in found.handovers]


def test_a_tenure_that_has_not_released_is_waited_for() -> None:
    assert handover_of(worked_example()) == [((LOW,), "new", "old", 5_000)]


def test_a_tenure_that_has_released_is_not() -> None:
    log = worked_example()
    log.tenure(OLD, TenureRecord(1, 1, (facts(WHOLE, 43),), released=(LOW,)))
    assert handover_of(log) == []


def test_a_hash_that_is_still_running_is_waited_for_alone() -> None:
    log, hash_ = worked_example(), key_hash(b"slow")
    one = KeyRange(hash_, hash_)
    rest = (KeyRange(0, hash_ - 1), KeyRange(hash_ + 1, WHOLE.hi))
    log.tenure(OLD, TenureRecord(1, 1, (facts(WHOLE, 43),), released=rest))
    expected = [((one,), "new", "old", 5_000)] if hash_ in LOW else []
    assert handover_of(log) == expected


def test_a_tenure_that_was_cleared_away_is_over() -> None:
    log = worked_example()
    log.tenure(NEW, TenureRecord(1, -1, (facts(WHOLE, 43),))).tenure(OLD, None)
    assert handover_of(log) == []


def test_a_tenure_that_the_log_does_not_know_yet_is_waited_for() -> None:
    assert handover_of(WrittenLog().base(1, 40)) == [((LOW,), "new", "old", 5_000)]


# -- what holds the stable offset ------------------------------------------------------------------


def holder_of(group: GroupSeen) -> RecordStatus:
    found = only(group_status(group)).holder
    assert found is not None
    return found


def failing(offset: int, key: bytes, *, parked: bool) -> Attempt:
    return Attempt(offset, key_hash(key), 3, parked, "ValueError: no", NOW_MS - 60_000)


def record(offset: int, key: bytes) -> RecordSeen:
    return RecordSeen(offset, key, key_hash(key), NOW_MS - 90_000)


def parked_log() -> WrittenLog:
    attempts = (failing(43, b"k7", parked=True), failing(44, b"k8", parked=False))
    done = (facts(WHOLE, 43, (45, 59)),)
    return WrittenLog().base(1, 0).tenure(OLD, TenureRecord(1, -1, done, attempts=attempts))


def test_the_record_that_holds_the_stable_offset_has_its_whole_story() -> None:
    member = ours("m", (WHOLE,))
    group = seen(
        parked_log(),
        member,
        committed=MIRROR,
        records=(record(43, b"k7"),),
    )
    holder = holder_of(group)
    assert (holder.offset, holder.key, holder.attempts, holder.is_parked) == (43, b"k7", 3, True)
    assert (holder.member, holder.host, holder.error) == ("m", "host-m", "ValueError: no")
    assert (NOW_MS - holder.timestamp_ms, NOW_MS - holder.since_ms) == (90_000, 60_000)


def test_failed_records_are_listed_and_the_parked_ones_apart() -> None:
    status = only(group_status(seen(parked_log(), committed=MIRROR)))
    assert [r.offset for r in status.failed] == [43, 44]
    assert [r.offset for r in status.parked] == [43]
    assert not status.failed[0].is_read


def test_a_failed_record_that_is_done_meanwhile_is_not_listed() -> None:
    log = parked_log()
    log.tenure(TenureId("m", 9, 1), TenureRecord(1, -1, (facts(WHOLE, 60),)))
    status = only(group_status(seen(log, committed=MIRROR)))
    assert status.failed == ()
    assert status.holder is None


def test_a_done_record_of_another_key_does_not_hold_the_stable_offset() -> None:
    low, high = (next(k for k in keys() if key_hash(k) in part) for part in (LOW, HIGH))
    log = WrittenLog().base(1, 43).tenure(OLD, TenureRecord(1, -1, (facts(LOW, 50),)))
    read = (record(43, low), record(44, high))
    holder = holder_of(seen(log, committed=MIRROR, records=read))
    assert (holder.offset, holder.key, holder.attempts) == (44, high, 0)


def keys() -> list[bytes]:
    return [b"k%d" % i for i in range(50)]


def test_unreadable_records_are_counted_and_told() -> None:
    status = group_status(seen(worked_example().garbage(), committed=MIRROR))
    assert status.unreadable == {"corrupt key": 1}
    assert status.warnings == (
        "progress log: could not read 1 record (corrupt key); its progress may be done again",
    )


def test_who_holds_as_many_unfinished_records_as_it_may_is_warned_of() -> None:
    record = TenureRecord(1, -1, (facts(WHOLE, 43),), walled=60_000)
    log = WrittenLog().base(1, 40).tenure(OLD, record)
    (warning,) = group_status(seen(log, end=70, committed=MIRROR)).warnings
    assert "orders-0: old holds 60,000 unfinished records, as many as it may" in warning
    log.tenure(OLD, replace(record, released=(WHOLE,)))
    assert group_status(seen(log, end=70, committed=MIRROR)).warnings == ()


# -- how a record stands ---------------------------------------------------------------------------


def standing_of(
    act: Act | None, *members: MemberSeen, attempts: tuple[Attempt, ...] = ()
) -> tuple[RecordState, int, str]:
    """How offset 43 (key k7) stands, of which the tenure of `old` tells this."""
    doings = () if act is None else (Doing(43, key_hash(b"k7"), act, NOW_MS - 5_000),)
    told = TenureRecord(1, -1, (facts(WHOLE, 43, (45, 59)),), attempts=attempts, doings=doings)
    log = WrittenLog().base(1, 0).tenure(OLD, told)
    group = seen(log, *members, committed=MIRROR, records=(record(43, b"k7"),))
    holder = holder_of(group)
    return holder.standing, holder.standing_since_ms, holder.behind


@pytest.mark.parametrize(
    ("act", "standing"),
    [
        (Act.RUNS, RecordState.RUNNING),
        (Act.QUEUED, RecordState.QUEUED),
        (Act.BACKS_OFF, RecordState.BACKING_OFF),
        (Act.BLOCKED, RecordState.WAITING),
        (Act.PAUSED, RecordState.PAUSED),
    ],
)
def test_what_the_owner_tells_of_a_record_is_how_it_stands(act: Act, standing: RecordState) -> None:
    assert standing_of(act, ours("old", (WHOLE,))) == (standing, NOW_MS - 5_000, "")


def test_what_a_member_told_that_owns_the_key_no_more_counts_for_nothing() -> None:
    assert standing_of(Act.RUNS, ours("m", (WHOLE,))) == (RecordState.UNTOLD, 0, "")
    assert standing_of(Act.RUNS) == (RecordState.UNOWNED, 0, "")


def test_a_failed_record_without_an_owner_says_since_when_it_fails() -> None:
    attempt = failing(43, b"k7", parked=False)
    told = TenureRecord(1, -1, (facts(WHOLE, 43, (45, 59)),), attempts=(attempt,))
    log = WrittenLog().base(1, 0).tenure(OLD, told)
    group = seen(log, committed=MIRROR, records=(record(43, b"k7"),))
    found = only(group_status(group)).holder
    assert found is not None
    assert (found.standing, found.standing_since_ms) == (RecordState.UNOWNED, 0)
    assert found.since_ms == attempt.since_ms > 0
    blocked = [
        it.value
        for it in group_samples(GroupLook("g", 0.0, 0.0, group_status(group)), 0.0, FirstSeen())
        if it.name == "coop_group_blocked_seconds"
    ]
    assert blocked == [(NOW_MS - attempt.since_ms) / 1_000]


def test_a_failed_record_of_which_nothing_newer_is_told_is_tried_again() -> None:
    attempts = (failing(43, b"k7", parked=False),)
    assert standing_of(None, ours("old", (WHOLE,)), attempts=attempts)[0] is RecordState.RETRYING
    parked = (failing(43, b"k7", parked=True),)
    assert standing_of(None, attempts=parked) == (RecordState.PARKED, 0, "")
    told = standing_of(Act.PARKED, ours("old", (WHOLE,)), attempts=parked)
    assert told == (RecordState.PARKED, NOW_MS - 5_000, "")


def test_a_record_waits_for_its_range_while_its_last_owner_has_not_released_it() -> None:
    wait = Wait("old", 1, 1, ORDERS, (WHOLE,))
    waiting = replace(ours("m", (WHOLE,)), waits=(wait,), assigned_at_ms=NOW_MS - 7_000)
    assert standing_of(Act.RUNS, waiting) == (RecordState.WAITING, NOW_MS - 7_000, "old")


@pytest.mark.parametrize(
    ("behind", "error", "is_overdue"),
    [
        ("old", "HandlerOverdueError: its handler runs for 300 s", True),
        ("", "HandlerOverdueError: its handler runs for 300 s", False),
        ("old", "ValueError: no", False),
    ],
)
def test_a_record_that_waits_for_a_handler_elsewhere_is_overdue_if_that_is(
    behind: str, error: str, *, is_overdue: bool
) -> None:
    waiting = replace(ours("m", (WHOLE,)), assigned_at_ms=NOW_MS - 7_000)
    if behind:
        waiting = replace(waiting, waits=(Wait(behind, 1, 1, ORDERS, (WHOLE,)),))
    attempt = replace(failing(43, b"k7", parked=False), error=error)
    told = TenureRecord(1, -1, (facts(WHOLE, 43, (45, 59)),), attempts=(attempt,))
    log = WrittenLog().base(1, 0).tenure(OLD, told)
    group = seen(log, waiting, committed=MIRROR, records=(record(43, b"k7"),))
    found = holder_of(group)
    assert (found.behind, found.is_overdue) == (behind, is_overdue)


# -- committed offsets that are gone ---------------------------------------------------------------


def test_a_deleted_committed_offset_is_told_with_what_follows_and_how_to_begin_anew() -> None:
    status = group_status(seen(worked_example()), ["--bootstrap", "b:9092"])
    assert only(status).is_forgotten
    assert only(status).stable == 43
    (warning,) = status.warnings
    assert "was deleted, or has expired" in warning
    assert "the next member continues from there" in warning
    assert warning.endswith(
        "run: coop-consumer reset g --to earliest --partition orders-0 --bootstrap b:9092"
    )


def test_an_epoch_that_has_just_begun_has_lost_nothing() -> None:
    status = group_status(seen(WrittenLog().base(1, 40)))
    assert not only(status).is_forgotten
    assert status.warnings == ()
