"""The lead's watch over the group's load: asks for a plan by newer loads if it helps. Pure.

In: the loads that members report in the progress log. Out: a `Rejoin`. Only the lead of split
partitions does it: it follows the log. `rebalancing` decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coop_consumer.config import Balance
from coop_consumer.core.rebalancing import MemberReport, Rebalancing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coop_consumer.core.state import MemberState
    from offsets import LoadRecord


def reports_of(records: Mapping[str, LoadRecord]) -> dict[str, MemberReport]:
    """What members report, in common units: at the pace of a partition that most of them see.

    Args:
        records: The newest of each member.
    """
    paces: dict[tuple[bytes, int], list[int]] = {}
    for record in records.values():
        for part in record.partitions:
            paces.setdefault((part.topic_id, part.partition), []).append(part.pace)
    pace_of = {place: sorted(said)[(len(said) - 1) // 2] for place, said in paces.items()}
    reports: dict[str, MemberReport] = {}
    for name, record in records.items():
        load_of = {
            place: part.weight * pace_of[place]
            for part in record.partitions
            for place in ((part.topic_id, part.partition),)
        }
        heavy = tuple(
            load_of.get((it.topic_id, it.partition), 0) * it.share // 1_000 for it in record.heavy
        )
        capacity = max(1, record.capacity or record.workers)
        reports[name] = MemberReport(capacity, record.busy, sum(load_of.values()), heavy)
    return reports


@dataclass(slots=True, eq=False)
class LoadWatch:
    """Watches while this member leads."""

    state: MemberState
    _rebalancing: Rebalancing = field(default_factory=Rebalancing)
    _leads: bool = False

    def assigned(self, *, leads: bool) -> None:
        """A plan has come.

        Args:
            leads: Whether this member leads partitions that are split: others cannot be cut.
        """
        self._leads = leads
        self._rebalancing.assigned(self.state.now_ms)

    def look_due(self) -> None:
        """Ask for a plan if it is time, and worth it."""
        state = self.state
        membership = state.membership
        is_ours = self._leads and membership.is_stable and not membership.alone
        if not (is_ours and state.config.balance is Balance.LOAD):
            return
        if self._rebalancing.is_due(state.now_ms):
            why = self._rebalancing.why(reports_of(dict(self._records())), state.now_ms)
            if why:
                state.rejoin(f"the load is uneven: {why}")

    def _records(self) -> Iterable[tuple[str, LoadRecord]]:
        """The newest record of each live member. Members of plans before may have left theirs."""
        live = set(self.state.membership.live)
        newest: dict[str, LoadRecord] = {}
        for view in self.state.views.values():
            for name, (_, record) in view.store.loads.items():
                if name in live and (name not in newest or newest[name].at_ms < record.at_ms):
                    newest[name] = record
        return newest.items()
