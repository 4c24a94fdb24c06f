"""`python -m benchmarks CASE [--peer P ...] [--runs N] [--json]`: speed, side by side with others.

Each case runs on a real broker (COOP_TEST_BOOTSTRAP, or an embedded one), three times, and prints
a row a system. Runs of this library and of its peers take turns. Time is counted from the first
record handled to the last commit. Order, losses and repeats are judged in every run but those of
`noop`. `gaps`, `scale` and `imports` need no workers: they measure progress records, rebalances,
and what loading the library takes. `logs` measures conditional appends,
bulk loads and offset stores.

`eos` has handlers that send a record each. It takes turns between our two guarantees; *steps* are
the times of a transaction's steps, and outputs are judged as a reader of committed records finds
them. What exactly once costs handlers that send nothing, `io` and `noop` tell.

`spark-read` reads a topic with Spark, by our data source and by Spark's own connector; `spark-work`
works two milliseconds on each record, on more tasks than partitions and on as many.

`ops` takes turns between members that are scraped and members that are not, and says how soon one
of 200 partitions answers.

Three others measure how long records wait: `restart` until a member that fell is at work again,
`churn` while members come and go, `kill12` after one of twelve was killed. `drain` ends members in
order, under full load and one after the other; nothing may come again. `autoscale` follows the
advice of `coop-consumer scale` through a step of the load. `hotkey` looks for minutes whether a hot
key holds up the others. `eoswaits` looks who waits for transactions.

`python -m benchmarks --all --out FOLDER` measures everything with all peers, and writes the rows, a
table and charts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks import report
from benchmarks.autoscale import autoscale
from benchmarks.bench import Broker, measured
from benchmarks.case import Case
from benchmarks.cases import CASES
from benchmarks.churn import EVERY_S, churn
from benchmarks.drain import drain
from benchmarks.eos_waits import eos_waits
from benchmarks.gap_case import gaps
from benchmarks.hotkey import hotkey
from benchmarks.imports import imports
from benchmarks.kill import kill12
from benchmarks.logs import logs
from benchmarks.machine import conditions
from benchmarks.ops import ops
from benchmarks.restart import restart
from benchmarks.rows import JsonRow, is_broken, table
from benchmarks.scale import scale
from benchmarks.spark import reading, working
from benchmarks.spark.reading import spark_read
from benchmarks.spark.working import spark_work
from benchmarks.systems import AT_LEAST_ONCE, EXACTLY_ONCE, ONE_CORE, OURS, PEERS
from benchmarks.warm import JVM_OPTIONS, warm
from coop_consumer.broker import EmbeddedBroker

WITHOUT_PEERS: dict[str, Callable[[Broker, int], list[JsonRow]]] = {
    "gaps": gaps,
    "imports": imports,
    "logs": logs,
    "scale": scale,
}
"""What no peer has."""
SPARK: dict[str, Callable[[Broker, int], list[JsonRow]]] = {
    "spark-read": spark_read,
    "spark-work": spark_work,
}
"""What Spark is measured on; it has its own machinery, so it is no part of --all."""
OWN = {
    *(it.name for it in (OURS, ONE_CORE, AT_LEAST_ONCE, EXACTLY_ONCE)),
    *reading.OURS,
    *working.OURS,
}
"""Systems whose promises are ours."""
WAITS = ("autoscale", "churn", "drain", "eoswaits", "hotkey", "kill12", "ops", "restart")
RAW_CASES = ("noop", "noop-batch")
"""Judged against the raw loop in the same invocation, asked for or not."""
GUARANTEED = ("io", "noop")
"""They send nothing, and tell what exactly once costs nevertheless."""


@contextmanager
def broker() -> Iterator[Broker]:
    """A broker to measure on."""
    given = os.environ.get("COOP_TEST_BOOTSTRAP")
    if given:
        yield Broker(given)
    else:
        with EmbeddedBroker(jvm_options=JVM_OPTIONS) as embedded:
            warm(embedded.bootstrap_servers)
            yield Broker(embedded.bootstrap_servers, tuple(embedded.pids.values()))


def parser() -> argparse.ArgumentParser:
    """What may be asked."""
    it = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = sorted([*CASES, *WITHOUT_PEERS, *SPARK, *WAITS])
    it.add_argument("case", nargs="?", choices=names)
    it.add_argument("--peer", action="append", choices=[*PEERS, "all"], default=[])
    it.add_argument("--runs", type=int, default=3, help="how many runs (3)")
    it.add_argument("--records", type=int, help="at most so many, for a first try")
    it.add_argument("--seconds", type=int, default=60, help="of hotkey and each half of churn (60)")
    it.add_argument("--json", action="store_true", help="a JSON line a row instead of a table")
    it.add_argument("--all", action="store_true", help="all cases but those of waits, all peers")
    it.add_argument("--out", type=Path, help="where --all writes its rows, table and charts")
    return it


def arguments() -> argparse.Namespace:
    """What was asked; what cannot be measured ends the program before it has begun."""
    asking = parser()
    asked = asking.parse_args()
    if asked.seconds < EVERY_S:
        asking.error(f"--seconds {asked.seconds}: the group changes every {EVERY_S} s")
    if bool(asked.case) == asked.all or asked.all != bool(asked.out):
        asking.error("name a case, or --all and --out FOLDER")
    if "raw" in asked.peer and asked.case not in RAW_CASES:
        asking.error(f"--peer raw does no work: it is measured beside {' and '.join(RAW_CASES)}")
    if asked.peer and asked.case not in CASES and not asked.all:
        asking.error(f"{asked.case} has no peers, or its own")
    if asked.all:
        try:
            report.check_charts()
        except report.ChartsMissingError as error:
            asking.error(str(error))
    return asked


def main() -> int:
    """Run what was asked; 1 if this library broke the order of a key or lost a record."""
    asked = arguments()
    with broker() as at:
        if asked.case in WAITS:
            return _waits(asked, at.bootstrap)
        names = [*CASES, *WITHOUT_PEERS] if asked.all else [asked.case]
        told = conditions()
        peers = list(PEERS) if asked.all or "all" in asked.peer else asked.peer
        rows: list[JsonRow] = []
        for name in names:
            rows += rows_of(at, name, peers, asked.runs, asked.records)
            if asked.out:  # after each case: a measurement of an hour may be broken off
                report.write_rows(asked.out, told, rows)
        if asked.out:
            report.write(asked.out, told, rows)
    if asked.json:
        for row in rows:
            print(json.dumps({**row, "conditions": told}))
    elif not asked.out:
        print(table(rows))
    return int(any(row["system"] in OWN and is_broken(row) for row in rows))


def rows_of(
    at: Broker, name: str, peers: Sequence[str], runs: int, records_max: int | None
) -> list[JsonRow]:
    """All rows of a case."""
    if name in WITHOUT_PEERS or name in SPARK:
        return (WITHOUT_PEERS | SPARK)[name](at, runs)
    wanted = {*peers, "raw"} if name in RAW_CASES else {*peers} - {"raw"}
    rows: list[JsonRow] = []
    for case in CASES[name]:
        ours = [AT_LEAST_ONCE] if case.sends else [OURS, ONE_CORE]
        if case.sends or name in GUARANTEED:
            ours.append(EXACTLY_ONCE)
        systems = [*ours, *(it for it in PEERS.values() if it.name in wanted)]
        rows += measured(at, shortened(case, records_max), systems, runs)
    return rows


def shortened(case: Case, records_max: int | None) -> Case:
    """The same with fewer records, each key as often."""
    if records_max is None or case.records <= records_max:
        return case
    share = records_max / case.records
    return replace(
        case,
        records=records_max,
        keys=max(1, round(case.keys * share)),
        special=max(min(1, case.special), round(case.special * share)),
    )


def _waits(asked: argparse.Namespace, bootstrap: str) -> int:
    cases = {
        "autoscale": partial(autoscale, bootstrap),
        "churn": partial(churn, bootstrap, asked.runs, asked.seconds),
        "drain": partial(drain, bootstrap, asked.runs),
        "eoswaits": partial(eos_waits, bootstrap, asked.runs),
        "hotkey": partial(hotkey, bootstrap, asked.seconds),
        "kill12": partial(kill12, bootstrap, asked.runs),
        "ops": partial(ops, bootstrap, asked.runs),
        "restart": partial(restart, bootstrap, asked.runs),
    }
    return cases[asked.case](as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
