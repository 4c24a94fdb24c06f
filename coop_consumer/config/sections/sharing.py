"""Settings of how partitions are shared. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from coop_consumer.config.choices import AssignorName, Balance, Ordering, Split, UpgradeFrom
from coop_consumer.config.setting import Section, setting

WORKERS_MAX = 100_000
"""Of one member. Tasks of an event loop may be as many; of threads, machines allow fewer."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SharingSettings:
    """Settings of how partitions are shared."""

    SECTION = Section.SHARING

    ordering: Ordering = setting(
        Ordering.KEY,
        "Which records keep their order: those of a key, those of a partition (then partitions "
        "are never shared), or none. Equal for all members of a group.",
        "it decides what a key range means",
    )
    ordering_block_size: int = setting(
        1_000,
        "With ordering=none: how many neighbouring offsets go to the same member. Equal for "
        "all members of a group.",
        "small blocks make many gap ranges, large ones an uneven share",
        low=1,
        high=1_000_000,
    )
    assignor: AssignorName = setting(
        AssignorName.STICKY,
        "How ranges are assigned. Only sticky moves as little as it can in a rebalance.",
        "a range that moves is drained first",
    )
    split: Split = setting(
        Split.AUTO,
        "Whether partitions are split only if members outnumber them, or always.",
        "a whole partition is the cheaper one",
    )
    balance: Balance = setting(
        Balance.LOAD,
        "What the key ranges of members have in proportion to their capacities: the load that "
        "members have measured, or the number of key hashes. With load, ranges move as the load "
        "does: at most once in 3 minutes, and only while some member is busy for 60 % of its time. "
        "Only partitions that are split are concerned.",
        "keys are rarely even, and the busiest member decides how fast a group is",
    )
    workers: int | None = setting(
        None,
        "How many records, or batches, a pool processes at a time.",
        "without a worker nothing is processed. In a file of settings it can change while "
        "`coop-consumer run` runs (SIGHUP)",
        low=1,
        high=WORKERS_MAX,
        derived="64; of processes, one a usable core; inline, 1",
    )
    capacity: int | None = setting(
        None,
        "This member's weight when ranges are assigned.",
        "a member of no capacity would get no range",
        low=1,
        derived="the number of workers",
    )
    scale_drain_target_s: int = setting(
        60,
        "`coop-consumer scale` asks for so many members that what is left is done within so many "
        "seconds. Members do not read it: give it to the command.",
        "new members take some seconds to start, and no autoscaler is needed for a longer time",
        low=10,
        high=86_400,
    )
    allow_individual_commit: bool = setting(
        True,
        "Whether this member takes part in sharing; if not, it gets whole partitions only.",
        "the KIP's name for the wish of one consumer",
    )
    accept_individual_commit: bool = setting(
        True,
        "Whether the group allows progress of key ranges, and thereby sharing.",
        "the KIP's name for the permission of the coordinator",
    )
    upgrade_from: UpgradeFrom = setting(
        UpgradeFrom.NONE,
        "The assignor of plain consumers that run in this group, while they are replaced by "
        "our members one by one, or the other way round. As long as one is left, all get whole "
        "partitions by it. While this is set, a rebalance waits for running handlers of "
        "partitions that may move (with range: of all), at most max.poll.interval.ms. Once the "
        "last plain one has left, set it back to none, one member after the other.",
        "a plain consumer starts its partitions at once, so nobody else may still process them",
    )
