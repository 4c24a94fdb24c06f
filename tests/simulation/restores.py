"""Restores of a simulated process: it reads the state of its ranges before their first record.

In: ranges that come and go, one after the other. Out: shards that hold them, complete up to the end
that their changelog had once they were free. A read waits for what is undecided below that end, and
ends the transactions of members that are gone.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, cast

from coop_consumer.core.blocked_read import BlockedRead
from coop_consumer.state.grants import Grant, Grants
from coop_consumer.state.shard import Restoring, Shard
from tests.simulation.changelog import SimStore
from tests.simulation.scheduler import Call

if TYPE_CHECKING:
    from assignors import KeyRange, TopicPartition
    from coop_consumer.state.store import Store
    from offsets import LogBatch
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World

_MARK = 1
"""Of the data topic, which is never made anew where state is kept."""
_AGE_MAX_S = 86_400
_FETCHED_MAX = 100
_AGAIN_MS = 20


class _Restore(NamedTuple):
    """A restore under way."""

    grant: Grant
    ready: Call
    shard: Shard
    restoring: Restoring
    blocked: BlockedRead


class Restores:
    """Restores the ranges of one process, one assignment at a time.

    Attributes:
        shards: The partitions whose state is known.
    """

    def __init__(self, world: World, shell: MemberShell) -> None:
        self._world, self._shell = world, shell
        self._stores = world.disks.take(shell)
        self.shards: dict[TopicPartition, Shard] = {}
        self._grants = Grants(shell.config, self.shards)
        self._waiting: deque[tuple[TopicPartition, tuple[KeyRange, ...], Call]] = deque()
        self._is_busy = self._is_stopping = False

    @property
    def now_s(self) -> int:
        """The time of positions."""
        return self._world.scheduler.now_ms // 1_000

    # ---- ranges that come and go ---------------------------------------------------------------

    def coming(self, tp: TopicPartition, ranges: tuple[KeyRange, ...], ready: Call) -> None:
        """Restore ranges, behind those that came before; then call `ready`."""
        self._grants.coming(tp, ranges)
        self._waiting.append((tp, ranges, ready))
        self._begin_next()

    def leaving(self, tp: TopicPartition, ranges: tuple[KeyRange, ...], *, lost: bool) -> None:
        """These ranges are no longer ours, restored or not."""
        self._grants.leaving(tp, ranges, lost=lost)

    def stop(self) -> None:
        """The member ends: nobody waits for a range any more."""
        self._is_stopping = True

    def close(self) -> None:
        """Write all stores to the disk."""
        for store in self._stores.values():
            store.flush(wait=True)

    # ---- one of them ---------------------------------------------------------------------------

    def _begin_next(self) -> None:
        """Ask for the changelog's end, once the restore before is over."""
        if self._is_busy or not self._waiting:
            return
        self._is_busy = True
        tp, ranges, ready = self._waiting.popleft()
        grant = self._grants.granted(tp, ranges)
        if not grant.ranges:
            self._shell.later(0, 1, lambda: self._end(grant, ready))
            return

        def arrive() -> None:
            end = self._world.changelogs.log(tp).end_offset
            self._shell.receive(lambda: self._begin(grant, ready, end))

        self._after_a_moment(arrive)

    def _after_a_moment(self, call: Call, pause_ms: int = 0) -> None:
        scheduler = self._world.scheduler
        delay_ms = pause_ms + scheduler.between(1, self._world.weather.read_ms)
        scheduler.after(self._world.brokers.reach(delay_ms), call)

    def _begin(self, grant: Grant, ready: Call, end: int) -> None:
        tp = grant.tp
        if tp not in self.shards:
            store = self._stores.setdefault(tp, SimStore())
            self.shards[tp] = Shard(tp, _MARK, cast("Store", store))
        shard = self.shards[tp]
        restoring = shard.begin(grant.ranges, (0, end), self.now_s, _AGE_MAX_S)
        self._go_on(_Restore(grant, ready, shard, restoring, BlockedRead()), restoring.first)

    def _go_on(self, it: _Restore, position: int, pause_ms: int = 0) -> None:
        """Read from a position on, or end."""
        if self._is_stopping:
            self._end(it.grant, it.ready)
        elif position < it.restoring.end:
            self._after_a_moment(lambda: self._fetch(it, position), pause_ms)
        else:
            self._grants.restored(it.grant, it.shard, it.restoring, self.now_s)
            stale = it.restoring.stale_in(it.grant.ranges)
            assert not stale, f"I9: {self._shell.title} finds late writes of {stale} in a changelog"
            self._end(it.grant, it.ready)

    def _fetch(self, it: _Restore, position: int) -> None:
        batch = self._world.changelogs.log(it.grant.tp).read_stable(position, _FETCHED_MAX)
        if batch.next_offset > position:
            self._shell.receive(lambda: self._take(it, batch))
        else:
            self._world.happened("restore waits")
            self._shell.receive(lambda: self._wait(it, position))

    def _take(self, it: _Restore, batch: LogBatch) -> None:
        records = [(record.offset, record.key, record.value) for record in batch.records]
        it.shard.restore(it.restoring, records, batch.next_offset, self.now_s)
        self._go_on(it, batch.next_offset)

    def _wait(self, it: _Restore, position: int) -> None:
        """What comes next is undecided: see whether somebody will decide it, and read again."""
        if it.blocked.looked(position, self._world.scheduler.now_ms):
            found = self._world.changelogs.writers(it.grant.tp)
            self._shell.send(lambda: self._world.transactions.fence_absent(found))
        self._go_on(it, position, _AGAIN_MS)

    def _end(self, grant: Grant, ready: Call) -> None:
        self._grants.end(grant)
        self._is_busy = False
        self._begin_next()
        ready()
