"""The changelogs of keyed state, one for each data partition, and the disks with the stores.

In: writes of transactions, their markers, processes that come and go. Out: records that are decided
up to the last stable offset; of a store what a kill has left on its disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from assignors import KeyRange, TopicPartition, key_hash
from coop_consumer.state.positions import Positions
from tests.simulation.progress_log import SimLog

if TYPE_CHECKING:
    from coop_consumer.core.blocked_read import RunId
    from coop_consumer.state.shard import Write
    from offsets import LogRecord
    from tests.simulation.shell import MemberShell
    from tests.simulation.transactions import Opened
    from tests.simulation.world import World

_SURVIVES = 0.5
"""How often a kill finds all of a store on its disk, not only what was flushed."""
_SHARED = 0.5
"""How often a process finds the disk of another one, which is gone: they run on one machine."""


class Changelogs:
    """All changelogs of the group."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._logs: dict[TopicPartition, SimLog] = {}

    def log(self, tp: TopicPartition) -> SimLog:
        """The changelog of a partition."""
        log = self._logs.get(tp)
        if log is None:
            log = self._logs[tp] = SimLog()
        return log

    def append(
        self, opened: Opened, run: RunId, writes: Iterable[Write]
    ) -> list[tuple[Write, int]]:
        """Write in a transaction of a run; returns where each lies."""
        now_ms, found = self._world.scheduler.now_ms, []
        opened.run = run
        for write in writes:
            tp = write.shard.tp
            opened.changelogs.add(tp)
            offset = self.log(tp).append_undecided(opened, write.key, write.logged, now_ms)
            opened.writes.append(write)
            found.append((write, offset))
        return found

    def writers(self, tp: TopicPartition) -> set[RunId]:
        """Whose transactions are undecided, as headers of their records say."""
        opened = {it for it, _ in self.log(tp).undecided.values()}
        return {it.run for it in cast("set[Opened]", opened) if it.run is not None}

    def decide(self, tp: TopicPartition, opened: Opened) -> None:
        """Write a transaction's marker."""
        self.log(tp).decide(opened, committed=opened.was_committed)

    def committed(self) -> Mapping[TopicPartition, Sequence[LogRecord]]:
        """All that counts, also where a marker is on its way."""
        found = {}
        for tp, log in self._logs.items():
            undecided = cast("Iterable[tuple[Opened, LogRecord]]", log.undecided.values())
            waiting = [record for opened, record in undecided if opened.was_committed]
            known = log.read(0, 1_000_000).records
            found[tp] = sorted([*known, *waiting], key=lambda record: record.offset)
        return found


class SimStore:
    """A store in memory, in the place of `state.store.Store`.

    Attributes:
        positions: Up to where it is valid.
    """

    def __init__(self) -> None:
        self.positions: Positions = ()
        self._data: dict[bytes, bytes] = {}
        self._on_disk: tuple[dict[bytes, bytes], Positions] = {}, ()

    def get(self, key: bytes) -> bytes | None:
        """See `Store`."""
        return self._data.get(key)

    def write(
        self, changes: Mapping[bytes, bytes | None], positions: Positions | None = None
    ) -> None:
        """See `Store`."""
        for key, value in changes.items():
            if value is None:
                self._data.pop(key, None)
            else:
                self._data[key] = value
        if positions is not None:
            self.positions = positions

    def forget(self, ranges: Iterable[KeyRange], positions: Positions) -> None:
        """See `Store`."""
        gone = [key for key in self._data if any(key_hash(key) in it for it in ranges)]
        self.write(dict.fromkeys(gone), positions)

    def flush(self, *, wait: bool) -> None:
        """See `Store`."""
        del wait
        self._on_disk = dict(self._data), self.positions

    def killed(self) -> None:
        """Keep what was on the disk."""
        data, self.positions = self._on_disk
        self._data = dict(data)


@dataclass(slots=True, eq=False)
class Disk:
    """The directory of a process, with its stores."""

    owner: MemberShell
    stores: dict[TopicPartition, SimStore] = field(default_factory=dict)


class Disks:
    """All directories; a process has one to itself, and finds what the one before has left."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._all: list[Disk] = []

    def take(self, shell: MemberShell) -> dict[TopicPartition, SimStore]:
        """The stores that a process finds: its own, if it has a lasting name, or another one's."""
        scheduler = self._world.scheduler
        free = [it for it in self._all if not it.owner.alive]
        own = [it for it in free if it.owner.name == shell.name]
        found = own or (free if scheduler.chance(_SHARED) else [])
        if not found:
            disk = Disk(shell)
            self._all.append(disk)
            return disk.stores
        disk = found[-1]
        self._world.happened("stores of a former process")
        if disk.owner.crashed and not scheduler.chance(_SURVIVES):
            for store in disk.stores.values():
                store.killed()
        disk.owner = shell
        return disk.stores
