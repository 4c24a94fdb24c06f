"""The table: every setting of this library with its type, default, bounds and reasons. Pure.

Room: `coop_consumer.config`. A field below is the only place that describes its setting. Names,
parsing, checks and documentation are read off the fields. Names and figures of the KIP are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from coop_consumer.config import roles
from coop_consumer.config.choices import (
    AssignorName,
    IsolationLevel,
    OffsetReset,
    OnDataLoss,
    OnFailure,
    OnOverdue,
    Ordering,
    Split,
    UpgradeFrom,
)
from coop_consumer.config.contradictions import contradictions
from coop_consumer.config.patterns import (
    CHANGELOG_TEMPLATE,
    KAFKA_NAME,
    NOT_EMPTY,
    SERVERS,
    TOPIC_NAMES,
    TOPIC_TEMPLATE,
)
from coop_consumer.config.setting import (
    About,
    Pattern,
    Section,
    Setting,
    settings_of,
    shown,
)
from coop_consumer.cores import usable_cores
from coop_consumer.errors import ConfigError, GroupIdMissingError

MIB = 1 << 20
_WORKERS = 64
_TRIED_FOR_MS = 300_000

TopicNames: TypeAlias = list[str] | tuple[str, ...] | set[str] | frozenset[str]
"""What may name topics: a text is a sequence of texts to a type checker, and no list of names."""


def _about(
    section: Section,
    meaning: str,
    why: str,
    *,
    low: int | None = None,
    high: int | None = None,
    pattern: Pattern | None = None,
    derived: str | None = None,
    aliases: Mapping[str, str] | None = None,
    listed: bool = False,
) -> dict[str, About]:
    about = About(
        section=section,
        meaning=meaning,
        why=why,
        low=low,
        high=high,
        pattern=pattern,
        derived=derived,
        aliases=aliases,
        listed=listed,
    )
    return {"about": about}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings:
    """All settings of this library, typed. A None means "as `derived` says" (see the table).

    Raises:
        ConfigError: For a value of another type or out of bounds, or two that contradict.
    """

    bootstrap_servers: str = field(
        metadata=_about(
            Section.GROUP,
            "The brokers to ask first: host:port, separated by commas.",
            "both clients begin here, and take what they cannot read for localhost or port 0",
            pattern=SERVERS,
        )
    )
    group_id: str = field(
        metadata=_about(
            Section.GROUP,
            "The group whose members share the topics and keep common progress.",
            "progress and shares are kept under it",
            pattern=NOT_EMPTY,
        )
    )
    topics: str | None = field(
        default=None,
        metadata=_about(
            Section.GROUP,
            "What a `WorkerPool` consumes, if its argument `topics` does not say: names between "
            "commas, or a list. A `CooperativeConsumer` is told by `subscribe` or `assign`.",
            "topics are asked for by name; a pattern such as ^orders is not followed",
            pattern=TOPIC_NAMES,
            derived="named where they are consumed",
            listed=True,
        ),
    )
    group_instance_id: str | None = field(
        default=None,
        metadata=_about(
            Section.GROUP,
            "The name of a static member, which keeps its ranges over a restart. Unique in the "
            "group; without it the member is dynamic and its name generated.",
            "the broker takes no other characters",
            pattern=KAFKA_NAME,
            derived="generated",
        ),
    )
    client_id: str = field(
        default="coop-consumer",
        metadata=_about(
            Section.GROUP,
            "The name under which the brokers log and limit this client.",
            "an empty one could not be found in the broker's metrics",
            pattern=NOT_EMPTY,
        ),
    )
    host: str | None = field(
        default=None,
        metadata=_about(
            Section.GROUP,
            "Where this member runs: shown by status, and used to keep a partition on few hosts.",
            "resolved in the process that joins, not where the configuration was made",
            pattern=NOT_EMPTY,
            derived="the machine's host name",
        ),
    )
    auto_offset_reset: OffsetReset = field(
        default=OffsetReset.EARLIEST,
        metadata=_about(
            Section.GROUP,
            "Where a group begins with a topic of which it has neither progress nor a committed "
            "offset. Resolved once for the whole group and written down; never used to jump over "
            "a hole later. A partition that is added to a topic that the group reads, and a topic "
            "that is made again, begin at their first record, whatever it says.",
            "Kafka's own default, latest, skips what was produced before the first member joined; "
            "earliest loses nothing",
            aliases={
                "smallest": "earliest",
                "beginning": "earliest",
                "largest": "latest",
                "end": "latest",
            },
        ),
    )
    isolation_level: IsolationLevel = field(
        default=IsolationLevel.READ_COMMITTED,
        metadata=_about(
            Section.GROUP,
            "Whether records of open and aborted transactions are handed to the workers.",
            "as librdkafka's default: an aborted record never happened",
        ),
    )

    ordering: Ordering = field(
        default=Ordering.KEY,
        metadata=_about(
            Section.SHARING,
            "What keeps its order: the records of a key, of a partition (then partitions are never "
            "shared), or nothing. Equal for all members of a group.",
            "it decides what a key range means",
        ),
    )
    ordering_block_size: int = field(
        default=1_000,
        metadata=_about(
            Section.SHARING,
            "With ordering=none: how many neighbouring offsets go to the same member. Equal for "
            "all members of a group.",
            "small blocks make many gap ranges, large ones an uneven share",
            low=1,
            high=1_000_000,
        ),
    )
    assignor: AssignorName = field(
        default=AssignorName.STICKY,
        metadata=_about(
            Section.SHARING,
            "How ranges are dealt. Only sticky moves as little as it can in a rebalance.",
            "a range that moves is drained first",
        ),
    )
    split: Split = field(
        default=Split.AUTO,
        metadata=_about(
            Section.SHARING,
            "Whether partitions are split only where members outnumber them, or always.",
            "a whole partition is the cheaper one",
        ),
    )
    workers: int | None = field(
        default=None,
        metadata=_about(
            Section.SHARING,
            "How many records, or batches, a pool processes at a time.",
            "in a file of settings it can be changed while `coop-consumer run` runs (SIGHUP)",
            low=1,
            derived="64; of processes, as many as cores that may be used; inline, 1",
        ),
    )
    capacity: int | None = field(
        default=None,
        metadata=_about(
            Section.SHARING,
            "This member's weight when ranges are dealt.",
            "a member of no capacity would get no range",
            low=1,
            derived="the number of workers",
        ),
    )
    allow_individual_commit: bool = field(
        default=True,
        metadata=_about(
            Section.SHARING,
            "Whether this member takes part in sharing; if not, it gets whole partitions only.",
            "the KIP's name for the wish of one consumer",
        ),
    )
    accept_individual_commit: bool = field(
        default=True,
        metadata=_about(
            Section.SHARING,
            "Whether the group allows progress of key ranges, and thereby sharing.",
            "the KIP's name for the permission of the coordinator",
        ),
    )
    upgrade_from: UpgradeFrom = field(
        default=UpgradeFrom.NONE,
        metadata=_about(
            Section.SHARING,
            "The assignor of plain consumers that run in this group, while they are replaced by "
            "our members one by one, or the other way round. As long as one is left, all get whole "
            "partitions by it. While this is set, a rebalance waits for the running handlers of "
            "what may move (with range: of all), at most max.poll.interval.ms; so set it back to "
            "none, one member after the other, once the last plain one has left.",
            "a plain consumer starts its partitions at once, so nobody else may still be at them",
        ),
    )

    progress_topic: str = field(
        default="__individual_commit_offsets",
        metadata=_about(
            Section.PROGRESS,
            "The compacted topic that holds the progress. Equal for all members of a group.",
            "the broker takes no other name",
            pattern=KAFKA_NAME,
        ),
    )
    progress_topic_create: bool = field(
        default=True,
        metadata=_about(
            Section.PROGRESS,
            "Whether a missing progress topic is created.",
            "set it to false where topics are made by an operator",
        ),
    )
    progress_topic_partitions: int | None = field(
        default=None,
        metadata=_about(
            Section.PROGRESS,
            "Partitions of a progress topic that is created.",
            "it can never change later without moving the progress",
            low=1,
            derived="as __consumer_offsets, usually 50",
        ),
    )
    progress_topic_replication_factor: int | None = field(
        default=None,
        metadata=_about(
            Section.PROGRESS,
            "Replication of a progress topic that is created.",
            "progress is worth as much as Kafka's own offsets",
            low=1,
            derived="as __consumer_offsets",
        ),
    )
    individual_commit_log_segment_bytes: int = field(
        default=10_485_760,
        metadata=_about(
            Section.PROGRESS,
            "Segment size of a progress topic that is created.",
            "only closed segments are compacted, so smaller is faster to read; brokers from Kafka "
            "4 on refuse less than 1 MiB, and keep the size in 32 bits",
            low=MIB,
            high=2**31 - 1,
        ),
    )
    commit_interval_ms: int = field(
        default=100,
        metadata=_about(
            Section.PROGRESS,
            "Finished records are committed at the latest after this time.",
            "every commit is a record in the log, and what is not committed is repeated after a "
            "crash",
            low=5,
            high=60_000,
        ),
    )
    commit_max_records: int = field(
        default=256,
        metadata=_about(
            Section.PROGRESS,
            "Finished records are committed as soon as there are this many.",
            "it bounds what a crash repeats at high rates",
            low=1,
        ),
    )
    commit_budget_records: int = field(
        default=1_000,
        metadata=_about(
            Section.PROGRESS,
            "Progress records a second of the whole group; members stretch their intervals to it.",
            "a thousand members would otherwise flood the log",
            low=1,
        ),
    )
    mirror_interval_ms: int = field(
        default=3_000,
        metadata=_about(
            Section.PROGRESS,
            "How often stable offsets are copied to Kafka's own committed offsets, for stock lag "
            "tools and for the way back to a plain group.",
            "more often burdens the coordinator, more rarely shows lag that is none",
            low=100,
            high=300_000,
        ),
    )
    max_num_ranges_to_commit: int = field(
        default=10_000,
        metadata=_about(
            Section.PROGRESS,
            "Gap ranges not yet committed that make a commit due at once.",
            "they must fit one progress record, and 60,000 fill 1 MB",
            low=1,
            high=60_000,
        ),
    )
    max_num_ranges_held: int = field(
        default=60_000,
        metadata=_about(
            Section.PROGRESS,
            "Unfinished records a member may hold of a partition, as each may leave a gap range; "
            "at this wall it is fetched no further until a tenth of them is done; others go on.",
            "60,000 fill one progress record of 1 MB; beyond, it is split over several",
            low=1,
            high=1_000_000,
        ),
    )

    state_dir: str | None = field(
        default=None,
        metadata=_about(
            Section.STATE,
            "Where workers with `keyed_state` keep their stores. A process takes a directory of "
            "its own in it, and finds it again after a restart.",
            "without it every start reads the changelog from its beginning",
            pattern=NOT_EMPTY,
            derived="a temporary directory, deleted at the end",
        ),
    )
    state_changelog_topic: str = field(
        default="{group}-{topic}-state",
        metadata=_about(
            Section.STATE,
            "The compacted topic that holds the state of a topic's keys; {group} and {topic} stand "
            "for their names. Equal for all members of a group.",
            "each topic has a changelog of its own, with as many partitions",
            pattern=CHANGELOG_TEMPLATE,
        ),
    )
    state_changelog_create: bool = field(
        default=True,
        metadata=_about(
            Section.STATE,
            "Whether a missing changelog is created, and gets more partitions with its topic.",
            "set it to false where topics are made by an operator",
        ),
    )
    state_changelog_replication_factor: int | None = field(
        default=None,
        metadata=_about(
            Section.STATE,
            "Replication of a changelog that is created.",
            "state is worth as much as the records that it was made of",
            low=1,
            derived="as the data topic",
        ),
    )
    max_records_in_lanes: int = field(
        default=20_000,
        metadata=_about(
            Section.MEMORY,
            "Records waiting or running in one process; at this bound fetching stops.",
            "with fewer than one a worker, workers idle",
            low=1,
        ),
    )
    max_records_per_key: int | None = field(
        default=None,
        metadata=_about(
            Section.MEMORY,
            "Records of a single key among them, so that one busy key cannot fill the lanes.",
            "a key that may not wait cannot be processed",
            low=1,
            derived="a tenth of max.records.in.lanes",
        ),
    )
    batch_max_records: int = field(
        default=500,
        metadata=_about(
            Section.MEMORY,
            "Records of one process_batch call, each of another key.",
            "a call without records does nothing",
            low=1,
        ),
    )
    max_bytes_key_range_cache: int = field(
        default=209_715_200,
        metadata=_about(
            Section.MEMORY,
            "Bytes of fetched records that wait in the lanes of one process: keys, values, headers "
            "and 600 bytes each for what they are made of. What workers could run may take half "
            "of them, so that a key that waits leaves room for others.",
            "below one fetch of 1 MiB nothing would flow",
            low=MIB,
        ),
    )
    max_bytes_fetcher_filtering: int = field(
        default=104_857_600,
        metadata=_about(
            Section.MEMORY,
            "The wall for the prefetch of one process, before records are filtered by key range. "
            "The prefetch itself is queued.max.messages.kbytes, 16,384 unless set: pausing throws "
            "it away, so it is kept small.",
            "below one fetch of 1 MiB nothing would flow, and librdkafka takes no more than 2 GiB",
            low=MIB,
            high=2_097_151 * 1024,
        ),
    )

    on_failure: OnFailure = field(
        default=OnFailure.PARK,
        metadata=_about(
            Section.FAILURE,
            "What happens to a record after its last attempt. park: its key waits for "
            "`coop-consumer retry` or `skip`; stop: the whole group stops; skip: counted and done; "
            "dead_letter: sent to dead.letter.topic, then done.",
            "park loses nothing and stops nobody else",
        ),
    )
    max_processing_ms: int = field(
        default=300_000,
        metadata=_about(
            Section.FAILURE,
            "A handler that runs for longer than this is overdue: log and status name its record, "
            "and on.overdue decides. The member's place in the group does not depend on it.",
            "it is looked ten times within this time",
            low=100,
        ),
    )
    on_overdue: OnOverdue = field(
        default=OnOverdue.LEAVE,
        metadata=_about(
            Section.FAILURE,
            "What happens to a record whose handler is overdue. leave: nothing, its key waits; "
            "fail: the attempt counts as failed, another worker goes on, and the old handler may "
            "still run beside the next attempt; exit: what is finished is committed and the "
            "process ends with code 8, for whoever starts it again.",
            "a thread cannot be stopped from outside; only its process can",
        ),
    )
    max_attempts: int = field(
        default=5,
        metadata=_about(
            Section.FAILURE,
            "How often a record is tried, the first time included. It is given up once it was "
            "tried so often and attempts.for.ms has passed, whichever comes last; of attempts that "
            "ended with their process (three at least), the number alone decides.",
            "the first attempt counts",
            low=1,
        ),
    )
    attempts_for_ms: int | None = field(
        default=None,
        metadata=_about(
            Section.FAILURE,
            "For how long a record is tried at least, from its first failure on, with a pause of "
            "at most attempt.backoff.max.ms. 0: max.attempts alone decides. The time in which the "
            "circuit is open does not count.",
            "what handlers depend on may be away for minutes, and that is no record's fault",
            low=0,
            high=86_400_000,
            derived="300000 while max.attempts has its default, else 0",
        ),
    )
    attempt_backoff_ms: int = field(
        default=100,
        metadata=_about(
            Section.FAILURE,
            "The pause before the second attempt; it doubles with each further one.",
            "a failure is rarely over at once, and the key waits meanwhile",
            low=1,
            high=3_600_000,
        ),
    )
    attempt_backoff_max_ms: int = field(
        default=5_000,
        metadata=_about(
            Section.FAILURE,
            "The longest pause between two attempts.",
            "the key waits all that time",
            low=1,
            high=3_600_000,
        ),
    )
    circuit_share: int = field(
        default=50,
        metadata=_about(
            Section.FAILURE,
            "From how many percent on the newest results of a member are failures of one kind, it "
            "begins nothing but a probe until one succeeds; what fails meanwhile is no attempt. "
            "0: never.",
            "what handlers depend on is away then, and each further call parks a key in vain",
            low=0,
            high=100,
        ),
    )
    circuit_keys: int = field(
        default=10,
        metadata=_about(
            Section.FAILURE,
            "So many different keys must have failed alike; ten times as many results are judged.",
            "a handful of poisonous keys is no outage",
            low=2,
            high=10_000,
        ),
    )
    circuit_window_ms: int = field(
        default=10_000,
        metadata=_about(
            Section.FAILURE,
            "Results older than this are not judged.",
            "of what failed long ago nobody knows whether it fails now",
            low=1,
            high=3_600_000,
        ),
    )
    circuit_open_ms: int = field(
        default=1_000,
        metadata=_about(
            Section.FAILURE,
            "The pause before each probe, while nothing else is begun.",
            "so long all keys wait at most after a dependency is back",
            low=1,
            high=3_600_000,
        ),
    )
    failure_traceback_lines: int = field(
        default=20,
        metadata=_about(
            Section.FAILURE,
            "Lines of the traceback that is logged with the first and the last attempt of a "
            "record; of more lines the middle is left out. 0: no traceback.",
            "one line of an error rarely tells where it comes from",
            low=0,
            high=1_000,
        ),
    )
    dead_letter_topic: str = field(
        default="{topic}.dlq",
        metadata=_about(
            Section.FAILURE,
            "Where dead_letter sends records.",
            "a topic must not be its own dead-letter topic, and the broker takes no other name",
            pattern=TOPIC_TEMPLATE,
        ),
    )
    on_data_loss: OnDataLoss = field(
        default=OnDataLoss.WARN,
        metadata=_about(
            Section.FAILURE,
            "What happens when records were removed before they were processed.",
            "they are gone either way; warn counts and reports them and goes on",
        ),
    )

    session_timeout_ms: int = field(
        default=10_000,
        metadata=_about(
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
        metadata=_about(
            Section.TIMING,
            "How often a member shows life. librdkafka's default is 3,000.",
            "members learn of a rebalance with a heartbeat, so it sets how fast one spreads; below "
            "100 it only costs",
            low=100,
        ),
    )
    max_poll_interval_ms: int = field(
        default=15_000,
        metadata=_about(
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
        metadata=_about(
            Section.TIMING,
            "How often the clients ask anew for brokers and leaders, if no error tells of a "
            "change.",
            "more often only burdens the brokers",
            low=1_000,
        ),
    )
    topics_watch_interval_ms: int = field(
        default=10_000,
        metadata=_about(
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
        metadata=_about(
            Section.TIMING,
            "How long a member that closes waits for running handlers and for its brokers before "
            "it says what for. It goes on waiting: nothing is abandoned in silence.",
            "0 says so at once",
            low=0,
        ),
    )

    def __post_init__(self) -> None:
        if not self.group_id:
            raise GroupIdMissingError
        for setting in SETTINGS.values():
            setting.check(getattr(self, setting.field))
        for contradiction in contradictions(self):
            raise contradiction

    @property
    def records_per_key_max(self) -> int:
        """`max.records.per.key`, or the tenth of the lanes that stands for it; at least 1."""
        return self.max_records_per_key or max(1, self.max_records_in_lanes // 10)

    @property
    def tried_for_ms(self) -> int:
        """For how long a record is tried at least. Who sets `max.attempts` alone means that."""
        if self.attempts_for_ms is not None:
            return self.attempts_for_ms
        default = SETTINGS["max.attempts"].default
        return _TRIED_FOR_MS if self.max_attempts == default else 0

    @property
    def topic_names(self) -> tuple[str, ...]:
        """`topics`, one by one; empty if it is not set."""
        return _names(self.topics) if self.topics else ()

    @property
    def command_options(self) -> tuple[str, ...]:
        """What `coop-consumer` has to be told so that it finds this group, but for a login."""
        found = ["--bootstrap", self.bootstrap_servers]
        if self.progress_topic != SETTINGS["progress.topic"].default:
            found += ["--config", f"progress.topic={self.progress_topic}"]
        return tuple(found)

    def workers_on(self, executor: str) -> int:
        """How many workers a pool has that was told of none, by its executor."""
        by_executor = {"process": usable_cores(), "inline": 1}
        return self.workers or by_executor.get(executor, _WORKERS)

    def capacity_for(self, workers: int) -> int:
        """This member's weight when it runs `workers` workers."""
        return self.capacity or workers

    def dead_letter_topic_for(self, topic: str) -> str:
        """Where a record of `topic` goes that failed for good under `on.failure=dead_letter`."""
        return self.dead_letter_topic.replace("{topic}", topic)

    def changelog_for(self, topic: str) -> str:
        """Where the state of a topic's keys is logged.

        Raises:
            ConfigError: The group's name has characters that no topic name has, or the name is too
                long.
        """
        name = self.state_changelog_topic.replace("{topic}", topic)
        name = name.replace("{group}", self.group_id)
        if not re.fullmatch(KAFKA_NAME.regex, name):
            raise ConfigError(
                "state.changelog.topic",
                f"={self.state_changelog_topic} makes {name}, and a topic's name has "
                f"{KAFKA_NAME.words}",
                "Set it to a name without {group}",
            )
        return name

    def refuse_circles(self, topics: Iterable[str], *, keyed_state: bool = False) -> None:
        """Check that no topic to be consumed is one that the group writes, nor one of Kafka's own.

        Args:
            topics: What is to be consumed, by name.
            keyed_state: Whether the worker keeps state.

        Raises:
            ConfigError: A topic would feed itself.
        """
        names = list(topics)
        found = [*roles.consumed(names), roles.progress(self.progress_topic)]
        if keyed_state:
            template = self.state_changelog_topic
            found += [roles.changelog(self.changelog_for(it), template, it) for it in names]
        if self.on_failure is OnFailure.DEAD_LETTER:
            template = self.dead_letter_topic
            found += [
                roles.dead_letters(self.dead_letter_topic_for(it), template, it) for it in names
            ]
        roles.refuse_two_roles(found)

    def refuse_output(self, topic: str) -> None:
        """Check that nobody writes records of his own to the progress topic, or one of Kafka's own.

        Raises:
            ConfigError: `topic` is one of them.
        """
        roles.refuse_two_roles([roles.progress(self.progress_topic), roles.output(topic)])


def checked_topics(topics: Iterable[str]) -> tuple[str, ...]:
    """Topics as an argument gives them, held to what the setting `topics` may hold.

    Raises:
        ConfigError: If they are none, or one is no topic's name, or they are one text: each of its
            letters would be a topic's name.
    """
    if isinstance(topics, str | bytes) or not isinstance(topics, Iterable):
        remedy = "Give a list of names, of one topic, too: ['orders']"
        raise ConfigError("topics", f"={shown(topics)} is no list of names", remedy)
    return _names(str(SETTINGS["topics"].parse(list(topics))))


def _names(topics: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in topics.split(","))


SETTINGS: dict[str, Setting] = settings_of(Settings)
"""The table: dotted name → setting, in the order of the documentation."""
