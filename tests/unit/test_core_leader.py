"""The group leader's plan: who gets what, who waits for whom, who is told no."""

from __future__ import annotations

from assignors import (
    WHOLE,
    WIRE_VERSION,
    AssignmentData,
    Claim,
    ClaimLoad,
    HeavyHash,
    KeyRange,
    KeyRangeStickyAssignor,
    Subscription,
    TopicPartition,
    covers,
    decode_assignment,
    encode_subscription,
    union,
)
from coop_consumer.core.actions import Level
from coop_consumer.core.leader import GroupMemberData, plan

T0 = TopicPartition("t", 0)


def subscription(
    name: str,
    *claims: Claim,
    capacity: int = 1,
    leaving: bool = False,
    contract: str = "contract",
) -> bytes:
    return encode_subscription(
        Subscription(name, 1, "host", capacity, True, contract, 0, claims=claims, leaving=leaving)
    )


def planned(**user_data: bytes) -> dict[str, AssignmentData]:
    made = plan(
        KeyRangeStickyAssignor(),
        {"t": 1},
        [GroupMemberData(name, ("t",), data) for name, data in user_data.items()],
        topic_allows_sharing={},
        group_allows_sharing=True,
        now_ms=0,
    )
    return {name: decode_assignment(told.user_data) for name, told in made.members.items()}


def test_a_member_that_leaves_gets_nothing_and_is_waited_for() -> None:
    held = Claim(7, T0, (WHOLE,), draining=True)
    told = planned(a=subscription("a", held, capacity=9, leaving=True), b=subscription("b"))
    assert told["a"].ranges == {}
    assert not told["a"].refused
    assert told["b"].ranges == {T0: (WHOLE,)}
    assert [(wait.member, wait.number) for wait in told["b"].waits] == [("a", 7)]
    assert told["a"].lead == "b"
    assert told["b"].live == ("a", "b")


def test_whoever_holds_a_range_keeps_it() -> None:
    """By names alone each would get the other's half."""
    low, high = WHOLE.parts(2)
    told = planned(
        a=subscription("a", Claim(3, T0, (high,), draining=False)),
        b=subscription("b", Claim(5, T0, (low,), draining=False)),
    )
    assert {name: data.ranges for name, data in told.items()} == {
        "a": {T0: (high,)},
        "b": {T0: (low,)},
    }
    assert all(not data.waits for data in told.values())


def test_who_comes_takes_no_more_than_a_share_and_the_others_keep_the_rest() -> None:
    low, high = WHOLE.parts(2)
    told = planned(
        a=subscription("a", Claim(3, T0, (high,), draining=False)),
        b=subscription("b", Claim(5, T0, (low,), draining=False)),
        c=subscription("c"),
    )
    for name, had in (("a", high), ("b", low)):
        assert covers((had,), told[name].ranges[T0]), f"{name} gets what it had not"


def test_ranges_are_cut_by_the_loads_that_claims_carry() -> None:
    low, high = WHOLE.parts(2)
    all_in_front = ClaimLoad((10**9,) * 4 + (0,) * 4, (), 100)
    told = planned(
        a=subscription("a", Claim(3, T0, (low,), draining=False, load=all_in_front)),
        b=subscription("b", Claim(5, T0, (high,), draining=False, load=all_in_front)),
        c=subscription("c"),
    )
    # Of what nobody knows to be light, c gets a third; and it comes from where the load is.
    assert sum(r.size for r in told["c"].ranges[T0]) < WHOLE.size // 4


def test_what_a_claim_that_ends_has_cost_does_not_count() -> None:
    load = ClaimLoad((10**9,) + (0,) * 7, (), 100)
    plans = [
        planned(
            a=subscription("a", Claim(3, T0, (WHOLE,), draining=True, load=told)),
            b=subscription("b"),
        )
        for told in (load, None)
    ]
    assert plans[0] == plans[1]


def test_a_load_that_cannot_be_read_is_remarked_and_counts_as_even() -> None:
    low, high = WHOLE.parts(2)
    elsewhere = ClaimLoad((10**9,) * 8, (HeavyHash(high.lo, 10**12),), 100)
    even = ClaimLoad((10**9,) * 8, (), 100)
    made = plan(
        KeyRangeStickyAssignor(),
        {"t": 1},
        [
            GroupMemberData(
                "a", ("t",), subscription("a", Claim(3, T0, (low,), False, 0, elsewhere))
            ),
            GroupMemberData("b", ("t",), subscription("b", Claim(5, T0, (high,), False, 0, even))),
        ],
        topic_allows_sharing={},
        group_allows_sharing=True,
        now_ms=0,
    )
    told = {name: decode_assignment(it.user_data).ranges for name, it in made.members.items()}
    assert told == {"a": {T0: (low,)}, "b": {T0: (high,)}}
    assert made.notes == []
    [remark] = made.remarks
    assert (remark.member, remark.about, remark.level) == ("a", "unreadable", Level.WARNING)
    assert remark.text.startswith("a says what its claims cost in bytes that are no loads")


