"""Settings of time: sessions, rebalances, the end. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from coop_consumer.config.setting import Section, about


@dataclass(frozen=True, kw_only=True, repr=False)
class TimingSettings:
    """Settings of time: sessions, rebalances, the end."""

    session_timeout_ms: int = field(
        default=10_000,
        metadata=about(
            Section.TIMING,
            "A member that sends no heartbeat for this long is taken for dead and its ranges are "
            "dealt anew. librdkafka's default is 45,000.",
            "nothing else notices a crash, so it is the pause of a dead member's keys; brokers "
            "allow 6,000 to 1,800,000 unless told otherwise",
            low=6_000,
            high=1_800_000,
        ),
    )
    heartbeat_interval_ms: int = field(
        default=500,
        metadata=about(
            Section.TIMING,
            "How often a member shows life. librdkafka's default is 3,000.",
            "members learn of a rebalance with a heartbeat, so it sets how fast one spreads; below "
            "100 it only costs",
            low=100,
        ),
    )
    max_poll_interval_ms: int = field(
        default=15_000,
        metadata=about(
            Section.TIMING,
            "How long a rebalance waits for a member. It says nothing of processing time: slow "
            "handlers do not hold up the membership.",
            "a stuck member delays all others by it, a busy one has to make it in time",
            low=1_000,
            high=300_000,
        ),
    )
    metadata_max_age_ms: int = field(
        default=30_000,
        metadata=about(
            Section.TIMING,
            "How often the clients ask anew for brokers and leaders, if no error tells of a "
            "change.",
            "more often only burdens the brokers",
            low=1_000,
        ),
    )
    topics_watch_interval_ms: int = field(
        default=10_000,
        metadata=about(
            Section.TIMING,
            "How soon a member notices topics that are deleted, made again under their name, or "
            "get partitions; and the group's leader a changed policy.",
            "one small request of each member; until then a topic made again is read on at the old "
            "offset",
            low=1_000,
        ),
    )
    shutdown_timeout_ms: int = field(
        default=30_000,
        metadata=about(
            Section.TIMING,
            "How long a member that closes waits for running handlers and for its brokers before "
            "it says what for. It goes on waiting: nothing is abandoned in silence.",
            "0 says so at once",
            low=0,
        ),
    )
