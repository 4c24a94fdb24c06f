"""Hot hashes: one whose records pile up gets a tenure and a stream of its own. Pure; upholds I8.

In: what waits. Out: a tenure that gives the hash up and begins it anew, and holds of its stream. A
key runs on one worker. If more of it comes than that worker does, its records would fill all room
of its partition, and the fetch for all others would go at its pace. So its queue is forgotten, and
its own stream brings the records again, as fast as they are run. The other keys go on in the main
stream. A hash that has caught up joins that again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignors import KeyRange
from coop_consumer.core.actions import APART, APART_MAX, HoldApart, Level
from coop_consumer.core.key_names import named, shown
from coop_consumer.core.lane import hash_of, records_of
from coop_consumer.core.record import place_of
from coop_consumer.core.state import RESUME_SHARE
from coop_consumer.log_events import LogEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assignors import TopicPartition
    from coop_consumer.core.handover import Handover
    from coop_consumer.core.record import Record
    from coop_consumer.core.state import MemberState, Partition
    from coop_consumer.core.streams import Streams
    from coop_consumer.core.tenure import Tenure

_NEAR = 0.7
"""From this share of a bound on, hashes are counted: what is on its way has room above it."""
_RECOUNT_SHARE = 0.05
"""They are counted again once so much of the bound has come or gone."""

_TELL_AGAIN_MS = 60_000
"""A line a minute of one hash."""
_TENURES_MAX = 32
"""A hash stays in its tenure when it is hot no more, and a JoinGroup lists each."""


def busiest(tenures: Iterable[Tenure]) -> tuple[int, int]:
    """The hash of which most records wait, and how many; some wait. O(records)."""
    counts = Counter[int]()
    for tenure in tenures:
        counts.update(tenure.pending.values())
    return counts.most_common(1)[0]


def first_of(state: MemberState, tenure: Tenure, key_hash: int) -> tuple[str, Record | None]:
    """Where the first record of a hash lies that waits, and that record if it is queued here."""
    with state.lock:
        for entry in state.lanes.tables.of(tenure.tp).values():
            if hash_of(entry) == key_hash and entry.tenure is tenure:
                for record in records_of(entry):
                    if record._offset in tenure.pending:
                        return place_of(record), record
    first = next((offset for offset, it in tenure.pending.items() if it == key_hash), -1)
    return f"{tenure.tp}@{first}", None


@dataclass(slots=True, eq=False)
class HotHashes:
    """Finds them, and holds their streams.

    Args:
        state: The member.
        handover: Gives a hash a tenure of its own.
        streams: Of all partitions.
    """

    state: MemberState
    handover: Handover
    streams: Streams
    _counted: dict[TopicPartition, int] = field(default_factory=dict)  # at the last count
    _told_ms: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)  # of each hash

    def look(self) -> None:
        """Hold or resume their streams, and look for another one if a bound is near."""
        state, config = self.state, self.state.config
        for partition in state.partitions.values():
            if partition.hot:
                self._hold_or_resume(partition)
        pending = state.pending()
        share = max(
            pending / config.max_num_ranges_held,
            state.bytes_held() / config.max_bytes_key_range_cache,
        )
        if share < _NEAR:
            if self._counted:
                self._counted = {}
            return
        if config.ordering != "key" or not state.membership.is_stable:
            return
        for partition in list(state.partitions.values()):
            self._look_at(partition, share / pending)

    def _look_at(self, partition: Partition, share_each: float) -> None:
        """Move the hash apart that most of what waits in a partition is of.

        Args:
            partition: Where.
            share_each: The share of a bound that one record takes.
        """
        tenures = [it for it in partition.tenures if it.begun and not partition.is_hot(it)]
        waiting = sum(len(it.pending) for it in tenures)
        counted = self._counted.get(partition.tp, 0)
        if waiting * share_each < _NEAR / 2 or abs(waiting - counted) * share_each < _RECOUNT_SHARE:
            return
        self._counted[partition.tp] = waiting
        key_hash, count = busiest(tenures)
        if 2 * count <= waiting:
            return  # many keys are behind: there are too few workers
        tenure = next((it for it in tenures if any(key_hash in r for r in it.ranges)), None)
        if tenure is not None and self._may_move(partition, tenure, key_hash):  # else it drains
            self._counted[partition.tp] = 0
            self._tell(tenure, key_hash, f"{count} of {waiting}")
            self.handover.move_apart(partition, tenure, key_hash)

    def _tell(self, tenure: Tenure, key_hash: int, share: str) -> None:
        """Log a move. A key that catches up, and is hot again, moves many times."""
        state, tp = self.state, tenure.tp
        since_ms = state.now_ms - _TELL_AGAIN_MS
        self._told_ms = {which: at for which, at in self._told_ms.items() if at > since_ms}
        if (tp, key_hash) in self._told_ms:
            return
        self._told_ms[tp, key_hash] = state.now_ms
        place, record = first_of(state, tenure, key_hash)
        about = state.config.log_keys, record._key if record else None, key_hash
        key = named(*about, known=record is not None)
        state.report(
            Level.WARNING,
            LogEvent.KEY_HOT,
            f"{tp}: {share} records that wait are of one key{key}, the first of them {place}. One "
            "worker runs it, so it is fetched by itself from now on, at its pace; the other keys "
            "go on.",
            tp=tp,
            key=shown(*about, known=record is not None),
        )

    def _may_move(self, partition: Partition, tenure: Tenure, key_hash: int) -> bool:
        """Whether the hash can have a stream of its own, and somebody gains by it."""
        others = [it for it in self.state.partitions.values() if it is not partition and it.tenures]
        alone = tenure.ranges == (KeyRange(key_hash, key_hash),)
        hot = sum(len(it.hot) for it in self.state.partitions.values())
        is_simple = tenure.sought is None and tenure.falls.suspicion is None
        return (
            hot < APART_MAX
            and len(partition.tenures) < _TENURES_MAX
            and is_simple
            and key_hash not in tenure.blocked.hashes
            and bool(others or not alone or len(partition.tenures) > 1)
        )

    # ---- their streams -------------------------------------------------------------------------

    def _hold_or_resume(self, partition: Partition) -> None:
        """Forget hashes that are ours no more; hold streams that have brought enough."""
        state = self.state
        partition.hot = {h for h in partition.hot if any(h in r for r in partition.assigned)}
        self.streams.rearrange(partition)
        is_full = state.bytes_held() >= state.config.max_bytes_key_range_cache
        for stream in partition.streams.values():
            if stream.consumer >= APART:
                waiting = sum(len(tenure.pending) for tenure in stream.tenures)
                enough = state.apart_max() * (RESUME_SHARE if stream.is_held else 1.0)
                hold = waiting >= enough or (is_full and waiting > 0)
                if hold != stream.is_held:
                    stream.is_held = hold
                    state.actions.append(HoldApart(stream.consumer, hold))
