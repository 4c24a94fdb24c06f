"""Messages between parent and children of the demo: a task down, reports up. Pure.

In and out: values, and their JSON.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum

from coop_consumer.demo.topics import FlightTopics


class ChildRole(StrEnum):
    """The kind of a child.

    COOPERATIVE: a member of the cooperative group. PLAIN: a member of a plain group. LANES: the one
    process of the hand-written solution.
    """

    COOPERATIVE = "cooperative"
    PLAIN = "plain"
    LANES = "lanes"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTask:
    """The task of a child.

    Attributes:
        role: Its kind.
        bootstrap: The broker.
        group: The group it joins.
        topics: The topics that it reads and writes.
        latency_ms: How long each flight sleeps.
        workers: Of a cooperative member; the others ignore it.
    """

    role: ChildRole
    bootstrap: str
    group: str
    topics: FlightTopics
    latency_ms: float
    workers: int

    def encode(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> MemberTask:
        """The inverse of `encode`."""
        fields = json.loads(text)
        fields["role"] = ChildRole(fields["role"])
        fields["topics"] = FlightTopics(**fields["topics"])
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class ChildReport:
    """How far a child is.

    Attributes:
        handled: Flights processed.
        skipped: Those among them that had been processed before and needed nothing.
        first_s: Unix time at which the first began; 0.0: none has.
        now_s: Unix time of this report.
    """

    handled: int = 0
    skipped: int = 0
    first_s: float = 0.0
    now_s: float = 0.0

    def encode(self) -> str:
        """As JSON, one line."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, line: str) -> ChildReport:
        """The inverse of `encode`."""
        return cls(**json.loads(line))
