"""Tracebacks of failed records, as lines for a log.

In: what a handler raised, as `Failure` keeps it. Out: text of at most so many lines. Source lines
are read from their files, which only happens for what is shown.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from typing import TYPE_CHECKING

from coop_consumer.plain_text import counted, printable, shortened

if TYPE_CHECKING:
    from coop_consumer.core.failure import Failure, Raised

_LINE_CHARS = 200


def traceback_of(failure: Failure, lines_max: int) -> str:
    """The traceback of a failure, as Python shows it; "" if there is none, or none is wanted.

    Of more lines than `lines_max` the middle is left out: the end names the error, the beginning
    its first cause.
    """
    if not lines_max or not failure.has_places:
        return ""
    lines = [line for raised in failure.chain for line in _lines(raised)]
    if len(lines) > lines_max:
        head = (lines_max - 1) // 3
        tail = lines_max - 1 - head
        left_out = len(lines) - head - tail
        told = f"  ... {counted(left_out, 'line')} left out (failure.traceback.lines={lines_max})"
        lines = [*lines[:head], told, *lines[len(lines) - tail :]]
    return "\n".join(shortened(line, _LINE_CHARS) for line in lines)


def _lines(raised: Raised) -> Iterator[str]:
    if raised.places:
        yield "Traceback (most recent call last):"
    if raised.left_out:
        yield f"  ... {counted(raised.left_out, 'outer call')} left out"
    for place in raised.places:
        yield printable(f'  File "{place.file}", line {place.line}, in {place.function}')
        source = linecache.getline(place.file, place.line).strip()
        if source:
            yield f"    {printable(source.expandtabs())}"
    yield from raised.message
    if raised.link:
        yield raised.link
