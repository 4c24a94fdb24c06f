"""The bound on outputs: at it nothing is begun until a commit has ended. Pure; upholds I8.

In: how many outputs wait. Out: lanes that are held back, and that go on. While brokers are away no
commit ends, and handlers would go on to send.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.core.ready import Holder

if TYPE_CHECKING:
    from coop_consumer.core.effects import Effects
    from coop_consumer.core.state import MemberState

_RESUME_SHARE = 0.5


@dataclass(slots=True, eq=False)
class OutputBound:
    """Holds records back.

    Attributes:
        holds: Whether nothing is begun.
    """

    state: MemberState
    effects: Effects
    holds: bool = False

    def look(self) -> None:
        """Hold records back, or let them go on, as outputs are now."""
        if self.effects.fills(_RESUME_SHARE if self.holds else 1.0) is self.holds:
            return
        self.holds = not self.holds
        lanes = self.state.lanes
        with self.state.lock:
            if self.holds:
                lanes.hold_back(Holder.OUTPUTS)
            else:
                lanes.queue.let_all_begin(Holder.OUTPUTS)
