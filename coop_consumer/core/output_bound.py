"""The bound on outputs: at it nothing is begun until a commit has ended. Pure; upholds I8.

In: how many outputs wait. Out: lanes that are held back, and that go on; a line if that takes long.
While brokers are away no commit ends, and handlers would go on to send.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.core.actions import Level
from coop_consumer.core.ready import Holder
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted

if TYPE_CHECKING:
    from coop_consumer.core.effects import Effects
    from coop_consumer.core.state import MemberState

_RESUME_SHARE = 0.5
_FIRST_MS, _AGAIN_MS = 10_000, 60_000


@dataclass(slots=True, eq=False)
class OutputBound:
    """Holds records back.

    Attributes:
        holds: Whether nothing is begun.
    """

    state: MemberState
    effects: Effects
    holds: bool = False
    _report_at_ms: int = 0

    def look(self) -> None:
        """Hold records back, or let them go on, as outputs are now; and count these."""
        effects, counters = self.effects, self.state.counters
        counters.outputs_waiting = effects.outputs
        counters.output_bytes_waiting = effects.output_bytes
        if effects.fills(_RESUME_SHARE if self.holds else 1.0) is self.holds:
            if self.holds and self.state.now_ms >= self._report_at_ms:
                self._report()
            return
        self.holds = not self.holds
        self._report_at_ms = self.state.now_ms + _FIRST_MS
        lanes = self.state.lanes
        with self.state.lock:
            if self.holds:
                lanes.hold_back(Holder.OUTPUTS)
            else:
                lanes.queue.let_all_begin(Holder.OUTPUTS)

    def _report(self) -> None:
        effects, config = self.effects, self.state.config
        self._report_at_ms = self.state.now_ms + _AGAIN_MS
        self.state.report(
            Level.WARNING,
            LogEvent.OUTPUTS_WAIT,
            f"no record is begun: {counted(effects.outputs, 'output')} of "
            f"{counted(effects.output_bytes, 'byte')} wait until Kafka has them, and "
            f"output.max.records={config.output_max_records}, "
            f"output.max.bytes={config.output_max_bytes}. Nothing is lost. Look whether the "
            "brokers run, or why a commit takes long",
        )
