"""A seed's world: its size, its members' settings, and its kinds of faults. Pure.

In: the seed's chance. Out: frozen values. A seed has some kinds of faults and not others, so that
a bug that only one kind of fault shows is seen by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

FAULTS = {
    "capacity": 0.12,
    "churn": 0.95,
    "compaction": 0.9,
    "crash": 0.8,
    "dead client": 0.1,
    "log damage": 0.15,
    "log deletion": 0.15,
    "log lost": 0.12,
    "lost replies": 0.9,
    "more partitions": 0.2,
    "new topic": 0.15,
    "pause": 0.4,
    "policy": 0.12,
    "rejoin": 0.5,
    "reset": 0.1,
    "retention": 0.2,
    "rewind": 0.4,
    "seek ahead": 0.3,
    "truncation": 0.2,
    "user": 0.3,
}
"""The kinds of faults, and in which share of the seeds each happens."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One world.

    Attributes:
        faults: The kinds of faults that happen.
        trouble_ms: How long faults happen and records are produced.
        pace_ms: The longest time of a usual handler; some are `slow`, a few `stuck`.
        null_keys: How often a record has no key; likewise `holes`, `failing`, `slow`, `stuck`.
        failing_keys: How many of the keys fail again and again.
        quiet_ms: How long nothing is written at first.
        large: Whether some records are so large that their bytes reach the bound.
        static: Members keep their names over restarts.
        took_over: A plain group had committed offsets before.
        loners: How many of the members take whole partitions only.
        newer: How many of the members are of a later release.
        held_max: `max.num.ranges.held`.
        record_bytes: The largest progress record that is not split into parts.
        log_bytes: The largest record that the log takes.
        outage_ms: How long every handler fails, in the middle of the trouble.
        circuit_share: `circuit.share`.
        offset_reset: `auto.offset.reset`.
        together: All members start at once.
        max_attempts: `max.attempts`.
        killer: How often a record's handler ends its process; one record at most.
        on_data_loss: `on.data.loss`.
        upgrade_from: `upgrade.from`.
        standalone: There is no group: a user assigns ranges.
        undecided: Nobody decides about parked records before the group rests.
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
    failing_keys: int
    pace_ms: int
    slow: float
    stuck: float
    quiet_ms: int
    large: bool
    static: bool
    took_over: bool
    loners: float
    newer: float
    assignor: str
    split: str
    ordering: str
    on_failure: str
    max_records_in_lanes: int
    held_max: int
    commit_interval_ms: int
    mirror_interval_ms: int
    max_processing_ms: int
    on_overdue: str
    record_bytes: int
    log_bytes: int
    offset_reset: str
    together: bool
    outage_ms: int
    circuit_share: int
    max_attempts: int
    killer: float
    on_data_loss: str
    undecided: bool
    standalone: bool
    upgrade_from: str = "none"
    heartbeat_ms: int = 200
    session_ms: int = 800
    rebalance_ms: int = 1_500


SIZES = ((900_000, 900_000), *[(250, 900_000)] * 8, *[(1_400, 480)] * 2)
"""What members split records to, and what the log takes; the last they have to find out."""
_STANDALONE_BYTES = 480


