"""The demo's computation: the chain of an aircraft's legs. Pure; no Kafka, no clock.

In: a flight, and the aircraft's previous leg. Out: this leg, which is both the result and the state
for the next leg. A leg names its record, so a record that repeats after a crash is recognised.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from coop_consumer.demo.flights import Flight

LATE_MIN = 15
"""A flight is late from so many minutes on, as the airlines' statistics have it."""

INHERITS_WITHIN_MIN = 24 * 60
"""A delay from longer ago than a day is not what made this flight late."""


@dataclass(frozen=True, slots=True)
class Leg:
    """One flight of an aircraft, seen together with the one before it.

    Attributes:
        partition: The partition of the flight's record.
        offset: Its offset there.
        row: The flight's place in time order.
        previous: The row of the aircraft's previous leg; None for its first.
        turnaround_min: Minutes from the previous leg's landing to this take-off; None if one of the
            two is not known. It contains the way back: the data has only departures from New York.
        inherited: Late now, and the previous leg landed late within the day before.
        landed: When it landed, in minutes since 1970: the take-off and the time in the air, as the
            data has no arrival in UTC. None for a flight that was cancelled or diverted.
        late: Whether it arrived late.
    """

    partition: int
    offset: int
    row: int
    previous: int | None
    turnaround_min: int | None
    inherited: bool
    landed: int | None
    late: bool

    def encode(self) -> bytes:
        """As JSON; about 5 us."""
        return json.dumps(
            {
                "partition": self.partition,
                "offset": self.offset,
                "row": self.row,
                "previous": self.previous,
                "turnaround_min": self.turnaround_min,
                "inherited": self.inherited,
                "landed": self.landed,
                "late": self.late,
            }
        ).encode()

    @classmethod
    def decode(cls, value: bytes) -> Leg:
        """The inverse of `encode`. Raises ValueError or TypeError for other bytes."""
        return cls(**json.loads(value))

    def key(self, tail: bytes | None) -> bytes:
        """The key of its record: the aircraft, or the flight itself if nobody knows the aircraft.

        >>> leg = Leg(2, 17, 0, None, None, False, None, False)
        >>> leg.key(b"N14228"), leg.key(None)
        (b'N14228', b'flight 2@17')
        """
        return b"flight %d@%d" % (self.partition, self.offset) if tail is None else tail

    def facts(self) -> tuple[object, ...]:
        """Everything but where the record lies, to compare with."""
        return (
            self.row,
            self.previous,
            self.turnaround_min,
            self.inherited,
            self.landed,
            self.late,
        )


def next_leg(previous: Leg | None, value: bytes, partition: int, offset: int) -> Leg:
    """The leg that a flight's record makes after `previous`; about 5 us."""
    flight = json.loads(value)
    delay, air_time = flight["dep_delay"], flight["air_time"]
    left = None if delay is None else flight["scheduled"] + delay
    turnaround_min = None
    if previous is not None and previous.landed is not None and left is not None:
        turnaround_min = left - previous.landed
    return Leg(
        partition=partition,
        offset=offset,
        row=flight["row"],
        previous=None if previous is None else previous.row,
        turnaround_min=turnaround_min,
        inherited=(
            previous is not None
            and previous.late
            and delay is not None
            and delay >= LATE_MIN
            and turnaround_min is not None
            and turnaround_min <= INHERITS_WITHIN_MIN
        ),
        landed=None if left is None or air_time is None else left + air_time,
        late=(flight["arr_delay"] or 0) >= LATE_MIN,
    )


def legs_in_one_thread(flights: Iterable[Flight]) -> list[Leg]:
    """Every flight's leg by row, computed one after the other: the expected result.

    Partition and offset are -1, because this computation has no records.
    """
    last: dict[bytes, Leg] = {}
    legs = []
    for flight in flights:
        previous = None if flight.tail is None else last.get(flight.tail)
        leg = next_leg(previous, flight.value, -1, -1)
        if flight.tail is not None:
            last[flight.tail] = leg
        legs.append(leg)
    return legs
