"""The load of a group as its members report it: how busy they are, which keys are heavy. Pure.

In: the last report of each member, from the progress log, and the members and partitions that were
seen. Out: a `GroupLoad`, in terms of the group's partitions. Reports come from others. Where they
were read, numbers beyond all reason were refused; nothing here divides by one that may be zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from assignors import TopicPartition
from coop_consumer.plain_text import printable, shortened
from coop_consumer.status.remaining import undone
from offsets import HeavyKey, LoadRecord, RangeProgress

_PER_MILLE = 1_000
_KEY_CHARS_MAX = 40
_SPAN_MIN = 64
"""So many offsets at least show how many of them are a key's."""
_SHARE_MIN = 0.01
"""A record that stands alone, as its handler runs for long, makes no heavy key."""
_PS_IN_US = 1_000_000


@dataclass(frozen=True, slots=True)
class MemberWork:
    """What a member says of its work.

    Attributes:
        member: Its name.
        at_ms: When it said so, Unix time by its own clock.
        workers: How many workers it has, at least 1.
        busy: Which part of their time handlers take, 0 to 1.
        handler_us: Mean time of a handler in microseconds; 0: not known.
        finished: Records that it finishes a second.
        p50_us: The time that half of its handlers do not exceed, in microseconds; 0: not known.
        p99_us: The same for 99 of 100 handlers.
        memory_bytes: What its process has in memory; 0: not known.
        ops_address: Where it says that its own page is, unchecked; "": nowhere, or not known.
    """

    member: str
    at_ms: int
    workers: int
    busy: float
    handler_us: int
    finished: int
    p50_us: int = 0
    p99_us: int = 0
    memory_bytes: int = 0
    ops_address: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether it has done anything: the first report comes before that."""
        return self.handler_us > 0 or self.finished > 0


@dataclass(frozen=True, slots=True)
class KeyWork:
    """A key that takes much of a partition's work.

    Attributes:
        tp: The partition.
        key_hash: The hash of the key.
        key: The key's first bytes; None if logs may not show keys, or if nobody has reported it.
        share: Its part of the partition's work, above 0 and up to 1.
        member: The member that holds it, or "".
        is_busy: Whether it keeps one worker busy all the time.
    """

    tp: TopicPartition
    key_hash: int
    key: bytes | None
    share: float
    member: str
    is_busy: bool = False

    @property
    def workers_at_most(self) -> float:
        """How many workers its partition can keep busy in the long run: it alone has one of them.

        >>> KeyWork(TopicPartition("orders", 0), 7, b"N725MQ", 0.4, "alpha").workers_at_most
        2.5
        """
        return 1 / self.share

    @property
    def words(self) -> str:
        """The key, for people.

        >>> orders = TopicPartition("orders", 0)
        >>> KeyWork(orders, 7, b"N725MQ", 0.61, "alpha").words
        'key N725MQ'
        >>> KeyWork(orders, 7, None, 0.61, "alpha").words
        'the key of hash 7'
        """
        if self.key is None:
            return f"the key of hash {self.key_hash}"
        text = printable(self.key.decode("utf-8", "backslashreplace"))
        return f"key {shortened(text, _KEY_CHARS_MAX)}" if text else 'key ""'

    @property
    def percent(self) -> str:
        """Its part, for people.

        >>> KeyWork(TopicPartition("orders", 0), 7, b"N725MQ", 0.61, "alpha").percent
        '61 %'
        """
        return f"{self.share * 100:.0f} %"


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """What all members say.

    Attributes:
        works: The work of the members that are in the group, by name.
        left: The work of members that are not: they ended without taking their report away.
        keys: The heavy keys, the heaviest first.
        weights: What an offset of a partition costs, in picoseconds; partitions without any are
            left out.
        paces: Offsets a second that partitions had to do when that was said last: what arrives a
            second, and a sixtieth of what was left.
    """

    works: tuple[MemberWork, ...] = ()
    left: tuple[MemberWork, ...] = ()
    keys: tuple[KeyWork, ...] = ()
    weights: Mapping[TopicPartition, int] = field(default_factory=dict)
    paces: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def measured(self) -> tuple[MemberWork, ...]:
        """The work of the members that have done any; if none has, that of the members before."""
        return tuple(it for it in self.works if it.is_measured) or self.left

    def shares(self, tp: TopicPartition) -> dict[int, float]:
        """Which part of a partition's records its heavy keys have, by hash."""
        return {key.key_hash: key.share for key in self.keys if key.tp == tp}

    def of(self, member: str) -> MemberWork | None:
        """The work of a member of the group; None: it has not reported."""
        return next((work for work in self.works if work.member == member), None)


