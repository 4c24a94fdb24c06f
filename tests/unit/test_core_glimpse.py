"""A glimpse of a member: what runs and since when, what failed, what it holds."""

from __future__ import annotations

from assignors import WHOLE, Wait, decode_subscription, key_hash
from coop_consumer.core.glimpse import Glimpse
from coop_consumer.core.lane import Entry
from coop_consumer.status.standing import is_overdue
from offsets import MemoryLog
from tests.unit.core_member import LOW, T0, TableMember, keys_in


def at_work(*keys: bytes, **settings: object) -> TableMember:
    member = TableMember(**settings)  # type: ignore[arg-type]
    member.assign(WHOLE)
    member.produce(*keys)
    member.start()
    return member


def glimpse(member: TableMember) -> Glimpse:
    return member.core.glimpse()


def test_what_runs_is_seen_with_its_key_and_since_it_was_seen_first() -> None:
    member = at_work(b"a", b"b")
    first_ms = member.now_ms
    assert [it.since_ms for it in glimpse(member).running] == [first_ms, first_ms]
    member.finish(1)
    member.after(700)
    member.produce(b"c")
    member.start()

    found = glimpse(member)
    assert [(it.tp, it.offset, it.key, it.since_ms) for it in found.running] == [
        (T0, 0, b"a", first_ms),
        (T0, 2, b"c", first_ms + 700),
    ]
    assert found.running_count == 2
    assert found.running[0].attempt == 1


def test_what_held_the_stable_offset_before_anybody_looked_is_seen_since_then() -> None:
    member = at_work(b"a", b"b")
    member.finish(1)
    for _ in range(8):
        member.after(1_000)
    [running] = glimpse(member).running
    assert member.now_ms - running.since_ms >= 5_000


def test_a_record_that_waits_for_a_worker_does_not_run() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a")
    assert glimpse(member).running == ()


def test_what_failed_is_seen_with_its_key_and_what_is_parked_comes_first() -> None:
    member = at_work(b"a", b"b", max_attempts=1)
    member.fail(0)
    [failed] = glimpse(member).failed

    assert (failed.offset, failed.key, failed.is_key_known, failed.is_parked) == (
        0,
        b"a",
        True,
        True,
    )
    assert failed.key_hash == key_hash(b"a")
    assert failed.error
    assert glimpse(member).failed_count == 1


def test_a_hung_handler_whose_range_has_moved_keeps_its_key_and_says_who_waits_for_whom() -> None:
    log = MemoryLog()
    old = TableMember("m1", log=log, max_processing_ms=1_000)
    old.assign(WHOLE)
    old.produce(b"a", b"b")
    old.start()
    old.finish(1)
    for _ in range(20):
        old.after(100)
    (claim,) = decode_subscription(old.core.subscription()).claims
    old.assign()
    new = TableMember("m2", log=log, committed=old.committed)
    new.assign(WHOLE, waits=(Wait("m1", 1, claim.number, T0, (WHOLE,)),), lead="m1")
    new.produce(b"a", b"b")

    [here], [runs] = glimpse(old).failed, glimpse(old).running
    assert (runs.offset, runs.is_given_up) == (0, True)
    assert (here.offset, here.key, here.is_key_known, here.behind) == (0, b"a", True, ())
    [there] = glimpse(new).failed
    assert (there.offset, there.behind, is_overdue(there.error)) == (0, ("m1",), True)
    assert glimpse(new).running == ()


def test_what_failed_by_itself_is_behind_nobody() -> None:
    member = at_work(b"a", b"b")
    member.fail(0)
    assert [it.behind for it in glimpse(member).failed] == [()]


def test_what_is_held_is_seen_with_how_far_it_is() -> None:
    member = TableMember()
    member.assign(LOW)
    member.produce(*keys_in(LOW, 2))
    member.start()
    member.finish(0)
    [held] = glimpse(member).held

    assert (held.tp, held.ranges, held.stable, held.pending) == (T0, (LOW,), 1, 1)
    assert not held.is_paused
    assert not held.is_walled


def test_what_is_fetched_no_further_is_seen() -> None:
    keys = [b"stuck", b"too", b"as well"]
    bounds = {"max_num_ranges_held": 10, "max_num_ranges_to_commit": 5}
    member = at_work(*keys, **bounds, max_attempts=1)
    for offset in range(3):
        member.fail(offset)  # parked: whatever comes of this key waits
    member.produce(*keys * 3)
    [held] = glimpse(member).held
    assert (held.stable, held.pending, held.is_walled) == (0, 12, True)


def test_the_entry_of_what_runs_is_found_for_its_stack_and_no_other() -> None:
    member = at_work(b"a", b"b")
    entry: Entry | None = member.core.glimpses.entry_at(T0, 1)
    assert entry is not None
    member.finish(1)
    assert member.core.glimpses.entry_at(T0, 1) is None
    assert member.core.glimpses.entry_at(T0, 99) is None


def test_a_member_without_ranges_has_nothing_to_see() -> None:
    found = TableMember().core.glimpse()
    assert (found.held, found.running, found.failed) == ((), (), ())
