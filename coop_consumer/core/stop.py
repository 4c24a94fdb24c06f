"""A stop of the group, as members tell each other in their user data. Pure.

In: a record that failed for good under `on.failure=stop`; texts of others (hostile). Out: the text
for JoinGroup, and whether a stop is meant for a run that began in some generation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the group stops.

    Args:
        reason: The handler's error.
        member: Who declared the stop.
        generation: The newest that it had seen. The seat of a stopped static member keeps telling
            of the stop until its session ends; a run that joined later, with the handler mended, is
            not meant.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    member: str
    generation: int

    def text(self) -> str:
        """For the user data."""
        return json.dumps(astuple(self))

    def is_meant_for(self, first_generation: int) -> bool:
        """Whether a run has to stop whose first assignment was of this generation."""
        return first_generation <= self.generation


def newest_stop(texts: Iterable[str]) -> Stop | None:
    """The stop that was declared last; what cannot be read counts as none.

    >>> newest_stop(['["t", 0, 7, "no", "m1", 3]', "", '["t", 0, 5, "no", "m2", 4]']).member
    'm2'
    >>> newest_stop(["{", "[]", '["t", 0, 7, "no", "m1", "3"]'])
    """
    stops = [stop for stop in map(_read, filter(None, texts)) if stop is not None]
    return max(stops, key=lambda stop: (stop.generation, stop.text()), default=None)


def _read(text: str) -> Stop | None:
    try:
        match json.loads(text):
            case [str(topic), int(partition), int(offset), str(reason), str(member), int(number)]:
                return Stop(topic, partition, offset, reason, member, number)
            case _:
                return None
    except ValueError:
        return None
