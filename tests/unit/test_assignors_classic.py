"""Round robin and range assignors: the worked examples as printed, and who may not share."""

from __future__ import annotations

import pytest

from assignors import (
    WHOLE,
    AssignmentError,
    KeyRange,
    KeyRangeRangeAssignor,
    KeyRangeRoundRobinAssignor,
    KeyRangeStickyAssignor,
    Member,
    TopicPartition,
    check_cover,
)

N = 9223372036854775807
CLASSICS = [KeyRangeRoundRobinAssignor(), KeyRangeRangeAssignor()]
ALL = [*CLASSICS, KeyRangeStickyAssignor(), KeyRangeStickyAssignor(split="always")]

each_classic = pytest.mark.parametrize("assignor", CLASSICS, ids=lambda a: a.name)
each_assignor = pytest.mark.parametrize(
    "assignor", ALL, ids=lambda a: f"{a.name}-{getattr(a, 'split', '')}"
)


def group(*ids, topics=("t",), **settings):
    return [Member(id_, topics=topics, **settings) for id_ in ids]


def by_partition(plan):
    """Who shares each partition, in the order of their ranges."""
    owners = {}
    for id_, partitions in plan.items():
        for partition, ranges in partitions.items():
            owners.setdefault(str(partition), []).extend((key_range, id_) for key_range in ranges)
    return {partition: [id_ for _, id_ in sorted(owners[partition])] for partition in owners}


