"""What every assignor promises for any group, and the goals of the sticky one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignors import (
    WHOLE,
    KeyRange,
    KeyRangeRangeAssignor,
    KeyRangeRoundRobinAssignor,
    KeyRangeStickyAssignor,
    Member,
    TopicPartition,
    check_cover,
    intersect,
    union,
)

ASSIGNORS = [
    KeyRangeRoundRobinAssignor(),
    KeyRangeRangeAssignor(),
    KeyRangeStickyAssignor(),
    KeyRangeStickyAssignor(split="always"),
]
TOPICS = ("a", "b", "c")
SPACE = 2**63

ends = st.lists(st.integers(0, 2**63 - 1), min_size=2, max_size=2).map(sorted)
key_ranges = st.lists(ends, max_size=3).map(
    lambda pairs: union(KeyRange(lo, hi) for lo, hi in pairs)
)
owned = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 4)),
    key_ranges | st.just((WHOLE,)),
    max_size=4,
)
member = st.builds(
    Member,
    id=st.integers(0, 99).map("M{:02}".format),
    topics=st.lists(st.sampled_from(TOPICS), unique=True).map(tuple),
    capacity=st.integers(1, 20),
    host=st.sampled_from(["", "h1", "h2"]),
    allow_sharing=st.integers(0, 4).map(bool),
    owned=owned,
    draining=owned,
)
groups = st.lists(member, max_size=12, unique_by=lambda m: m.id)
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 5))
permissions = st.dictionaries(st.sampled_from(TOPICS), st.booleans())

sharers = st.lists(
    st.builds(Member, st.integers(0, 999).map("M{:03}".format), st.just(("t",)), st.integers(1, 9)),
    min_size=2,
    max_size=25,
    unique_by=lambda m: m.id,
)

each_assignor = pytest.mark.parametrize(
    "assignor", ASSIGNORS, ids=lambda a: f"{a.name}-{getattr(a, 'split', '')}"
)


def sizes(plan):
    return {
        id_: sum(key_range.size for ranges in given.values() for key_range in ranges)
        for id_, given in plan.items()
    }


def topics_that_matter(given):
    """Topics of which a member has more than what its slack leaves to it by chance."""
    of_topic = Counter()
    for partition, ranges in given.items():
        of_topic[partition.topic] += sum(key_range.size for key_range in ranges)
    return [topic for topic, size in of_topic.items() if size > of_topic.total() / 50]


def kept(before, after):
    return sum(
        key_range.size
        for id_, given in after.items()
        for partition, ranges in given.items()
        for key_range in intersect(ranges, before.get(id_, {}).get(partition, ()))
    )


def owning(members, plan):
    return [replace(member, owned=plan.get(member.id, {})) for member in members]


@each_assignor
@given(members=groups, partitions=counts, topics=permissions, group=st.booleans())
def test_every_plan_covers_and_keeps_to_permissions(assignor, members, partitions, topics, group):
    plan = assignor.assign(
        partitions=partitions,
        members=members,
        topic_allows_sharing=topics,
        group_allows_sharing=group,
    )
    check_cover(plan, partitions, members)
    assert plan.keys() == {member.id for member in members}
    sharing = {member.id: member.allow_sharing and group for member in members}
    for id_, given_to in plan.items():
        for partition, ranges in given_to.items():
            if not (sharing[id_] and topics.get(partition.topic, True)):
                assert ranges == (WHOLE,)


@each_assignor
@given(members=groups, partitions=counts, data=st.data())
def test_the_order_of_the_input_does_not_matter(assignor, members, partitions, data):
    shuffled = data.draw(st.permutations(members))
    turned = [
        replace(m, topics=m.topics[::-1], owned=dict(reversed(m.owned.items()))) for m in shuffled
    ]
    backwards = dict(reversed(partitions.items()))
    assert assignor.assign(partitions=backwards, members=turned) == assignor.assign(
        partitions=partitions, members=members
    )


@each_assignor
@given(members=groups, partitions=counts)
def test_a_settled_group_is_left_as_it_is(assignor, members, partitions):
    plan = assignor.assign(partitions=partitions, members=members)
    again = assignor.assign(partitions=partitions, members=owning(members, plan))
    assert again == plan


@given(members=sharers, count=st.integers(1, 5), split=st.sampled_from(["auto", "always"]))
def test_shares_are_within_one_percent_of_the_due(members, count, split):
    if split == "auto":
        count = min(count, len(members) - 1)
    plan = KeyRangeStickyAssignor(split).assign(partitions={"t": count}, members=members)
    capacity = sum(member.capacity for member in members)
    for m in members:
        assert sizes(plan)[m.id] == pytest.approx(count * SPACE * m.capacity / capacity, rel=0.01)


@given(members=groups, partitions=counts)
def test_nobody_shares_a_topic_with_somebody_who_carries_more(members, partitions):
    """Fair over topics: who takes of one has no more than the others who could take it."""
    everyone = [replace(m, allow_sharing=True) for m in members]
    plan = KeyRangeStickyAssignor("always").assign(partitions=partitions, members=everyone)
    has = sizes(plan)
    weight = {m.id: has[m.id] / m.capacity for m in everyone}
    for m in everyone:
        for topic in topics_that_matter(plan[m.id]):
            for other in everyone:
                if topic in other.topics:
                    assert weight[m.id] <= weight[other.id] * 1.03 + SPACE / 1000


@given(members=groups, partitions=counts)
def test_whole_partitions_could_not_be_moved_to_anyone_s_relief(members, partitions):
    plan = KeyRangeStickyAssignor().assign(
        partitions=partitions, members=members, group_allows_sharing=False
    )
    load = {m.id: len(plan[m.id]) for m in members}
    for m in members:
        for topic in {partition.topic for partition in plan[m.id]}:
            for other in members:
                if topic in other.topics and other is not m:
                    assert (load[other.id] + 1) / other.capacity >= load[m.id] / m.capacity


@given(members=sharers, count=st.integers(1, 5), newcomer=st.integers(1, 9), joins=st.booleans())
def test_one_join_or_leave_moves_at_most_five_percent_more_than_it_must(
    members, count, newcomer, joins
):
    count = min(count, max(len(members) - 2, 1))
    sticky = KeyRangeStickyAssignor("always")
    before = sticky.assign(partitions={"t": count}, members=members)
    now = [*members, Member("X", ("t",), newcomer)] if joins else members[1:]
    after = sticky.assign(partitions={"t": count}, members=owning(now, before))
    capacity = sum(m.capacity for m in now)
    due = {m.id: count * SPACE * m.capacity / capacity for m in now}
    had = {m.id: sizes(before).get(m.id, 0) for m in now}
    # Any plan within 1 % moves what nobody owns and what is too much, and what is too little.
    unowned = count * SPACE - sum(had.values())
    too_much = sum(max(0, had[m.id] - 1.01 * due[m.id]) for m in now)
    too_little = sum(max(0, 0.99 * due[m.id] - had[m.id]) for m in now)
    least = max(unowned + too_much, too_little)
    assert count * SPACE - kept(before, after) <= 1.05 * least


@given(
    members=st.integers(2, 12),
    count=st.integers(1, 40),
    joins=st.booleans(),
)
def test_one_join_or_leave_moves_no_more_whole_partitions_than_it_must(members, count, joins):
    group = [Member(f"M{number:02}", ("t",)) for number in range(members)]
    sticky = KeyRangeStickyAssignor()

    def assign(members):
        return sticky.assign(partitions={"t": count}, members=members, group_allows_sharing=False)

    before = assign(group)
    now = [*group, Member("X", ("t",))] if joins else group[1:]
    after = assign(owning(now, before))
    had = sorted((len(before.get(m.id, ())) for m in now), reverse=True)
    floor, larger = divmod(count, len(now))
    quotas = [floor + (place < larger) for place in range(len(now))]
    most_kept = sum(map(min, had, quotas))
    assert kept(before, after) == most_kept * SPACE
