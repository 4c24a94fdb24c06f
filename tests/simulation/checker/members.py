"""I1, I2, I4, I8, I10: what must hold for a member between two steps.

In: each member after each step that touched it. Unchanged parts are not checked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignors import WHOLE, TopicPartition
from coop_consumer.core.hashes import without
from coop_consumer.core.lane import HELD, Lane, records_of
from offsets import GapTracker, PartitionProgress
from tests.simulation.checker.history import Owned

if TYPE_CHECKING:
    from coop_consumer.core.state import Partition
    from tests.simulation.checker.truth import Truth
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World


class MemberCheck:
    """Checks members."""

    def __init__(self, world: World, truth: Truth) -> None:
        self._world, self._truth = world, truth
        self._owned: dict[MemberShell, Owned] = {}
        self._checked: dict[MemberShell, dict[TopicPartition, object]] = {}
        self._marks: dict[MemberShell, object] = {}
        self._tenures: dict[MemberShell, int] = {}

    def looked_at(self, shell: MemberShell) -> None:
        """Check a member that has taken in an event."""
        state = shell.core.state
        if self._tenures.get(shell) == state._tenures:
            return  # none has begun
        self._tenures[shell] = state._tenures
        for partition in state.partitions.values():
            for tenure in partition.all_tenures():
                if tenure not in self._truth.known:
                    place = tenure.key.topic_id, tenure.tp.partition
                    known = shell.known.get(place, (0, PartitionProgress()))
                    self._truth.known[tenure] = state.membership.generation, known
                    if parked := shell.parked.get((*place, tenure.epoch)):
                        self._truth.parked[tenure] = parked

    def check(self, shell: MemberShell) -> None:
        """Check what must hold for a member between two steps (I1, I2, I4, I8, I10)."""
        if not shell.alive:
            self._owned.pop(shell, None)
            return
        mark = _mark(shell)
        if mark == self._marks.get(shell):
            return  # most ticks find nothing to do
        self._marks[shell] = mark
        shell.core.lanes.check()
        self._check_bounds(shell)
        checked, self._checked[shell] = self._checked.get(shell, {}), {}
        owned: Owned = {}
        for tp, partition in shell.core.state.partitions.items():
            now = self._checked[shell][tp] = _version(partition)
            if now != checked.get(tp):
                partition.check()
            watched, place = self._truth.watched[tp], (partition.topic_id, tp.partition)
            for tenure in partition.tenures:
                seen_to, is_current = (
                    tenure.tracker.seen_to,
                    tenure.key.topic_id == watched.topic_id,
                )
                assert not is_current or seen_to <= watched.limit, (
                    f"I10: {tenure} saw {seen_to} of {watched.limit}"
                )
                if tenure.begun:
                    mine = without(tenure.ranges, tenure.blocked.hashes)
                    owned[place] = (*owned.get(place, ()), *mine)
        if owned != self._owned.get(shell):
            self._owned[shell] = owned
            self._check_apart(shell, owned)

    def _check_apart(self, shell: MemberShell, owned: Owned) -> None:
        """I1: two members of the group may not start the same hashes now."""
        if shell.seat is None or shell.seat.lost:
            return
        for other, theirs in self._owned.items():
            if other is shell or not other.alive or other.seat is None or other.seat.lost:
                continue
            for place in owned.keys() & theirs.keys():
                tp = self._world.partition_of(*place)
                if tp is None or any(self._truth.is_superseded(s, tp) for s in (shell, other)):
                    continue
                both = [r for r in owned[place] if any(map(r.overlaps, theirs[place]))]
                assert not both, f"I1: {shell.title} and {other.title} both hold {both} of {place}"

    @staticmethod
    def _check_bounds(shell: MemberShell) -> None:
        """I8: at a bound the fetch is held; only what was under way still comes.

        Gap ranges lie between records that are admitted and unfinished, so the bound holds for
        them, too.
        """
        state, config = shell.core.state, shell.core.state.config
        finished = {id(record): record.size for record in state.lanes.finished}
        waiting = sum(finished.values()) + sum(record.size for record in state.lanes.tables.fresh)
        for tenure in state.load.careful:
            if tenure.falls.suspicion is not None:
                careful = [*tenure.falls.suspicion.waiting, *tenure.falls.suspicion.apart]
                waiting += sum(record.size for _, record in careful)
        held_back = shell.core.intake._held_back.values()
        waiting += sum(it.size for of in held_back for records in of.values() for it in records)
        for tp in state.partitions:
            for entry in state.lanes.tables.filed(tp).values():  # to look must not file anything
                is_held = isinstance(entry, Lane) and entry.state is HELD
                for record in records_of(entry):
                    if is_held or record.offset in record.tenure.pending:
                        waiting += 0 if id(record) in finished else record.size
        assert waiting == state.load.bytes_waiting, (
            f"I8: {shell.title} holds {waiting} bytes and counts {state.load.bytes_waiting}"
        )
        for tp, partition in state.partitions.items():
            others = (it for it in partition.all_tenures() if not partition.is_hot(it))
            held = sum(len(tenure.pending) for tenure in others)
            came, wall = shell.fetcher.last_batch.get(tp, 0), config.max_num_ranges_held
            assert held < wall + max(came, 1), (
                f"I8: {shell.title} holds {held} records of {tp}; the wall is {wall}, and the "
                f"batch that reached it had {came}"
            )
        came = shell.fetcher.bytes_at_hold + sum(shell.fetcher.bytes_apart.values())
        bound = config.max_bytes_key_range_cache
        assert waiting < bound + max(came, 1), (
            f"I8: {shell.title} holds {waiting} bytes; the bound is {bound}, {came} were on their "
            "way when it was reached"
        )


def _mark(shell: MemberShell) -> object:
    """A value that changes whenever the member does something.

    Each of its actions has a number, and the lanes show what executors do.
    """
    state, lanes = shell.core.state, shell.core.state.lanes
    counters = state.counters
    return (
        state.newest_token,
        state._tenures,
        state.membership.generation,
        state.load.bytes_waiting,
        counters.fetched,
        counters.finished,
        counters.failures,
        len(lanes.finished),
        len(lanes.ended),
        len(lanes.ready),
        len(lanes.tables.fresh),
    )


_NONE = frozenset[int]()


def _version(partition: Partition) -> object:
    """A value that changes whenever anything changes that is checked for the partition."""
    return [
        (
            id(tenure),
            id(tenure.tracker),
            _seen(tenure.tracker),
            tenure.ranges,
            tenure.released,
            frozenset(tenure.blocked.hashes) if tenure.blocked.hashes else _NONE,
            frozenset(tenure.draining) if tenure.draining else _NONE,
            frozenset(tenure.blocked.lingering) if tenure.blocked.lingering else _NONE,
        )
        for tenure in partition.all_tenures()
    ]


def _seen(tracker: GapTracker) -> object:
    # An admitted record raises seen_to (with its batch) and a finished one lowers the number of
    # pending ones, or raises done_to; what is learned drops pending ones, or lies ahead.
    ahead = tuple(tracker._inherited.clip(WHOLE)) if tracker.ahead else ()
    return tracker.seen_to, tracker.done_to, len(tracker.pending), ahead
