"""What an executor is given to work with, whatever its style."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coop_consumer.core.lanes import KeyLanes


@dataclass(frozen=True, slots=True)
class Workplace:
    """A member's lanes, and how to reach the member.

    Attributes:
        lanes: The lanes. Their lock must be `condition`.
        condition: Guards the lanes; idle threads wait on it.
        workers: How many records, or batches, are processed at a time.
        wake: Called without the lock when the member should take in what has ended.
        wake_after: So many finished records are worth a wake-up.
        name: Names threads.
    """

    lanes: KeyLanes
    condition: threading.Condition
    workers: int
    wake: Callable[[], None]
    wake_after: int
    name: str
