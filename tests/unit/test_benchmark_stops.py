"""The arithmetic of the benchmarks that watch keys stand still."""

from __future__ import annotations

import math

from benchmarks.stops import absences_ms, finished_late, gaps_ms, moves_ms, owned, percentile
from tests.support.journal import Row

A, B, C = 1, 2, 3


def row(offset: int, started_ms: float, run: int, key: str = "k", ended_ms: float = 0) -> Row:
    """A record that took 3 ms, or until `ended_ms`."""
    started_ns, ended_ns = (int(ms * 1e6) for ms in (started_ms, ended_ms or started_ms + 3))
    return Row(0, offset, key, started_ns, ended_ns, f"m{run}", run)


def test_one_slow_record_in_a_thousand_is_left_out_of_p999_and_two_are_not() -> None:
    assert percentile([10] * 999 + [500], 0.999) == 10
    assert percentile([10] * 998 + [500] * 2, 0.999) == 500


def test_gaps_are_counted_from_begin_to_begin_in_whatever_order_rows_come() -> None:
    rows = [row(7, 250, A), row(1, 0, A), row(4, 100, A)]
    assert gaps_ms(rows) == [100, 150]


def test_gaps_of_a_key_are_not_those_between_keys_or_partitions() -> None:
    other = Row(1, 0, "k", 50_000_000, 53_000_000, "m1", A)
    rows = [row(0, 0, A), row(1, 10, A, key="other"), other, row(2, 100, A)]
    assert gaps_ms(rows) == [100]


def test_a_key_stays_only_where_one_run_handled_both_records() -> None:
    rows = [row(0, 0, A), row(1, 100, A), row(2, 900, B), row(3, 1_000, B), row(4, 5_000, A)]
    assert gaps_ms(rows) == [100, 100]


def test_a_member_started_again_under_its_name_is_another_owner() -> None:
    again = Row(0, 1, "k", 100_000_000, 103_000_000, "m1", C)
    assert gaps_ms([row(0, 0, A), again]) == []


def test_a_moved_key_waits_from_the_end_of_the_old_owners_last_handler() -> None:
    rows = [row(0, 0, A, ended_ms=40), row(1, 300, B)]
    assert moves_ms(rows, {(0, 0): 0, (0, 1): 10_000_000}) == [260]


def test_a_moved_key_that_had_nothing_to_do_waits_from_the_making_of_its_record() -> None:
    rows = [row(0, 0, A), row(1, 300, B), row(2, 320, B)]
    assert moves_ms(rows, {(0, 0): 0, (0, 1): 290_000_000, (0, 2): 310_000_000}) == [10]


def test_a_chain_of_moves_counts_from_the_last_one_that_worked() -> None:
    rows = [row(0, 0, A), row(1, 903, C)]  # in between it was B's, which never began
    assert moves_ms(rows, {(0, 0): 0, (0, 1): 0}) == [900]


def test_who_handled_the_last_record_before_the_end_owned_the_key() -> None:
    rows = [row(0, 0, B), row(1, 100, A), row(2, 300, B), row(0, 50, B, key="other")]
    assert owned(rows, A, until_ns=200_000_000) == {(0, "k")}


def test_a_key_is_back_with_the_first_record_of_another_run() -> None:
    rows = [row(0, 0, A), row(2, 7_100, C), row(0, 7_000, B), row(3, 50, B, key="other")]
    assert absences_ms(rows, A, ended_ns=1_000_000_000) == [6_000]


def test_a_key_that_nobody_took_up_is_away_for_ever() -> None:
    assert absences_ms([row(0, 0, A)], A, ended_ns=1_000_000_000) == [math.inf]


def test_what_a_run_finished_late_is_counted_back_from_its_last_end() -> None:
    rows = [row(0, 0, A), row(1, 100, A), row(2, 150, A), row(3, 199, A), row(4, 199, B)]
    assert finished_late(rows, A, within_ms=100) == 3
    assert finished_late(rows, A, within_ms=99) == 2
