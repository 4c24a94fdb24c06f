"""Heavy hashes dealt one by one, and what small pieces do meanwhile."""

from __future__ import annotations

from assignors import TopicPartition
from assignors.atoms import Atom, deal, holder_of, with_owners, without_owners
from assignors.claims import Piece
from assignors.gathering import gathered, is_scattered

T0 = TopicPartition("t", 0)


def dealt(*atoms: tuple[int, int, int], dues: list[int]) -> dict[int, int]:
    """The owner of each hash, given as (load, hash, holder)."""
    everyone = tuple(range(len(dues)))
    return deal(
        [Atom(load, T0, key_hash, holder, everyone) for load, key_hash, holder in atoms],
        dues,
        [0] * len(dues),
    )[T0]


def test_what_fits_stays_with_its_holder() -> None:
    assert dealt((50, 1, 0), (40, 2, 0), (10, 3, 1), dues=[100, 100]) == {1: 0, 2: 0, 3: 1}


def test_the_largest_comes_first_and_what_does_not_fit_goes_where_most_room_is() -> None:
    owners = dealt((60, 1, 0), (50, 2, 0), (30, 3, 1), dues=[100, 100, 90])
    assert owners == {1: 0, 2: 1, 3: 1}
    assert dealt((50, 2, 0), (60, 1, 0), (70, 3, 1), dues=[100, 100, 90]) == {1: 0, 2: 2, 3: 1}


def test_the_only_heavy_hash_of_a_member_stays_even_if_it_is_more_than_its_due() -> None:
    assert dealt((150, 1, 0), dues=[100, 120]) == {1: 0}


def test_a_hash_of_nobody_goes_where_most_room_is() -> None:
    assert dealt((10, 1, -1), dues=[100, 120]) == {1: 1}


def test_who_carries_much_already_gets_none() -> None:
    atoms = [Atom(10, T0, 1, -1, (0, 1))]
    assert deal(atoms, [100, 120], [0, 60]) == {T0: {1: 0}}


def test_the_holder_of_a_hash_is_found_or_nobody() -> None:
    pieces = [Piece(5, 10, 1), Piece(10, 20, 2)]
    assert [holder_of(pieces, key_hash) for key_hash in (4, 5, 9, 10, 19, 20)] == [
        *(-1, 1, 1, 2, 2, -1)
    ]


def test_a_single_hash_is_put_in_and_taken_out_again() -> None:
    whole = [Piece(0, 9, 1), Piece(9, 12, 2)]
    owners = {0: 2, 5: 2, 9: 1}
    made = with_owners(whole, owners)
    assert made == [
        Piece(0, 1, 2),
        Piece(1, 5, 1),
        Piece(5, 6, 2),
        Piece(6, 10, 1),
        Piece(10, 12, 2),
    ]
    assert without_owners(made, owners) == [Piece(0, 10, 1), Piece(10, 12, 2)]


def test_a_single_hash_alone_on_its_line_is_nobodys() -> None:
    assert without_owners([Piece(5, 6, 2)], {5: 1}) == []


# ---- gathering -----------------------------------------------------------------------------------


def test_four_pieces_a_member_are_left_as_they_are() -> None:
    line = [Piece(at, at + 1, at % 2) for at in range(8)]
    assert not is_scattered([line])
    assert gathered([line]) == [line]


def test_of_more_pieces_the_smallest_goes_to_both_its_neighbours() -> None:
    line = [Piece(at * 100, at * 100 + 100, at % 2) for at in range(9)]
    line[4:6] = [Piece(400, 590, 0), Piece(590, 600, 1)]
    assert is_scattered([line])
    assert Piece(400, 700, 0) in gathered([line])[0]


def test_no_more_than_a_twentieth_goes_at_a_time() -> None:
    line = [Piece(at * 10, at * 10 + 10, at % 3) for at in range(300)]
    made = gathered([line])[0]
    had = {at: piece.holder for piece in line for at in range(piece.begin, piece.end)}
    changed = sum(had[at] != piece.holder for piece in made for at in range(piece.begin, piece.end))
    assert 0 < changed <= 3_000 * 5 // 100
    assert len(made) < len(line)


def test_a_member_keeps_its_last_piece() -> None:
    line = [Piece(0, 1, 9), *(Piece(at * 100 + 1, at * 100 + 101, at % 2) for at in range(14))]
    assert any(piece.holder == 9 for piece in gathered([line])[0])