def test_what_members_of_other_topics_say_is_nothing_to_compare_with() -> None:
    """Two members of a heavy topic are no liars beside thirty of a light one."""
    heavy, light = ClaimLoad((10**12,) * 8, (), 100), ClaimLoad((10,) * 8, (), 100)
    members = []
    for topic, count, load in (("heavy", 2, heavy), ("light", 30, light)):
        for number, part in enumerate(WHOLE.parts(count)):
            claim = Claim(1, TopicPartition(topic, 0), (part,), False, 0, load)
            name = f"{topic}{number}"
            members.append(GroupMemberData(name, (topic,), subscription(name, claim)))
    made = plan(
        KeyRangeStickyAssignor(),
        {"heavy": 1, "light": 1},
        members,
        topic_allows_sharing={},
        group_allows_sharing=True,
        now_ms=0,
    )
    assert made.remarks == ()


def test_a_group_that_leaves_as_a_whole_is_assigned_nothing() -> None:
    told = planned(a=subscription("a", leaving=True), b=subscription("b", leaving=True))
    assert all(data.ranges == {} for data in told.values())


def test_a_newer_member_that_still_speaks_our_version_is_served_like_any_other() -> None:
    """It says so in our version, with fields at the end that we do not know."""
    newer = Subscription("a", 1, "host", 1, True, "contract", 0, supported=(1, WIRE_VERSION + 1))
    data = encode_subscription(newer)
    longer = data[:2] + bytes((data[2] + 4,)) + data[3:] + b"news"
    told = planned(a=longer, b=subscription("b"))
    assert union(r for data in told.values() for r in data.ranges[T0]) == (WHOLE,)
    assert {data.refused for data in told.values()} == {""}


def test_who_speaks_no_version_of_ours_is_refused_and_told_which_one_it_spoke() -> None:
    spoken = (WIRE_VERSION + 1, WIRE_VERSION + 2)
    newer = Subscription("a", 1, "host", 1, True, "contract", 0, supported=spoken)
    told = planned(a=encode_subscription(newer), b=subscription("b"))
    assert told["a"].refused.startswith(f"unreadable:subscription: version {WIRE_VERSION + 1} is")
    assert told["b"].ranges == {T0: (WHOLE,)}


def test_of_two_members_of_one_name_the_second_is_refused() -> None:
    told = planned(a=subscription("one"), b=subscription("one"))
    assert (told["a"].refused, told["b"].refused) == ("", "twin:")
    assert told["a"].ranges == {T0: (WHOLE,)}


def test_members_in_different_epochs_are_told_the_newest() -> None:
    low, high = WHOLE.parts(2)
    told = planned(
        a=subscription("a", Claim(1, T0, (low,), draining=False, epoch=3)),
        b=subscription("b", Claim(1, T0, (high,), draining=False, epoch=2)),
    )
    assert all(data.epochs == {T0: 3} for data in told.values())


OLD, NEW = "hash=mmh3,progress=01/50,format=1", "hash=mmh3,progress=02/50,format=1"


def test_who_leaves_has_no_vote_on_the_contract() -> None:
    told = planned(
        a=subscription("a", leaving=True, contract=OLD),
        b=subscription("b", leaving=True, contract=OLD),
        c=subscription("c", contract=NEW),
    )
    assert told["c"].ranges == {T0: (WHOLE,)}


def test_of_as_many_members_each_those_of_the_smaller_contract_go_on() -> None:
    told = planned(a=subscription("a", contract=NEW), b=subscription("b", contract=OLD))
    assert told["a"].refused == f"contract:{OLD}"
    assert told["b"].ranges == {T0: (WHOLE,)}


def test_a_handler_of_a_run_that_has_lost_its_progress_topic_is_waited_for() -> None:
    running = Claim(7, T0, (KeyRange(5, 5),), draining=True)
    told = planned(
        a=subscription("a", running, leaving=True, contract=OLD), b=subscription("b", contract=NEW)
    )
    assert [(wait.member, wait.ranges) for wait in told["b"].waits] == [("a", (KeyRange(5, 5),))]


def test_who_means_something_else_by_a_hash_is_refused_and_not_waited_for() -> None:
    other = subscription("a", Claim(7, T0, (WHOLE,), draining=False), contract="hash=crc32")
    told = planned(a=other, b=subscription("b", contract=NEW), c=subscription("c", contract=NEW))
    assert told["a"].refused == f"contract:{NEW}"
    assert all(not data.waits for data in told.values())
