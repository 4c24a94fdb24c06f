"""The keyed state of a simulated process: the real one, with stores and changelogs in memory.

In: handlers that read and put, transactions and what becomes of them. Out: what handlers find, and
writes for transactions. Each handler puts the chain of the offsets of its key. So what it finds
tells what has ever become of the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coop_consumer.core.blocked_read import RunId
from coop_consumer.errors import MemberLostError, MisuseError
from coop_consumer.state.keyed import KeyedState
from coop_consumer.state.transacted import TransactedWriter
from tests.simulation.restores import Restores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignors import KeyRange, TopicPartition
    from coop_consumer.core.effects import Result
    from coop_consumer.core.record import Record
    from coop_consumer.state.shard import Write
    from tests.simulation.flusher import SimEffect
    from tests.simulation.shell import MemberShell
    from tests.simulation.transactions import Opened
    from tests.simulation.world import World

_SIZE_MAX = 2**20
_CHECKPOINTS = 0.1
"""After so many transactions positions move, if the group confirms the member."""


class SimState:
    """The keyed state of one process.

    Attributes:
        restores: Brings the state of its ranges.
    """

    def __init__(self, world: World, shell: MemberShell) -> None:
        self._world, self._shell = world, shell
        self.restores = Restores(world, shell)
        self._run = RunId(shell.name, shell.incarnation)
        self._writer = TransactedWriter(shell.config, _nothing)
        self._writer.start(_SIZE_MAX)
        self._keyed = KeyedState(self.restores.shards, self._writer.put)

    # ---- handlers ------------------------------------------------------------------------------

    def pass_on(self, effect: SimEffect, record: Record) -> None:
        """Find what was put for the record's key, and put that with the record's offset."""
        tp = record.tenure.tp
        assert tp in self.restores.shards, f"I9: {record} begins before its state is there"
        found = self._keyed.get(record) or b""
        self._world.checker.states.finds(effect, record, found)
        effect.key, effect.chain = record.key, found + b"%d," % record.offset
        try:
            self._keyed.put(record, effect.chain)
        except MemberLostError:
            assert record.tenure.is_void, f"I9: {record} is at work, and its state is refused"

    def put_late(self, record: Record) -> None:
        """Put once more, behind the end of an attempt: nobody may find it."""
        try:
            self._keyed.put(record, b"late")
        except (MisuseError, MemberLostError):
            return
        raise AssertionError(f"I9: a late put of {record} is taken")

    # ---- transactions --------------------------------------------------------------------------

    def produce(self, opened: Opened, results: Sequence[Result]) -> list[tuple[Write, int]]:
        """Write in a transaction what goes along with these results; returns where it lies."""
        writes = [write for _, write in self._writer.last_of(results)]
        return self._world.changelogs.append(opened, self._run, writes)

    def committed(self, written: Sequence[tuple[Write, int]]) -> None:
        """These count, each at its offset in its changelog."""
        if written:
            self._writer.committed(written)
            if self._world.scheduler.chance(_CHECKPOINTS):
                self._checkpoint()

    def _checkpoint(self) -> None:
        """Move the positions, if the group confirms that what is held was ours."""
        now_s = self.restores.now_s
        found = {shard: shard.reached() for shard in self.restores.shards.values()}

        def confirmed() -> None:
            for shard, reached in found.items():
                shard.confirm(reached, now_s)
                shard.checkpoint()

        self._shell.if_confirmed(confirmed)

    # ---- ranges --------------------------------------------------------------------------------

    def leaving(self, tp: TopicPartition, ranges: tuple[KeyRange, ...], *, lost: bool) -> None:
        """These ranges are no longer ours."""
        self.restores.leaving(tp, ranges, lost=lost)
        if lost:
            self._writer.lose_all()


def _nothing() -> None:
    """Checkpoints go by chance here, not by the clock."""
