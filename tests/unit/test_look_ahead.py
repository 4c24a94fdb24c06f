"""What was fetched and waits: in turns, within its size, and forgotten with its partition."""

from __future__ import annotations

from coop_consumer.kafka.look_ahead import LookAhead


def filled(**counts: int) -> LookAhead[str, int]:
    """Pieces of ten messages; so many of each partition."""
    ahead: LookAhead[str, int] = LookAhead()
    for place, count in counts.items():
        for number in range(count):
            ahead.add(place, range(10 * number, 10 * number + 10), size=1_000)
    return ahead


def test_nothing_is_lost_and_each_partition_stays_in_order() -> None:
    ahead, found = filled(a=7, b=1, c=3), dict[str, list[int]]()
    while ahead:
        for place, piece in ahead.take(25):
            found.setdefault(place, []).extend(piece)
    assert found == {"a": [*range(70)], "b": [*range(10)], "c": [*range(30)]}
    assert ahead.size == 0


def test_who_was_served_goes_behind_the_others() -> None:
    ahead = filled(a=3, b=2)
    turns = [place for _ in range(5) for place, _ in ahead.take(1)]
    assert turns == ["a", "b", "a", "b", "a"]


def test_a_newcomer_waits_for_one_turn_of_the_others() -> None:
    ahead = filled(a=3, b=3)
    ahead.take(10)
    ahead.add("c", [0], size=100)
    assert [place for place, _ in ahead.take(40)][:3] == ["a", "b", "c"]


def test_of_a_share_each_partition_has_the_same_however_large_its_pieces_are() -> None:
    ahead: LookAhead[str, int] = LookAhead()
    ahead.add("a", range(1_000), size=100_000)
    ahead.add("b", range(1_000), size=100_000)
    taken = ahead.take(16)
    assert taken == [("a", range(8)), ("b", range(8))]
    assert ahead.size == 2 * 100_000 * 992 // 1_000
    assert ahead.take(2) == [("a", range(8, 9)), ("b", range(8, 9))]


def test_where_handlers_are_quick_pieces_stay_whole_and_partitions_take_turns() -> None:
    ahead = filled(a=2, b=2)
    assert ahead.take(15, cuts=False) == [("a", range(10)), ("b", range(10))]
    assert [place for place, _ in ahead.take(10, cuts=False)] == ["a"]
    assert [place for place, _ in ahead.take(10, cuts=False)] == ["b"]


def test_a_partition_that_has_little_leaves_its_share_to_the_others() -> None:
    ahead = filled(a=3)
    ahead.add("b", [0], size=100)
    assert [(place, len(piece)) for place, piece in ahead.take(8)] == [("a", 4), ("b", 1), ("a", 3)]


def test_what_is_dropped_is_gone_and_its_size_too() -> None:
    ahead = filled(a=2, b=2)
    ahead.drop("a")
    ahead.drop("never seen")
    assert ("a" in ahead, "b" in ahead, ahead.size) == (False, True, 2_000)
    assert {place for place, _ in ahead.take(100)} == {"b"}
