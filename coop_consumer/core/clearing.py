"""Clearing: tombstones for records of the log that are needed no more. Pure.

In: the partitions that this member leads, complete reads of their views. Out: tombstones for
tenures whose ranges were taken over since, for bases and decisions that do not count any more, for
announcements and loads of members that are gone. They come at every second mirror, from the second
one after an assignment on. The lead of split partitions follows the log anyway. The owner of a
whole partition looks once after each assignment. Upholds I3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assignors import WHOLE
from offsets import encode_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coop_consumer.core.log_reading import LogReading
    from coop_consumer.core.outbox import Outbox
    from coop_consumer.core.state import LogView, MemberState, Partition
    from coop_consumer.errors import CoopConsumerError

_MIRRORS = 2


@dataclass(slots=True, eq=False)
class Clearing:
    """Appends tombstones."""

    state: MemberState
    outbox: Outbox
    reading: LogReading
    _due_ms: int = 0

    def appended(self, token: int, offsets: Sequence[int]) -> None:
        """Whatever became of tombstones: what is left is found again."""

    def append_failed(self, token: int, error: CoopConsumerError) -> None:
        """Whatever became of tombstones: what is left is found again."""

    def clear_due(self, led: list[Partition]) -> None:
        """Clear the views of these partitions, if it is time."""
        state = self.state
        if state.now_ms < self._due_ms or state.membership.joining:
            return  # in a join, who is alive may be about to change
        self._due_ms = state.now_ms + _MIRRORS * state.config.mirror_interval_ms
        for view in {p.view.log_partition: p.view for p in led}.values():
            self._clear(view, [p for p in led if p.view is view])

    def _clear(self, view: LogView, led: list[Partition]) -> None:
        mark = view.clearing
        if not view.following:
            if mark.is_new:
                mark.is_new = False
                self.reading.read(view)  # cleared when it is time again
                return
            if view.complete == mark.read:
                return
        if not view.current:
            return
        if not mark.offset:
            # Members that were assigned something just now may not have read this far.
            mark.offset = view.end_offset
            return
        state = self.state
        live = {*state.membership.live, state.name}
        keys = [
            encode_key(key)
            for partition in led
            if state.membership.alone or self._knows_all(partition)
            for key in partition.store.superseded(
                partition.store.members() if state.membership.alone else live,
                view.end_offset,
                mark.offset,
            )
        ]
        if state.membership.live:
            keys += map(encode_key, view.store.gone(live, mark.offset))
            keys += map(encode_key, view.store.loads_gone(live, mark.offset))
        if mark.offset == view.end_offset:
            mark.read = view.complete
        mark.offset = view.end_offset
        if keys:
            self.outbox.append(view, [(key, None) for key in keys], self)

    def _knows_all(self, partition: Partition) -> bool:
        """Whether we know of everybody who may hold or drain any of it.

        The group's lead is told who is alive. The owner of a whole partition is not told. But if it
        waits for nobody, nobody else holds or drains any of it. Without a group anybody may hold
        anything: then only released ranges can be over.
        """
        if self.state.membership.live:
            return True
        waits = partition.waiting or any(tenure.blocked.hashes for tenure in partition.tenures)
        return partition.assigned == (WHOLE,) and not waits
