"""The pulse of a member: what its threads note of themselves, for whoever asks how it is.

In: steps of the member's thread, one plain write each. Out: a `Health`, made on the thread that
asks. It waits for no thread: a member that stands still must be seen to do so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from coop_consumer.errors import ProcessingStoppedError
from coop_consumer.ops.health import Health, HealthPhase, WaitingFor

if TYPE_CHECKING:
    from concurrent.futures import Future

    from coop_consumer.core.condition import Condition
    from coop_consumer.errors import CoopConsumerError

_LOOK_S = 0.5


@dataclass(slots=True, eq=False, kw_only=True)
class Pulse:
    """What one run of a member notes.

    Args:
        group: The group's id.
        member: The member's name.
        thread: The name of the member's thread.
        ended: Done when the run has ended.

    Attributes:
        stepped_s: When the member's thread took a step last (monotonic); 0: it has not begun.
        silent_since_s: Since when no broker has answered, once that is an outage; None: none is.
        others: When other threads took a step last, by their names; infinite: they rest.
        is_ending: The member's thread closes everything, and takes no further step.
    """

    group: str
    member: str
    thread: str
    ended: Future[CoopConsumerError | None]
    stepped_s: float = 0.0
    silent_since_s: float | None = None
    is_ending: bool = False
    others: list[Callable[[], Mapping[str, float]]] = field(default_factory=list)
    _condition: Condition | None = None
    _look_s: float = 0.0

    def step(self, now_s: float, look: Callable[[], Condition]) -> None:
        """Note a step of the member's thread, and from time to time what the member is at."""
        self.stepped_s = now_s
        if now_s >= self._look_s:
            self._look_s = now_s + _LOOK_S
            self._condition = look()

    def health(self, now_ms: int) -> Health:
        """How the run is. Any thread; never blocks.

        Args:
            now_ms: By the member's clock.
        """
        if self.ended.done():
            return Health(self.group, self.member, HealthPhase.RUNNING)  # another run follows
        now_s = monotonic()
        found, since_s = self._condition, self.silent_since_s
        if found is None:
            return Health(self.group, self.member, HealthPhase.STARTING, idle_s=self._idle_s(now_s))
        return Health(
            self.group,
            self.member,
            HealthPhase.RUNNING,
            idle_s=self._idle_s(now_s),
            is_member=found.is_member,
            is_draining=found.is_closing or self.is_ending,
            partitions=found.partitions,
            waits=tuple(
                WaitingFor(str(it.tp), max(0, now_ms - it.since_ms) / 1_000, it.why, it.members)
                for it in found.waits
            ),
            silent_s=None if since_s is None else now_s - since_s,
            circuit_open_s=(
                max(0, now_ms - found.circuit_since_ms) / 1_000 if found.circuit_since_ms else None
            ),
            stopped_at=(
                f"{found.stop.topic}-{found.stop.partition}@{found.stop.offset}"
                if found.stop
                else ""
            ),
        )

    def _idle_s(self, now_s: float) -> dict[str, float]:
        """For how long each thread has taken no step; those that rest are left out."""
        if self.is_ending or not self.stepped_s:
            return {}  # clients that are closed may hang, and nobody waits for them for long
        last = {self.thread: self.stepped_s}
        for others in self.others:
            last |= others()
        return {name: max(0.0, now_s - at_s) for name, at_s in last.items() if at_s != inf}


def ended_health(group: str, member: str, ended: Future[CoopConsumerError | None]) -> Health:
    """How a member is that has ended, and will not begin again; `ended` is done."""
    stopped_at, error = "", ended.exception() or ended.result()
    if isinstance(error, ProcessingStoppedError):
        stopped_at = f"{error.topic}-{error.partition}@{error.offset}"
    told = "" if error is None else f"{type(error).__name__}: {error}"
    return Health(group, member, HealthPhase.ENDED, stopped_at=stopped_at, error=told)