def scenario(rng: Random) -> Scenario:
    """Draw a world."""
    ordering = rng.choice(("key", "key", "key", "key", "none", "partition"))
    sharing = ordering != "partition" and rng.random() < 0.9
    trouble_ms = rng.choice((2_500, 4_000, 5_500))
    record_bytes, log_bytes = rng.choice(SIZES)
    on_failure = rng.choice(("park", "park", "skip", "skip", "dead_letter", "dead_letter", "stop"))
    undecided = on_failure == "park" and rng.random() < 0.65
    drawn = Scenario(
        faults=frozenset(fault for fault, share in FAULTS.items() if rng.random() < share),
        trouble_ms=trouble_ms,
        partitions=rng.choice((1, 1, 2, 3)),
        log_partitions=rng.choice((1, 2)),
        members=rng.choice((1, 3, 4, 5, 6)),
        records=rng.randint(20, 100),
        keys=rng.randint(1, 8),
        null_keys=rng.choice((0.0, 0.0, 0.2)),
        holes=rng.choice((0.0, 0.1)),
        failing=rng.choice((0.0, 0.05, 0.2)),
        failing_keys=rng.choice((0, 0, 1, 2)),
        pace_ms=rng.choice((10, 100, 400)),
        slow=rng.choice((0.0, 0.3, 0.6, 0.6)),
        stuck=rng.choice((0.0, 0.01)),
        quiet_ms=trouble_ms // 2 if rng.random() < 0.1 else 0,
        large=rng.random() < 0.2 and not undecided,  # what is parked may stop the fetch for good
        static=rng.random() < 0.9,
        took_over=rng.random() < 0.2,
        loners=0.0 if sharing else 0.4,
        newer=rng.choice((0.0, 0.0, 0.4)),
        assignor=rng.choice(("sticky", "sticky", "roundrobin", "range")),
        split=rng.choice(("auto", "always")) if sharing else "auto",
        ordering=ordering,
        on_failure=on_failure,
        max_records_in_lanes=rng.choice((6, 20_000)),
        held_max=rng.choice((60_000 if undecided else 12, 60_000)),
        commit_interval_ms=rng.choice((20, 100, 1_000)),
        mirror_interval_ms=rng.choice((100, 500)),
        max_processing_ms=rng.choice((300_000, 300_000, 500, 500)),
        on_overdue=rng.choice(("leave", "exit", "fail", "fail")),
        record_bytes=record_bytes,
        log_bytes=log_bytes,
        offset_reset=rng.choice(("earliest", "earliest", "latest")),
        together=rng.random() < 0.15,
        outage_ms=rng.choice((0, 0, 0, 0, 0, 0, trouble_ms // 8, trouble_ms // 2)),
        circuit_share=rng.choice((50, 0)),
        max_attempts=rng.choice((1, 2, 2, 2, 3)),
        killer=rng.choice((0.0, 0.0, 0.0, 0.05)),
        on_data_loss=rng.choice(("warn", "stop")),
        undecided=undecided,
        standalone=rng.random() < 0.1,
    )
    if drawn.standalone:  # a user cuts ranges finer than a plan does, and records list releases
        drawn = replace(
            drawn,
            record_bytes=max(drawn.record_bytes, _STANDALONE_BYTES),
            log_bytes=max(drawn.log_bytes, 2 * _STANDALONE_BYTES),
        )
    if rng.random() < 0.13:
        drawn = _upgrade(drawn, rng)
    # What is behind a parked killer counts against the bound on records: others would stand still.
    return replace(drawn, undecided=False) if drawn.killer else drawn


def _upgrade(drawn: Scenario, rng: Random) -> Scenario:
    """The same world, in which our members replace plain ones one by one."""
    return replace(
        drawn,
        upgrade_from=rng.choice(("range", "cooperative-sticky")),
        standalone=False,
        members=min(drawn.members, 4),
        trouble_ms=6_000,
        quiet_ms=0,
        slow=0.6,  # what runs when a plain member comes
        offset_reset="earliest",  # by `latest` a plain member may pass over what nobody counts
        ordering="key",  # with any other one no plain member may be in the group
        rebalance_ms=3_000,  # they let go before each join
        killer=0.0,
    )


NOT_COVERED = {
    "log damage",
    "log deletion",
    "log lost",
    "new topic",
    "reset",
    "rewind",
    "seek ahead",
    "truncation",
    "user",
}
"""With exactly once, faults by which records are processed again because somebody has decided so,
or because a log has lost what brokers had acknowledged."""


def with_transactions(drawn: Scenario) -> Scenario:
    """The same world, in which outputs and progress leave in transactions.

    Offsets are mirrored rarely: nothing here depends on them, and each time takes a look of each
    member. There are fewer records and members: a transaction takes a dozen steps.
    """
    return replace(
        drawn,
        faults=drawn.faults - NOT_COVERED,
        upgrade_from="none",
        standalone=False,
        mirror_interval_ms=500,
        records=max(12, drawn.records // 2),
        members=min(4, drawn.members),
    )


def in_a_hurry(drawn: Scenario) -> Scenario:
    """The same world, in which many members come and go, and each plan moves many ranges.

    A range goes on to another member before the one that it was meant for has it.
    """
    if drawn.upgrade_from != "none":
        return drawn
    return replace(
        drawn,
        faults=drawn.faults - {"rejoin"} | {"churn", "user"},
        standalone=False,
        together=False,
        members=6,
        trouble_ms=5_500,
        assignor="roundrobin",
        partitions=2,
        static=False,
        stuck=0.05,
        max_processing_ms=300_000,  # what is stuck holds its range
        heartbeat_ms=100,
        rebalance_ms=600,
    )


@dataclass(slots=True)
class Weather:
    """The present delays and losses; the longest delays in milliseconds.

    Attributes:
        lost: How often a request or its reply is lost, or both come late.
        flush_fails: How often a flush of buffered output fails.
    """

    append_ms: int
    read_ms: int
    net_ms: int
    fetch_ms: int
    lost: float
    flush_ms: int = 0
    flush_fails: float = 0.0


def weather(rng: Random, faults: frozenset[str], *, fair: bool, longest_ms: int = 400) -> Weather:
    """Draw the delays of a seed; in fair weather the long ones are rare.

    Args:
        rng: The seed's chance.
        faults: The kinds of faults that happen.
        fair: Whether most delays are short.
        longest_ms: No delay is longer, but that of a flush.
    """
    delays = (5, 5, 30, 30) if fair else (5, 30, 100, 400)
    drawn = Weather(
        append_ms=min(rng.choice(delays), longest_ms),
        read_ms=min(rng.choice(delays), longest_ms),
        net_ms=min(rng.choice(delays), longest_ms),
        fetch_ms=rng.choice((5, 60)),
        lost=rng.choice((0.15, 0.25)) if "lost replies" in faults else 0.0,
    )
    drawn.flush_ms = 3 * drawn.read_ms
    drawn.flush_fails = 0.02 if "crash" in faults else 0.0
    return drawn
