"""What a user asked of the source, read once. Pure.

In: Spark's options, all text, their names in any case. Out: `SourceOptions`, or a `ConfigError`
that names the option. Where Spark's own Kafka source has an option of the same meaning, it has the
same name here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

from coop_consumer.config import Config
from coop_consumer.config.patterns import KAFKA_NAME, sendable
from coop_consumer.config.setting import shown
from coop_consumer.config.settings import SETTINGS
from coop_consumer.core.placement import PARTITIONERS
from coop_consumer.errors import ConfigError
from offsets import OFFSET_MAX
from streams_adapter.table_notes import without_notes

KEY_RANGES_MAX = 1_024
EARLIEST_OFFSET, LATEST_OFFSET = -2, -1
"""In JSON, as Spark writes them."""

_NO_GROUP = "keyrange-source"
"""A configuration has to name a group; without `group.id` nothing is asked or told of it."""
_CLIENT = "kafka."
_STARTS = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
_ENDS = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_NAMES = (
    "subscribe",
    "subscribePattern",
    _STARTS[0],
    _ENDS[0],
    *_STARTS[1:],
    *_ENDS[1:],
    "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "includeHeaders",
    "failOnDataLoss",
    "keyRanges",
    "keys",
    "partitions",
    "partitioner",
    "partitionCounts",
    "group.id",
)
_BY_LOWER = {name.lower(): name for name in _NAMES}
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_DURATION = re.compile(r"([0-9]{1,12})\s*(ms|s|m|h)")
_WHOLE_NUMBER = re.compile(r"[0-9]{1,19}")
_PARTITION = re.compile(r"0|[1-9][0-9]{0,9}")

_ELSEWHERE = {
    "assign": "Name the topics in subscribe, and partitions in partitions: [0, 2] of each",
    "minpartitions": "Say keyRanges: into how many key ranges, so tasks, each partition is split",
    "maxrecordsperpartition": "Say keyRanges: into how many key ranges, so tasks, each partition "
    "is split",
    "groupidprefix": "Leave it out: no group is made. group.id says which group to start from",
    "kafkaconsumer.polltimeoutms": "Leave it out: a task waits by itself",
    "fetchoffset.numretries": "Leave it out: brokers are asked again by themselves",
    "fetchoffset.retryintervalms": "Leave it out: brokers are asked again by themselves",
    "topic": "To read, say subscribe; topic is an option of the sink",
    "checkpointlocation": "Say it to writeStream",
    "kafka.auto.offset.reset": "Say startingOffsets: earliest, latest or JSON",
    "kafka.group.id": "Leave it out, or set group.id: the query then starts where that group is, "
    "and a stream tells the group how far it has come",
}
"""What Spark's Kafka source knows, and where it is found here."""

_OF_CLIENTS = (
    "bootstrap.servers",
    "client.id",
    "oauth.token.provider",
    "isolation.level",
    "progress.topic",
    "max.bytes.fetcher.filtering",
    "metadata.max.age.ms",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
)
"""Settings of members that are of the source's clients, too, or that Spark's own source takes."""
_OF_MEMBERS = {
    "topics": "Say subscribe",
    "on.data.loss": "Say failOnDataLoss",
    "ordering": "Leave it out: a task reads a key range",
    "workers": "Say keyRanges: into how many key ranges, so tasks, each partition is split",
}
"""Other settings of members that have a counterpart here."""

