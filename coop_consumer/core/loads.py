"""Loads: what this member tells of its load. Pure.

In: what was sampled of each tenure, how long handlers take, where partitions end. Out: the load of
each claim, for the group's leader; and every 30 s, if it has changed, a record in the progress log
for people and for whoever scales the group. The record lies in the log partition of one of the
member's partitions: of a split one, if it has any, because that is followed by the lead. It is
cleared when the member leaves. The lead clears those of members that are gone.

Nothing rests on such a record. So it is appended as announcements are, never in a transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from assignors import WHOLE
from assignors.load import HEAVY_MAX
from coop_consumer.config import LogKeys
from coop_consumer.core.histogram import added_up
from coop_consumer.core.lane import hash_of
from offsets import (
    KEY_BYTES_MAX,
    HeavyKey,
    LoadKey,
    LoadRecord,
    PartitionLoad,
    encode_key,
    encode_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from assignors import ClaimLoad
    from coop_consumer.core.histogram import Durations
    from coop_consumer.core.outbox import Outbox
    from coop_consumer.core.state import LogView, MemberState, Partition
    from coop_consumer.core.tenure import Tenure
    from coop_consumer.errors import CoopConsumerError

_STEP_MS, _SPENT_MAX = 100, 1_000
"""So often it looks whether anything is due; what handlers took is added up by the thousand."""
LOOK_MS = 5_000
REPORT_MS = 30_000
_CHANGED_SHARE = 0.05
_BUSY_STEP = 10
_PARTITIONS_MAX = 64
"""Those that take most are reported: a member may hold thousands."""
_SPARSE = 10
"""Commits matter more: reports take a tenth of a large group's budget of log records at most."""


@dataclass(slots=True, eq=False)
class _Since:
    """What was counted up to the last report."""

    at_ms: int
    busy_s: float
    finished: int
    handler: Durations | None


