"""Grants: ranges that come and go while their state is restored, which takes a while. No Kafka.

In: on the member's thread what is assigned and what leaves; on another one restores that begin and
are complete. Out: shards that hold what is restored and still ours, and nothing else.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignors import WHOLE, KeyRange, TopicPartition, subtract
from assignors.key_hash import PARTITION_HASH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coop_consumer.config import Config
    from coop_consumer.state.shard import Restoring, Shard


@dataclass(slots=True, eq=False)
class Grant:
    """Ranges that were assigned and are not restored yet.

    Attributes:
        asked: As they were assigned.
        ranges: The ranges of their keys' own hashes.
        left: Those of them that are still ours.
    """

    tp: TopicPartition
    asked: tuple[KeyRange, ...]
    ranges: tuple[KeyRange, ...]
    left: tuple[KeyRange, ...]


class Grants:
    """What was assigned and is not restored yet.

    Args:
        config: The member's.
        shards: The partitions whose state is known.
    """

    def __init__(self, config: Config, shards: Mapping[TopicPartition, Shard]) -> None:
        self._is_by_partition = config.ordering == "partition"
        self._shards = shards
        self._grants: list[Grant] = []
        self._changing = threading.Lock()  # guards grants and held ranges

    def coming(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """Note that a restore follows."""
        of_keys = self._of_keys(ranges)
        with self._changing:
            self._grants.append(Grant(tp, ranges, of_keys, of_keys))

    def leaving(self, tp: TopicPartition, ranges: tuple[KeyRange, ...], *, lost: bool) -> None:
        """Note that these ranges are no longer ours, restored or not."""
        ranges = self._of_keys(ranges)
        with self._changing:
            for grant in self._grants:
                if grant.tp == tp:
                    grant.left = subtract(grant.left, ranges)
            if tp in self._shards:
                self._shards[tp].release(ranges, lost=lost)

    def begin_again(self, shards: Iterable[Shard]) -> None:
        """Note that nothing is ours, and drop writes that are not known to count."""
        with self._changing:
            self._grants.clear()
            for shard in shards:
                shard.begin_again()

    def granted(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> Grant:
        """The oldest grant of these ranges."""
        with self._changing:
            return next(it for it in self._grants if (it.tp, it.asked) == (tp, ranges))

    def restored(self, grant: Grant, shard: Shard, restoring: Restoring, now_s: int) -> None:
        """Let the shard hold what is left of a grant; all of it is restored."""
        with self._changing:
            shard.hold(grant.ranges, restoring.end, now_s, grant.left)

    def end(self, grant: Grant) -> None:
        """A restore has ended, well or not."""
        with self._changing:
            self._grants.remove(grant)

    def _of_keys(self, ranges: tuple[KeyRange, ...]) -> tuple[KeyRange, ...]:
        """The ranges of the keys' own hashes."""
        if not self._is_by_partition:
            return ranges
        return (WHOLE,) if any(PARTITION_HASH in it for it in ranges) else ()
