"""The cases: what is produced, what a record costs, how many are worked on at a time. Pure.

In: nothing. Out: `CASES`, by the name that the command line has. A case of several points is
measured at each of them. What is special about a case's result is in `benchmarks/figures.py`.
"""

from __future__ import annotations

from benchmarks.case import Case

_SWEEP_S = 1.5
"""What a point of `sweep` takes at best."""
_SWEEP_MAX, _SWEEP_PER_WORKER = 30_000, 4


def _sweep(work_ms: float, width: int) -> Case:
    """A point that takes the same time at best, but for work that takes none."""
    fitting = round(_SWEEP_S * width * 1_000 / work_ms) if work_ms else _SWEEP_MAX
    records = min(_SWEEP_MAX, max(_SWEEP_PER_WORKER * width, fitting))
    return Case(
        name="sweep",
        point=f"{work_ms:g} ms, {width} wide",
        records=records,
        keys=max(width, records // 3),
        work_ms=work_ms,
        width=width,
    )


def _split(members: int) -> Case:
    """Members of four workers on one partition, 3 s at best."""
    return Case(
        name="split",
        point=f"{members} members",
        records=2_400 * members,
        keys=800 * members,
        work_ms=5,
        width=4 * members,
        members=members,
        partitions=1,
        joins_before=True,
    )


def _eos(work_ms: float, interval_ms: int) -> Case:
    """Handlers that send an output each, 5 s at best where they have work."""
    return Case(
        name="eos",
        point=f"{work_ms:g} ms of work, a commit each {interval_ms} ms",
        records=64_000 if work_ms else 150_000,
        keys=10_000,
        work_ms=work_ms,
        sends=True,
        interval_ms=interval_ms,
    )


def _partitions(partitions: int) -> Case:
    """One member of many partitions, each with some records of some keys."""
    return Case(
        name="partitions",
        point=f"{partitions} partitions",
        records=10 * partitions,
        keys=5 * partitions,
        work_ms=1,
        width=8,
        partitions=partitions,
    )


CASES: dict[str, tuple[Case, ...]] = {
    "io": (Case(name="io", records=30_000, keys=10_000, work_ms=5),),
    "hot": (Case(name="hot", records=20_000, keys=10_000, work_ms=5, special=2_000),),
    "slowkey": (
        Case(name="slowkey", records=10_000, keys=1_000, work_ms=1, special=5, special_ms=2_000),
    ),
    # One key has three records of ten: alone it takes 18 s, all others 2.8 s of 15 workers.
    "skew": (
        Case(
            name="skew",
            records=12_000,
            keys=500,
            work_ms=5,
            width=16,
            special=3_600,
            partitions=1,
            held=1_000,
        ),
    ),
    "live": (
        Case(
            name="live",
            records=10_000,
            keys=1_000,
            work_ms=1,
            special=5,
            special_ms=2_000,
            rate=1_000,
            joins_before=True,
        ),
    ),
    "noop": (Case(name="noop", work="nothing", records=1_000_000, keys=100_000, zipf=True),),
    "noop-batch": (
        Case(name="noop-batch", work="batch", records=1_000_000, keys=100_000, zipf=True),
    ),
    "aio": (Case(name="aio", work="await", records=30_000, keys=10_000, work_ms=100, width=1_000),),
    "cpu": (Case(name="cpu", work="burn", records=20_000, keys=2_000, work_ms=0.5, width=2),),
    "split": tuple(map(_split, (1, 4, 16))),
    "partitions": tuple(map(_partitions, (50, 200, 1_000))),
    "eos": tuple(_eos(ms, interval_ms) for ms in (0, 5) for interval_ms in (10, 30, 100, 300)),
    "sweep": tuple(_sweep(ms, width) for ms in (0, 0.1, 1, 10, 100) for width in (8, 64, 256)),
    "crash": (Case(name="crash", records=20_000, keys=10_000, work_ms=5, kills=5),),
    "crashslow": (
        Case(
            name="crashslow",
            records=20_000,
            keys=10_000,
            work_ms=5,
            special=1,
            special_ms=5_000,
            kills=5,
        ),
    ),
}
"""By name."""