@dataclass(slots=True, eq=False)
class Loads:
    """Measures and reports.

    Attributes:
        told: The newest record that was appended; None: none, or the log may not have it.
    """

    state: MemberState
    outbox: Outbox
    told: LoadRecord | None = None
    _view: LogView | None = None  # where a record of ours may lie
    _due_ms: int = 0
    _look_due_ms: int = 0
    _report_due_ms: int = 0  # 0: it has not been a member yet
    _since: _Since = field(default_factory=lambda: _Since(0, 0.0, 0, None))

    # ---- claims --------------------------------------------------------------------------------

    def of(self, partition: Partition, tenure: Tenure) -> ClaimLoad | None:
        """The load of a tenure's ranges; None: it is not known."""
        if not tenure.begun:
            return None
        cost_ps = self.state.lanes.work.cost_ps
        return tenure.load.told(tenure.ranges, cost_ps, self._pace(partition))

    def _pace(self, partition: Partition) -> int:
        """How many offsets a second the partition has to do.

        A hot hash may be far behind, in a stream of its own. That is its own affair.
        """
        begun = [it for it in partition.tenures if it.begun and it.ranges]
        tenures = [it for it in begun if not partition.is_hot(it)] or begun
        if not tenures:
            return 0
        seen_to = min(it.tracker.seen_to for it in tenures)
        pending = sum(len(it.pending) for it in tenures)
        return partition.pace.offsets_a_second(max(0, partition.pace.end - seen_to) + pending)

    # ---- the record in the log -----------------------------------------------------------------

    def look_due(self) -> None:
        """Look which hashes are heavy, and report, each if it is time."""
        state, work = self.state, self.state.lanes.work
        if (
            state.now_ms < self._due_ms
            and len(work.spent) < _SPENT_MAX
            and not state.membership.closing  # it may leave at once
        ):
            return
        self._due_ms = state.now_ms + _STEP_MS
        work.look(state.now_ms, state.tally)
        if state.now_ms >= self._look_due_ms:
            self._look_due_ms = state.now_ms + LOOK_MS
            self._look()
        self._report_due()

    def _report_due(self) -> None:
        state, membership = self.state, self.state.membership
        if not membership.is_member or membership.alone:
            self.told = None  # by the time that it is a member again, others may have cleared it
        elif membership.closing:
            self._clear()
        elif not self._report_due_ms:
            self._report_due_ms = state.now_ms + REPORT_MS
            self._since = self._counted()
        elif state.now_ms >= self._report_due_ms and membership.is_stable:
            self._report_due_ms = state.now_ms + max(REPORT_MS, state.spacing_ms(_SPARSE))
            self._report()

    def _look(self) -> None:
        state = self.state
        for partition in state.partitions.values():
            if partition.end_offset >= 0:  # nothing has come since
                partition.pace.told(max(partition.end_offset, partition.pace.end), state.now_ms)
            for tenure in partition.tenures:
                tenure.load.look()
                self._name_heavy(tenure)

    def _name_heavy(self, tenure: Tenure) -> None:
        """Find keys of heavy hashes by what waits: perhaps no more of them is sampled for long."""
        nameless = tenure.load.nameless()
        if not nameless or self.state.config.ordering != "key":
            return
        with self.state.lock:  # to look must not file what is fresh
            for key, entry in self.state.lanes.tables.filed(tenure.tp).items():
                if hash_of(entry) in nameless and (key is None or isinstance(key, bytes)):
                    tenure.load.keys[hash_of(entry)] = key

    def _report(self) -> None:
        state, view = self.state, self._place()
        if view is not self._view:
            self._clear()
        record, self._since = self.record(), self._counted()
        if view is None or not self._is_news(record):
            return
        key = encode_key(LoadKey(state.group, state.name))
        value = _fitting(record, state.record_size.max_bytes - len(key))
        if value is not None:
            self.told, self._view = record, view
            self._append(view, key, value)

    def _counted(self) -> _Since:
        state = self.state
        busy_s, finished = state.lanes.work.busy_s, state.counters.finished
        return _Since(state.now_ms, busy_s, finished, self._handler())

    def _handler(self) -> Durations | None:
        """How long the handlers of all topics have taken so far."""
        return added_up(it.handler.now() for it in self.state.tally.topics.values())

    def _place(self) -> LogView | None:
        """The log partition for the record: as before, if that goes on to be one of ours."""
        held = [(it, it.view) for _, it in sorted(self.state.partitions.items()) if _is_held(it)]
        views = [view for _, view in held]
        if self._view in views:
            return self._view
        shared = [view for partition, view in held if partition.assigned != (WHOLE,)]
        return next(iter([*shared, *views]), None)

    def _clear(self) -> None:
        """Let the log have no record of us: we leave, or it will lie elsewhere."""
        if self._view is not None:
            key = encode_key(LoadKey(self.state.group, self.state.name))
            self._append(self._view, key, None)
        self.told = self._view = None

    def _append(self, view: LogView, key: bytes, value: bytes | None) -> None:
        """Append a record. It counts in the budget, so the next commit comes later by its part."""
        self.outbox.append(view, [(key, value)], self)
        view.schedule.spent(self.state.now_ms, self.state.spacing_ms(1))

    def appended(self, token: int, offsets: Sequence[int]) -> None:
        """The log has it."""

    def append_failed(self, token: int, error: CoopConsumerError) -> None:
        """The log may or may not have it: the next report is sent in any case."""
        del token, error
        self.told = None

    # ---- what it says --------------------------------------------------------------------------

    def record(self) -> LoadRecord:
        """The load as of now."""
        state = self.state
        work, since, counters = state.lanes.work, self._since, state.counters
        workers = work.workers or state.membership.capacity
        passed_s = max(1, state.now_ms - since.at_ms) / 1_000 if since.at_ms else 0.0
        busy = (work.busy_s - since.busy_s) / (workers * passed_s) if passed_s else 0.0
        finished = (counters.finished - since.finished) / passed_s if passed_s else 0.0
        parts = [(self._partition_load(it), it) for it in state.partitions.values() if _is_held(it)]
        parts.sort(key=lambda it: (-it[0].weight * it[0].pace, it[1].tp))
        heavy = [one for part, it in parts for one in self._heavy(it, part)]
        heavy.sort(key=lambda it: (-it[0], it[1].key_hash))
        handler = self._handler()
        handler = None if handler is None else handler.since(since.handler)
        return LoadRecord(
            incarnation=state.incarnation,
            at_ms=state.now_ms,
            workers=workers,
            busy=min(1_000, max(0, round(busy * 1_000))),
            handler_us=work.cost_ps // 10**6,
            finished=round(finished),
            partitions=tuple(part for part, _ in parts[:_PARTITIONS_MAX]),
            heavy=tuple(it for _, it in heavy[:HEAVY_MAX]),
            p50_us=0 if handler is None else round(handler.quantile(0.5) * 1e6),
            p99_us=0 if handler is None else round(handler.quantile(0.99) * 1e6),
            memory_bytes=state.tally.memory_bytes,
            capacity=state.membership.capacity,
            ops_address=state.tally.ops_address,
        )

    def _partition_load(self, partition: Partition) -> PartitionLoad:
        rate = sum(it.load.rate for it in _measured(partition))
        weight = round(rate * self.state.lanes.work.cost_ps)
        topic_id, number = partition.topic_id, partition.tp.partition
        return PartitionLoad(topic_id, number, weight, self._pace(partition))

    def _heavy(self, partition: Partition, part: PartitionLoad) -> Iterator[tuple[float, HeavyKey]]:
        """The heavy hashes of a partition, each with what it takes a second."""
        tenures = _measured(partition)
        total = sum(it.load.rate for it in tenures)
        for tenure in tenures:
            for key_hash, rate in tenure.load.heavy:
                key = tenure.load.keys.get(key_hash)
                shown = self.state.config.log_keys is LogKeys.TEXT and key is not None
                share = min(1_000, round(1_000 * rate / total))
                named = key[:KEY_BYTES_MAX] if shown and key is not None else None
                is_busy = tenure.load.busy_until_ms.get(key_hash, 0) > self.state.now_ms
                heavy = HeavyKey(part.topic_id, part.partition, key_hash, share, named, is_busy)
                yield rate * part.pace, heavy

    def _is_news(self, now: LoadRecord) -> bool:
        """Whether the record differs by so much from what the log has that it is worth one."""
        was, is_idle = self.told, not (now.busy or now.finished)
        if was is None:
            return not is_idle or self._view is not None
        if is_idle and not (was.busy or was.finished):
            return False  # what was measured fades, and a group at rest writes nothing
        return (
            abs(was.busy - now.busy) > max(_BUSY_STEP, _CHANGED_SHARE * max(was.busy, now.busy))
            or _differ(was.finished, now.finished)
            or _differ(was.handler_us, now.handler_us)
            or (was.workers, was.capacity) != (now.workers, now.capacity)
            or was.ops_address != now.ops_address
            or _differ_in_keys(was, now)
            or _differ_in_partitions(was, now)
        )


