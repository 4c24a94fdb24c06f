"""What a member keeps over all its runs. No Kafka."""

from __future__ import annotations

import secrets
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coop_consumer.core.counters import Counters
from coop_consumer.core.metrics import MemberMetrics, MemberPhase, metrics_at_rest
from coop_consumer.core.tally import Tally
from coop_consumer.member.breath import Breath

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.config import Config


@dataclass(frozen=True, slots=True)
class Identity:
    """Created once, by a pool or a consumer; each run of its member gets it.

    Attributes:
        name: The member's name in the group.
        condition: Guards the lanes; idle executor threads wait on it.
        counters: What has happened; the member's thread writes them.
        tally: The same by topic, and how long it took; the member's thread writes it.
        paused: What a user has paused; the member's thread writes it.
        breath: How the member's thread lets others run.
    """

    name: str
    condition: threading.Condition = field(default_factory=threading.Condition)
    counters: Counters = field(default_factory=Counters)
    tally: Tally = field(default_factory=Tally)
    paused: set[TopicPartition] = field(default_factory=set)
    breath: Breath = field(default_factory=Breath)

    @classmethod
    def of(cls, config: Config) -> Identity:
        """A new one; a static member's name is configured, another one's is random."""
        return cls(config.group_instance_id or f"{config.client_id}-{secrets.token_hex(6)}")

    def metrics(self, config: Config, phase: MemberPhase, now_ms: int) -> MemberMetrics:
        """What was counted so far; for a moment at which no run is at work, see `Runs`."""
        return metrics_at_rest(
            config.group_id,
            self.name,
            phase,
            self.counters,
            self.tally,
            now_ms=now_ms,
            exactly_once=config.exactly_once,
        )
