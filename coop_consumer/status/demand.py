"""How many workers each partition can keep busy: what is to do, and what limits it. Pure.

In: what is left and what arrives for each partition, what the members report. Out: a
`PartitionDemand` each. An offset costs its handler's time. To do in a second are what arrives, and
a part of what is left. So a group at its limit is not underrated. A key runs on one worker, so a
heavy key counts as one worker at most, whatever it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from assignors import TopicPartition
from coop_consumer.status.load import GroupLoad, KeyWork

_US = 1e-6


@dataclass(frozen=True, slots=True)
class PartitionNeed:
    """What a partition has to do.

    Attributes:
        tp: The partition.
        left: Records that are left.
        arrivals: Records that arrive a second.
        alone: Records among those left whose keys are fetched by themselves: others neither wait
            for them nor can take them.
        is_walled: Whether a member fetches it no further, because it holds too much of it.
        is_shared: Whether members may share it. If not, it has one member at most.
    """

    tp: TopicPartition
    left: int
    arrivals: float
    alone: int = 0
    is_walled: bool = False
    is_shared: bool = True

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return self.left <= 0 and self.arrivals <= 0


@dataclass(frozen=True, slots=True)
class PartitionDemand:
    """The workers that a partition can keep busy.

    Attributes:
        need: What it has to do.
        records: Records that it should do in a second.
        offered: The workers that this takes, if nothing limits them.
        demand: Those of them that can be busy with it.
        ceiling: The workers that can be busy with it at most, however much of it is left;
            infinite: no limit is known.
        is_strict: Whether no worker beyond the ceiling ever helps, not even for a while.
        limit: Why `demand` is less than `offered`, in words; "": it is not.
    """

    need: PartitionNeed
    records: float
    offered: float
    demand: float
    ceiling: float
    is_strict: bool
    limit: str

    @property
    def done(self) -> float:
        """Records that are done in a second by those workers."""
        return self.records * self.demand / self.offered if self.offered > 0 else 0.0


def demands(
    needs: Sequence[PartitionNeed],
    load: GroupLoad,
    handler_us: float,
    *,
    within_s: float,
    workers: float,
    is_serial: bool,
) -> list[PartitionDemand]:
    """The demand of each partition. O(partitions + keys).

    Args:
        needs: What they have to do.
        load: What the members say.
        handler_us: The mean time of a handler, in microseconds.
        within_s: The time in which what is left is to be done, above 0.
        workers: Workers of a member.
        is_serial: Whether a partition keeps its order as a whole, so that one worker has it.
    """
    costs = _costs(needs, load.weights, handler_us, within_s)
    keys: dict[TopicPartition, list[KeyWork]] = {}
    for key in load.keys:
        keys.setdefault(key.tp, []).append(key)
    found = []
    for need in needs:
        records = _records(need, within_s)
        offered = records * costs.get(need.tp, handler_us) * _US
        demand, ceiling, limit = _with_keys(need, offered, keys.get(need.tp, ()))
        if is_serial and demand > 1:
            demand, limit = 1.0, f"{need.tp} keeps its order as a whole"
        elif not need.is_shared and demand > workers:
            demand, limit = workers, f"{need.tp} may not be shared"
        if is_serial:
            ceiling = min(ceiling, 1.0)
        elif not need.is_shared:
            ceiling = min(ceiling, workers)
        if need.is_idle:
            ceiling = 0.0
        is_strict = is_serial or not need.is_shared or need.is_idle
        is_strict = is_strict or (need.is_walled and ceiling < inf)
        found.append(PartitionDemand(need, records, offered, demand, ceiling, is_strict, limit))
    return found


def _records(need: PartitionNeed, within_s: float) -> float:
    return max(need.arrivals, 0.0) + max(need.left - need.alone, 0) / within_s


def _with_keys(
    need: PartitionNeed, offered: float, keys: Iterable[KeyWork]
) -> tuple[float, float, str]:
    """Demand and ceiling if a key has one worker at most, and in words which key limits them.

    Two cases differ. A key that has a stream of its own holds up nobody: the others keep their
    demand. But where a member is at the wall, all go at the pace of the heaviest key.
    """
    keys = sorted(keys, key=lambda it: -it.share)
    if not keys:
        return offered, inf, ""
    # What the parts of all keys exceed the whole by was counted twice, while a key moved.
    scale = min(1.0, 1.0 / sum(key.share for key in keys))
    heaviest = keys[0]
    at_its_pace = 1.0 / heaviest.share
    if need.is_walled:
        demand, ceiling = min(offered, at_its_pace), at_its_pace
    else:
        over = sum(max(key.share * scale * offered - 1.0, 0.0) for key in keys)
        demand = offered - over
        ceiling = max(demand, at_its_pace)
    words = f"{heaviest.words} is {heaviest.percent} of the work of {need.tp}"
    return demand, ceiling, words if demand < offered else ""


def _costs(
    needs: Iterable[PartitionNeed],
    weights: Mapping[TopicPartition, int],
    handler_us: float,
    within_s: float,
) -> dict[TopicPartition, float]:
    """What an offset of each partition costs, in microseconds; none: the mean.

    The level is the mean handler time, which does not depend on who holds what. The weights tell
    how partitions differ. Members report at different moments. So for a while after a rebalance
    weights are counted twice, or not at all, but much alike for all partitions.
    """
    known = [need for need in needs if need.tp in weights]
    volumes = {need.tp: max(need.arrivals, 0.0) for need in known}
    if not any(volumes.values()):
        volumes = {need.tp: _records(need, within_s) for need in known}
    total = sum(volumes.values())
    level = sum(weights[tp] * volume for tp, volume in volumes.items())
    if total <= 0 or level <= 0:
        return {}
    return {need.tp: handler_us * weights[need.tp] * total / level for need in known}
