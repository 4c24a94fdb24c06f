"""I9: keyed state is what one pass over the records leaves, in whatever processes they ran.

In: what handlers find, transactions that are committed. Out: at the end, whether the changelogs
have the whole chain of each key. A record that was skipped, or has a dead letter, is in no chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coop_consumer.state.entry import decode

if TYPE_CHECKING:
    from coop_consumer.core.record import Record
    from coop_consumer.state.shard import Write
    from tests.simulation.checker.truth import Truth
    from tests.simulation.flusher import SimEffect
    from tests.simulation.world import World

_Key = tuple[object, bytes | None]


class StateCheck:
    """Follows the state of keys."""

    def __init__(self, world: World, truth: Truth) -> None:
        self._world, self._truth = world, truth
        self._committed: dict[_Key, bytes] = {}
        self._waiting: dict[tuple[object, object, bytes | None], list[SimEffect]] = {}

    def finds(self, effect: SimEffect, record: Record, found: bytes) -> None:
        """Check what a handler finds: what is committed, or what its process is about to commit."""
        execution, tp = effect.execution, record.tenure.tp
        shell = execution.shell
        if execution.orphaned or self._truth.is_superseded(shell, tp):
            return
        waiting = self._waiting.get((shell, tp, record.key), [])
        while waiting and not _waits(waiting[-1]):
            waiting.pop()
        committed = self._committed.get((tp, record.key), b"")
        chain = waiting[-1].chain if waiting else committed
        assert found == chain, (
            f"I9: {record} finds the chain {found!r} in {shell.title}; it is {chain!r}, of which "
            f"{committed!r} is committed"
        )

    def finished(self, effect: SimEffect) -> None:
        """What a handler has put is found by the key's next record of its process."""
        if effect.key is not None:
            execution = effect.execution
            place = execution.shell, execution.tenure.tp, effect.key
            self._waiting.setdefault(place, []).append(effect)

    def committed(self, effects: Sequence[SimEffect], writes: Sequence[Write]) -> None:
        """Check the writes of a transaction, given with what else it has of their records."""
        changed: dict[_Key, bytes] = {}
        for effect in effects:
            effect.is_committed = True
            if effect.key is not None:
                tp = effect.execution.tenure.tp
                place = tp, effect.key
                chain = self._committed.get(place, b"") + b"%d," % effect.offset
                assert effect.chain == chain, (
                    f"I9: {tp}@{effect.offset} has made the chain {effect.chain!r} of its key, and "
                    f"is committed where it is {chain!r}"
                )
                self._committed[place] = changed[place] = chain
        told = {(write.shard.tp, write.key): _value(write.value) for write in writes}
        assert told == changed, f"I9: a transaction writes the state {told}; it is {changed}"

    def check_complete(self) -> None:
        """Check that the changelogs have the whole chains, once all is done."""
        found: dict[_Key, bytes] = {}
        for tp, records in self._world.changelogs.committed().items():
            found |= {(tp, record.key): _value(record.value) for record in records}
        assert found == self._committed, f"I9: the changelogs have {found}, not {self._committed}"


def _waits(effect: SimEffect) -> bool:
    """Whether what a finished handler has put may still be committed."""
    return not (effect.is_committed or effect.is_undone or effect.execution.tenure.is_void)


def _value(data: bytes | None) -> bytes:
    return b"" if data is None else decode(data).now.value
