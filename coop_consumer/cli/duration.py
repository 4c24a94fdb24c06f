"""A length of time as people type it: `30d`, `12h`, `5m`, `90s`, or a number of seconds. Pure."""

from __future__ import annotations

import re
from math import nan

import click

from coop_consumer.config.setting import shown

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,6})([smhd])")


class DurationType(click.ParamType[int]):
    """A length of time, in milliseconds."""

    name = "duration"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Read a number and its unit."""
        if isinstance(value, int):
            return value
        found = _DURATION.fullmatch(value)
        if found is None:
            self.fail(
                f"{shown(value)} is no length of time; write a number with s, m, h or d, as in 30d",
                param,
                ctx,
            )
        return int(found[1]) * _UNITS_MS[found[2]]


DURATION = DurationType()

SECONDS_MAX = 86_400
"""The longest wait between two looks: no clock can wait as long as a float may say."""


class SecondsType(click.ParamType[float]):
    """A number of seconds to wait, not above a day.

    Args:
        least: The shortest wait.
    """

    name = "seconds"

    def __init__(self, least: float) -> None:
        self._least = least

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read a number; what is none, or beyond the bounds, is refused."""
        try:
            seconds = float(value)
        except ValueError:
            seconds = nan
        if not self._least <= seconds <= SECONDS_MAX:  # so nan is refused, too
            bounds = f"{self._least:g} to {SECONDS_MAX} (seconds)"
            self.fail(f"{shown(str(value))} is no time to wait; write {bounds}", param, ctx)
        return seconds


def ago(ms: int) -> str:
    """How long ago something was, by its largest unit.

    >>> ago(90_000), ago(3 * 86_400_000), ago(0)
    ('1 m', '3 d', '0 s')
    """
    unit, size = max(
        ((unit, size) for unit, size in _UNITS_MS.items() if size <= ms or unit == "s"),
        key=lambda it: it[1],
    )
    return f"{max(ms, 0) // size} {unit}"
