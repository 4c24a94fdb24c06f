"""The pure parts of the benchmarks: keys, ideal times, the judge, rows, tables, charts."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import benchmarks.__main__
from benchmarks import charts
from benchmarks.bench import is_judged
from benchmarks.case import Case
from benchmarks.cases import CASES
from benchmarks.figures import Figures, Run, figures, repeats_by_kill
from benchmarks.handler import Handler, Journal, burn
from benchmarks.job import Job, Report
from benchmarks.keys import SPECIAL, even_keys, with_special, zipf_keys
from benchmarks.kills import moments
from benchmarks.processes import Usage, cpu_s, of_group, of_session
from benchmarks.report import page
from benchmarks.row_files import RowFiles
from benchmarks.rows import JsonRow, is_broken, missing, row_of, table, with_ratios
from benchmarks.spark import working
from benchmarks.systems import OURS, PEERS
from tests.support.journal import Row, out_of_order
from tests.support.stock import eventually

IO = Case(name="io", records=4, keys=2, work_ms=5, width=2)
MS = 1_000_000


def row(offset: int, begun_ms: int, key: str = "k", ended_ms: int = 0, run: int = 1) -> Row:
    """A record of partition 0 that took 5 ms, or until `ended_ms`."""
    ended_ns = (ended_ms or begun_ms + 5) * MS
    return Row(0, offset, key, begun_ms * MS, ended_ns, str(run), run)


def report(committed_ms: int = 0, **told: int | None) -> Report:
    """Of a process that handled four records."""
    given: dict[str, int | None] = {"handled": 4, "first_ns": 0, "fetched": 5, **told}
    return Report(committed_ns=committed_ms * MS, cpu_s=1.0, resident_mb=50.0, **given)  # type: ignore[arg-type]


def run(*rows: Row, committed_ms: int = 30, **others: object) -> Run:
    """A run of four records that was let go at 0 ms."""
    return replace(
        Run(
            is_judged=True,
            rows=rows,
            reports=[report(committed_ms)],
            went_ns=0,
            produced=frozenset((0, offset) for offset in range(4)),
            cpu_broker_s=0.5,
        ),
        **others,  # type: ignore[arg-type]
    )


GOOD = (row(0, 10, "a"), row(1, 10, "b"), row(2, 15, "a"), row(3, 15, "b"))


# ---- keys ----


def test_even_keys_come_evenly_often() -> None:
    counts = Counter(even_keys(30_000, 10_000))
    assert len(counts) == 10_000
    assert set(counts.values()) == {3}


def test_zipf_keys_are_the_same_each_time_and_follow_their_rank() -> None:
    drawn = list(zipf_keys(50_000, 1_000))
    assert drawn == list(zipf_keys(50_000, 1_000))
    assert drawn != list(zipf_keys(50_000, 1_000, seed=2))
    counts = Counter(drawn)
    assert len(drawn) == 50_000
    assert counts["key-0"] / counts["key-9"] == pytest.approx(10, rel=0.2)


def test_special_records_are_as_many_as_said_and_evenly_apart() -> None:
    keys = list(with_special(even_keys(10_000, 100), 10_000, 5))
    assert [number for number, key in enumerate(keys) if key == SPECIAL] == [
        0,
        2_000,
        4_000,
        6_000,
        8_000,
    ]
    assert Counter(with_special(even_keys(10, 5), 10, 3))[SPECIAL] == 3


# ---- cases ----


@pytest.mark.parametrize("case", [case for points in CASES.values() for case in points])
def test_no_case_has_all_keys_distinct(case: Case) -> None:
    assert case.keys < case.records


@pytest.mark.parametrize(
    ("name", "ideal_s"),
    [("io", 2.34), ("hot", 10), ("slowkey", 10), ("live", 10), ("aio", 3), ("cpu", 5), ("noop", 0)],
)
def test_ideal_times_are_those_of_the_table_of_cases(name: str, ideal_s: float) -> None:
    [case] = CASES[name]
    assert case.ideal_s == pytest.approx(ideal_s, abs=0.01)


def test_split_has_the_same_ideal_at_each_number_of_processes() -> None:
    assert [case.ideal_s for case in CASES["split"]] == [3, 3, 3]
    assert [case.members for case in CASES["split"]] == [1, 4, 16]


def test_a_peer_says_why_it_takes_no_part() -> None:
    [noop_batch], [io] = CASES["noop-batch"], CASES["io"]
    assert PEERS["lanes"].unfit(noop_batch) == "it has no batches"
    assert PEERS["plain"].unfit(CASES["partitions"][0]) == "it would be a process a partition"
    assert PEERS["raw"].unfit(io)
    assert not PEERS["parallel-consumer"].unfit(io)
    assert all(not OURS.unfit(case) for points in CASES.values() for case in points)
    [eos, *_] = CASES["eos"]
    assert PEERS["lanes"].unfit(eos) == "it has no transactions"
    assert not PEERS["parallel-consumer"].unfit(eos)


def test_a_job_survives_the_command_line() -> None:
    job = Job(
        system="ours",
        bootstrap="b:1",
        topic="t",
        group="g",
        work="sleep",
        work_ms=5,
        special_ms=0,
        width=64,
    )
    assert Job.parsed(job.argument()) == job
    assert Report.parsed(report(7).line()) == report(7)


def test_kills_come_at_moments_that_a_seed_decides_within_the_work() -> None:
    [case] = CASES["crash"]
    found = moments(case, Random(1))
    assert found == moments(case, Random(1)) == sorted(found)
    assert len(found) == 5
    assert all(0 < moment < case.records for moment in found)


# ---- rows in files ----


def test_a_journal_is_read_back_as_it_was_noted(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), at_once=False)
    journal.note(2, 41, 1_000, 2_000, b"key with spaces")
    assert not list(tmp_path.iterdir())
    journal.close()
    files = RowFiles(tmp_path)
    files.read()
    [found] = files.rows
    assert (found.place, found.key, found.started_ns, found.ended_ns) == (
        (2, 41),
        "key with spaces",
        1_000,
        2_000,
    )


def test_batches_are_noted_by_numbers_and_read_back_as_records(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), at_once=False)
    journal.note_batch([0, 1], [7, 8], [b"a", b"b"], begun_ns=1_000)
    journal.note_batch([0], [9], [b"a"], begun_ns=time.monotonic_ns())
    journal.close()
    files = RowFiles(tmp_path)
    files.read()
    assert [row.place for row in files.rows] == [(0, 7), (1, 8), (0, 9)]
    first, other, second = files.rows
    assert first.key == second.key != other.key
    assert first.started_ns == other.started_ns == 1_000
    assert first.ended_ns == other.ended_ns <= second.started_ns
    assert not out_of_order(files.rows)


def test_a_handler_travels_to_child_processes() -> None:
    job = Job(
        system="ours",
        bootstrap="",
        topic="",
        group="",
        work="burn",
        work_ms=1,
        special_ms=0,
        width=2,
    )
    assert pickle.loads(pickle.dumps(Handler(job))).first_ns == 0  # noqa: S301 - our own


def test_records_of_a_key_in_one_batch_are_in_order_only_if_handled_one_by_one(
    tmp_path: Path,
) -> None:
    for number, one_by_one in enumerate((False, True)):
        folder = tmp_path / str(number)
        folder.mkdir()
        journal = Journal(str(folder), at_once=False)
        begun_ns = time.monotonic_ns() - 1_000_000
        journal.note_batch([0, 0], [7, 8], [b"a", b"a"], begun_ns, one_by_one=one_by_one)
        journal.close()
        files = RowFiles(folder)
        files.read()
        assert bool(out_of_order(files.rows)) is not one_by_one


def test_all_but_noop_is_judged_and_the_raw_loop_never() -> None:
    cases = [case for points in CASES.values() for case in points]
    assert {case.name for case in cases if not is_judged(case, OURS)} == {"noop"}
    assert not any(is_judged(case, PEERS["raw"]) for case in cases)


def test_what_is_noted_at_once_is_read_while_it_grows(tmp_path: Path) -> None:
    journal, files = Journal(str(tmp_path), at_once=True), RowFiles(tmp_path)
    journal.note(0, 0, 1, 2, b"a")
    files.read()
    journal.note(0, 1, 3, 4, b"a")
    files.read()
    files.read()
    assert [row.offset for row in files.rows] == [0, 1]
    assert files.places == {(0, 0), (0, 1)}


def test_a_line_that_is_not_whole_yet_waits(tmp_path: Path) -> None:
    path, files = tmp_path / "7.rows", RowFiles(tmp_path)
    path.write_bytes(b"0 0 1 2 a\n0 1 3")
    files.read()
    assert [row.offset for row in files.rows] == [0]
    path.write_bytes(b"0 0 1 2 a\n0 1 3 4 b\n")
    files.read()
    assert [(row.offset, row.run) for row in files.rows] == [(0, 7), (1, 7)]


# ---- the judge ----


def test_time_runs_from_the_first_begin_to_the_last_commit() -> None:
    found = figures(IO, run(*GOOD, committed_ms=30))
    assert found.seconds == pytest.approx(0.020)
    assert found.first_record_s == pytest.approx(0.010)
    assert found.efficiency == pytest.approx(0.010 / 0.020)
    assert (found.lost, found.repeated, found.out_of_order) == (0, 0, 0)
    assert found.bytes_fetched == pytest.approx(5 / 4)


def test_a_commit_before_the_last_end_does_not_shorten_the_time() -> None:
    assert figures(IO, run(*GOOD, committed_ms=12)).seconds == pytest.approx(0.010)


def test_what_nobody_handled_is_lost() -> None:
    assert figures(IO, run(*GOOD[:3])).lost == 1


def test_what_came_again_is_counted_once_for_each_time() -> None:
    again = row(3, 25, "b")
    assert figures(IO, run(*GOOD, again, again)).repeated == 2


def test_a_record_that_began_before_the_earlier_one_of_its_key_had_ended_breaks_the_order() -> None:
    early = (GOOD[0], GOOD[1], row(2, 12, "a"), GOOD[3])
    assert figures(IO, run(*early)).out_of_order > 0


def test_a_run_that_was_stopped_is_judged_by_what_it_had_handled() -> None:
    found = figures(IO, run(*GOOD[:2], was_stopped=True))
    assert found.lost == 0
    assert found.efficiency == pytest.approx(0.005 / 0.020)


def test_bytes_are_unknown_if_one_process_does_not_tell() -> None:
    silent = [report(30), report(30, fetched=None)]
    assert figures(IO, run(*GOOD, reports=silent)).bytes_fetched is None
    crash = replace(IO, name="crash", kills=1)
    fallen = [report(fetched=None)]
    assert figures(crash, run(*GOOD, killed=[1], fallen=fallen)).bytes_fetched is None


def test_what_killed_processes_used_counts_as_well() -> None:
    crash = replace(IO, name="crash", kills=2)
    large = replace(report(fetched=2), resident_mb=80.0)
    found = figures(crash, run(*GOOD, killed=[1, 2], fallen=[report(fetched=1), large]))
    assert found.bytes_fetched == pytest.approx((5 + 1 + 2) / 4)
    assert found.cpu_worker_s == pytest.approx(3.0)
    assert found.resident_mb == 80.0  # they did not live side by side


def test_what_a_living_group_of_processes_uses_can_be_asked_for() -> None:
    before = of_group(os.getpgrp())
    assert before.resident_mb > 1
    burn(0.03)
    assert of_group(os.getpgrp()).cpu_s > before.cpu_s
    assert of_group(2**30) == Usage()


def test_noop_is_judged_by_the_reports_alone() -> None:
    noop = replace(IO, name="noop", work="nothing", work_ms=0)
    told = [report(30, first_ns=10 * MS, handled=3)]
    found = figures(noop, run(is_judged=False, reports=told, produced=frozenset()))
    assert (found.lost, found.repeated, found.efficiency) == (1, 0, None)
    assert found.out_of_order is None
    assert found.seconds == pytest.approx(0.020)
    assert found.special["records_per_s"] == pytest.approx(150)


def test_slowkey_asks_when_all_other_keys_were_done() -> None:
    slow = replace(IO, name="slowkey")
    rows = (row(0, 10, SPECIAL, ended_ms=2_000), *GOOD[1:])
    assert figures(slow, run(*rows)).special == {"others_done_s": pytest.approx(0.010)}


def test_skew_compares_all_other_keys_with_one_worker_less() -> None:
    skew = replace(IO, name="skew", records=3, special=1, work_ms=5, width=3)
    rows = (row(0, 10, SPECIAL, ended_ms=2_000), *GOOD[1:])
    assert figures(skew, run(*rows)).special == {
        "others_done_s": pytest.approx(0.010),
        "others_of_ideal": pytest.approx(0.5),
    }


def test_partitions_asks_when_the_last_of_them_had_a_record() -> None:
    many = replace(IO, name="partitions", partitions=2)
    last = replace(GOOD[-1], partition=1, offset=0, started_ns=40 * MS)
    assert figures(many, run(*GOOD, last)).special == {"all_begun_s": pytest.approx(0.040)}


def test_latency_leaves_the_slow_key_out() -> None:
    live = replace(IO, name="live")
    made_ns = {(0, 0): 0, (0, 1): 9 * MS, (0, 2): 10 * MS, (0, 3): 14 * MS}
    rows = (row(0, 10, SPECIAL, ended_ms=2_000), *GOOD[1:])
    special = figures(live, run(*rows, made_ns=made_ns)).special
    assert special["latency_p50_ms"] == pytest.approx(6)
    assert special["latency_max_ms"] == pytest.approx(10)
    assert special["wait_p50_ms"] == pytest.approx(1)


def test_repeats_are_those_of_the_process_that_had_finished_the_record() -> None:
    rows = [
        row(0, 10, run=1),
        row(1, 15, run=1),
        row(1, 30, run=2),
        row(2, 40, run=2),
        row(1, 60, run=3),
        row(3, 70, run=3),
    ]
    assert repeats_by_kill(rows, [1, 2]) == [2, 0]


# ---- rows ----


FIGURES = figures(IO, run(*GOOD))


def ours(*found: Figures, **told: object) -> JsonRow:
    """A row of ours."""
    return row_of(IO, "ours", found or [FIGURES], keeps_order=True, version="v", **told)


def test_a_row_has_medians_and_sums() -> None:
    slow, slower = (replace(FIGURES, efficiency=it, lost=1) for it in (0.3, 0.1))
    found = ours(FIGURES, slow, slower)
    assert found["runs"] == 3
    assert found["efficiency"] == 0.3
    assert found["lost"] == 2
    assert len(found["seconds"]) == 3


def test_an_unknown_figure_stays_unknown() -> None:
    assert ours(replace(FIGURES, bytes_fetched=None))["bytes_fetched"] is None


def test_a_system_that_took_no_part_has_a_row_with_the_reason() -> None:
    row = missing(IO, "parallel-consumer", "there is no Maven | anywhere")
    assert row == {
        "case": "io",
        "system": "parallel-consumer",
        "missing": "there is no Maven | anywhere",
    }
    assert "there is no Maven / anywhere" in table([ours(), row])


def test_only_a_broken_promise_makes_a_row_broken() -> None:
    assert not is_broken(ours())
    assert is_broken(ours(replace(FIGURES, lost=1)))
    assert is_broken(ours(replace(FIGURES, was_stopped=True)))
    disorderly = replace(FIGURES, out_of_order=1)
    assert is_broken(ours(disorderly))
    assert not is_broken(row_of(IO, "share", [disorderly], keeps_order=False))
    assert is_broken(missing(IO, "ours", "its process ended"))
    assert not is_broken(missing(IO, "ours-one-core", "shared cores", is_unfit=True))
    assert not is_broken({"case": "gaps", "system": "ours", "figures": {}})


@pytest.mark.parametrize(
    ("answer", "missing", "code"),
    [
        ({}, "", 0),
        ({"repeated": 3}, "", 0),
        ({"records": working.RECORDS - 1}, "", 1),
        ({"out_of_order": 1}, "", 1),
        (None, "its session does not start", 1),
    ],
)
def test_a_broken_promise_on_spark_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, int] | None, missing: str, code: int
) -> None:
    good = {
        "seconds": 20.0,
        "cpu_s": 9.0,
        "records": working.RECORDS,
        "repeated": 0,
        "out_of_order": 0,
    }

    def in_turns(*_: object) -> object:
        answers = {"launched": [good], "source": [], "connector": [good]}
        if answer is not None:
            answers["source"] = [{**good, **answer}]
        return answers, {"source": missing} if missing else {}

    monkeypatch.setattr(working, "in_turns", in_turns)
    monkeypatch.setattr(working, "produced", lambda *_: "topic")
    monkeypatch.setenv("COOP_TEST_BOOTSTRAP", "nobody:1")
    monkeypatch.setattr(sys, "argv", ["benchmarks", "spark-work", "--runs", "1"])
    assert benchmarks.__main__.main() == code


@pytest.mark.parametrize(
    ("case", "peer", "said"),
    [
        ("io", "raw", "measured beside noop and noop-batch"),
        ("gaps", "plain", "gaps has no peers"),
    ],
)
def test_a_peer_that_would_be_left_out_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    case: str,
    peer: str,
    said: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", case, "--peer", peer])
    with pytest.raises(SystemExit):
        benchmarks.__main__.main()
    assert said in capsys.readouterr().err


def test_a_peer_of_spark_s_that_is_missing_breaks_no_promise_of_ours() -> None:
    assert "connector" not in benchmarks.__main__.OWN
    assert {"launched", "source", "ours-1", "ours-4", "ours"} <= benchmarks.__main__.OWN


def test_noop_is_told_as_a_share_of_the_raw_loop() -> None:
    rows = [{"system": name, "records_per_s": rate} for name, rate in (("ours", 3e5), ("raw", 1e6))]
    assert [row["of_raw"] for row in with_ratios(rows)] == [0.3, 1.0]
    assert with_ratios([ours()]) == [ours()]


def test_a_guarantee_is_told_as_a_share_of_the_other_pair_by_pair() -> None:
    rows = [
        {"system": "at-least-once", "seconds": [2.0, 3.0, 8.0]},
        {"system": "exactly-once", "seconds": [2.0, 4.0, 16.0]},
    ]
    assert [row.get("of_at_least_once") for row in with_ratios(rows)] == [None, 0.75]
    rows[0]["system"] = "ours"  # where nothing is sent
    assert [row.get("of_at_least_once") for row in with_ratios(rows)] == [None, 0.75]


def test_outputs_are_judged_by_what_readers_of_committed_records_find() -> None:
    [case, *_] = CASES["eos"]
    good = [(b"a", (0, 0)), (b"a", (0, 2)), (b"b", (0, 1)), (b"b", (0, 3))]
    names = ("outputs_missing", "outputs_doubled", "outputs_behind")

    def judged(outputs: list[tuple[bytes, tuple[int, int]]]) -> tuple[list[object], bool]:
        found = figures(case, run(*GOOD, outputs=outputs))
        told = row_of(case, "exactly-once", [found], keeps_order=True)
        return [told[name] for name in names], is_broken(told)

    assert judged(good) == ([0, 0, 0], False)
    assert judged(good[1:]) == ([1, 0, 0], True)
    assert judged([*good, good[3]]) == ([0, 1, 0], True)
    assert judged([good[1], good[0], *good[2:]]) == ([0, 0, 1], True)


def test_a_table_has_a_line_for_each_system_and_one_length() -> None:
    lines = table([ours(), missing(IO, "raw", "no")]).splitlines()
    assert len(lines) == 4
    assert len({line.count("|") for line in lines}) == 1


def test_figures_that_have_no_time_are_told_a_line_each() -> None:
    rows = [{"system": "ours", "point": it, "figures": {"plan_ms": 1.5}} for it in ("1", "10")]
    assert "| plan_ms | 1.5 | 1.5 |" in table(rows)


def test_a_page_names_the_machine_all_cases_and_all_versions() -> None:
    text = page({"machine": "2 cores"}, [ours()], [("efficiency.svg", "Efficiency")])
    for part in ("machine: 2 cores", "## `io`", "![Efficiency](efficiency.svg)", "- v\n"):
        assert part in text


# ---- what charts show ----


def test_a_chart_of_a_sweep_has_a_line_for_each_system_and_width() -> None:
    rows = [
        {"case": "sweep", "system": "ours", "point": f"{ms} ms, 64 wide", "efficiency": it}
        for ms, it in (("10", 0.9), ("1", 0.8), ("0", None))
    ]
    assert charts.efficiencies(rows) == {"ours, 64 wide": [(1.0, 0.8), (10.0, 0.9)]}


def test_charts_take_what_they_show_and_nothing_else() -> None:
    rows: list[JsonRow] = [
        {"case": "live", "system": "ours", "latency_quantiles_ms": {"0.5": 2.0, "1": 9.0}},
        {"case": "crash", "system": "ours", "repeats_a_kill": [3.0, 5.0]},
        {"case": "gaps", "system": "ours", "bytes_a_commit": {"64": 90}},
        {"case": "io", "system": "raw", "missing": "no"},
    ]
    assert charts.latencies(rows) == {"ours": [(2.0, 0.5), (9.0, 1.0)]}
    assert charts.repeats(rows) == {"ours\ncrash": [3.0, 5.0]}
    assert charts.bytes_a_commit(rows) == {"ours": [(64.0, 90)]}
    assert charts.efficiencies(rows) == {}


def test_the_time_of_a_session_counts_processes_that_have_left_its_group() -> None:
    """As Spark's daemon of Python workers does."""
    code = (
        "import subprocess, sys\n"
        "busy = [sys.executable, '-c', 'while True: pass']\n"
        "child = subprocess.Popen(busy, process_group=0)\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE) as leader:
        assert leader.stdout is not None
        child = int(leader.stdout.readline())
        try:
            eventually(lambda: cpu_s(child) > 0.2)
            assert of_session(leader.pid).cpu_s >= of_group(leader.pid).cpu_s + 0.2
        finally:
            os.kill(child, signal.SIGKILL)


def test_points_with_other_figures_have_a_table_of_their_own() -> None:
    rows: list[JsonRow] = [
        {"case": "logs", "system": "ours", "point": "alone", "figures": {"appends": 200.0}},
        {"case": "logs", "system": "ours", "point": "racing", "figures": {"appends": 50.0}},
        {"case": "logs", "system": "ours", "figures": {"bytes": 42.0}},
    ]
    assert table(rows) == (
        "|  | alone | racing |\n| --- | --- | --- |\n| appends | 200 | 50 |\n"
        "\n|  | ours |\n| --- | --- |\n| bytes | 42 |\n"
    )