def test_round_robin_of_five_members_over_three_partitions_is_as_printed():
    plan = KeyRangeRoundRobinAssignor().assign(
        partitions={"tp": 3}, members=group("M1", "M2", "M3", "M4", "M5", topics=("tp",))
    )
    assert plan == {
        "M1": {TopicPartition("tp", 0): (KeyRange(0, N // 2 - 1),)},
        "M2": {TopicPartition("tp", 1): (KeyRange(0, N // 2 - 1),)},
        "M3": {TopicPartition("tp", 2): (WHOLE,)},
        "M4": {TopicPartition("tp", 0): (KeyRange(N // 2, N),)},
        "M5": {TopicPartition("tp", 1): (KeyRange(N // 2, N),)},
    }


def test_range_of_five_members_over_two_topics_is_as_printed():
    members = group("c1", "c2", "c3", "c4", "c5", topics=("t1", "t2"))
    plan = KeyRangeRangeAssignor().assign(partitions={"t1": 2, "t2": 3}, members=members)
    assert by_partition(plan) == {
        "t1-0": ["c1", "c2", "c3"],
        "t1-1": ["c4", "c5"],
        "t2-0": ["c1", "c2"],
        "t2-1": ["c3", "c4"],
        "t2-2": ["c5"],
    }
    assert plan["c2"][TopicPartition("t1", 0)] == (KeyRange(N // 3, 2 * N // 3 - 1),)
    check_cover(plan, {"t1": 2, "t2": 3}, members)


def test_round_robin_deals_whole_partitions_on_through_all_topics():
    plan = KeyRangeRoundRobinAssignor().assign(
        partitions={"a": 2, "b": 3}, members=group("M1", "M2", topics=("a", "b"))
    )
    assert by_partition(plan) == {
        "a-0": ["M1"],
        "a-1": ["M2"],
        "b-0": ["M1"],
        "b-1": ["M2"],
        "b-2": ["M1"],
    }


def test_range_gives_consecutive_partitions_and_the_rest_to_the_first():
    plan = KeyRangeRangeAssignor().assign(partitions={"t": 5}, members=group("c1", "c2", "c3"))
    owners = ["c1", "c1", "c2", "c2", "c3"]
    assert by_partition(plan) == {f"t-{number}": [id_] for number, id_ in enumerate(owners)}


@each_classic
@pytest.mark.parametrize(
    "forbidden",
    [{"group_allows_sharing": False}, {"topic_allows_sharing": {"t": False}}],
    ids=["group", "topic"],
)
def test_where_sharing_is_forbidden_partitions_stay_whole_and_some_get_nothing(assignor, forbidden):
    members = group("M1", "M2", "M3")
    plan = assignor.assign(partitions={"t": 2}, members=members, **forbidden)
    assert by_partition(plan) == {"t-0": ["M1"], "t-1": ["M2"]}
    assert plan["M3"] == {}


@each_classic
def test_members_that_refuse_to_share_are_served_first_and_the_others_split_the_rest(assignor):
    members = [*group("M1", "M2", "M3"), *group("M4", allow_sharing=False)]
    plan = assignor.assign(partitions={"t": 2}, members=members)
    assert by_partition(plan) == {"t-0": ["M4"], "t-1": ["M1", "M2", "M3"]}


@each_classic
def test_of_members_that_refuse_to_share_the_largest_is_served_first(assignor):
    members = [
        *group("M1", "M2", allow_sharing=False),
        *group("M3", allow_sharing=False, capacity=2),
        *group("M4"),
    ]
    plan = assignor.assign(partitions={"t": 2}, members=members)
    assert by_partition(plan) == {"t-0": ["M3"], "t-1": ["M1"]}


@each_classic
def test_where_nobody_shares_partitions_stay_whole(assignor):
    plan = assignor.assign(partitions={"t": 1}, members=group("M1", "M2", allow_sharing=False))
    assert by_partition(plan) == {"t-0": ["M1"]}


@each_assignor
def test_a_topic_without_metadata_and_one_without_subscribers_are_nobodys(assignor):
    members = group("M1", topics=("t", "unknown"))
    plan = assignor.assign(partitions={"t": 1, "other": 4}, members=members)
    assert plan == {"M1": {TopicPartition("t", 0): (WHOLE,)}}


@each_assignor
def test_a_group_without_members_gets_an_empty_plan(assignor):
    assert assignor.assign(partitions={"t": 3}, members=[]) == {}


@each_assignor
def test_members_without_topics_and_topics_without_partitions_give_empty_entries(assignor):
    members = [Member("M1"), Member("M2", topics=("empty",))]
    assert assignor.assign(partitions={"empty": 0}, members=members) == {"M1": {}, "M2": {}}


@each_assignor
def test_a_topic_named_twice_counts_once(assignor):
    plan = assignor.assign(partitions={"t": 2}, members=[Member("M1", topics=("t", "t"))])
    assert by_partition(plan) == {"t-0": ["M1"], "t-1": ["M1"]}


@each_assignor
def test_two_members_with_one_id_are_refused_by_name_and_topic(assignor):
    members = [Member("M1", topics=("orders",)), Member("M1", topics=("bills",))]
    with pytest.raises(AssignmentError, match=r"two members have the id M1.*orders.*bills"):
        assignor.assign(partitions={"orders": 1}, members=members)


@each_assignor
def test_a_negative_partition_count_is_refused_by_topic_and_member(assignor):
    with pytest.raises(AssignmentError, match=r"topic orders \(subscribed by M1\).*-1"):
        assignor.assign(partitions={"orders": -1}, members=group("M1", topics=("orders",)))


def test_a_capacity_below_one_is_refused_by_member_and_topic():
    with pytest.raises(AssignmentError, match=r"member M1 \(topics orders\): capacity 0"):
        Member("M1", topics=("orders",), capacity=0)


def test_topics_given_as_one_string_are_refused():
    with pytest.raises(AssignmentError, match="member M1: topics is the string 'orders'"):
        Member("M1", topics="orders")


T0 = TopicPartition("t", 0)
LOW, HIGH = WHOLE.parts(2)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ({"M1": {T0: (LOW,)}, "M2": {}}, "I1: t-0: holes"),
        ({"M1": {T0: (WHOLE,)}, "M2": {T0: (HIGH,)}}, r"I1: t-0: .* of M1 overlaps .* of M2"),
        ({"M1": {}, "M2": {}}, "I1: t-0: holes"),
        ({"M1": {T0: (WHOLE,), TopicPartition("t", 1): (WHOLE,)}}, "I1: t-1 .* does not exist"),
        ({"M1": {}, "M3": {T0: (WHOLE,)}}, "I1: t-0 given to M3, which did not subscribe"),
    ],
)
def test_the_check_of_cover_finds_holes_overlaps_and_strangers(plan, reason):
    members = [*group("M1", "M2"), Member("M3")]
    with pytest.raises(AssertionError, match=reason):
        check_cover(plan, {"t": 1}, members)


def test_the_check_of_cover_accepts_parts_in_any_hands():
    check_cover({"M2": {T0: (LOW,)}, "M1": {T0: (HIGH,)}}, {"t": 1}, group("M1", "M2"))


@pytest.mark.parametrize(("hosts", "stores"), [("abab", 2), ("aabb", 4)])
def test_round_robin_looks_at_no_host_so_the_kips_four_tasks_need_two_stores_or_four(
    hosts: str, stores: int
) -> None:
    members = [Member(f"M{i}", topics=("t",), host=host) for i, host in enumerate(hosts)]
    plan = KeyRangeRoundRobinAssignor().assign(partitions={"t": 2}, members=members)
    assert len({(m.host, partition) for m in members for partition in plan[m.id]}) == stores
