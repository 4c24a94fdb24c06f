"""The bytes of the progress log's keys and values. Pure.

In: the values of `records`, or bytes of any origin. Out: the other of the two. Bytes from the log
are hostile input: whatever they hold, decoding raises nothing but `CorruptRecordError`, or its
subclass `UnknownRecordVersionError` if only the version is at fault. Keys are canonical, as
compaction compares their bytes.

A key or value begins with a version byte and a kind byte. Numbers, texts and gap ranges are those
of `wire`; key hashes take 8 bytes. Facts of one tenure mostly end with the same gap ranges
(`GapTracker`). So a fact only holds the number of last gap ranges that it has in common with the
fact before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from math import ceil
from typing import Final, Literal, assert_never

from assignors.key_hash import KEY_HASH_MAX
from assignors.key_range import KeyRange
from offsets.load_codec import load_key, marked, put_load, take_load
from offsets.progress import Gaps, RangeProgress
from offsets.records import (
    Act,
    AnnounceKey,
    AnnounceRecord,
    Attempt,
    BaseKey,
    BaseRecord,
    DecisionKey,
    DecisionRecord,
    Doing,
    Key,
    LoadKey,
    LoadRecord,
    PolicyKey,
    PolicyRecord,
    ReleaseKey,
    ReleaseRecord,
    StopKey,
    StopRecord,
    TenureId,
    TenureKey,
    TenureRecord,
    TopicStartKey,
    TopicStartRecord,
    Value,
)
from offsets.wire import (
    GAPS_MAX,
    CorruptRecordError,
    WireReader,
    put_gaps,
    put_numbers,
    put_signed,
    put_text,
)

VERSION: Final = 1
"""The version this code writes, and the only one it reads."""

FACTS_BYTES_MIN: Final = 64
"""The least room that surely holds a fact of one gap range."""

_COUNT_BYTES: Final = 3  # of a count up to GAPS_MAX
_GAP_BYTES_MIN: Final = 2
_GAP_BYTES_MAX: Final = 16
_DOING_BYTES_MAX: Final = 30
_DOINGS_SHARE: Final = 16
"""The part of a record that may tell what becomes of unfinished records."""

_TENURE, _BASE, _ANNOUNCE, _DECISION, _STOP, _POLICY, _RELEASE, _TOPIC_START, _LOAD = range(1, 10)
_KINDS: Final[dict[type[Key], int]] = {
    TenureKey: _TENURE,
    BaseKey: _BASE,
    AnnounceKey: _ANNOUNCE,
    DecisionKey: _DECISION,
    StopKey: _STOP,
    PolicyKey: _POLICY,
    ReleaseKey: _RELEASE,
    TopicStartKey: _TOPIC_START,
    LoadKey: _LOAD,
}
_ACTIONS: Final[tuple[Literal["retry", "skip"], ...]] = ("retry", "skip")
_SCOPES: Final[tuple[Literal["topic", "group"], ...]] = ("topic", "group")
_TOPIC_ID_BYTES: Final = 16


# ── Doors ──


def encode_key(key: Key) -> bytes:
    """The bytes of a key: equal keys, and only they, have equal bytes.

    Raises:
        ValueError: If a number is negative, or the topic id has not 16 bytes.
    """
    out = bytearray((VERSION,))
    match key:
        case TenureKey(group, topic_id, partition, tenure, part):
            _put_place(out, _TENURE, group, topic_id, partition)
            put_text(out, tenure.member)
            put_numbers(out, tenure.incarnation, tenure.number, part)
        case BaseKey(group, topic_id, partition, epoch, writer):
            _put_place(out, _BASE, group, topic_id, partition)
            put_numbers(out, epoch)
            put_text(out, writer)
        case AnnounceKey(group, member):
            _put_announce_key(out, group, member)
        case LoadKey():
            _put_announce_key(out, marked(key), key.member)  # see `load_codec`
        case DecisionKey(group, topic_id, partition, offset):
            _put_place(out, _DECISION, group, topic_id, partition)
            put_numbers(out, offset)
        case ReleaseKey(group, topic_id, partition, tenure):
            _put_place(out, _RELEASE, group, topic_id, partition)
            put_text(out, tenure.member)
            put_numbers(out, tenure.incarnation, tenure.number)
        case StopKey(group, topic_id, partition):
            _put_place(out, _STOP, group, topic_id, partition)
        case TopicStartKey(group, topic, writer):
            out.append(_TOPIC_START)
            for text in (group, topic, writer):
                put_text(out, text)
        case PolicyKey(scope, name):
            out += bytes((_POLICY, _SCOPES.index(scope)))
            put_text(out, name)
        case _:
            assert_never(key)
    return bytes(out)


def decode_key(data: bytes) -> Key:
    """The key of these bytes.

    Raises:
        UnknownVersionError: If a version wrote them that this code does not know.
        CorruptRecordError: If they are no key, or not its canonical bytes.
    """
    reader = _Reader(data)
    kind = reader.kind()
    key: Key
    if kind == _TENURE:
        place = reader.place()
        tenure = TenureId(reader.text(), reader.number(), reader.number())
        key = TenureKey(*place, tenure, reader.number())
    elif kind == _BASE:
        key = BaseKey(*reader.place(), reader.number(), reader.text())
    elif kind == _ANNOUNCE:
        group, member = reader.text(), reader.text()
        key = load_key(group, member) or AnnounceKey(group, member)
    elif kind == _DECISION:
        key = DecisionKey(*reader.place(), reader.offset())
    elif kind == _RELEASE:
        place = reader.place()
        key = ReleaseKey(*place, TenureId(reader.text(), reader.number(), reader.number()))
    elif kind == _STOP:
        key = StopKey(*reader.place())
    elif kind == _TOPIC_START:
        key = TopicStartKey(reader.text(), reader.text(), reader.text())
    elif kind == _POLICY:
        key = PolicyKey(reader.one_of(_SCOPES), reader.text())
    else:
        raise CorruptRecordError(f"{kind} is no kind of record", 1)
    reader.end()
    if encode_key(key) != data:
        raise CorruptRecordError("not the canonical bytes of its key", 0)
    return key


def encode_value(value: Value) -> bytes:
    """The bytes of a value. O(size); gap ranges at a million a second and more.

    Raises:
        ValueError: If a number is out of its bounds, or a tenure's record has more than `GAPS_MAX`
            gap ranges: `split_record` it.
    """
    out = bytearray((VERSION,))
    match value:
        case TenureRecord():
            out.append(_TENURE)
            _put_tenure_record(out, value)
        case BaseRecord(epoch, offset):
            out.append(_BASE)
            put_numbers(out, epoch, offset)
        case AnnounceRecord(incarnation, seen, transactional_id, host):
            out.append(_ANNOUNCE)
            put_numbers(out, incarnation, seen)
            put_text(out, transactional_id)
            put_text(out, host)
        case DecisionRecord(action, decided_at_ms):
            out += bytes((_DECISION, _ACTIONS.index(action)))
            put_signed(out, decided_at_ms)
        case ReleaseRecord(ranges, released_at_ms):
            out.append(_RELEASE)
            put_numbers(out, len(ranges))
            for key_range in ranges:
                _put_range(out, key_range)
            put_signed(out, released_at_ms)
        case StopRecord(offset, key_hash, reason, member):
            out.append(_STOP)
            put_numbers(out, offset)
            _put_hash(out, key_hash)
            put_text(out, reason)
            put_text(out, member)
        case TopicStartRecord(topic_id, partitions):
            out.append(_TOPIC_START)
            _put_topic_id(out, topic_id)
            put_numbers(out, partitions)
        case PolicyRecord(settings):
            out.append(_POLICY)
            put_numbers(out, len(settings))
            for text in chain.from_iterable(sorted(settings.items())):
                put_text(out, text)
        case LoadRecord():
            out.append(_LOAD)
            put_load(out, value)
        case _:
            assert_never(value)
    return bytes(out)


def decode_value(key: Key, data: bytes) -> Value:
    """The value of these bytes, found under this key.

    Raises:
        UnknownVersionError: If a version wrote them that this code does not know.
        CorruptRecordError: If they are no value, or not one of this key's kind.
    """
    reader = _Reader(data)
    kind, due = reader.kind(), _KINDS[type(key)]
    if kind != due:
        raise CorruptRecordError(f"a value of kind {kind} under a key of kind {due}", 1)
    value: Value
    if kind == _TENURE:
        value = reader.tenure_record()
    elif kind == _BASE:
        value = BaseRecord(reader.number(), reader.offset())
    elif kind == _ANNOUNCE:
        value = AnnounceRecord(reader.number(), reader.offset(), reader.text(), reader.text())
    elif kind == _DECISION:
        value = DecisionRecord(reader.one_of(_ACTIONS), reader.signed())
    elif kind == _RELEASE:
        value = ReleaseRecord(tuple(reader.list_of(reader.key_range)), reader.signed())
    elif kind == _STOP:
        value = StopRecord(reader.offset(), reader.key_hash(), reader.text(), reader.text())
    elif kind == _TOPIC_START:
        value = TopicStartRecord(reader.take(_TOPIC_ID_BYTES), reader.number())
    elif kind == _LOAD:
        value = take_load(reader)
    else:
        value = PolicyRecord(dict(reader.list_of(lambda: (reader.text(), reader.text()))))
    reader.end()
    return value


def split_facts(facts: Iterable[RangeProgress], max_bytes: int) -> list[tuple[RangeProgress, ...]]:
    """The same facts in parts, each of at most `max_bytes` encoded; at least one part.

    Facts are only ever united, so any cut is right, also one through a fact: both parts repeat its
    range and stable offset and share its gap ranges.

    Raises:
        ValueError: If `max_bytes` is below `FACTS_BYTES_MIN`.
    """
    if max_bytes < FACTS_BYTES_MIN:
        raise ValueError(f"max_bytes={max_bytes} is below {FACTS_BYTES_MIN}: one fact may need it")
    parts: list[tuple[RangeProgress, ...]] = []
    part: list[RangeProgress] = []
    size = gaps = 0
    waiting = [*facts][::-1]
    while waiting:
        fact = waiting.pop()
        pieces = ceil(len(fact.gaps) / min(max_bytes // _GAP_BYTES_MIN, GAPS_MAX))
        if pieces > 1:  # no need to encode it to see that it is too large
            waiting += _cut(fact, pieces)[::-1]
            continue
        more = len(_fact_bytes(fact, part[-1].gaps if part else ()))
        if size + more <= max_bytes and gaps + len(fact.gaps) <= GAPS_MAX:
            part.append(fact)
            size, gaps = size + more, gaps + len(fact.gaps)
        elif part:
            parts.append(tuple(part))
            part, size, gaps = [], 0, 0
            waiting.append(fact)
        else:
            waiting += _cut(fact, 2)[::-1]
    return [*parts, tuple(part)] if part or not parts else parts


def _cut(fact: RangeProgress, pieces: int) -> list[RangeProgress]:
    """The same fact in at most so many parts, with about as many gap ranges each."""
    size = ceil(len(fact.gaps) / pieces)
    starts = range(0, len(fact.gaps), size)
    return [replace(fact, gaps=fact.gaps[at : at + size]) for at in starts]


def split_record(record: TenureRecord, max_bytes: int) -> tuple[TenureRecord, ...]:
    """A tenure's record as parts of at most `max_bytes` encoded each; mostly just the one.

    All released ranges are in one part. If they leave less than `2 * FACTS_BYTES_MIN`, parts have
    that much room nevertheless, and are larger: the log says whether it takes them.

    The first goes under the tenure's key, the second with `part=others`, and so on. Write them from
    the last to the first: that one alone holds what was released, so a reader that finds it has the
    facts of the release too. Of the other parts of earlier records the facts still hold.
    """
    doings_max = max_bytes // _DOINGS_SHARE // _DOING_BYTES_MAX
    if len(record.doings) > doings_max:  # they are for people, and give way
        record = replace(record, doings=record.doings[:doings_max])
    failed = [_attempt_bytes(attempt) for attempt in record.attempts]
    rest = replace(record, facts=(), attempts=(), parts=GAPS_MAX)
    room = max_bytes - len(encode_value(rest)) - 2 * _COUNT_BYTES
    room = max(room, 2 * FACTS_BYTES_MIN)
    size = sum(map(len, failed))
    for_attempts = min(size, room // 2)
    estimate = sum(FACTS_BYTES_MIN + _GAP_BYTES_MAX * len(fact.gaps) for fact in record.facts)
    if estimate + size <= room:
        return (record if record.parts == 1 else replace(record, parts=1),)
    facts = split_facts(record.facts, room - for_attempts)
    attempts = _split_attempts(record.attempts, failed, for_attempts)
    count = max(len(facts), len(attempts))
    facts += [()] * (count - len(facts))
    attempts += [()] * (count - len(attempts))
    first = replace(record, facts=facts[0], attempts=attempts[0], parts=count)
    others = replace(first, released=(), walled=0, doings=(), fallen=0, suspects=(), begun_to=-1)
    return first, *(
        replace(others, facts=facts[number], attempts=attempts[number])
        for number in range(1, count)
    )


def _split_attempts(
    attempts: Sequence[Attempt], encoded: Sequence[bytes], max_bytes: int
) -> list[tuple[Attempt, ...]]:
    """In parts of at most so many bytes; who is larger than that is a part by itself."""
    parts: list[tuple[Attempt, ...]] = []
    first = size = 0
    for number, data in enumerate(encoded):
        if size + len(data) > max_bytes and number > first:
            parts.append(tuple(attempts[first:number]))
            first, size = number, 0
        size += len(data)
    return [*parts, tuple(attempts[first:])]


# ── Writing ──


def _put_hash(out: bytearray, key_hash: int) -> None:
    if not 0 <= key_hash <= KEY_HASH_MAX:
        raise ValueError(f"{key_hash} is no key hash: they go from 0 to {KEY_HASH_MAX}")
    out += key_hash.to_bytes(8, "big")


def _put_range(out: bytearray, key_range: KeyRange) -> None:
    _put_hash(out, key_range.lo)
    _put_hash(out, key_range.hi)


def _put_topic_id(out: bytearray, topic_id: bytes) -> None:
    if len(topic_id) != _TOPIC_ID_BYTES:
        raise ValueError(f"a topic id has {_TOPIC_ID_BYTES} bytes, this one {len(topic_id)}")
    out += topic_id


def _put_announce_key(out: bytearray, group: str, member: str) -> None:
    out.append(_ANNOUNCE)
    put_text(out, group)
    put_text(out, member)


def _put_place(out: bytearray, kind: int, group: str, topic_id: bytes, partition: int) -> None:
    out.append(kind)
    put_text(out, group)
    _put_topic_id(out, topic_id)
    put_numbers(out, partition)


def _put_tenure_record(out: bytearray, record: TenureRecord) -> None:
    gaps = sum(len(fact.gaps) for fact in record.facts)
    if gaps > GAPS_MAX:
        raise ValueError(f"{gaps} gap ranges are too many for one record: split_record() it")
    put_numbers(out, record.epoch)
    put_signed(out, record.first_offset)
    put_signed(out, record.leader_epoch)
    put_numbers(out, record.parts, len(record.facts))
    before: Gaps = ()
    for fact in record.facts:
        out += _fact_bytes(fact, before)
        before = fact.gaps
    put_numbers(out, len(record.released))
    for key_range in record.released:
        _put_range(out, key_range)
    put_numbers(out, len(record.attempts))
    for attempt in record.attempts:
        out += _attempt_bytes(attempt)
    put_numbers(out, record.others, record.walled)
    is_careful = record.fallen or record.suspects or record.begun_to >= 0
    if record.doings or is_careful:  # without either, members before them read it, too
        put_numbers(out, len(record.doings))
        for doing in record.doings:
            put_numbers(out, doing.offset)
            _put_hash(out, doing.key_hash)
            put_numbers(out, doing.act)
            put_signed(out, doing.since_ms)
    if is_careful:
        put_numbers(out, record.fallen, record.begun_to + 1, len(record.suspects))
        for key_range, offset in record.suspects:
            _put_range(out, key_range)
            put_numbers(out, offset)


def _attempt_bytes(attempt: Attempt) -> bytes:
    out = bytearray()
    put_numbers(out, attempt.offset)
    _put_hash(out, attempt.key_hash)
    put_numbers(out, attempt.attempts, attempt.parked + 2 * attempt.fell)
    put_text(out, attempt.error)
    put_signed(out, attempt.since_ms)
    return bytes(out)


def _fact_bytes(fact: RangeProgress, before: Gaps) -> bytes:
    shared = _common_end(fact.gaps, before)
    out = bytearray()
    _put_range(out, fact.range)
    put_numbers(out, fact.stable, shared)
    put_gaps(out, fact.stable, fact.gaps[: len(fact.gaps) - shared])
    return bytes(out)


def _common_end(one: Gaps, other: Gaps) -> int:
    """How many last gap ranges of the two are the same. O(n): each bisection halves the rest."""
    low, high = 0, min(len(one), len(other))
    while low < high:  # the last `low` are the same; more than `high` can't be
        middle = (low + high + 1) // 2
        one_part = one[len(one) - middle : len(one) - low]
        if one_part == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low


# ── Reading ──


class _Reader(WireReader):
    """Takes values of records off bytes."""

    __slots__ = ()

    def kind(self) -> int:
        self.version(VERSION)
        return self.byte()

    def key_hash(self) -> int:
        key_hash = int.from_bytes(self.take(8), "big")
        if key_hash > KEY_HASH_MAX:
            raise self.fail("a key hash of more than 63 bits")
        return key_hash

    def key_range(self) -> KeyRange:
        lo, hi = self.key_hash(), self.key_hash()
        if lo > hi:
            raise self.fail(f"key range [{lo}, {hi}] ends before it begins")
        return KeyRange(lo, hi)

    def place(self) -> tuple[str, bytes, int]:
        return self.text(), self.take(_TOPIC_ID_BYTES), self.number()

    def tenure_record(self) -> TenureRecord:
        epoch, first_offset, leader_epoch = self.number(), self.signed(), self.signed()
        parts = self.number()
        record = TenureRecord(
            epoch,
            first_offset,
            self.facts(),
            tuple(self.list_of(self.key_range)),
            tuple(self.list_of(self.attempt)),
            parts,
            leader_epoch,
            self.number(),
            self.number(),
            tuple(self.list_of(self.doing)) if self.at < len(self.data) else (),
        )
        if self.at == len(self.data):
            return record
        fallen, begun_to = self.number(), self.number() - 1
        suspects = tuple(self.list_of(lambda: (self.key_range(), self.offset())))
        return replace(record, fallen=fallen, suspects=suspects, begun_to=begun_to)

    def doing(self) -> Doing:
        offset, key_hash, number = self.offset(), self.key_hash(), self.number()
        act = Act(number) if number in set(Act) else Act.UNKNOWN
        return Doing(offset, key_hash, act, self.signed())

    def attempt(self) -> Attempt:
        offset, key_hash, attempts = self.offset(), self.key_hash(), self.number()
        parked, fell = self.one_of(((False, False), (True, False), (False, True), (True, True)))
        return Attempt(offset, key_hash, attempts, parked, self.text(), self.signed(), fell)

    def facts(self) -> tuple[RangeProgress, ...]:
        before: Gaps = ()

        def fact() -> RangeProgress:
            nonlocal before
            key_range, stable, shared = self.key_range(), self.number(), self.number()
            before = self.own_gaps(stable) + self.last_of(before, shared)
            try:
                return RangeProgress(key_range, stable, before)
            except ValueError as error:
                raise self.fail(str(error)) from error

        return tuple(self.list_of(fact))

    def last_of(self, before: Gaps, count: int) -> Gaps:
        if count > len(before):
            raise self.fail(f"{count} gap ranges shared with a fact that has {len(before)}")
        self.count_gaps(count)
        return before[len(before) - count :]
