"""What the leader says of loads that it does not believe, or misses."""

from __future__ import annotations

from assignors import WHOLE, ClaimLoad, Member, RangesLoad, TopicPartition
from coop_consumer.core.actions import Level
from coop_consumer.core.load_remarks import load_remarks

T0 = TopicPartition("t", 0)
PARTS = WHOLE.parts(12)


def member(number: int, weight: int | None, *, owns: bool = True) -> Member:
    own = {T0: (PARTS[number],)} if owns else {}
    load = ClaimLoad((weight or 0,) * 8, (), 100)
    loads = {} if weight is None else {T0: (RangesLoad((PARTS[number],), load),)}
    return Member(f"m{number:02}", ("t",), owned=own, loads=loads)


def test_nothing_is_odd_about_loads_of_which_one_is_six_times_the_others() -> None:
    group = [member(number, 6_000 if number == 3 else 1_000) for number in range(12)]
    assert list(load_remarks(group, ())) == []


def test_where_nobody_says_a_load_nothing_is_missed() -> None:
    assert list(load_remarks([member(n, None) for n in range(12)], ())) == []
    assert list(load_remarks([], ())) == []


def test_a_load_of_which_hardly_anything_counts_is_told() -> None:
    group = [member(number, 2**60 if number == 3 else 1_000) for number in range(12)]
    [remark] = load_remarks(group, ())
    assert (remark.member, remark.about, remark.level) == ("m03", "much", Level.WARNING)
    assert "than its share can be: less than 1 % of that counts." in remark.text


def test_a_member_with_ranges_that_says_no_load_is_told_quietly() -> None:
    """It may be new, or of a version that says none."""
    group = [member(0, None), member(1, 0), member(2, None, owns=False), member(3, 1_000)]
    told = [(it.member, it.about, it.level) for it in load_remarks(group, ())]
    assert told == [("m00", "none", Level.INFO), ("m01", "none", Level.INFO)]


def test_a_load_that_cannot_be_read_is_told_as_that_alone() -> None:
    group = [member(0, None), member(3, 1_000)]
    told = [(it.member, it.about, it.level) for it in load_remarks(group, {"m00"})]
    assert told == [("m00", "unreadable", Level.WARNING)]
