"""The brokers of one world: at times none of them answers anything for a while.

In: a seed's number, its world. Out: when that is, and how long a request or an answer takes. What
would arrive meanwhile arrives once it is over: a request that was under way, or an answer to one
that was carried out before. A coordinator that is away evicts nobody, and all sessions begin anew
when it is back. They have a chance of their own: a draw more from the world's would change every
other world.
"""

from __future__ import annotations

from datetime import datetime
from random import Random
from typing import TYPE_CHECKING

from coop_consumer.member.outage import Outage

if TYPE_CHECKING:
    from tests.simulation.scenario import Scenario
    from tests.simulation.scheduler import Scheduler

_EVERY, _AT = 5, 4
"""In one seed of so many brokers are away, by its number: not where topics are made again, nor
beside plain members."""
_LENGTHS_MS, _TAIL_MS = (1_500, 4_000), 50
"""How long they are, and how long it takes until all that has waited has come."""
_CLOSING = (0.3, 0.6, 1.0)
"""How many of the members are asked to end meanwhile."""
_HEARD, _UNDER_WAY = 0.3, 0.5
"""How often the last word of who leaves meanwhile arrives, and what else it has sent."""
SILENT_S = 0.6
"""After so long without an answer a member takes brokers for away: some heartbeats."""


class Brokers:
    """When they answer.

    Attributes:
        away_ms: For how long they do not; 0: they always answer.
        from_ms: Since when.
        until_ms: When they are back.
    """

    def __init__(self, seed: int, drawn: Scenario, scheduler: Scheduler) -> None:
        self._rng, self._scheduler = Random(f"brokers {seed}"), scheduler
        self.away_ms = self.from_ms = self.until_ms = 0
        is_apart = "new topic" in drawn.faults or drawn.upgrade_from != "none"
        if seed % _EVERY == _AT and not is_apart:
            self.away_ms = self._rng.randint(*_LENGTHS_MS)
            third_ms = drawn.trouble_ms // 3
            self.from_ms = self._rng.randint(third_ms, 2 * third_ms)
            self.until_ms = self.from_ms + self.away_ms
        self._closing = self._rng.choice(_CLOSING)

    @property
    def are_away(self) -> bool:
        """Whether none of them answers now."""
        return self.from_ms <= self._scheduler.now_ms < self.until_ms

    def is_quiet(self, ms: int) -> bool:
        """Whether what has waited for them is there, and was so long ago."""
        now_ms = self._scheduler.now_ms
        return not (self.away_ms and self.from_ms <= now_ms < self.until_ms + _TAIL_MS + ms)

    def reach(self, delay_ms: int) -> int:
        """How long something that takes so long takes to a broker, or from one."""
        at_ms = self._scheduler.now_ms + delay_ms
        if not self.from_ms <= at_ms < self.until_ms:
            return delay_ms
        return self.until_ms - self._scheduler.now_ms + self._rng.randint(0, _TAIL_MS)

    def closing_ms(self) -> int | None:
        """When, while they are away, a member is asked to end; None: it is not."""
        if self._rng.random() >= self._closing:
            return None
        return self._rng.randint(0, self.away_ms)

    def hear_the_last_word(self) -> bool:
        """Whether they hear in the end that a member has left meanwhile."""
        return self._rng.random() < _HEARD

    def get_what_is_under_way(self) -> bool:
        """Whether what it had sent before arrives in the end."""
        return self._rng.random() < _UNDER_WAY


def outage_of(heartbeat_ms: int, rebalance_ms: int) -> Outage:
    """What a member notices of them."""
    return Outage(
        lambda *_, **__: None,
        heartbeat_s=heartbeat_ms / 1_000,
        join_s=rebalance_ms / 1_000,
        doctor="",
        clock=lambda: datetime(2026, 1, 1),  # noqa: DTZ001 - for people only
    )
