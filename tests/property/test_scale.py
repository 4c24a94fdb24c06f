"""Any group, any load: what holds of the members that it wants."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from assignors import TopicPartition
from coop_consumer.status.demand import PartitionNeed
from coop_consumer.status.load import GroupLoad, load_of
from coop_consumer.status.scale import MembersNow, ScaleRules, advise
from offsets import HeavyKey, LoadRecord, PartitionLoad

PLACES = [TopicPartition("orders", number) for number in range(3)]
TOPIC_ID = b"0123456789abcdef"
IDS = dict.fromkeys(PLACES, TOPIC_ID)

numbers = st.integers(0, 3)
parts = st.builds(
    PartitionLoad, st.just(TOPIC_ID), numbers, st.integers(0, 10**12), st.integers(0, 10**6)
)
keys = st.builds(
    HeavyKey,
    st.just(TOPIC_ID),
    numbers,
    st.integers(0, 5),
    st.integers(0, 1_100),
    st.none() | st.binary(max_size=8),
)
reports = st.builds(
    LoadRecord,
    incarnation=st.just(1),
    at_ms=st.integers(0, 100),
    workers=st.integers(0, 100),
    busy=st.integers(0, 1_000),
    handler_us=st.sampled_from([0, 1, 30, 5_000, 10**7]),
    finished=st.integers(0, 10**5),
    partitions=st.lists(parts, max_size=3).map(tuple),
    heavy=st.lists(keys, max_size=4).map(tuple),
)
loads = st.builds(
    load_of,
    st.dictionaries(st.sampled_from("abcd"), reports, max_size=4),
    st.lists(st.sampled_from("abcd"), max_size=4),
    st.just(IDS),
)


@st.composite
def some_needs(draw: st.DrawFn) -> list[PartitionNeed]:
    found = []
    for tp in PLACES[: draw(st.integers(1, 3))]:
        left = draw(st.integers(0, 10**7))
        found.append(
            PartitionNeed(
                tp,
                left,
                draw(st.floats(0, 10**5)),
                alone=draw(st.integers(0, left)),
                is_walled=draw(st.booleans()),
                is_shared=draw(st.booleans()),
            )
        )
    return found


rules = st.builds(
    ScaleRules,
    target_s=st.integers(10, 3_600),
    workers=st.integers(1, 64),
    is_serial=st.booleans(),
)
groups = st.builds(
    MembersNow,
    count=st.integers(0, 50),
    capacities=st.lists(st.integers(0, 64), max_size=4).map(tuple),
    settled_s=st.floats(0, 200),
    asked_for=st.none() | st.integers(0, 50),
)


@given(some_needs(), loads, groups, rules)
def test_somebody_is_wanted_exactly_while_there_is_something_to_do(
    needs: list[PartitionNeed], load: GroupLoad, members: MembersNow, rule: ScaleRules
) -> None:
    advice = advise(needs, load, members, rule)
    is_idle = all(need.is_idle for need in needs)
    # Members that are there and idle beside a backlog stay as they are: at least one is there.
    assert (advice.wanted == 0) is is_idle
    assert advice.useful is None or advice.useful >= advice.wanted


@given(some_needs(), loads, groups, rules)
def test_an_advice_that_is_followed_stays(
    needs: list[PartitionNeed], load: GroupLoad, members: MembersNow, rule: ScaleRules
) -> None:
    wanted = advise(needs, load, members, rule).wanted
    assert advise(needs, load, replace(members, asked_for=wanted), rule).wanted == wanted
    followed = replace(members, count=wanted, asked_for=wanted)
    assert advise(needs, load, followed, rule).wanted == wanted


@given(some_needs(), loads, groups, rules)
def test_no_member_is_wanted_for_more_than_the_workers_that_can_be_busy(
    needs: list[PartitionNeed], load: GroupLoad, members: MembersNow, rule: ScaleRules
) -> None:
    advice = advise(needs, load, replace(members, count=0, asked_for=None), rule)
    done = sum(need.arrivals + need.left for need in needs)
    by_workers = advice.busy_workers / (0.9 * advice.workers) + 1
    assert advice.wanted <= max(by_workers, done / 90_000 + 1)
