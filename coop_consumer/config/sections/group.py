"""Settings of the group, and of the connection to it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from coop_consumer.config.choices import IsolationLevel, OffsetReset
from coop_consumer.config.patterns import CALLABLE, CHOSEN_TOPICS, KAFKA_NAME, NOT_EMPTY, SERVERS
from coop_consumer.config.setting import About, Section, setting


@dataclass(frozen=True, kw_only=True, repr=False)
class GroupSettings:
    """Settings of the group, and of the connection to it."""

    SECTION = Section.GROUP

    bootstrap_servers: str = field(
        metadata={
            "about": About(
                "The brokers to ask first: host:port, separated by commas.",
                "both clients begin here, and would take unreadable text for localhost or port 0",
                pattern=SERVERS,
            )
        }
    )
    group_id: str = field(
        metadata={
            "about": About(
                "The group whose members share the topics and keep common progress.",
                "progress and shares are kept under it",
                pattern=NOT_EMPTY,
            )
        }
    )
    topics: str | None = setting(
        None,
        "The topics of a `WorkerPool` without the argument `topics`: names between commas, or "
        "a list. A name that begins with ^ is a regular expression for the beginning of names: "
        "topics that match it come and go while the member runs. It takes nothing that the group "
        "itself writes, and no topic that begins with __. A `CooperativeConsumer` gets topics by "
        "`subscribe` or `assign`.",
        "brokers allow no other names",
        pattern=CHOSEN_TOPICS,
        derived="named in the call",
        listed=True,
    )
    group_instance_id: str | None = setting(
        None,
        "The name of a static member, which keeps its ranges over a restart. Unique in the "
        "group; without it the member is dynamic and its name generated.",
        "the broker takes no other characters",
        pattern=KAFKA_NAME,
        derived="generated",
    )
    client_id: str = setting(
        "coop-consumer",
        "The name under which the brokers log and limit this client.",
        "an empty one could not be found in the broker's metrics",
        pattern=NOT_EMPTY,
    )
    host: str | None = setting(
        None,
        "Where this member runs: shown by status, and used to keep a partition on few hosts.",
        "resolved in the process that joins, not where the configuration was made",
        pattern=NOT_EMPTY,
        derived="the machine's host name",
    )
    oauth_token_provider: str | None = setting(
        None,
        "With sasl.mechanism=OAUTHBEARER: the function that gives login tokens, as "
        "module:callable. It takes nothing and returns (token, expiry in Unix seconds); a "
        "principal and a dict of extensions may follow. All clients of a process share its tokens.",
        "named by text, it can be imported in other processes, too",
        pattern=CALLABLE,
        derived="none",
    )
    auto_offset_reset: OffsetReset = setting(
        OffsetReset.EARLIEST,
        "Where a group begins with a topic of which it has neither progress nor a committed "
        "offset. It is resolved once for the whole group and written down; it never jumps over "
        "a hole later. A partition added to a topic that the group reads, and a topic that is "
        "created again, always begin at their first record.",
        "Kafka's own default, latest, skips records produced before the first member joined; "
        "earliest loses nothing",
        aliases={
            "smallest": "earliest",
            "beginning": "earliest",
            "largest": "latest",
            "end": "latest",
        },
    )
    isolation_level: IsolationLevel = setting(
        IsolationLevel.READ_COMMITTED,
        "Whether records of open and aborted transactions are handed to the workers.",
        "as librdkafka's default: an aborted record never happened",
    )
