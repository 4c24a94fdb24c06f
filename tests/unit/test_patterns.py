"""The pure cores of the patterns: where a writer goes on, folds, orders, stamps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from assignors import TopicPartition
from coop_consumer.errors import InputGoneError, LogConflictError, MisuseError
from coop_consumer.patterns.checkpoint import STATE_MAX_BYTES, checked_state
from coop_consumer.patterns.folding import (
    POSITION,
    ChangeRecord,
    Folded,
    checked_key,
    checked_value,
    fold,
    set_value,
)
from coop_consumer.patterns.going_on import (
    OutputEnd,
    Pair,
    PairMark,
    Resumption,
    next_number,
    resumption,
    within_input,
)
from coop_consumer.patterns.held import HeldRecords
from coop_consumer.patterns.merging import InputRun, Order, differences, runs_of
from coop_consumer.patterns.single_writer import checked_number
from coop_consumer.patterns.stamp import Stamp, own_number, stamp_in, stamped

A, B = TopicPartition("a", 0), TopicPartition("b", 3)
IDS = "1f 2e"


def ended(number: int, offset: int = 40, writer: str = "w", low: int = 0) -> OutputEnd:
    """An output whose last record has a number; markers lie between, so its offset is larger."""
    return OutputEnd("out-0", low, offset, Stamp(writer, number))


NEW, EMPTIED = OutputEnd("out-0", 0), OutputEnd("out-0", 41)


# -- stamps ----------------------------------------------------------------------------------------


@given(some.text(min_size=1), some.integers(0, 2**63 - 1))
def test_a_stamp_is_read_again_and_replaces_the_one_before(writer: str, number: int) -> None:
    headers: Any = [("unit", b"EUR"), ("unit", None), ("coop.number", b"7")]
    try:
        wanted = Stamp(writer, number)
        found = stamped(headers, wanted)
    except UnicodeEncodeError:
        return  # no name of a topic's kind
    assert stamp_in(found) == wanted
    assert found[:2] == headers[:2]
    assert len(found) == 4


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("coop.writer", b"w")],
        [("coop.writer", b"w"), ("coop.number", b"-1")],
        [("coop.writer", b"w"), ("coop.number", b"x")],
        [("coop.writer", b"w"), ("coop.number", b"9" * 5_000)],
        [("coop.writer", b""), ("coop.number", b"1")],
        [("coop.writer", None), ("coop.number", None)],
    ],
)
def test_what_is_no_stamp_is_a_stranger_s(headers: Any) -> None:
    assert stamp_in(headers) is None
    with pytest.raises(LogConflictError, match="w, out-0 offset 7: this record has no stamp"):
        own_number(stamp_in(headers), "w", "out-0 offset 7")


# -- exclusive producer ----------------------------------------------------------------------------


def test_with_8_records_in_the_output_it_goes_on_at_8() -> None:
    assert next_number("w", ended(7, offset=15)) == 8


def test_a_new_output_begins_at_0_also_behind_aborted_records() -> None:
    assert next_number("w", NEW) == 0


def test_an_end_that_is_not_its_own_is_refused() -> None:
    with pytest.raises(LogConflictError, match="out-0 offset 40: this record was written by v, "):
        next_number("w", ended(7, writer="v"))
    with pytest.raises(LogConflictError, match="has no stamp"):
        next_number("w", OutputEnd("out-0", 0, 40), begin=3)


def test_an_emptied_output_tells_nothing_and_needs_a_word() -> None:
    with pytest.raises(LogConflictError, match=r"all its records were removed.*begin="):
        next_number("w", EMPTIED)
    assert next_number("w", EMPTIED, begin=12) == 12
    assert next_number("w", ended(7), begin=12) == 8, "the end counts where it tells"


# -- paired offsets --------------------------------------------------------------------------------


def test_with_a_commit_at_4_7_and_8_written_one_output_is_dropped() -> None:
    assert resumption("w", (Pair(4, 7), IDS), ended(7), IDS) == Resumption(Pair(4, 7), drop=1)


def test_a_commit_at_the_end_drops_nothing_and_nothing_done_is_none() -> None:
    assert resumption("w", (Pair(4, 7), IDS), ended(6), IDS) == Resumption(Pair(4, 7), drop=0)
    assert resumption("w", (Pair(0, 0), IDS), NEW, IDS) == Resumption(Pair(0, 0), drop=0)
    assert resumption("w", None, NEW, IDS) is None


@pytest.mark.parametrize(
    ("committed", "end", "problem"),
    [
        ((Pair(4, 7), "1f 3c"), ended(7), "topics with other ids"),
        ((Pair(4, 7), IDS), ended(7, writer="v"), "was written by v"),
        ((Pair(4, 7), IDS), ended(5), "about 7 outputs, and only 6 are there"),
        ((Pair(4, 7), IDS), NEW, "about 7 outputs, and only 0 are there"),
        ((Pair(4, 7), IDS), EMPTIED, "all its records were removed"),
        (None, EMPTIED, "all its records were removed"),
        (None, ended(7), "it has 8 outputs, and there is no commit"),
    ],
)
def test_a_commit_and_an_output_that_do_not_fit_are_refused(
    committed: Any, end: OutputEnd, problem: str
) -> None:
    with pytest.raises(LogConflictError, match=problem):
        resumption("w", committed, end, IDS)


def test_begin_counts_where_nothing_else_tells_and_nowhere_else() -> None:
    assert resumption("w", None, ended(7), IDS, begin=5) == Resumption(Pair(5, 8), 0)
    assert resumption("w", (Pair(4, 7), IDS), EMPTIED, IDS, 5) == Resumption(Pair(5, 7), 0)
    assert resumption("w", (Pair(4, 7), IDS), ended(7), IDS, 5) == Resumption(Pair(4, 7), 1)
    with pytest.raises(LogConflictError, match="written by v"):
        resumption("w", (Pair(4, 7), IDS), ended(7, writer="v"), IDS, begin=5)


def test_a_mark_is_read_again_and_a_stranger_s_is_none() -> None:
    assert PairMark.parse(PairMark(7, IDS).text()) == PairMark(7, IDS)
    for text in ("", "coop:1", "{}", "7", '{"outputs":-1,"ids":""}', '{"outputs":true,"ids":""}'):
        assert PairMark.parse(text) is None


@given(
    some.lists(some.integers(0, 4), max_size=8),
    some.lists(some.tuples(some.integers(1, 6), some.booleans()), max_size=12),
)
def test_whatever_is_published_committed_and_killed_each_output_is_there_once(
    counts: Sequence[int], lives: Sequence[tuple[int, bool]]
) -> None:
    """A life makes some transactions, and is killed. Input i makes counts[i] outputs."""
    outputs: list[tuple[int, int]] = []
    committed: tuple[Pair, str] | None = None
    for calls, often in [*lives, (1_000, True)]:
        end = ended(len(outputs) - 1) if outputs else NEW
        found = resumption("w", committed, end, IDS)
        if found is None:
            found = Resumption(Pair(0, 0), 0)
            committed = Pair(0, 0), IDS
        left, drop, total = calls, found.drop, found.pair.outputs
        for number in range(found.pair.offset, len(counts)):
            for part in range(counts[number]):
                total += 1
                if drop:
                    drop -= 1
                elif left:  # publish() after each output
                    outputs.append((number, part))
                    left -= 1
            if left and (often or number % 2):
                committed, left = (Pair(number + 1, total), IDS), left - 1
            if not left:
                break
    assert outputs == [(i, part) for i, count in enumerate(counts) for part in range(count)]


# -- inputs that are gone --------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [10, 15, 20])
def test_an_input_that_has_what_follows_is_taken_as_it_is(offset: int) -> None:
    assert within_input("w", ("in", 0), offset, 10, 20, is_lenient=False) == offset


@pytest.mark.parametrize(("offset", "nearest"), [(9, 10), (0, 10), (21, 20)])
def test_an_input_that_is_gone_is_an_error_unless_the_loss_is_accepted(
    offset: int, nearest: int
) -> None:
    why = "has committed an offset that it never had" if offset > 20 else "Retention has removed"
    with pytest.raises(InputGoneError, match=rf"w: goes on at offset {offset} of in-0, .*{why}"):
        within_input("w", ("in", 0), offset, 10, 20, is_lenient=False)
    assert within_input("w", ("in", 0), offset, 10, 20, is_lenient=True) == nearest


# -- checkpoint ------------------------------------------------------------------------------------


def test_a_count_of_6_fits_into_a_commit_and_so_do_4_kb() -> None:
    assert checked_state("w", "count: 6") == "count: 6"
    assert checked_state("w", "x" * STATE_MAX_BYTES)


def test_a_state_that_no_commit_holds_is_refused() -> None:
    with pytest.raises(MisuseError, match="takes 4098 bytes, and a commit holds 4095"):
        checked_state("w", "é" * 2_049)
    state: Any = {"count": 6}
    with pytest.raises(MisuseError, match="the state is dict, no text"):
        checked_state("w", state)


# -- changelog -------------------------------------------------------------------------------------


def change(offset: int, key: bytes | None, value: bytes | None, writer: str = "w") -> ChangeRecord:
    return ChangeRecord("log-0 offset 7", key, value, stamped((), Stamp(writer, offset)))


def test_a_fold_gives_the_state_and_where_to_go_on() -> None:
    folded = Folded[dict[bytes, bytes]]({})
    records = [
        change(4, b"a", b"1"),
        change(4, b"b", b"1"),
        change(4, POSITION, b"1f"),
        change(6, b"a", None),
        change(9, POSITION, b"1f"),
    ]
    fold(folded, set_value, "w", records)
    assert (folded.state, folded.next_offset, folded.source_id) == ({b"b": b"1"}, 10, "1f")


def test_compaction_may_remove_a_deletion_and_never_the_position() -> None:
    """Of each key the last record stays, or none if that was a deletion."""
    folded = Folded[dict[bytes, bytes]]({})
    fold(folded, set_value, "w", [change(4, b"b", b"1"), change(6, POSITION, b"1f")])
    assert (folded.state, folded.next_offset) == ({b"b": b"1"}, 7)


def test_operations_are_applied_in_their_order() -> None:
    def add(state: list[int], key: bytes, value: bytes | None) -> None:
        state.append(state[-1] + int(value or 0) if key == b"add" else 0)

    folded = Folded([0])
    fold(folded, add, "w", [change(0, b"add", b"5"), change(1, b"zero", None)])
    fold(folded, add, "w", [change(2, b"add", b"3")])
    assert (folded.state, folded.next_offset) == ([0, 5, 0, 3], 3)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (change(4, b"a", b"1", writer="v"), "log-0 offset 7: this record was written by v"),
        (ChangeRecord("log-0 offset 7", b"a", b"1", []), "has no stamp"),
        (change(4, None, b"1"), "this change has no key"),
    ],
)
def test_a_stranger_s_record_in_a_changelog_is_refused(record: ChangeRecord, problem: str) -> None:
    with pytest.raises(LogConflictError, match=problem):
        fold(Folded[dict[bytes, bytes]]({}), set_value, "w", [record])


def test_a_key_that_no_change_can_have_is_refused() -> None:
    for wrong in ("text", None):
        with pytest.raises(MisuseError, match="Give a key in bytes"):
            checked_key("w", wrong)
    with pytest.raises(MisuseError, match="Give this change another key"):
        checked_key("w", POSITION)
    for right in (b"", b"\0", POSITION + b"s"):
        assert checked_key("w", right) == right


# -- merge log -------------------------------------------------------------------------------------


def test_runs_are_what_came_of_one_input_in_a_row() -> None:
    arrived = [(A, 0), (B, 5), (B, 7), (A, 1), (A, 2), (B, 8)]
    assert runs_of(arrived) == (
        InputRun(A, 0, 0, 1),
        InputRun(B, 5, 7, 2),
        InputRun(A, 1, 2, 2),
        InputRun(B, 8, 8, 1),
    )


@given(some.lists(some.tuples(some.sampled_from([A, B]), some.integers(0, 3)), max_size=20))
def test_an_order_is_read_again_and_says_where_each_input_goes_on(
    arrived: list[tuple[TopicPartition, int]],
) -> None:
    """Offsets may have holes: of markers, of aborted records."""
    begin = {A: 0, B: 5}
    after, places = dict(begin), []
    for tp, hole in arrived:
        places.append((tp, after[tp] + hole))
        after[tp] += hole + 1
    order = Order(begin, runs_of(places), {"a": "1f", "b": "2e"})
    assert Order.decode(order.encode()) == order
    assert order.after() == after
    assert sum(run.count for run in order.runs) == len(arrived)


@pytest.mark.parametrize(
    "value", [None, b"", b"x", b"[]", b"{}", b'{"inputs":[],"runs":[[0,1,1,1]],"ids":{}}']
)
def test_what_is_no_order_is_a_value_error(value: bytes | None) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own, or ours
        Order.decode(value)


def test_an_input_that_has_changed_since_is_told() -> None:
    run = InputRun(A, 3, 9, 4)
    assert differences(run, [3, 4, 7, 9]) == ""
    assert "a-0 had 4 records at offsets [3-9]" in differences(run, [3, 7, 9])
    assert "has 0 there now" in differences(run, [])
    assert differences(run, [4, 5, 7, 9])
    assert differences(run, [3, 4, 5, 6])


# -- records that are held -------------------------------------------------------------------------


class Sized:
    """A record with an offset and a size."""

    def __init__(self, offset: int, size: int = 1) -> None:
        self._offset, self._size = offset, size

    def offset(self) -> int:
        return self._offset

    def __len__(self) -> int:
        return self._size


@given(some.lists(some.sampled_from([A, B]), max_size=30), some.integers(1, 40))
def test_the_oldest_come_in_the_order_of_their_arrival_and_are_taken_by_runs(
    arrived: list[TopicPartition], count: int
) -> None:
    held = HeldRecords[Sized]()
    places = [(tp, arrived[:at].count(tp)) for at, tp in enumerate(arrived)]
    for tp, offset in places:
        held.add(tp, Sized(offset))
    assert held.oldest(count) == places[:count]
    runs = runs_of(places[:count])
    taken = [(run.tp, it.offset()) for run in runs for it in held.take(run)]
    assert taken == places[:count]
    assert held.oldest(99) == places[count:]
    assert len(held) == len(places[count:])


@pytest.mark.parametrize(("size", "full_at"), [(1, 11), (30, 4)])
def test_an_input_is_full_above_a_bound_until_a_fifth_is_left(size: int, full_at: int) -> None:
    held = HeldRecords[Sized](records_max=10, bytes_max=100)
    held.add(B, Sized(0))
    for offset in range(full_at):
        assert held.full(()) == set()
        held.add(A, Sized(offset, size))
    assert held.full(()) == {A}
    kept = full_at
    while held.full({A}) == {A}:
        kept -= 1
        held.take(InputRun(A, 0, full_at - kept - 1, full_at - kept))
    assert kept == (2 if size == 1 else 0)


# -- what users give -------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["3", None, 4.5, True, 2**63])
def test_a_position_that_no_header_could_hold_is_refused(wrong: object) -> None:
    with pytest.raises(MisuseError, match=r"no position|above the largest offset"):
        checked_number("put()", wrong, "position")
    stamp = Stamp("w", checked_number("put()", 2**63 - 1, "position"))
    assert stamp_in(stamped((), stamp)) == stamp


def test_a_change_has_a_value_that_a_restore_gives_back() -> None:
    assert [checked_value("w", it) for it in (b"5", None)] == [b"5", None]
    for wrong in ("5", 5, bytearray(b"5")):
        with pytest.raises(MisuseError, match="value in bytes"):
            checked_value("w", wrong)


@pytest.mark.parametrize("state", ["a\0b", "\ud800"])
def test_a_state_has_only_characters_that_a_commit_holds(state: str) -> None:
    with pytest.raises(MisuseError, match=r"NUL|surrogate"):
        checked_state("w", state)
