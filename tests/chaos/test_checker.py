"""The judges of chaos convict what is wrong, and nothing else."""

from __future__ import annotations

from assignors import KeyRange
from offsets import OffsetRange, RangeProgress, TenureRecord, range_progress
from tests.chaos.absence import Absence
from tests.chaos.checker import Verdict, judge
from tests.chaos.outputs import OutputsVerdict, Seen, fold, judge_outputs
from tests.chaos.soak import trend
from tests.chaos.witness import Told, first_told_ns
from tests.support.journal import Place, Row

MS = 1_000_000
S = 1_000 * MS


def row(offset: int, started: int, ended: int, *, run: int = 1, generation: int = 1) -> Row:
    """One record of the only key, in seconds."""
    name = f"m{run}"
    return Row(0, offset, "k", started * S, ended * S, name, run, generation=generation)


def verdict(
    rows: list[Row],
    *absences: Absence,
    told_s: dict[int, int] | None = None,
    records: int = 3,
) -> Verdict:
    told: dict[Place, int] = {(0, offset): at * S for offset, at in (told_s or {}).items()}
    return judge(rows, {(0, n): 0 for n in range(records)}, absences, told, told)


ONCE = [row(0, 1, 2), row(1, 2, 3), row(2, 3, 4)]


def test_each_record_once_and_in_order_is_innocent() -> None:
    found = verdict(ONCE, told_s={0: 3, 1: 3, 2: 5})
    assert (found.lost, found.out_of_order, found.repeated, found.needless) == ((), (), 0, ())


def test_what_nobody_processed_is_lost() -> None:
    assert verdict(ONCE[:2]).lost == ((0, 2),)


def test_what_was_told_done_before_it_was_is_lost_although_it_was_processed_later() -> None:
    assert verdict(ONCE, told_s={2: 3}).lost == ((0, 2),)


def test_the_longest_stop_is_that_of_the_record_that_waited_longest() -> None:
    found = verdict([*ONCE, row(2, 50, 60)])
    assert found.longest_stop_s == 4
    assert found.slowest is not None
    assert found.slowest[0] == (0, 2)


def test_a_live_member_that_overtakes_is_convicted() -> None:
    assert verdict([row(1, 1, 2), row(0, 2, 3), row(2, 3, 4)]).out_of_order


def test_a_zombie_is_not_judged_by_when_it_worked() -> None:
    asleep = Absence("m1", 1, 2 * S, 1)
    rows = [row(0, 1, 9), row(0, 3, 4, run=2), row(1, 4, 5, run=2), row(2, 5, 6, run=2)]
    assert verdict(rows, asleep).out_of_order == ()
    assert verdict(rows).out_of_order != ()


def test_a_zombie_that_has_joined_again_is_live() -> None:
    asleep = Absence("m1", 1, 2 * S, 1)
    awake = [row(1, 3, 5, generation=2), row(0, 3, 4, run=2), row(2, 6, 7, run=2)]
    assert verdict(awake, asleep).out_of_order != ()


def test_what_a_zombie_finished_first_counts_as_processed() -> None:
    asleep = Absence("m1", 1, 2 * S, 1)
    assert verdict([row(0, 1, 3), row(1, 4, 5, run=2), row(2, 5, 6, run=2)], asleep).lost == ()


def test_a_repeat_of_what_the_log_had_told_is_needless_and_one_of_what_it_had_not_is_none() -> None:
    again = [*ONCE, row(2, 20, 21)]
    assert len(verdict(again, told_s={2: 5}).needless) == 1
    assert verdict(again, told_s={2: 20}).needless == ()
    assert verdict(again).needless == ()
    assert verdict(again).repeated == 1


def test_a_record_is_told_by_the_first_fact_that_covers_it() -> None:
    low, high = KeyRange(0, 9), KeyRange(10, 19)
    told = [
        tell(7, range_progress(low, 1), range_progress(high, 5)),
        tell(3, range_progress(low, 0, [OffsetRange(2, 2)])),
    ]
    hashes = {(0, 0): 4, (0, 2): 4, (0, 4): 12, (0, 5): 12}
    assert first_told_ns(told, hashes) == {(0, 2): 3, (0, 0): 7, (0, 4): 7}


def test_a_trend_is_what_the_line_through_all_samples_says() -> None:
    assert not trend([10, 11, 12, 13]).is_flat
    assert trend([10, 12, 10, 12, 10]).is_flat
    assert trend([13, 12, 11]).growth == -2
    assert trend([]).is_flat


def tell(at_ns: int, *facts: RangeProgress) -> Told:
    return Told(at_ns, "m", 0, TenureRecord(0, 0, facts))


# ---- outputs ----


KEYS = {(0, 4): b"a", (0, 5): b"b", (0, 9): b"a"}
TOTALS = dict(zip([(0, 4), (0, 9)], fold([(0, 4), (0, 9)]), strict=True)) | {
    (0, 5): fold([(0, 5)])[0]
}


def sent(offset: int, *, at_s: int = 10, generation: int = 1, wrong: bytes = b"") -> Seen:
    place = (0, offset)
    value = b"0/%d " % offset + (wrong or TOTALS[place])
    return Seen(KEYS[place], value, at_s * S, 1, generation)


def outputs_verdict(
    *outputs: Seen, states: dict[bytes, bytes] | None = None, out: Absence | None = None
) -> OutputsVerdict:
    return judge_outputs(
        KEYS,
        dict.fromkeys(KEYS, 0),
        outputs,
        seen_ns={it.place: it.appended_ns for it in outputs},
        states=states or {b"a": TOTALS[0, 9], b"b": TOTALS[0, 5]},
        zombies=[out] if out else [],
        transactions={"COMMITTED": 3},
    )


ALL = (sent(4), sent(5), sent(9))


def test_what_one_thread_would_have_left_is_innocent() -> None:
    found = outputs_verdict(*ALL)
    assert found.is_clean
    assert (found.outputs, found.longest_stop_s, found.in_doubt) == (3, 10, 0)


def test_an_output_again_is_a_duplicate_and_one_that_is_not_there_is_missing() -> None:
    found = outputs_verdict(sent(4), sent(4), sent(9))
    assert (len(found.duplicates), found.missing) == (1, ((0, 5),))


def test_an_output_behind_a_later_one_of_its_key_is_out_of_order() -> None:
    assert len(outputs_verdict(sent(9), sent(5), sent(4)).out_of_order) == 1
    assert outputs_verdict(sent(5), sent(4), sent(9)).is_clean


def test_outputs_and_states_that_differ_in_a_byte_are_wrong() -> None:
    assert len(outputs_verdict(sent(4), sent(5), sent(9, wrong=TOTALS[0, 4])).wrong) == 1
    assert len(outputs_verdict(*ALL, states={b"a": TOTALS[0, 4], b"b": TOTALS[0, 5]}).wrong) == 1
    assert len(outputs_verdict(*ALL, states={b"a": TOTALS[0, 9]}).wrong) == 1


def test_what_a_member_sends_after_it_was_put_out_is_of_a_zombie() -> None:
    out = Absence("m1", 1, 5 * S, 1)
    assert len(outputs_verdict(*ALL, out=out).of_zombies) == 3
    assert outputs_verdict(*ALL, out=Absence("m1", 1, 15 * S, 1)).is_clean
    assert outputs_verdict(*(sent(n, generation=2) for n in (4, 5, 9)), out=out).is_clean
