"""What a seed's world is like: its size, its members' settings, and which faults it knows. Pure.

In: the seed's chance. Out: frozen values. A seed has some kinds of faults and not others, so that
what one fault alone breaks is seen by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

FAULTS = (
    "crash",
    "pause",
    "churn",
    "lost replies",
    "compaction",
    "rewind",
    "retention",
    "rejoin",
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One world.

    Attributes:
        faults: The kinds of faults that happen.
        trouble_ms: How long they happen, and records are produced.
        static: Members keep their names over restarts.
        took_over: A plain group had committed offsets before.
    """

    faults: frozenset[str]
    trouble_ms: int
    partitions: int
    log_partitions: int
    members: int
    records: int
    keys: int
    null_keys: float
    holes: float
    failing: float
    slow: float
    static: bool
    took_over: bool
    assignor: str
    split: str
    on_failure: str
    max_records_in_lanes: int
    commit_interval_ms: int
    heartbeat_ms: int = 200
    session_ms: int = 800
    rebalance_ms: int = 1_500


def scenario(rng: Random) -> Scenario:
    """Draw a world."""
    return Scenario(
        faults=frozenset(fault for fault in FAULTS if rng.random() < 0.4),
        trouble_ms=rng.choice((1_000, 3_000, 8_000)),
        partitions=rng.choice((1, 1, 2, 3)),
        log_partitions=rng.choice((1, 2)),
        members=rng.randint(1, 5),
        records=rng.randint(10, 100),
        keys=rng.randint(1, 8),
        null_keys=rng.choice((0.0, 0.0, 0.2)),
        holes=rng.choice((0.0, 0.1)),
        failing=rng.choice((0.0, 0.05, 0.2)),
        slow=rng.choice((0.0, 0.05, 0.2)),
        static=rng.random() < 0.3,
        took_over=rng.random() < 0.2,
        assignor=rng.choice(("sticky", "sticky", "roundrobin", "range")),
        split=rng.choice(("auto", "always")),
        on_failure=rng.choice(("park", "skip", "dead_letter", "stop")),
        max_records_in_lanes=rng.choice((6, 20_000)),
        commit_interval_ms=rng.choice((20, 100, 1_000)),
    )


@dataclass(slots=True)
class Weather:
    """Delays and losses, as they are now; the longest delays in milliseconds.

    Attributes:
        append_lost: How often the reply to a request is lost.
    """

    append_ms: int
    read_ms: int
    net_ms: int
    fetch_ms: int
    append_lost: float


def weather(rng: Random, faults: frozenset[str]) -> Weather:
    """Draw the delays of a seed."""
    return Weather(
        append_ms=rng.choice((5, 60, 400)),
        read_ms=rng.choice((5, 60, 400)),
        net_ms=rng.choice((5, 60, 400)),
        fetch_ms=rng.choice((5, 60)),
        append_lost=0.1 if "lost replies" in faults else 0.0,
    )
