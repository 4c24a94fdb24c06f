"""What one of ours tells plain members when it leads them."""

from __future__ import annotations

from assignors import PlainMember, TopicPartition, assign_plain


def of_t(*numbers):
    return tuple(TopicPartition("t", number) for number in numbers)


def members(*ids, topics=("t",)):
    return [PlainMember(id_, topics) for id_ in ids]


def test_range_gives_blocks_in_the_order_of_member_ids():
    plan = assign_plain("range", {"t": 5}, members("b", "c", "a"))
    assert plan == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}, "c": {"t": [4]}}


def test_range_starts_anew_with_each_topic():
    plan = assign_plain("range", {"t": 3, "u": 2}, members("a", "b", topics=("t", "u")))
    assert plan == {"a": {"t": [0, 1], "u": [0]}, "b": {"t": [2], "u": [1]}}


def test_range_puts_static_members_first_by_their_names():
    group = [
        PlainMember("a", ("t",)),
        PlainMember("z", ("t",), instance_id="one"),
        PlainMember("b", ("t",)),
        PlainMember("y", ("t",), instance_id="two"),
    ]
    plan = assign_plain("range", {"t": 4}, group)
    assert plan == {"z": {"t": [0]}, "y": {"t": [1]}, "a": {"t": [2]}, "b": {"t": [3]}}


def test_a_member_beyond_the_partitions_has_an_empty_entry():
    plan = assign_plain("range", {"t": 1}, members("a", "b"))
    assert plan == {"a": {"t": [0]}, "b": {}}


def test_only_subscribers_of_a_topic_get_its_partitions():
    group = [*members("a"), PlainMember("b", ("u",)), PlainMember("c", ("unknown",))]
    for assignor in ("range", "cooperative-sticky"):
        plan = assign_plain(assignor, {"t": 2, "u": 1}, group)
        assert plan == {"a": {"t": [0, 1]}, "b": {"u": [0]}, "c": {}}


def test_cooperative_sticky_leaves_everybody_what_it_owns_if_that_is_balanced():
    group = [
        PlainMember("a", ("t",), owned=of_t(1, 3)),
        PlainMember("b", ("t",), owned=of_t(0, 2)),
    ]
    plan = assign_plain("cooperative-sticky", {"t": 4}, group)
    assert plan == {"a": {"t": [1, 3]}, "b": {"t": [0, 2]}}


def test_cooperative_sticky_gives_what_moves_to_nobody_until_its_owner_joined_without_it():
    group = [PlainMember("a", ("t",), owned=of_t(0, 1, 2, 3)), *members("b")]
    first = assign_plain("cooperative-sticky", {"t": 4}, group)
    assert first["b"] == {}
    kept = of_t(*first["a"]["t"])
    assert len(kept) == 2
    second = assign_plain(
        "cooperative-sticky", {"t": 4}, [PlainMember("a", ("t",), owned=kept), *members("b")]
    )
    assert second["a"] == first["a"]
    assert of_t(*second["b"]["t"]) == tuple(sorted({*of_t(0, 1, 2, 3)} - {*kept}))


def test_cooperative_sticky_gives_what_nobody_owns_at_once():
    group = [PlainMember("a", ("t",), owned=of_t(0, 1)), *members("b")]
    plan = assign_plain("cooperative-sticky", {"t": 4}, group)
    assert plan == {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}


def test_what_two_members_claim_is_given_to_neither_of_them():
    """One of them has missed a rebalance; told that it lost the partition, it lets go of it."""
    group = [PlainMember(id_, ("t",), owned=of_t(0)) for id_ in ("a", "b")]
    plan = assign_plain("cooperative-sticky", {"t": 2}, group)
    assert [n for own in plan.values() for n in own.get("t", [])] == [1]


def test_a_topic_that_was_deleted_is_in_nobodys_way():
    gone = (TopicPartition("gone", 0),)
    group = [PlainMember("a", ("gone", "t"), owned=gone), *members("b")]
    plan = assign_plain("cooperative-sticky", {"t": 2}, group)
    assert sorted(n for own in plan.values() for n in own["t"]) == [0, 1]
