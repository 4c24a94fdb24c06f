"""A place in a topic as people write it: an end, an offset, or a time. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from coop_consumer.config.setting import NUMBER_MAX, shown
from coop_consumer.errors import ConfigError

_NUMBER_DIGITS = 19
"""The digits of the largest number that Kafka has, `NUMBER_MAX`."""
_TIMESTAMP_DIGITS = 13
"""Numbers with at least so many digits are Unix times in ms (13 since 2001); others are offsets."""


@dataclass(frozen=True, slots=True)
class Target:
    """An end, the committed offset, an offset, the first record of a time.

    Attributes:
        kind: The kind of target.
        value: The offset, or the Unix time in ms; 0 for the others.
    """

    kind: Literal["earliest", "latest", "committed", "offset", "time"]
    value: int = 0

    @classmethod
    def parse(cls, text: str, option: str = "--to", *, committed: bool = True) -> Target:
        """Read `earliest`, `latest`, `committed`, an offset, or a time (ISO 8601, or Unix ms).

        Args:
            text: What was typed.
            option: Where it was typed, for the error.
            committed: Whether the place can be that of a group.

        Raises:
            ConfigError: The text is none of these.

        >>> Target.parse("42"), Target.parse("2013-01-01T00:00:00Z").value
        (Target(kind='offset', value=42), 1356998400000)
        """
        match text:
            case "earliest" | "latest":
                return cls(text)
            case "committed" if committed:
                return cls(text)
            case _:
                pass
        if text.isascii() and text.isdecimal() and len(text) <= _NUMBER_DIGITS:
            value = int(text)
            if value <= NUMBER_MAX:
                return cls("time" if len(text) >= _TIMESTAMP_DIGITS else "offset", value)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            ends = "earliest, latest, committed" if committed else "earliest, latest"
            raise ConfigError(
                option,
                f"={shown(text)} is neither an end, nor an offset, nor a time",
                f"Give {ends}, an offset, an ISO 8601 time, or Unix milliseconds",
            ) from error
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return cls("time", int(moment.timestamp() * 1_000))
