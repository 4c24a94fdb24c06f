"""A hot hash gets a tenure and a stream of its own, and stops nobody."""

from __future__ import annotations

import pytest

from assignors import WHOLE, KeyRange, Wait, key_hash, subtract
from coop_consumer.core import actions, beginning, hot
from coop_consumer.core.actions import APART, MAIN
from coop_consumer.core.state import MemberState
from coop_consumer.log_events import LogEvent
from tests.simulation.data_log import SimMessage
from tests.unit.core_member import T0, TableMember, keys_in

WALL = 100
HOT = b"hot"
ALONE = KeyRange(key_hash(HOT), key_hash(HOT))
OTHERS = subtract((WHOLE,), (ALONE,))


def member_of(**settings: object) -> TableMember:
    given = {"max_num_ranges_held": WALL, "max_num_ranges_to_commit": WALL // 2, **settings}
    member = TableMember(**given)  # type: ignore[arg-type]
    member.assign(WHOLE)
    return member


def produce(member: TableMember, *keys: bytes) -> None:
    """Messages of these keys come; what they bring about is read in the log."""
    member.produce(*keys)
    settle(member)


def settle(member: TableMember) -> None:
    member.after(1_000)
    member.hear_log()
    member.after(1_000)


def starts(member: TableMember) -> list[tuple[int, int]]:
    """Where streams of hot hashes began, and by which Consumer."""
    all_starts = member.told(actions.StartStream)
    return [(it.offset, it.consumer) for it in all_starts if it.consumer >= APART]


def lines(member: TableMember) -> list[str]:
    return [it.text for it in member.told(actions.LogLine) if "by itself" in it.text]


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_hash_that_has_most_of_what_waits_is_fetched_by_itself_and_the_others_go_on(
    exactly_once: bool,
) -> None:
    member = member_of(exactly_once=exactly_once)
    produce(member, *[HOT] * 50, *(b"k%d" % n for n in range(20)))
    assert starts(member) == [(0, APART)]
    [line] = lines(member)
    told = (
        "t-0: 50 of 70 records that wait are of one key (hot), the first of them t-0@0. One worker "
        "runs it"
    )
    assert line.startswith(told)
    assert member.told(actions.StopStream) == []
    assert sorted(member.finish_all()) == [*range(50, 70)], "nothing is queued twice"
    tenures = member.core.state.partitions[T0].tenures
    assert sorted(it.ranges for it in tenures) == sorted([(ALONE,), OTHERS])
    member.fetch()
    produce(member, *(b"k%d" % n for n in range(20)))
    assert sorted(member.finish_all()) == [*range(50), *range(70, 90)]
    member.fetch()
    member.after(1_000)
    assert member.store.progress().stable == 90


@pytest.mark.parametrize(
    ("keys", "expected"),
    [("text", " (hot), "), ("hash", f" (hash {key_hash(HOT)}), "), ("none", ", ")],
)
def test_it_is_named_as_log_keys_allows(keys: str, expected: str) -> None:
    member = member_of(log_keys=keys)
    produce(member, *[HOT] * 50, *(b"k%d" % n for n in range(20)))
    [line] = [it for it in member.told(actions.LogLine) if "by itself" in it.text]
    assert f"are of one key{expected}the first of them t-0@0" in line.text
    assert line.facts["key"] == {"text": "hot", "hash": f"hash {key_hash(HOT)}"}.get(keys)


def test_what_is_forgotten_does_not_count_as_done() -> None:
    member = member_of()
    produce(member, *[HOT] * 50, *(b"k%d" % n for n in range(20)))
    member.finish_all()
    member.after(1_000)
    progress = member.store.progress()
    assert progress.stable == 0
    assert [it.stable for it in progress.clip(ALONE)] == [0]
    assert not any(progress.is_done(ALONE.lo, offset) for offset in range(50))


def test_a_handler_that_runs_keeps_the_hash_to_itself_until_it_ends() -> None:
    member = member_of()
    produce(member, HOT)
    assert member.start() == [0]
    produce(member, *[HOT] * 70)
    assert starts(member) == []
    assert member.start() == []
    member.finish(0)
    settle(member)
    assert starts(member) == [(1, APART)]
    member.fetch()
    assert member.finish_all() == [*range(1, 71)]


def test_a_failure_goes_along() -> None:
    member = member_of(max_attempts=5)
    produce(member, HOT)
    member.start()
    member.fail(0)
    produce(member, *[HOT] * 70)
    member.fetch()
    [tenure] = [it for it in member.core.state.partitions[T0].tenures if it.ranges == (ALONE,)]
    assert {offset: it.attempts for offset, it in tenure.attempts.items()} == {0: 1}
    member.after(60_000)
    assert member.start() == [0]
    [(_, record, _)] = member.running.values()
    assert record.attempt == 2


def test_its_stream_is_held_while_enough_waits_and_the_main_one_is_not() -> None:
    member = member_of()
    produce(member, *[HOT] * 70, b"other")
    member.fetch()
    holds = member.told(actions.HoldApart)
    assert holds == [actions.HoldApart(APART, hold=True)]
    member.finish_all()
    assert member.told(actions.HoldApart)[1:] == [actions.HoldApart(APART, hold=False)]
    assert member.told(actions.HoldFetch) == []


def test_once_it_has_caught_up_it_joins_the_main_stream() -> None:
    member = member_of()
    produce(member, *[HOT] * 70, b"other")
    member.fetch()
    member.finish_all()
    partition = member.core.state.partitions[T0]
    assert [*partition.streams] == [MAIN]
    assert partition.hot == set()
    assert len(partition.streams[MAIN].tenures) == 2
    produce(member, HOT, b"other")
    assert member.finish_all() == [71, 72]
    assert member.core.caught_up


def test_a_key_that_is_hot_again_gets_a_stream_again() -> None:
    member = member_of()
    for _ in range(3):
        produce(member, *[HOT] * 70, b"other")
        member.fetch()
        member.finish_all()
        member.after(1_000)
    assert [offset for offset, _ in starts(member)] == [0, 71, 142]


def test_a_key_that_is_hot_again_and_again_is_told_once_a_minute() -> None:
    member, since_ms, told = member_of(), 0, []
    for number in range(30):
        produce(member, *[HOT] * 70, b"other")
        member.fetch()
        member.finish_all()
        member.after(1_000)
        if number == 0:
            since_ms = member.now_ms
        told.append((member.now_ms - since_ms, len(lines(member))))
    assert len(starts(member)) == 30
    assert told[-1][0] > 60_000, "it has gone on for longer than a minute"
    assert [count for ms, count in told if ms < 55_000] == [1] * sum(ms < 55_000 for ms, _ in told)
    assert told[-1][1] == 1 + told[-1][0] // 60_000


def test_where_no_key_has_most_of_what_waits_it_is_a_matter_of_workers() -> None:
    member = member_of()
    produce(member, *[HOT, b"other"] * 45)
    assert starts(member) == []


@pytest.mark.parametrize(("size", "count"), [(1_000, 0), (20_000, 1)])
def test_near_the_bound_of_bytes_it_is_the_same_as_near_the_wall(size: int, count: int) -> None:
    member = TableMember(max_bytes_key_range_cache=1_048_576)
    member.assign(WHOLE)
    keys = [HOT] * 30 + [b"k%d" % n for n in range(10)]
    member.messages += [SimMessage(0, offset, key, size=size) for offset, key in enumerate(keys)]
    member.fetch()
    settle(member)
    assert starts(member) == [(0, APART)] * count


def test_a_member_that_has_this_key_alone_gains_nothing() -> None:
    member = TableMember(max_num_ranges_held=WALL, max_num_ranges_to_commit=WALL // 2)
    member.assign(ALONE)
    produce(member, *[HOT] * 90)
    assert starts(member) == []


def test_four_keys_may_be_hot_and_no_more() -> None:
    member = member_of()
    member.core.state.partitions[T0].hot = set(range(4))
    produce(member, *[HOT] * 80)
    assert starts(member) == []
    member.core.state.partitions[T0].hot.pop()
    produce(member, *[HOT] * 5)
    assert starts(member) == [(0, APART)]


def test_a_partition_that_takes_little_of_the_room_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if the room were full of another partition's records."""
    monkeypatch.setattr(MemberState, "pending", lambda _: WALL)
    member = member_of()
    produce(member, *[HOT] * 30)
    assert starts(member) == []
    produce(member, *[HOT] * 10)
    assert starts(member) == [(0, APART)]


def test_a_partition_of_many_tenures_gets_no_more_by_hot_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hash stays in its tenure when it is hot no more, and each join lists all of them."""
    assert hot._TENURES_MAX == 32
    monkeypatch.setattr(hot, "_TENURES_MAX", 1)
    member = member_of()
    produce(member, *[HOT] * 80)
    assert starts(member) == []


@pytest.mark.parametrize("ordering", ["partition", "none"])
def test_without_order_by_key_there_is_no_hot_key(ordering: str) -> None:
    member = member_of(ordering=ordering)
    produce(member, *[HOT] * 90)
    assert starts(member) == []


def test_it_moves_with_its_range_and_goes_on_beside_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(beginning, "FAR", 10)
    old = member_of()
    produce(old, *[HOT] * 60, *(b"k%d" % n for n in range(20)))
    old.finish_all()
    old.fetch()
    assert old.start() == [0]
    claims = [claim for it in old.core.state.partitions[T0].tenures for claim in it.claims()]
    waits = tuple(Wait("m1", 1, it.number, T0, it.ranges) for it in claims)
    new = TableMember("m2", log=old.log, committed=old.committed)
    new.messages = old.messages
    old.assign()
    new.assign(WHOLE, waits=waits)
    new.hear_log()
    assert [(it.offset, it.consumer) for it in new.told(actions.StartStream)] == [(80, MAIN)]
    old.finish(0)  # the key runs there until now
    old.after(1_000)
    new.hear_log()
    new.after(1_000)
    assert starts(new) == [(1, APART)]
    new.fetch()
    assert new.finish_all() == [*range(1, 60)]


def test_a_hash_given_away_leaves_its_stream_to_others() -> None:
    member = member_of()
    produce(member, *[HOT] * 70, b"other")
    member.fetch()
    assert [*member.core.state.partitions[T0].streams] == [MAIN, APART]
    member.assign(*OTHERS)
    assert [*member.core.state.partitions[T0].streams] == [MAIN]
    assert member.core.state.partitions[T0].hot == set()
    assert member.told(actions.HoldApart)[-1] == actions.HoldApart(APART, hold=False)


def test_if_the_rest_is_given_away_it_is_caught_up_all_the_same() -> None:
    member = member_of()
    produce(member, *[HOT] * 70, b"other")
    member.finish_all()
    member.assign(ALONE)
    member.fetch()
    member.finish_all()
    member.fetch()
    assert member.core.caught_up
    assert [*member.core.state.partitions[T0].streams] == [MAIN]


def test_other_keys_of_the_partition_do_not_wait_in_the_log_either() -> None:
    """Its facts are a record of their own, so the record of the others is short."""
    member = member_of()
    produce(member, *[HOT, *keys_in(OTHERS[0], 1)] * 40, *[HOT] * 20)
    member.finish_all()
    member.after(1_000)
    gaps = {it.ranges: sum(len(f.gaps) for f in it.record.facts) for it in member.store.tenures()}
    assert gaps[OTHERS] == 0


def test_a_key_that_is_left_once_the_others_are_done_is_moved_then() -> None:
    member = member_of()
    produce(member, *[HOT, b"a", b"b", b"c", b"d", b"e"] * 75)
    assert starts(member) == []
    assert member.start() == [0, 1, 2, 3, 4, 5]
    while others := [at for _, at in member.running if at > 0]:
        for offset in others:
            member.finish(offset)
    member.fail(0)
    settle(member)
    assert starts(member) == [(0, APART)]


def test_what_waits_of_a_hot_key_does_not_stop_the_others_at_the_wall() -> None:
    """One batch of its stream may have more of it than the wall allows."""
    member = member_of()
    produce(member, *[HOT] * 150)
    produce(member, b"other")
    assert len(member.core.state.partitions[T0].streams) == 2
    assert member.core.state.pending() > WALL
    assert 150 in member.start()


def test_what_waits_of_a_hot_key_is_no_wall_either_while_its_handler_drains() -> None:
    member = member_of()
    produce(member, *[HOT] * 150)
    produce(member, b"other")
    assert 0 in member.start()
    member.assign()
    settle(member)
    assert len(member.core.state.partitions[T0].draining) > 0
    assert LogEvent.FETCH_WALLED not in {it.event for it in member.told(actions.LogLine)}


def test_with_a_long_queue_it_keeps_its_stream_when_the_partition_is_fetched_again() -> None:
    """All of its queue would count to the room of the others at once."""
    low, high = OTHERS
    member = TableMember(max_num_ranges_held=WALL, max_num_ranges_to_commit=WALL // 2)
    member.assign(low, ALONE)
    produce(member, *[HOT] * 80, *keys_in(high, WALL))
    member.fetch()
    partition = member.core.state.partitions[T0]
    [hot] = [it for it in partition.tenures if partition.is_hot(it)]
    assert (hot.tracker.seen_to, len(hot.pending)) == (180, 80)
    member.assign(WHOLE)
    settle(member)
    member.fetch()
    assert partition.streams == {}, "what had to be caught up with is at the wall"
    member.start()
    while others := [at for _, at in member.running if at >= 80]:
        for offset in others:
            member.finish(offset)
        member.start()
    settle(member)
    assert sorted(partition.streams) == [MAIN, APART]
