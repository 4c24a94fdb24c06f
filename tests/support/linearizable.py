"""Whether a history of registers is linearizable: the search of Wing and Gong, with Lowe's memory.

In: calls of clients with the times when they began and ended, by one clock. Out: None, or the calls
of a register for which no order explains what everybody has seen. An order explains it if each call
takes effect at one moment between its begin and its end. A call without an end may have taken
effect at any later moment, or never.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

Value = str | None


class Kind(Enum):
    """What was asked. SWAP: a put, if the register has the expected value."""

    GET = "get"
    PUT = "put"
    SWAP = "cas"


class Call(NamedTuple):
    """One call of a client.

    Attributes:
        key: The register.
        kind: What was asked.
        value: What a get has returned, or what was to be written.
        expected: Of a SWAP.
        is_done: Of a SWAP: whether it was written.
        began: When it began.
        ended: When it was answered; None: it was not.
    """

    key: str
    kind: Kind
    value: Value
    expected: Value = None
    is_done: bool = True
    began: int = 0
    ended: int | None = None


_NEVER = 1 << 63


def unexplained(history: Iterable[Call]) -> Sequence[Call] | None:
    """The calls of the first register that no order explains; None: all are explained."""
    by_key: dict[str, list[Call]] = defaultdict(list)
    for call in history:
        if call.kind is not Kind.GET or call.ended is not None:  # else nobody has seen anything
            by_key[call.key].append(call)
    for _, calls in sorted(by_key.items()):
        calls.sort(key=lambda it: it.began)
        if not _is_explained(calls):
            return calls
    return None


class _At(NamedTuple):
    """How far an order has got: the first call that is not in it, those behind that are in it (by
    bits), and the register's value."""

    first: int
    taken: int
    value: Value

    def with_call(self, i: int, value: Value) -> _At:
        """One call more."""
        first, taken = self.first, self.taken | 1 << (i - self.first)
        while taken & 1:
            first, taken = first + 1, taken >> 1
        return _At(first, taken, value)


def _is_explained(calls: Sequence[Call]) -> bool:
    """Search an order of one register's calls; depth first, no state twice."""
    answered = [it.ended is not None for it in calls]
    left_from = max((i + 1 for i, it in enumerate(answered) if it), default=0)
    waiting = [_At(0, 0, None)]
    seen = {*waiting}
    while waiting:
        at = waiting.pop()
        if all(
            at.taken >> (i - at.first) & 1 or not answered[i] for i in range(at.first, left_from)
        ):
            return True
        found = [(end, it) for end, it in _next_of(calls, at) if it not in seen]
        seen.update(it for _, it in found)
        # The one that has ended first is tried first, one without an end last.
        waiting += [it for _, it in sorted(found, key=lambda pair: pair[0], reverse=True)]
    return False


def _next_of(calls: Sequence[Call], at: _At) -> Iterator[tuple[int, _At]]:
    """What may be next in the order, with the end of the call."""
    end_min = _NEVER
    for i in range(at.first, len(calls)):
        call = calls[i]
        if call.began > end_min:
            return  # another call had ended before this one began
        if not at.taken >> (i - at.first) & 1:
            end = _NEVER if call.ended is None else call.ended
            end_min = min(end_min, end)
            for value in _after(call, at.value):
                yield end, at.with_call(i, value)


def _after(call: Call, value: Value) -> tuple[Value, ...]:
    """The register's value behind a call that finds this one; none, if that cannot be."""
    match call.kind:
        case Kind.GET:
            return (value,) if call.value == value else ()
        case Kind.PUT:
            return (call.value,)
        case Kind.SWAP:
            is_done = call.expected == value
            if call.ended is not None and is_done != call.is_done:
                return ()
            return (call.value if is_done else value,)


def calls_of(lines: Iterable[str]) -> list[Call]:
    """The history that `examples/kv_store.py` has written."""
    found = []
    for line in lines:
        _, key, kind, *given, result, began, ended = json.loads(line)
        if kind == Kind.GET.value:
            found.append(Call(key, Kind.GET, result, None, True, began, ended))
        else:
            expected = given[1] if len(given) > 1 else None
            found.append(Call(key, Kind(kind), given[0], expected, bool(result), began, ended))
    return found
