"""How long keys stood still, from the rows that members wrote. Pure.

In: one row for every handler that ended. Out: times in milliseconds, one for each two records of a
key that were handled one after the other. If one run of a member handled both, the key's owner
stayed; if not, the key moved.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

from tests.support.journal import Place, Row

Key = tuple[int, str]
"""Partition and key."""

_NS_PER_MS = 1_000_000


def gaps_ms(rows: Iterable[Row]) -> list[float]:
    """Keys whose owner stayed: from the begin of a record to the begin of the key's next one."""
    return [
        (after.started_ns - before.started_ns) / _NS_PER_MS
        for before, after in _steps(rows)
        if before.run == after.run
    ]


def moves_ms(rows: Iterable[Row], made_ns: Mapping[Place, int]) -> list[float]:
    """Keys that moved: how long the new owner's first record waited.

    It waits from the end of the old owner's last handler of the key; or from its making, if the key
    had nothing to do until then.
    """
    return [
        (after.started_ns - max(before.ended_ns, made_ns[after.place])) / _NS_PER_MS
        for before, after in _steps(rows)
        if before.run != after.run
    ]


def absences_ms(rows: Sequence[Row], run: int, ended_ns: int) -> list[float]:
    """Keys whose owner was ended: from then to the begin of another run's first record.

    Args:
        rows: Of everybody.
        run: Which run was ended.
        ended_ns: When.

    Returns:
        A time for each key that was its own; infinity for one that nobody took up.
    """
    back_ns: dict[Key, int] = {}
    for row in sorted(rows, key=lambda row: row.started_ns):
        if row.run != run and row.started_ns >= ended_ns:
            back_ns.setdefault((row.partition, row.key), row.started_ns)
    own = owned(rows, run, ended_ns)
    return [(back_ns.get(key, math.inf) - ended_ns) / _NS_PER_MS for key in own]


def owned(rows: Iterable[Row], run: int, until_ns: int) -> set[Key]:
    """The keys whose last record until then was handled by this run."""
    in_time = sorted(rows, key=lambda row: row.started_ns)
    last = {(row.partition, row.key): row.run for row in in_time if row.started_ns <= until_ns}
    return {key for key, owner in last.items() if owner == run}


def finished_late(rows: Iterable[Row], run: int, within_ms: int) -> int:
    """How many records a run finished in its last milliseconds, its very last one included."""
    ends_ns = [row.ended_ns for row in rows if row.run == run]
    return sum(end_ns > max(ends_ns) - within_ms * _NS_PER_MS for end_ns in ends_ns)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed (nearest rank).

    >>> percentile([40, 10, 20, 30], 0.5), percentile(range(1, 1_001), 0.999)
    (20, 999)
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _steps(rows: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """Every two records of a key that were handled one after the other."""
    by_key: dict[Key, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.started_ns):
        by_key[row.partition, row.key].append(row)
    return chain.from_iterable(map(pairwise, by_key.values()))
