"""Bounds: at a bound the fetch is held, nothing grows beyond it and nothing is dropped (I8)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pytest

from assignors import WHOLE, Wait, decode_subscription, key_hash
from coop_consumer.core import actions, events
from coop_consumer.core.lane import Entry
from coop_consumer.core.lanes import READY_ONE_BY_ONE
from coop_consumer.core.record import HEADER_BYTES, RECORD_BYTES
from coop_consumer.log_events import LogEvent
from offsets import DecisionKey, DecisionRecord, encode_key, encode_value
from tests.simulation.data_log import SimMessage
from tests.unit.core_member import GROUP, T0, TOPIC_ID, TableMember


def decide(member: TableMember, offset: int) -> None:
    """A person lets a parked record be tried again."""
    key = DecisionKey(GROUP, TOPIC_ID, 0, offset)
    member.log.append(encode_key(key), encode_value(DecisionRecord("retry", 0)))
    member.hear_log()


def holds(member: TableMember) -> list[bool]:
    return [action.hold for action in member.told(actions.HoldFetch)]


def test_the_fetch_is_held_when_the_lanes_are_full_and_goes_on_when_half_is_free() -> None:
    member = TableMember(max_records_in_lanes=10)
    member.assign(WHOLE)
    member.produce(*(b"k%d" % i for i in range(10)))
    assert holds(member) == [True]
    member.start()
    for offset in range(4):
        member.finish(offset)
    assert holds(member) == [True]
    for offset in range(4, 6):
        member.finish(offset)
    assert holds(member) == [True, False]


@pytest.mark.parametrize(
    ("bound", "size"),
    [
        ({"max_records_in_lanes": 10}, 1),
        ({"max_num_ranges_held": 12, "max_num_ranges_to_commit": 12}, 1),
        ({"max_bytes_key_range_cache": 1_048_576}, 52_428),
    ],
)
def test_what_comes_together_waits_for_a_decision_unless_a_bound_is_near(
    bound: dict[str, int], size: int
) -> None:
    member = TableMember(**bound)
    member.assign(WHOLE)
    ((stream, _),) = member._delivered.items()

    def take(first: int) -> bool:
        batch = [SimMessage(0, n, b"k%d" % n, size=size) for n in range(first, first + 4)]
        event = events.Fetched(T0, stream, first, first + 4, batch, at_end=True)
        return member.core.take(event, member.now_ms)

    assert [take(first) for first in (0, 4, 8)] == [True, True, False]
    member.core.decide()
    assert member.core.pressure.holding or member.core.state.load.walled


def test_bytes_that_wait_hold_the_fetch_like_records() -> None:
    bound = 1_048_576
    member = TableMember(max_bytes_key_range_cache=bound)
    member.assign(WHOLE)
    member.messages = [SimMessage(0, n, b"k%d" % n, size=bound // 4) for n in range(4)]
    member.fetch()
    assert holds(member) == [True]
    member.finish_all()
    assert holds(member) == [True, False]
    assert member.core.state.load.bytes_waiting == 0


class Large(SimMessage):
    """A message without a value, whose headers or key are large; each is looked at as asked for."""

    def __init__(self, offset: int, key: bytes, headers: Sequence[bytes] = ()) -> None:
        super().__init__(0, offset, key, size=0)
        self._headers = [(f"h{number}", value) for number, value in enumerate(headers)]

    def headers(self) -> Sequence[tuple[str, bytes | None]] | None:
        return self._headers


def test_keys_that_are_parked_at_the_bound_do_not_stop_the_fetch() -> None:
    """They were counted while they ran, and nothing has come or gone since."""
    member = TableMember(max_records_in_lanes=6, max_attempts=1, on_failure="park", circuit_share=0)
    member.assign(WHOLE)
    member.produce(*[b"key-%d" % number for number in range(6)])
    assert member.core.pressure.holding
    member.fail(*member.start())
    member.after(1_000)
    member.after(1_000)
    assert not member.core.pressure.holding


def test_large_headers_are_counted_from_the_first_one_on_where_small_records_came_before() -> None:
    """They come in batches of one, as they are large."""
    member = TableMember(max_bytes_key_range_cache=1_048_576)
    member.assign(WHOLE)
    member.produce(b"small")
    large = 0
    while not holds(member):
        large += 1
        member.messages.append(Large(large, b"k%d" % large, [b"x" * 100_000]))
        member.fetch()
    assert large <= 1_048_576 // 2 // 100_000 + 1


@pytest.mark.parametrize("ordering", ["key", "none"])
@pytest.mark.parametrize(
    ("key_bytes", "headers"),
    [(10_000, []), (10, [b"x" * 10_000]), (10, [b"x"] * 70), (10, [b"x"] * 4)],
)
def test_keys_and_headers_hold_the_fetch_like_values(
    key_bytes: int, headers: list[bytes], ordering: str
) -> None:
    bound = 1_048_576
    member = TableMember(max_bytes_key_range_cache=bound, ordering=ordering)
    member.assign(WHOLE)
    each = key_bytes + sum(HEADER_BYTES + 2 + len(value) for value in headers) + RECORD_BYTES
    fit = bound // 2 // each
    taken = 0
    while not holds(member):
        key = b"%d" % taken
        member.messages.append(Large(taken, key.ljust(key_bytes, b"k"), headers))
        member.fetch()
        taken += 1
    assert fit * 0.95 <= taken <= fit * 1.2 + 5
    member.finish_all()
    assert holds(member) == [True, False]
    assert member.core.state.load.bytes_waiting == 0
    assert member.core.state.bytes_held() == 0


def test_small_records_take_room_by_their_number() -> None:
    bound = 1_048_576
    member = TableMember(max_bytes_key_range_cache=bound)
    member.core.lanes.ready_min = 10_000
    member.assign(WHOLE)
    member.messages = [SimMessage(0, n, b"%d" % n, size=0) for n in range(bound // RECORD_BYTES)]
    member.fetch()
    assert holds(member) == [True]


def test_headers_of_few_records_that_are_large_are_counted_once_one_was_seen() -> None:
    member = TableMember(max_bytes_key_range_cache=1_048_576)
    member.assign(WHOLE)
    small, large = [b"x"], [b"x" * 60_000]
    member.messages = [Large(n, b"%d" % n, large if n % 3 == 0 else small) for n in range(30)]
    member.fetch()
    assert holds(member) == [True]
    assert member.core.state.load.bytes_waiting >= 10 * 60_000


def test_parked_records_that_take_all_room_are_told_of_until_somebody_decides() -> None:
    bound = 1_048_576
    member = TableMember(max_bytes_key_range_cache=bound, on_failure="park", max_attempts=1)
    member.assign(WHOLE)
    member.messages = [SimMessage(0, n, b"k%d" % n, size=bound) for n in range(2)]
    member.fetch()
    member.start()
    for _ in range(12):
        member.after(1_000)
    assert told_stuck(member) == [], "they run: nobody waits for a decision"
    member.fail(0)
    member.fail(1)
    for _ in range(12):
        member.after(1_000)
    [line] = told_stuck(member)
    held = 2 * (bound + len(b"k0") + RECORD_BYTES)
    assert f"what was taken in, 2 records ({held:,} bytes), is of keys that wait" in line
    assert "`coop-consumer status billing --bootstrap table:9092` names" in line
    decide(member, 0)
    decide(member, 1)
    assert member.finish_all() == [0, 1]
    for _ in range(30):
        member.after(1_000)
    assert len(told_stuck(member)) == 1


def told_stuck(member: TableMember) -> list[str]:
    return [r.text for r in member.told(actions.LogLine) if "nothing is fetched" in r.text]


def test_bytes_given_up_or_finished_after_a_handover_are_counted_once() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"a", b"b")
    member.start()
    member.assign()
    member.finish(0)
    member.finish(2)
    assert member.core.state.load.bytes_waiting == 0
    assert member.core.state.pending() == 0


def test_what_was_under_way_when_the_fetch_was_held_is_taken_in_not_dropped() -> None:
    member = TableMember(max_records_in_lanes=4)
    member.assign(WHOLE)
    member.produce(*(b"k%d" % i for i in range(4)))
    member.produce(b"late")
    assert member.finish_all() == [0, 1, 2, 3, 4]


def test_a_range_that_moves_in_the_middle_of_a_lane_counts_each_record_once() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"a", b"a", b"b")
    member.start()
    member.finish(0)  # the lane goes on, and its first record is counted already
    member.assign()
    member.finish(1)
    member.finish(3)
    assert member.core.state.load.bytes_waiting == 0


def test_at_the_wall_a_partition_is_fetched_no_further_and_goes_on_when_its_holder_ends() -> None:
    member = TableMember(max_num_ranges_held=10, max_num_ranges_to_commit=5, max_attempts=1)
    member.assign(WHOLE)
    member.produce(b"stuck", b"too", b"as well")
    member.start()
    for offset in range(3):
        member.fail(offset)  # parked: whatever comes of this key waits
    member.produce(*[b"stuck", b"too", b"as well"] * 3)
    (stopped,) = member.told(actions.StopStream)
    assert "max.num.ranges.held=10 (92)" in " ".join(r.text for r in member.told(actions.LogLine))
    [wall] = [it.text for it in member.told(actions.LogLine) if "(92)" in it.text]
    assert "`coop-consumer status billing --bootstrap table:9092` names the record" in wall
    assert wall.endswith(" One key (stuck) has 4 of them, 33 %, from t-0@0 on.")
    assert not holds(member), "other partitions go on"
    member.after(1_000)
    assert [tenure.record.walled for tenure in member.store.tenures()] == [12]
    member.messages += [SimMessage(0, 12, b"other")]
    for offset in range(3):
        decide(member, offset)
    member.finish_all()
    started = member.told(actions.StartStream)[-1]
    assert started.stream != stopped.stream
    assert started.offset == 12
    member.fetch()
    assert member.finish_all() == [12]
    member.after(1_000)
    assert [tenure.record.walled for tenure in member.store.tenures()] == [0]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [("text", " (stuck) "), ("hash", f" (hash {key_hash(b'stuck')}) "), ("none", " ")],
)
def test_the_wall_names_its_busiest_key_as_log_keys_allows(keys: str, expected: str) -> None:
    member = TableMember(max_num_ranges_held=10, max_num_ranges_to_commit=5, log_keys=keys)
    member.assign(WHOLE)
    member.produce(*[b"stuck"] * 4, *(b"k%d" % n for n in range(8)))
    [wall] = [it for it in member.told(actions.LogLine) if it.event is LogEvent.FETCH_WALLED]
    assert wall.text.endswith(f" One key{expected}has 4 of them, 33 %, from t-0@0 on.")
    named = {"text": "stuck", "hash": f"hash {key_hash(b'stuck')}"}
    assert wall.facts["key"] == named.get(keys)


def walls(member: TableMember) -> list[str]:
    texts = [r.text for r in member.told(actions.LogLine)]
    return [text for text in texts if "(92)" in text or "fetched again" in text]


def test_a_wall_that_is_met_again_and_again_is_told_once_a_minute_and_when_it_is_over() -> None:
    """Its ERROR came 66 times in 44 s."""
    member = TableMember(max_num_ranges_held=10, max_num_ranges_to_commit=5)
    member.assign(WHOLE)
    began_ms = member.now_ms
    while member.now_ms < began_ms + 90_000:
        member.produce(*[b"k", b"l", b"m"] * 4)
        member.finish_all()
        member.after(500)
    assert len(walls(member)) == 2, walls(member)
    for _ in range(20):
        member.after(1_000)
    *_, last = walls(member)
    assert len(walls(member)) == 3
    assert "t-0: it is fetched again" in last


def test_a_key_that_waits_leaves_others_their_turn_in_records_and_in_bytes() -> None:
    bound = 1_048_576
    member = TableMember(max_bytes_key_range_cache=bound, max_attempts=1, max_records_in_lanes=10)
    member.assign(WHOLE)
    member.produce(b"stuck")
    member.start()
    member.fail(0)
    member.messages += [SimMessage(0, n, b"stuck", size=bound // 20) for n in range(1, 14)]
    member.fetch()
    assert not holds(member), "thirteen records, two thirds of the bytes: all of a key that waits"
    member.produce(b"other")
    assert member.start() == [14]


def test_a_parked_key_with_many_small_records_leaves_others_their_turn() -> None:
    member = TableMember(max_attempts=1, max_records_in_lanes=10)
    member.assign(WHOLE)
    member.produce(b"stuck")
    member.start()
    member.fail(0)
    for _ in range(25):
        member.produce(b"stuck")
    assert holds(member)[-1:] != [True]
    member.produce(b"other")
    assert member.start() == [26]


def test_what_a_busy_key_has_finished_gives_others_no_more_room() -> None:
    member = TableMember(max_records_in_lanes=100)
    member.assign(WHOLE)
    member.produce(*[b"busy"] * 50)
    member.start()
    for offset in range(40):  # and the rest of its lane runs on
        member.finish(offset)
    member.produce(*(b"k%d" % number for number in range(89)))
    assert not holds(member)
    member.produce(b"one more")
    assert holds(member) == [True]


def test_bytes_of_a_held_key_that_its_old_holder_has_done_are_given_up_with_its_range() -> None:
    old = TableMember()
    old.assign(WHOLE)
    old.produce(b"a")
    old.start()
    old.assign()
    (claim,) = decode_subscription(old.core.subscription()).claims
    new = TableMember("m2", log=old.log, committed=old.committed)
    new.assign(WHOLE, waits=(Wait("m1", 1, claim.number, T0, claim.ranges),))
    new.messages = list(old.messages)
    new.fetch()
    new.kept_back = {actions.RangesAssigned}
    old.finish(0)
    new.hear_log()
    new.assign()
    assert new.core.state.load.bytes_waiting == 0


def one_by_one() -> TableMember:
    """A member whose workers take one record at a time, after a rest."""
    member = TableMember()
    member.core.lanes.ready_min = READY_ONE_BY_ONE
    member.assign(WHOLE)
    for _ in range(10):
        member.after(100)
    return member


def test_few_records_are_kept_ready_where_handlers_are_slow_and_more_once_they_are_quick() -> None:
    member = one_by_one()
    member.produce(*(b"k%d" % number for number in range(READY_ONE_BY_ONE - 1)))
    assert holds(member) == []
    member.produce(b"one more")
    assert holds(member) == [True]
    member.finish_all()  # within a moment: these are quick
    assert holds(member) == [True, False]
    member.produce(*(b"n%d" % number for number in range(READY_ONE_BY_ONE)))
    member.finish_all()
    member.produce(*(b"o%d" % number for number in range(2 * READY_ONE_BY_ONE - 1)))
    assert holds(member)[-1] is False, "as many as were finished in the last 100 ms"


def test_what_waits_in_an_executors_lines_holds_the_fetch_like_what_is_ready() -> None:
    member = one_by_one()
    line: deque[Entry] = deque()
    member.core.lanes.lines = [line]
    member.produce(*(b"k%d" % number for number in range(READY_ONE_BY_ONE - 1)))
    member.core.lanes.deal(lambda _: line)
    member.produce(b"one more")
    assert holds(member) == [True]
