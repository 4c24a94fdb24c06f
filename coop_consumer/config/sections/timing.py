"""Settings of time: sessions, rebalances, the end. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from coop_consumer.config.setting import Section, setting


@dataclass(frozen=True, kw_only=True, repr=False)
class TimingSettings:
    """Settings of time: sessions, rebalances, the end."""

    SECTION = Section.TIMING

    session_timeout_ms: int = setting(
        10_000,
        "If a member sends no heartbeat for this long, it is taken for dead and its ranges go "
        "to others. librdkafka's default is 45,000.",
        "nothing else notices a crash, so it is the pause of a dead member's keys; brokers "
        "allow 6,000 to 1,800,000 by default",
        low=6_000,
        high=1_800_000,
    )
    heartbeat_interval_ms: int = setting(
        500,
        "How often a member shows life. librdkafka's default is 3,000.",
        "members learn of a rebalance with a heartbeat, so it sets how fast one spreads; below "
        "100 it only costs",
        low=100,
    )
    max_poll_interval_ms: int = setting(
        15_000,
        "How long a rebalance waits for a member. It does not bound processing time: slow "
        "handlers do not delay the membership.",
        "a stuck member delays all others by it, and a busy one has to answer within it",
        low=1_000,
        high=300_000,
    )
    metadata_max_age_ms: int = setting(
        30_000,
        "How often the clients ask again for brokers and leaders, if no error shows a change.",
        "more often only burdens the brokers",
        low=1_000,
    )
    topics_watch_interval_ms: int = setting(
        10_000,
        "How soon a member notices topics that are deleted, created again under their name, or "
        "get partitions; and which topics match its patterns. The group's leader also notices a "
        "changed policy.",
        "one small request of each member; until then a topic created again is read at the old "
        "offset",
        low=1_000,
    )
    shutdown_timeout_ms: int = setting(
        30_000,
        "How long a member that closes waits for running handlers and for its brokers before "
        "it reports what it waits for. It keeps waiting: nothing is abandoned in silence. It "
        "leaves brokers that are away if all that it did is in the log.",
        "0 reports it at once",
        low=0,
    )