def _is_held(partition: Partition) -> bool:
    return any(tenure.begun and tenure.ranges for tenure in partition.tenures)


def _measured(partition: Partition) -> list[Tenure]:
    """Those of which enough was sampled, by what they hold now."""
    found = [it for it in partition.tenures if it.begun and it.ranges and it.load.is_known]
    for tenure in found:
        tenure.load.fit(tenure.ranges)
    return found


def _differ(one: int, other: int) -> bool:
    return abs(one - other) > _CHANGED_SHARE * max(one, other)


def _differ_in_keys(was: LoadRecord, now: LoadRecord) -> bool:
    """Two keys that are about as heavy may change places without being news."""
    before = {(it.topic_id, it.partition, it.key_hash): it for it in was.heavy}
    after = {(it.topic_id, it.partition, it.key_hash): it for it in now.heavy}
    return before.keys() != after.keys() or any(
        _differ(before[place].share, it.share) or before[place].is_busy is not it.is_busy
        for place, it in after.items()
    )


def _differ_in_partitions(was: LoadRecord, now: LoadRecord) -> bool:
    before = {(it.topic_id, it.partition): it for it in was.partitions}
    if before.keys() != {(it.topic_id, it.partition) for it in now.partitions}:
        return True
    for it in now.partitions:
        known = before[it.topic_id, it.partition]
        if _differ(known.weight, it.weight) or _differ(known.pace, it.pace):
            return True
    return False


def _fitting(record: LoadRecord, bytes_max: int) -> bytes | None:
    """The record's bytes, with as many partitions and hashes as fit; None: nothing fits."""
    while len(value := encode_value(record)) > bytes_max:
        if not (record.partitions or record.heavy):
            return None
        some = record.partitions[: len(record.partitions) // 2]
        record = replace(record, partitions=some, heavy=record.heavy[: len(some)])
    return value
