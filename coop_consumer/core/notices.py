"""Notices: the user is notified of ranges that come and go, and says when it is ready. Pure.

In: ranges that begin, hashes that are freed later, ranges that are given up. Out:
`RangesAssigned`, `RangesRevoked`, `RangesLost`. Records of a range come only after the user's code
has loaded what they need. What it loads is final only where no handler runs any more. So the user
is notified of blocked hashes once they are free.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coop_consumer.core.actions import RangesAssigned, RangesLost, RangesRevoked
from coop_consumer.core.hashes import singles, without

if TYPE_CHECKING:
    from assignors import KeyRange
    from coop_consumer.core.outbox import Outbox
    from coop_consumer.core.state import MemberState
    from coop_consumer.core.tenure import Tenure


@dataclass(slots=True, eq=False)
class Notices:
    """Notifies the user's code of ranges."""

    state: MemberState
    outbox: Outbox
    # no hashes: all of its ranges
    _loading: dict[int, tuple[Tenure, set[int]]] = field(default_factory=dict)

    def begun(self, tenure: Tenure) -> None:
        """A tenure has begun; hashes that are blocked now are notified by `freed`."""
        unnotified = tenure.blocked.unnotified = set(tenure.blocked.hashes)
        self._assigned(tenure, without(tenure.ranges, unnotified), set())

    def freed(self, tenure: Tenure, hashes: set[int]) -> set[int]:
        """Hashes are free; returns those whose user has to be notified first, which happens."""
        unnotified = hashes & tenure.blocked.unnotified
        if unnotified:
            tenure.blocked.unnotified -= unnotified
            self._assigned(tenure, singles(unnotified), unnotified)
        return unnotified

    def _assigned(self, tenure: Tenure, ranges: tuple[KeyRange, ...], hashes: set[int]) -> None:
        state = self.state
        token = state.token()
        were_ours = state.partition(tenure.tp).had_before(tenure, ranges)
        after = self.outbox.take_results() if were_ours else None
        state.actions.append(RangesAssigned(tenure.tp, ranges, token, after))
        self._loading[token] = tenure, hashes

    def given_up(self, tenure: Tenure, ranges: tuple[KeyRange, ...], *, lost: bool) -> None:
        """A tenure has given up ranges, of which the user knows some."""
        blocked = tenure.blocked
        notified = without(ranges, blocked.unnotified)
        if tenure.begun and notified:
            kind = RangesLost if lost else RangesRevoked
            self.state.actions.append(kind(tenure.tp, notified))
        blocked.unnotified = {h for h in blocked.unnotified if any(h in r for r in tenure.ranges)}

    def ready(self, token: int) -> tuple[Tenure, set[int]]:
        """The user's code is ready; returns for which freed hashes, or none: for its ranges."""
        return self._loading.pop(token)

    def is_loading(self, tenure: Tenure) -> bool:
        """Whether the user's code has not yet said that it is ready for a tenure's ranges."""
        return any(it is tenure and not hashes for it, hashes in self._loading.values())

    def loading_hashes(self, tenure: Tenure) -> set[int]:
        """Freed hashes for which it has not said so."""
        return {h for it, hashes in self._loading.values() if it is tenure for h in hashes}
