"""I2 if handlers buffer their output: a record counts as processed once it is flushed.

In: flushes, ends of processes, ranges that a member's user code loads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from assignors import KeyRange, TopicPartition
from tests.simulation.checker.history import Execution, History

if TYPE_CHECKING:
    from coop_consumer.core.record import Record
    from tests.simulation.checker.truth import Truth
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World


class BufferCheck:
    """Follows the output that a crash would lose."""

    def __init__(self, world: World, truth: Truth) -> None:
        self._world, self._truth = world, truth

    def buffered(self, shell: MemberShell) -> list[tuple[History, int]]:
        """The records whose output is in this member's buffer now."""
        return [
            (history, offset)
            for watched in self._truth.watched.values()
            for history in watched.history.values()
            for offset, it in history.buffered.items()
            if shell in it.shells
        ]

    def flushed(self, shell: MemberShell, buffered: Iterable[tuple[History, int]]) -> None:
        """Note that this part of its buffer is durable."""
        self._world.note(shell.title, "has flushed")
        for history, offset in buffered:
            if offset in history.buffered:
                history.settle(offset)

    def undone(self, execution: Execution, offset: int) -> None:
        """Note that a member has dropped the output of a record: unless others have it, it is lost.

        With exactly once, that is; with at least once only a failed attempt's output is dropped.
        """
        history = execution.history
        it = history.buffered.get(offset) if history is not None else None
        if history is not None and it is not None and execution.shell in it.shells:
            self._lost(history, offset, execution.shell)

    def letter_undone(self, record: Record, shell: MemberShell) -> None:
        """Note that a member has dropped a dead letter; see `undone`."""
        history = self._truth.history(record.tenure)
        if history is not None:
            it = history.buffered.get(record.offset)
            if it is not None and shell in it.shells:
                self._lost(history, record.offset, shell)

    def _lost(self, history: History, offset: int, shell: MemberShell) -> None:
        it = history.buffered[offset]
        it.shells.remove(shell)
        if not it.shells:
            del history.buffered[offset]
            history.undone[offset] = it.message

    def gone(self, shell: MemberShell) -> None:
        """Note the end of a process: records in its buffer alone must be processed again."""
        for history, offset in self.buffered(shell):
            self._lost(history, offset, shell)

    def _may_repeat(self, by: Execution) -> bool:
        return by.may_be_repeated or by.tenure in self._truth.went_back

    def loaded(self, shell: MemberShell, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """Check that finished records of these ranges are durable when user code loads state."""
        watched = self._truth.watched[tp]
        history = watched.history.get(watched.merged[0])
        if history is None:
            return
        evicted = shell.seat is None or shell.seat.lost
        for offset, it in history.buffered.items():
            by = history.finished.get(offset)
            told = not evicted and by is not None and not self._may_repeat(by)
            if (told or shell in it.shells) and any(it.message.key_hash in r for r in ranges):
                raise AssertionError(
                    f"I2: {shell.title} loads the state of {tp} {ranges}, and {offset} is buffered "
                    f"in {[other.title for other in it.shells]}"
                )