Where: TypeAlias = Literal["earliest", "latest", "group"] | dict[str, dict[int, int]]
"""An end of the log, what the group has committed, or an offset for each partition."""
When: TypeAlias = int | dict[str, dict[int, int]]
"""Unix ms, for all partitions or for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What to read.

    Attributes:
        config: Of the clients.
        group: Whose progress to start from, and to mirror what a stream has done to; or None.
        topics: Which topics; None: those that match `pattern`.
        pattern: A regular expression for whole names.
        starting: Where to begin; None: where that is usual.
        since: Begin at the first record of this time or later, instead.
        since_or_latest: Begin at the end of a partition that has none so young.
        ending: Where to end.
        until: End before the first record of this time or later, instead.
        ends_by: Which option says where to end; None: none does.
        offsets_max: Records of one micro-batch at most, over all partitions.
        offsets_min: And at least, unless `delay_ms` has passed.
        delay_ms: See there.
        with_headers: Whether there is a column of headers.
        fail_on_data_loss: Whether offsets that are gone end the query.
        key_ranges: Into how many a partition is split; None: as the cluster's cores want it.
        keys: Only records with one of these; None: all.
        partitions: Only these of each topic; None: all.
        partitioner: How producers choose a partition by key; None: not known.
        partition_counts: How many partitions the topics have had, as far as the user says.
    """

    config: Config
    group: str | None
    topics: tuple[str, ...] | None
    pattern: str | None
    starting: Where | None
    since: When | None
    since_or_latest: bool
    ending: Where
    until: When | None
    ends_by: str | None
    offsets_max: int | None
    offsets_min: int | None
    delay_ms: int
    with_headers: bool
    fail_on_data_loss: bool
    key_ranges: int | None
    keys: frozenset[bytes] | None
    partitions: frozenset[int] | None
    partitioner: str | None
    partition_counts: frozenset[int]

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Read the options.

        Raises:
            ConfigError: For the first that is unknown or makes no sense.
        """
        clients, ours = {}, {}
        for given, value in without_notes(options).items():
            name = given.lower()
            if name in _ELSEWHERE:
                raise ConfigError(
                    given, "is an option of Spark's Kafka source, not of this", _ELSEWHERE[name]
                )
            if name.startswith(_CLIENT):
                setting = name.removeprefix(_CLIENT)
                if setting in SETTINGS and setting not in _OF_CLIENTS:
                    raise ConfigError(
                        given,
                        "is a setting of a group's members, and has no effect on what Spark reads",
                        _OF_MEMBERS.get(setting, "Leave it out"),
                    )
                clients[setting] = value
            elif name == "path":
                raise ConfigError(
                    "load()", f"={shown(value)}: there is no path", 'Say .option("subscribe", …)'
                )
            elif name in _BY_LOWER:
                ours[_BY_LOWER[name]] = value
            else:
                raise _unknown(given)
        group = ours.get("group.id")
        if group is not None and not group.strip():
            raise ConfigError("group.id", "is empty", "Name the group, or leave it out")
        topics, pattern = _topics(ours)
        starting, since = ours.get("startingOffsets"), _when(ours, _STARTS)
        until, ends_by = _when(ours, _ENDS), next((it for it in _ENDS if it in ours), None)
        config = Config.from_dict(
            {**clients, "group.id": group or _NO_GROUP}, both_clients=group is not None
        )
        found = cls(
            config=config,
            group=None if group is None else config.group_id,
            topics=topics,
            pattern=pattern,
            starting=None if starting is None else _where("startingOffsets", starting),
            since=since,
            since_or_latest=_choice(ours, "startingOffsetsByTimestampStrategy", ("error", "latest"))
            == "latest",
            ending=_where("endingOffsets", ours.get("endingOffsets", "latest")),
            until=until,
            ends_by=ends_by,
            offsets_max=_count(ours, "maxOffsetsPerTrigger", 1),
            offsets_min=_count(ours, "minOffsetsPerTrigger", 1),
            delay_ms=_duration_ms(ours),
            with_headers=_flag(ours, "includeHeaders", default=False),
            fail_on_data_loss=_flag(ours, "failOnDataLoss", default=True),
            key_ranges=_key_ranges(ours),
            keys=_keys(ours),
            partitions=_listed(ours, "partitions", int, "[0, 2]"),
            partitioner=_partitioner(ours),
            partition_counts=_partition_counts(ours),
        )
        found._check()
        return found

    def _check(self) -> None:
        most, least = self.offsets_max, self.offsets_min
        if most is not None and least is not None and most < least:
            raise ConfigError(
                "maxOffsetsPerTrigger",
                f"={most} is below minOffsetsPerTrigger={least}",
                "Swap them",
            )
        if self.ending in ("earliest", "group"):
            raise ConfigError(
                "endingOffsets", f"={self.ending} is no end", "Give latest, or JSON of offsets"
            )
        since, until = self.since, self.until
        if isinstance(since, int) and isinstance(until, int) and since > until:
            raise ConfigError(
                "startingTimestamp", f"={since} is after endingTimestamp={until}", "Swap them"
            )


def _unknown(given: str) -> ConfigError:
    near = get_close_matches(given.lower(), [*_BY_LOWER, "kafka.bootstrap.servers"], 1)
    if near:
        remedy = f"The nearest that exists is {_BY_LOWER.get(near[0], near[0])}"
    else:
        remedy = f"Options of the clients begin with {_CLIENT}; the others are " + ", ".join(_NAMES)
    return ConfigError(given, "is unknown", remedy)


def _topics(ours: Mapping[str, str]) -> tuple[tuple[str, ...] | None, str | None]:
    named, pattern = ours.get("subscribe"), ours.get("subscribePattern")
    if (named is None) == (pattern is None):
        problem = "is missing" if named is None else "is given beside subscribePattern"
        raise ConfigError(
            "subscribe", problem, "Give topics in subscribe, or a pattern in subscribePattern"
        )
    if pattern is not None:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ConfigError(
                "subscribePattern",
                f"={shown(pattern)} is no regular expression ({error})",
                "Correct it",
            ) from error
        return None, pattern
    names = tuple(dict.fromkeys(name.strip() for name in (named or "").split(",") if name.strip()))
    if not names:
        raise ConfigError("subscribe", "names no topic", "Name one, or several with commas between")
    for name in names:
        if not sendable(name):
            raise ConfigError(
                "subscribe",
                f"names {shown(name)}, which no topic can be called",
                f"A name has {KAFKA_NAME.words}",
            )
    return names, None


def _where(option: str, text: str) -> Where:
    match text.strip().lower():
        case "earliest" | "latest" | "group" as end:
            return end
        case _:
            pass
    try:
        return _by_place(text, _offset)
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            option,
            f"={shown(text)} is neither an end of the log nor JSON of offsets "
            f"({shown(str(error))})",
            'Give earliest, latest, or {"topic": {"0": 42, "1": -2}} (-2: earliest, -1: latest)',
        ) from error


def _when(ours: Mapping[str, str], names: tuple[str, str, str]) -> When | None:
    """The time of an end of the query, if that is said by time; the names exclude each other."""
    given = [name for name in names if name in ours]
    if len(given) > 1:
        raise ConfigError(given[1], f"is given beside {given[0]}", "Leave one of them out")
    _, for_all, for_each = names
    if for_each not in ours:
        return _count(ours, for_all, 0)
    text = ours[for_each]
    try:
        return _by_place(text, _time_ms)
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            for_each,
            f"={shown(text)} is no JSON of times ({shown(str(error))})",
            'Give Unix ms for each partition: {"topic": {"0": 1767225600000, "1": 1767225600000}}',
        ) from error


def _by_place(text: str, number_of: Callable[[object], int]) -> dict[str, dict[int, int]]:
    """A number for each partition of each topic, from JSON.

    Raises:
        ValueError, AttributeError, TypeError: It is none.
    """
    return {
        topic: {_partition(number): number_of(value) for number, value in partitions.items()}
        for topic, partitions in _json(text).items()
    }


def _json(text: str) -> Any:
    """Raises ValueError for what is none, or says one name twice: Python would take the last."""
    try:
        return json.loads(text, object_pairs_hook=_each_once)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it names {twice} twice")
    return found


def _partition(text: str) -> int:
    if not _PARTITION.fullmatch(text):
        raise ValueError(f"{text!r} is no number of a partition")
    return int(text)


def _time_ms(value: object) -> int:
    if type(value) is int and 0 <= value <= OFFSET_MAX:
        return value
    raise ValueError(f"{value!r} is no time")


def _offset(value: object) -> int:
    if type(value) is int and EARLIEST_OFFSET <= value <= OFFSET_MAX:
        return value
    raise ValueError(f"{value!r} is no offset")


def _count(ours: Mapping[str, str], name: str, least: int) -> int | None:
    text = ours.get(name)
    if text is None:
        return None
    if not _WHOLE_NUMBER.fullmatch(text.strip()) or not least <= int(text) <= OFFSET_MAX:
        raise ConfigError(
            name, f"={shown(text)} is no whole number from {least} on, of 64 bits", "Correct it"
        )
    return int(text)


def _flag(ours: Mapping[str, str], name: str, *, default: bool) -> bool:
    return _choice(ours, name, ("false", "true"), str(default).lower()) == "true"


def _choice(
    ours: Mapping[str, str], name: str, known: tuple[str, ...], default: str | None = None
) -> str:
    text = ours.get(name, default or known[0]).strip().lower()
    if text not in known:
        raise ConfigError(
            name, f"={shown(ours[name])} is not known", f"Choose {' or '.join(known)}"
        )
    return text


def _duration_ms(ours: Mapping[str, str]) -> int:
    text = ours.get("maxTriggerDelay", "15m")
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ConfigError(
            "maxTriggerDelay", f"={shown(text)} is no duration", "Write it like 15m or 30s"
        )
    return int(match[1]) * _UNITS_MS[match[2]]


def _key_ranges(ours: Mapping[str, str]) -> int | None:
    if ours.get("keyRanges", "auto").strip().lower() == "auto":
        return None
    count = _count(ours, "keyRanges", 1)
    if count is not None and count > KEY_RANGES_MAX:
        raise ConfigError(
            "keyRanges",
            f"={count} is above {KEY_RANGES_MAX}: each is a task of its own",
            "Choose about as many as the cluster has cores, divided by the partitions",
        )
    return count


def _keys(ours: Mapping[str, str]) -> frozenset[bytes] | None:
    """Bytes that are no text are escaped as Python's `surrogateescape` does it."""
    texts = _listed(ours, "keys", str, '["a", "b"]')
    try:
        return texts and frozenset(key.encode(errors="surrogateescape") for key in texts)
    except UnicodeEncodeError as error:
        raise ConfigError("keys", f"cannot be bytes ({error})", "Correct it") from error


def _listed(ours: Mapping[str, str], name: str, kind: type, example: str) -> frozenset[Any] | None:
    text = ours.get(name)
    if text is None:
        return None
    try:
        found = _json(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not found or {*map(type, found)} != {kind}:
        raise ConfigError(name, f"={shown(text)} is no list in JSON", f"Write it like {example}")
    return frozenset(found)


def _partitioner(ours: Mapping[str, str]) -> str | None:
    name = ours.get("partitioner")
    if name is not None and name not in PARTITIONERS:
        raise ConfigError(
            "partitioner", f"={shown(name)} is not known", f"Choose {' or '.join(PARTITIONERS)}"
        )
    return name


def _partition_counts(ours: Mapping[str, str]) -> frozenset[int]:
    name = "partitionCounts"
    found: frozenset[int] = _listed(ours, name, int, "[3, 6]") or frozenset()
    if found and min(found) < 1:
        raise ConfigError(name, f"={shown(ours[name])} has a count below 1", "Write it like [3, 6]")
    if found and "partitioner" not in ours:
        raise ConfigError(name, "is given without partitioner", "Set partitioner, or leave it out")
    return found
