"""Settings of progress and commits. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from coop_consumer.config.choices import Guarantee
from coop_consumer.config.patterns import KAFKA_NAME, TOPIC_NAMES
from coop_consumer.config.setting import Section, setting

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True, repr=False)
class ProgressSettings:
    """Settings of progress and commits."""

    SECTION = Section.PROGRESS

    processing_guarantee: Guarantee = setting(
        Guarantee.AT_LEAST_ONCE,
        "Whether what handlers send, the state that they keep and the progress of their records "
        "become visible once, together (`exactly_once`), or at least once. Equal for all members "
        "of a group.",
        "transactions need brokers and readers that know them: see docs/exactly-once.md",
    )
    transactional_id_prefix: str = setting(
        "coop-",
        "Transactional ids begin with this, then comes `<group>-<member>-<run>`. Equal for all "
        "members of a group.",
        "it is what a right to write transactional ids can be given for",
        pattern=KAFKA_NAME,
    )
    progress_topic: str = setting(
        "__individual_commit_offsets",
        "The compacted topic that holds the progress. Equal for all members of a group. With "
        "`exactly_once` a group has one of its own: this name, a hyphen and the group's id.",
        "the broker takes no other name",
        pattern=KAFKA_NAME,
    )
    progress_topic_create: bool = setting(
        True,
        "Whether a missing progress topic is created.",
        "set it to false if an operator creates topics",
    )
    progress_topic_partitions: int | None = setting(
        None,
        "Partitions of a progress topic that is created.",
        "it can never change later without moving the progress",
        low=1,
        derived="as __consumer_offsets, usually 50; 8 for a group's own",
    )
    progress_topic_replication_factor: int | None = setting(
        None,
        "Replication of a progress topic that is created.",
        "progress is worth as much as Kafka's own offsets",
        low=1,
        derived="as __consumer_offsets",
    )
    individual_commit_log_segment_bytes: int = setting(
        10_485_760,
        "Segment size of a progress topic that is created.",
        "only closed segments are compacted, so smaller is faster to read; brokers from Kafka "
        "4 on refuse less than 1 MiB, and keep the size in 32 bits",
        low=MIB,
        high=2**31 - 1,
    )
    output_topics: str | None = setting(
        None,
        "Topics that handlers send to (`context.send`), besides those that the worker declares "
        "as `outputs`: names between commas, or a list. A `CooperativeConsumer` needs them here.",
        "each is looked up at the start, so that an output is refused where it is sent",
        pattern=TOPIC_NAMES,
        derived="those of the worker alone",
        listed=True,
    )
    output_max_records: int = setting(
        50_000,
        "So many outputs may wait until Kafka has them. From half of them on a commit is due; at "
        "all of them no further record is begun until a commit has ended.",
        "outputs take memory, and while brokers are away nothing takes them",
        low=1,
        high=1_000_000,
    )
    output_max_bytes: int = setting(
        64 * MIB,
        "The same in bytes. A handler that sends more for one record gets an error.",
        "it bounds the memory, and what one commit has to write",
        low=MIB,
    )
    commit_interval_ms: int = setting(
        100,
        "Finished records are committed at the latest after this time.",
        "every commit is a record in the log, and uncommitted records repeat after a crash",
        low=5,
        high=60_000,
    )
    commit_max_records: int | None = setting(
        None,
        "Finished records are committed as soon as there are this many.",
        "it bounds what is done again after a crash at high rates",
        low=1,
        derived="256; with `exactly_once` their number makes no commit due",
    )
    commit_budget_records: int = setting(
        1_000,
        "Records a second that the whole group appends to one partition of the progress log; "
        "members stretch their intervals to it. Reports of load take a tenth of it at most.",
        "a thousand members would otherwise flood the log",
        low=1,
    )
    mirror_interval_ms: int = setting(
        3_000,
        "How often stable offsets are copied to Kafka's own committed offsets, for stock lag "
        "tools and for the way back to a plain group.",
        "more often burdens the coordinator, more rarely shows a lag that does not exist",
        low=100,
        high=300_000,
    )
    max_num_ranges_to_commit: int = setting(
        10_000,
        "Gap ranges not yet committed that make a commit due at once.",
        "they must fit one progress record, and 60,000 fill 1 MB",
        low=1,
        high=60_000,
    )
    max_num_ranges_held: int = setting(
        60_000,
        "Unfinished records a member may hold of a partition, as each may leave a gap range. "
        "At this wall its fetch stops until a tenth is done; other partitions continue. Before "
        "that, a key that has most of them is fetched by itself, and the other keys go on.",
        "60,000 fill one progress record of 1 MB; beyond, it is split over several",
        low=1,
        high=1_000_000,
    )