def load_of(
    records: Mapping[str, LoadRecord],
    members: Iterable[str],
    topic_ids: Mapping[TopicPartition, bytes],
) -> GroupLoad:
    """The load of a group. O(reports x (partitions + keys)).

    Keys and costs are those of the members that have done anything; if none has, of the members
    before.

    Args:
        records: The last report of each member that has one in the log.
        members: The names of the members in the group.
        topic_ids: The group's partitions, and the ids of their topics. A topic that was made again
            has another id, so what is said of the one before does not count.
    """
    here = frozenset(members)
    works = tuple(_work(name, records[name]) for name in sorted(records) if name in here)
    left = tuple(_work(name, records[name]) for name in sorted(records) if name not in here)
    counted = {it.member: records[it.member] for it in GroupLoad(works, left).measured}
    places = {(topic_id, tp.partition): tp for tp, topic_id in topic_ids.items()}
    weights: dict[TopicPartition, int] = {}
    paces: dict[TopicPartition, int] = {}
    keys: dict[tuple[TopicPartition, int], KeyWork] = {}
    # The newest comes last, and what it says takes the place of what was said before.
    for name, record in sorted(counted.items(), key=lambda it: (it[1].at_ms, it[0])):
        for part in record.partitions:
            if (tp := places.get((part.topic_id, part.partition))) is not None:
                weights[tp] = weights.get(tp, 0) + part.weight
                paces[tp] = part.pace
        for heavy in record.heavy:
            tp, share = places.get((heavy.topic_id, heavy.partition)), _share(heavy, record)
            if tp is not None and share > 0:
                keys[tp, heavy.key_hash] = KeyWork(
                    tp, heavy.key_hash, heavy.key, share, name, heavy.is_busy
                )
    return GroupLoad(
        works,
        left,
        _heaviest_first(keys.values()),
        {tp: weight for tp, weight in weights.items() if weight},
        paces,
    )


def hot_shares(pieces: Iterable[RangeProgress]) -> dict[int, float]:
    """Which part of the records hashes have that are fetched by themselves, by their progress.

    Such a hash is behind all others. What is not done of the offsets that it has seen is its own.
    So its share shows in the log, also before its member has measured it. O(gap ranges).

    Args:
        pieces: The progress of a partition, over the whole hash space.
    """
    pieces = list(pieces)
    seen_to = max((piece.next_offset for piece in pieces), default=0)
    found = {}
    for piece in pieces:
        span = piece.next_offset - piece.stable
        if piece.range.size == 1 and piece.next_offset < seen_to and span >= _SPAN_MIN:
            own = sum(it.last - it.first + 1 for it in undone(piece, piece.next_offset))
            found[piece.range.lo] = own / span
    return {key_hash: share for key_hash, share in found.items() if share >= _SHARE_MIN}


def with_hot(load: GroupLoad, hot: Iterable[KeyWork]) -> GroupLoad:
    """The same with hot keys that no member reports."""
    told = {(key.tp, key.key_hash) for key in load.keys}
    more = [key for key in hot if (key.tp, key.key_hash) not in told]
    return replace(load, keys=_heaviest_first([*load.keys, *more]))


def with_names(load: GroupLoad, names: Mapping[tuple[TopicPartition, int], bytes]) -> GroupLoad:
    """The same with keys that were reported at an earlier look, by partition and hash."""
    keys = [
        key if key.key is not None else replace(key, key=names.get((key.tp, key.key_hash)))
        for key in load.keys
    ]
    return replace(load, keys=tuple(keys))


def _heaviest_first(keys: Iterable[KeyWork]) -> tuple[KeyWork, ...]:
    return tuple(sorted(keys, key=lambda it: (-it.share, it.tp, it.key_hash)))


def _share(heavy: HeavyKey, record: LoadRecord) -> float:
    """The key's part of the whole partition, though its member knows only its own part of that.

    The member's weight says how much of the partition it has: the cost of a record, for the part of
    the offsets that it has. Reports of other members are of other moments, and are not needed.
    """
    place = heavy.topic_id, heavy.partition
    weights = [it.weight for it in record.partitions if (it.topic_id, it.partition) == place]
    cost_ps = record.handler_us * _PS_IN_US
    of_partition = 1.0
    if weights and cost_ps:
        of_partition = min(weights[0] / cost_ps, 1.0)
    return heavy.share / _PER_MILLE * of_partition


def _work(name: str, record: LoadRecord) -> MemberWork:
    return MemberWork(
        name,
        record.at_ms,
        max(record.workers, 1),
        record.busy / _PER_MILLE,
        record.handler_us,
        record.finished,
        record.p50_us,
        record.p99_us,
        record.memory_bytes,
        record.ops_address,
    )
