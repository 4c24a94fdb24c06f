"""The sticky assignor: its goals, one sentence each, and its memory under churn."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from assignors import (
    KEY_HASH_MAX,
    WHOLE,
    KeyRange,
    KeyRangeStickyAssignor,
    Member,
    TopicPartition,
    check_cover,
    intersect,
)
from assignors.claims import LINE, Piece
from assignors.lines import Claimant, divide

N = KEY_HASH_MAX
LOW, HIGH = WHOLE.parts(2)
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def group(*ids, topics=("t",), **settings):
    return [Member(id_, topics=topics, **settings) for id_ in ids]


def again(members, plan):
    """The same members, owning what a plan gave them; whom it does not know owns nothing."""
    return [
        Member(m.id, m.topics, m.capacity, m.host, m.allow_sharing, owned=plan.get(m.id, {}))
        for m in members
    ]


def sizes(plan):
    return {
        id_: sum(key_range.size for ranges in given.values() for key_range in ranges)
        for id_, given in plan.items()
    }


def moved(before, after):
    """How much of the hash space has another owner than before, or had none."""
    return sum(
        key_range.size
        for id_, given in after.items()
        for partition, ranges in given.items()
        for key_range in ranges
    ) - sum(
        key_range.size
        for id_, given in after.items()
        for partition, ranges in given.items()
        for key_range in intersect(ranges, before.get(id_, {}).get(partition, ()))
    )


def dues(members, partitions):
    capacity = sum(member.capacity for member in members)
    return {member.id: partitions * 2**63 * member.capacity / capacity for member in members}


def assign(members, count=1, split="auto", **settings):
    plan = KeyRangeStickyAssignor(split).assign(
        partitions={"t": count}, members=members, **settings
    )
    check_cover(plan, {"t": count}, members)
    return plan


def test_two_members_halve_a_partition_as_the_kip_prints_it():
    assert assign(group("M1", "M2")) == {"M1": {T0: (LOW,)}, "M2": {T0: (HIGH,)}}


@pytest.mark.parametrize("hosts", ["aabb", "abab", "abba"])
def test_two_partitions_on_two_hosts_of_two_members_each_stay_on_one_host(hosts):
    members = [Member(f"M{i}", topics=("t",), host=host) for i, host in enumerate(hosts)]
    plan = assign(members, count=2)
    hosts_of = {
        partition: {m.host for m in members if partition in plan[m.id]} for partition in (T0, T1)
    }
    assert sorted(map(sorted, hosts_of.values())) == [["a"], ["b"]]
    assert all(len(ranges) == 1 for given in plan.values() for ranges in given.values())
    assert sizes(plan) == pytest.approx(dues(members, 2), rel=1e-12)


def test_members_not_more_than_partitions_get_whole_ones():
    plan = assign(group("M1", "M2", "M3"), count=3)
    assert sorted(plan.values(), key=str) == [{T0: (WHOLE,)}, {T1: (WHOLE,)}, {T2: (WHOLE,)}]


def test_split_always_divides_evenly_where_whole_partitions_cannot():
    plan = assign(group("M1", "M2"), count=3, split="always")
    assert sizes(plan) == pytest.approx(dues(group("M1", "M2"), 3), rel=1e-12)


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="split='never' is not known: 'auto' or 'always'"):
        KeyRangeStickyAssignor(split="never")


def test_whole_partitions_are_in_proportion_to_capacity():
    members = [*group("M1"), *group("M2", capacity=3)]
    plan = assign(members, count=8)
    assert {id_: len(given) for id_, given in plan.items()} == {"M1": 2, "M2": 6}


def test_ranges_are_in_proportion_to_capacity():
    members = [*group("M1", capacity=16), *group("M2", capacity=48)]
    assert sizes(assign(members)) == pytest.approx(dues(members, 1), rel=1e-12)


@pytest.mark.parametrize(
    "forbidden",
    [{"group_allows_sharing": False}, {"topic_allows_sharing": {"t": False}}],
    ids=["group", "topic"],
)
@pytest.mark.parametrize("split", ["auto", "always"])
def test_where_sharing_is_forbidden_partitions_stay_whole(forbidden, split):
    plan = assign(group("M1", "M2", "M3"), count=2, split=split, **forbidden)
    assert plan == {"M1": {T0: (WHOLE,)}, "M2": {T1: (WHOLE,)}, "M3": {}}


def test_members_that_refuse_to_share_are_served_first_and_the_others_split_the_rest():
    members = [*group("M1", "M2"), *group("M3", allow_sharing=False)]
    plan = assign(members, count=2)
    assert plan["M3"] == {T0: (WHOLE,)}
    assert plan["M1"] == {T1: (LOW,)}
    assert plan["M2"] == {T1: (HIGH,)}


def test_a_large_member_that_refuses_to_share_gets_as_many_whole_partitions_as_it_is_due():
    members = [*group("M1", "M2", "M3", "M4"), *group("M5", allow_sharing=False, capacity=4)]
    plan = assign(members, count=4)
    assert len(plan["M5"]) == 2
    assert set(plan["M5"].values()) == {(WHOLE,)}


def test_a_member_that_refuses_to_share_keeps_its_partition_when_a_second_one_comes():
    first = [*group("M1", "M2", "M3"), *group("M8", allow_sharing=False)]
    plan = assign(first, count=3)
    both = [*again(first, plan), *group("M0", allow_sharing=False)]
    assert assign(both, count=3)["M8"] == plan["M8"]


def test_sharers_with_less_of_one_topic_get_more_of_the_other():
    """Topic `a` may not be split; who gets one of its partitions gets less of `b`."""
    members = group("M1", "M2", "M3", topics=("a", "b"))
    plan = KeyRangeStickyAssignor().assign(
        partitions={"a": 1, "b": 1}, members=members, topic_allows_sharing={"a": False}
    )
    check_cover(plan, {"a": 1, "b": 1}, members)
    assert plan["M1"] == {TopicPartition("a", 0): (WHOLE,)}
    assert plan["M2"] == {TopicPartition("b", 0): (LOW,)}
    assert plan["M3"] == {TopicPartition("b", 0): (HIGH,)}


def test_members_of_different_topics_even_out_over_the_topics_they_have_in_common():
    members = [*group("M1", "M2", topics=("a", "b")), *group("M3", "M4", topics=("b",))]
    counts = {"a": 1, "b": 1}
    plan = KeyRangeStickyAssignor().assign(partitions=counts, members=members)
    check_cover(plan, counts, members)
    assert sizes(plan) == pytest.approx(dues(members, 2), rel=0.01)
    members = again(members, plan)
    assert KeyRangeStickyAssignor().assign(partitions=counts, members=members) == plan


def test_whole_partitions_pass_through_a_third_member_where_that_is_the_only_way():
    """M1 has all of `a`; only M2 can relieve it, and M2 itself only by giving `b` to M3."""
    counts = {"a": 2, "b": 1}
    whole = {"a0": TopicPartition("a", 0), "a1": TopicPartition("a", 1)}
    members = [
        Member("M1", ("a",), owned=dict.fromkeys(whole.values(), (WHOLE,))),
        Member("M2", ("a", "b"), owned={TopicPartition("b", 0): (WHOLE,)}),
        Member("M3", ("b",)),
    ]
    plan = KeyRangeStickyAssignor().assign(partitions=counts, members=members)
    check_cover(plan, counts, members)
    assert [len(plan[id_]) for id_ in ("M1", "M2", "M3")] == [1, 1, 1]
    assert plan["M3"] == {TopicPartition("b", 0): (WHOLE,)}


def test_the_remainder_goes_to_who_has_it_already():
    members = group("M1", "M2")
    plan = assign([Member("M1", ("t",)), Member("M2", ("t",), owned={T2: (WHOLE,)})], count=3)
    assert T2 in plan["M2"]
    assert assign(again(members, plan), count=3) == plan


def test_a_member_that_joins_takes_only_its_due_and_nobody_else_gains():
    members = group("M1", "M2", "M3", "M4")
    before = assign(members, count=3)
    joined = [*again(members, before), *group("M5")]
    after = assign(joined, count=3)
    assert moved(before, after) == pytest.approx(3 * 2**63 / 5, rel=0.01)
    assert sizes(after) == pytest.approx(dues(joined, 3), rel=0.01)


def test_what_a_member_left_goes_to_its_neighbours_without_new_ranges():
    members = group("M1", "M2", "M3")
    before = assign(members)
    after = assign(again([members[0], members[2]], before))
    assert after == {"M1": {T0: (LOW,)}, "M3": {T0: (HIGH,)}}


def test_draining_ranges_are_not_sticky():
    members = [
        Member("M1", ("t",), draining={T0: (HIGH,)}),
        Member("M2", ("t",), draining={T0: (LOW,)}),
    ]
    assert assign(members) == assign(group("M1", "M2"))


def test_a_hash_that_two_members_own_stays_with_the_lower_id():
    members = [
        Member("M2", ("t",), owned={T0: (KeyRange(0, N // 2 + 999),)}),
        Member("M1", ("t",), owned={T0: (HIGH,)}),
    ]
    assert assign(members) == {"M1": {T0: (HIGH,)}, "M2": {T0: (LOW,)}}


def test_owned_partitions_that_are_gone_or_not_subscribed_are_ignored():
    stale = {TopicPartition("t", 9): (WHOLE,), TopicPartition("x", 0): (WHOLE,), T0: ()}
    members = [Member("M1", ("t",), owned=stale), Member("M2", ("t",))]
    assert assign(members) == assign(group("M1", "M2"))


def test_partitions_become_whole_again_with_who_has_most_of_them():
    plan = assign(
        [
            Member("M1", ("t",), owned={T1: (WHOLE,), T0: (KeyRange(0, 9),)}),
            Member("M2", ("t",), owned={T0: (KeyRange(10, N),)}),
        ],
        count=2,
    )
    assert plan == {"M1": {T1: (WHOLE,)}, "M2": {T0: (WHOLE,)}}


@pytest.mark.parametrize(
    ("partitions", "first_size", "rounds"), [(1, 4, 300), (3, 10, 300), (2, 60, 100)]
)
@pytest.mark.parametrize("capacity_max", [1, 8])
def test_churn_keeps_balance_moves_little_and_makes_no_dust(
    partitions, first_size, rounds, capacity_max
):
    """Hundreds of joins and leaves: shares, moves and the number of ranges stay within bounds."""
    rng = random.Random(first_size * rounds + capacity_max)
    names = iter(f"M{number:05}" for number in range(10**5))

    def newcomer():
        return Member(next(names), ("t",), capacity=rng.randint(1, capacity_max))

    members = [newcomer() for _ in range(first_size)]
    plan = assign(members, count=partitions)
    for _ in range(rounds):
        if len(members) > partitions + 1 and (rng.random() < 0.5 or len(members) > 2 * first_size):
            members.remove(rng.choice(members))
        else:
            members.append(newcomer())
        before, plan = plan, assign(again(members, plan), count=partitions)
        due, had, has = dues(members, partitions), sizes(before), sizes(plan)
        assert has == pytest.approx(due, rel=0.01)
        kept = sum(min(had.get(id_, 0), due[id_]) for id_ in due)
        assert moved(before, plan) <= 1.05 * (partitions * 2**63 - kept)
        ranges = [r for given in plan.values() for ranges in given.values() for r in ranges]
        assert len(ranges) <= 2 * min(first_size, 20) * len(members)
        assert min(r.size for r in ranges) > min(due.values()) / 10_000


def test_a_member_that_is_due_nothing_of_a_topic_keeps_no_scrap_of_it():
    """M1 has all of `a`, so it is due nothing of `b`: the hash it owns there goes."""
    b0 = TopicPartition("b", 0)
    members = [
        Member("M1", ("a", "b"), owned={b0: (KeyRange(7, 7),)}),
        *group("M2", "M3", topics=("b",)),
    ]
    plan = KeyRangeStickyAssignor("always").assign(
        partitions={"a": 2, "b": 1}, members=members, topic_allows_sharing={"a": False}
    )
    check_cover(plan, {"a": 2, "b": 1}, members)
    assert b0 not in plan["M1"]


def test_a_member_with_more_slack_than_ranges_is_asked_for_no_more_than_it_holds():
    """Members that carry much besides are due next to nothing here, yet hold a little more."""
    unit = LINE // 10_000
    held = [Piece(0, 10 * unit, 1), Piece(10 * unit, 50 * unit, 2)]
    claimants = {
        1: Claimant(due=unit, load=LINE, host=""),
        2: Claimant(due=unit, load=LINE, host=""),
        3: Claimant(due=LINE - 3 * unit, load=LINE, host=""),
        4: Claimant(due=unit, load=unit, host=""),
    }
    (line,) = divide([held], claimants)
    assert [line[0].begin, line[-1].end] == [0, LINE]
    assert all(one.end == other.begin for one, other in pairwise(line))
    has = {i: sum(p.end - p.begin for p in line if p.holder == i) for i in claimants}
    assert all(abs(has[i] - claimants[i].due) * 100 <= claimants[i].load for i in claimants)


@pytest.mark.parametrize("hosts", ["aabb", "abab", "abba"])
def test_the_kips_four_shared_tasks_need_two_state_stores(hosts):
    """Two partitions, two instances of two threads: a store a partition and host, two in all."""
    members = [Member(f"M{i}", topics=("t",), host=host) for i, host in enumerate(hosts)]
    plan = KeyRangeStickyAssignor().assign(partitions={"t": 2}, members=members)
    stores = {(m.host, partition) for m in members for partition in plan[m.id]}
    assert {host for host, _ in stores} == {"a", "b"}
    assert len(stores) == 2
    tasks = [key_range for own in plan.values() for ranges in own.values() for key_range in ranges]
    assert [task.size for task in tasks] == pytest.approx([N / 2] * 4)
