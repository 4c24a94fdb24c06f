"""What a run came to: the judge. Pure.

In: a case, and what one run of a system left behind. Out: figures. `tests/support/journal.py`,
which shares no code with any system, judges order, losses and repeats. Time is counted from the
first record handled to the last commit, for everybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.case import Case
from benchmarks.job import Report
from benchmarks.keys import SPECIAL
from benchmarks.stops import percentile
from tests.support.journal import Place, Row, lost, out_of_order, repeated

Special = float | list[float] | dict[str, float]
"""A figure of one case alone: of several runs the median, all of them, the median of each."""

_NS_PER_S, _NS_PER_MS = 1e9, 1e6
_QUANTILES = (0.01, 0.05, *(share / 10 for share in range(1, 10)), 0.95, 0.99, 0.999, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run of a system left behind.

    Attributes:
        is_judged: Whether rows are noted, of every record.
        rows: Of all handlers that ended; none where they are not noted.
        reports: Of all processes that ended in order.
        went_ns: When they were let go.
        produced: Where the records lie; none where rows are not noted.
        made_ns: When each was produced, if that was during the run.
        killed: The processes that were killed, in order.
        fallen: What those had used and fetched, none of them beside its successor.
        was_stopped: It took too long; it is judged by what it had handled.
        outputs: The key of each output that is visible, and the place of its record, those of a key
            in their order; None: handlers send nothing.
    """

    is_judged: bool
    rows: Sequence[Row]
    reports: Sequence[Report]
    went_ns: int
    produced: frozenset[Place]
    cpu_broker_s: float | None
    made_ns: Mapping[Place, int] = field(default_factory=dict)
    killed: Sequence[int] = ()
    fallen: Sequence[Report] = ()
    was_stopped: bool = False
    outputs: Sequence[tuple[bytes, Place]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One run, in figures; None where it is unknown.

    Attributes:
        seconds: From the first record handled to the last commit.
        efficiency: Ideal time over that; None where there is no ideal.
        first_record_s: From the start of the processes' work to the first record handled.
        bytes_fetched: Over the bytes of all records; counted in records, which are of one size.
    """

    records: int
    seconds: float
    efficiency: float | None
    first_record_s: float
    out_of_order: int | None
    repeated: int
    lost: int
    bytes_fetched: float | None
    cpu_worker_s: float
    cpu_broker_s: float | None
    resident_mb: float
    commit_bytes: float | None
    was_stopped: bool
    special: dict[str, Special]


def figures(case: Case, run: Run) -> Figures:
    """Judge a run."""
    handled = sum(report.handled for report in run.reports)
    records = len({row.place for row in run.rows}) if run.is_judged else min(handled, case.records)
    first_ns, ended_ns = _span(run)
    seconds = (ended_ns - first_ns) / _NS_PER_S
    ideal_s = case.ideal_s * records / case.records
    missing = len(lost(run.rows, run.produced)) if run.is_judged else case.records - records
    processes = [*run.reports, *run.fallen]
    fetched = [report.fetched for report in processes]
    known = [count for count in fetched if count is not None]
    commits = sum(report.commits or 0 for report in run.reports)
    commit_bytes = sum(report.commit_bytes or 0 for report in run.reports)
    return Figures(
        records=records,
        seconds=seconds,
        efficiency=ideal_s / seconds if ideal_s and seconds else None,
        first_record_s=(first_ns - run.went_ns) / _NS_PER_S,
        out_of_order=len(out_of_order(run.rows)) if run.is_judged else None,
        repeated=repeated(run.rows) if run.is_judged else handled - records,
        lost=0 if run.was_stopped else missing,
        bytes_fetched=sum(known) / case.records if len(known) == len(fetched) else None,
        cpu_worker_s=sum(report.cpu_s for report in processes),
        cpu_broker_s=run.cpu_broker_s,
        resident_mb=max(
            sum(report.resident_mb for report in run.reports),
            max((report.resident_mb for report in run.fallen), default=0.0),
        ),
        commit_bytes=commit_bytes / commits if commits and commit_bytes else None,
        was_stopped=run.was_stopped,
        special=SPECIALS[case.name](case, run, seconds) if case.name in SPECIALS else {},
    )


def _span(run: Run) -> tuple[int, int]:
    """The first begin and the last commit; a commit that tells of all comes after the last end."""
    begun_ns = (
        [row.started_ns for row in run.rows]
        if run.is_judged
        else [report.first_ns for report in run.reports if report.first_ns]
    )
    committed_ns = max((report.committed_ns for report in run.reports), default=0)
    last_ns = max((row.ended_ns for row in run.rows), default=0)
    return min(begun_ns, default=run.went_ns), max(committed_ns, last_ns, run.went_ns)


def repeats_by_kill(rows: Iterable[Row], killed: Sequence[int]) -> list[float]:
    """How many records that each killed process had finished came again."""
    first: dict[Place, Row] = {}
    again = Counter[int]()
    for row in sorted(rows, key=lambda row: row.ended_ns):
        before = first.setdefault(row.place, row)
        if before is not row:
            again[before.run] += 1
    return [float(again[run]) for run in killed]


# ---- the special figures ------------------------------------------------------------------------


def _others(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.key != SPECIAL]


def others_done(_case: Case, run: Run, _seconds: float) -> dict[str, Special]:
    """When the records of all keys but the slow one were done, from the first record handled on."""
    first_ns = min(row.started_ns for row in run.rows)
    last_ns = max(row.ended_ns for row in _others(run.rows))
    return {"others_done_s": (last_ns - first_ns) / _NS_PER_S}


def skewed(case: Case, run: Run, seconds: float) -> dict[str, Special]:
    """The same, and how fast: records of other keys a second, as a share of one worker less."""
    [done_s] = others_done(case, run, seconds).values()
    assert isinstance(done_s, float)
    ideal_s = (case.records - case.special) * case.work_ms / 1_000 / (case.width - 1)
    return {"others_done_s": done_s, "others_of_ideal": ideal_s / done_s}


def latencies(_case: Case, run: Run, _seconds: float) -> dict[str, Special]:
    """From the making of a record to the end of its handler, of all keys but the slow one.

    `wait_…` is the same to the begin of the handler.
    """
    others = [row for row in _others(run.rows) if row.place in run.made_ns]
    done_ms = [(row.ended_ns - run.made_ns[row.place]) / _NS_PER_MS for row in others]
    waits_ms = [(row.started_ns - run.made_ns[row.place]) / _NS_PER_MS for row in others]
    return {
        "latency_p50_ms": percentile(done_ms, 0.5),
        "latency_p99_ms": percentile(done_ms, 0.99),
        "latency_max_ms": max(done_ms),
        "wait_p50_ms": percentile(waits_ms, 0.5),
        "wait_p99_ms": percentile(waits_ms, 0.99),
        "latency_quantiles_ms": {f"{share:g}": percentile(done_ms, share) for share in _QUANTILES},
    }


def rate(_case: Case, run: Run, seconds: float) -> dict[str, Special]:
    """Records a second."""
    return {"records_per_s": sum(report.handled for report in run.reports) / seconds}


def sent(_case: Case, run: Run, seconds: float) -> dict[str, Special]:
    """Records a second, and what came of the outputs."""
    places = Counter(place for _, place in run.outputs or ())
    last: dict[bytes, Place] = {}
    behind = 0
    for key, place in run.outputs or ():
        behind += place < last.get(key, place)
        last[key] = max(place, last.get(key, place))
    steps = [report.steps_ms for report in run.reports if report.steps_ms]
    return {
        "records_per_s": sum(report.handled for report in run.reports) / seconds,
        "outputs_missing": len(run.produced - places.keys()),
        "outputs_doubled": sum(places.values()) - len(places),
        "outputs_behind": behind,
        **({"steps_ms": steps[0]} if steps else {}),
    }


def times_ideal(case: Case, _run: Run, seconds: float) -> dict[str, Special]:
    """How much longer than ideal."""
    return {"times_ideal": seconds / case.ideal_s}


def begun(_case: Case, run: Run, _seconds: float) -> dict[str, Special]:
    """When the last partition had its first handler, from when the process was let go."""
    first_ns: dict[int, int] = {}
    for row in run.rows:
        partition, _ = row.place
        first_ns[partition] = min(row.started_ns, first_ns.get(partition, row.started_ns))
    return {"all_begun_s": (max(first_ns.values()) - run.went_ns) / _NS_PER_S}


def repeats(_case: Case, run: Run, _seconds: float) -> dict[str, Special]:
    """What came again after each kill."""
    found = repeats_by_kill(run.rows, run.killed)
    return {"repeats_a_kill": found, "repeats_median": percentile(found, 0.5)}


SPECIALS: dict[str, Callable[[Case, Run, float], dict[str, Special]]] = {
    "slowkey": others_done,
    "skew": skewed,
    "live": latencies,
    "eos": sent,
    "noop": rate,
    "noop-batch": rate,
    "split": times_ideal,
    "partitions": begun,
    "crash": repeats,
    "crashslow": repeats,
}
"""By the name of the case."""
