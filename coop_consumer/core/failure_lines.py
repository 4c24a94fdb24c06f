"""Lines about failed records: the first ones are reported, of many more only how many. Pure.

In: lines about single records, and time. Out: reports. An outage fails thousands of records, and
each of them many times. `status` lists them, so the log shows the first ones only. Of the records
that fail alike few get a traceback. If the first attempt of a record gets one, so does its last. A
dead-letter topic that refuses records refuses many, again and again: that is one line in 10 s.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coop_consumer.core.actions import Level, LogLine
from coop_consumer.core.record import facts_of, where_of
from coop_consumer.errors import reason_of
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted

if TYPE_CHECKING:
    from coop_consumer.core.failure import Failure
    from coop_consumer.core.record import Record
    from coop_consumer.core.state import MemberState
    from coop_consumer.errors import CoopConsumerError

_LINES_MAX, _LINE_MS = 20, 2_000
"""So many lines in a row, and one more each time that this has passed."""
_TRACES_MAX, _TRACE_MS = 2, 10_000
"""Of so many records the same traceback is shown within this time."""
_PLACES_MAX = 100
_REFUSED_MS = 10_000
"""So often it is said that a dead-letter topic refuses records."""


class FailureLines:
    """Reports failures of records, not too many.

    Args:
        state: The member.
    """

    def __init__(self, state: MemberState) -> None:
        self._state = state
        self._room = float(_LINES_MAX)
        self._counted_ms = 0
        self._left_out = 0
        self._last: LogLine | None = None
        self._shown: dict[Hashable, tuple[int, set[Hashable]]] = {}

    def report(self, line: LogLine) -> None:
        """Report something about a record, with the traceback of a failure; or count it.

        Args:
            line: Of one record. Its failure: why the record failed, if its traceback is wanted.
        """
        self._refill()
        if self._room < 1:
            self._left_out += 1
            loudest = line.level if self._last is None else max(line.level, self._last.level)
            self._last = line._replace(level=loudest, failure=None)
            return
        self._room -= 1
        shows = line.failure is not None and self._shows(line, line.failure)
        text, failure = f"{line.text}{self._rest()}", line.failure if shows else None
        self._state.actions.append(line._replace(text=text, failure=failure))

    def next_due_ms(self) -> int | None:
        """When to report how many were left out; None: none were."""
        if not self._left_out:
            return None
        return self._counted_ms + round(max(0.0, 1 - self._room) * _LINE_MS) + 1

    def report_due(self) -> None:
        """Report how many were left out, if it is time."""
        if self._last is not None:
            self._refill()
            if self._room >= 1:
                self._room -= 1
                line, count = self._last, self._left_out
                more = (
                    f"{counted(count - 1, 'more like it was', 'more like it were')} left out; "
                    if count > 1
                    else ""
                )
                self._forget()
                text = f"{line.text} ({more}{self._list()} lists them)"
                self._state.actions.append(line._replace(text=text))

    def _rest(self) -> str:
        if not self._left_out:
            return ""
        one, more = "line about other failures was", "lines about other failures were"
        told = counted(self._left_out, one, more)
        self._forget()
        return f" ({told} left out; {self._list()} lists them)"

    def _forget(self) -> None:
        self._left_out, self._last = 0, None

    def _list(self) -> str:
        return self._state.config.command("status", self._state.group)

    def _refill(self) -> None:
        now_ms = self._state.now_ms
        self._room = min(_LINES_MAX, self._room + (now_ms - self._counted_ms) / _LINE_MS)
        self._counted_ms = now_ms

    def _shows(self, line: LogLine, failure: Failure) -> bool:
        """Whether the traceback is shown: not yet for too many other records of late."""
        now_ms, record = self._state.now_ms, (line.facts["tp"], line.facts["offset"])
        places = tuple(raised.places for raised in failure.chain)
        since_ms, records = self._shown.get(places, (now_ms, set()))
        if now_ms - since_ms >= _TRACE_MS:
            since_ms, records = now_ms, set()
        if record not in records and len(records) >= _TRACES_MAX:
            return False
        if len(self._shown) >= _PLACES_MAX:
            self._shown.clear()
        records.add(record)
        self._shown[places] = since_ms, records
        return True


@dataclass(slots=True)
class _Refused:
    """What was refused alike since it was last said.

    Attributes:
        due_ms: When it is said next.
        first: The place of the first one, and why.
        records: All of them.
    """

    due_ms: int
    first: str = ""
    records: set[Hashable] = field(default_factory=set)


class RefusedLines:
    """Reports what dead-letter topics refuse: a line in 10 s for a source topic and kind of error.

    Args:
        state: The member.
    """

    def __init__(self, state: MemberState) -> None:
        self._state = state
        self._refused: dict[tuple[str, type], _Refused] = {}

    def refused(self, record: Record, error: CoopConsumerError) -> None:
        """A dead letter of a record was refused: the first one is reported, more are counted."""
        tp, keys = record.tenure.tp, self._state.config.log_keys
        where = where_of(record, keys)
        kind, now_ms = (tp.topic, type(error)), self._state.now_ms
        reason = reason_of(error)
        known = self._refused.get(kind)
        if known is None:
            self._refused[kind] = _Refused(now_ms + _REFUSED_MS)
            again_ms = self._state.config.attempt_backoff_max_ms
            text = (
                f"{where}: the dead-letter topic refused it ({reason}); its key waits, again in "
                f"{again_ms} ms. `{self._check(tp.topic)}` says what the dead-letter topic lacks"
            )
            facts = facts_of(record, keys)
            facts["error"] = error
            self._state.report(Level.ERROR, LogEvent.DEAD_LETTER_REFUSED, text, **facts)
            return
        known.first = known.first or f"{where} ({reason})"
        known.records.add((tp, record._offset))

    def _check(self, topic: str) -> str:
        state = self._state
        return state.config.command("doctor", "--group", state.group, "--topics", topic)

    def next_due_ms(self) -> int | None:
        """When to report how many were refused; None: none were."""
        if not self._refused:
            return None
        return min(it.due_ms for it in self._refused.values())

    def report_due(self) -> None:
        """Report what has been refused meanwhile, if it is time."""
        if not self._refused:
            return
        now_ms = self._state.now_ms
        for (topic, kind), known in list(self._refused.items()):
            if known.due_ms > now_ms:
                continue
            if not known.records:
                del self._refused[topic, kind]
                continue
            self._refused[topic, kind] = _Refused(now_ms + _REFUSED_MS)
            count = len(known.records)
            again_ms = self._state.config.attempt_backoff_max_ms
            self._state.report(
                Level.ERROR,
                LogEvent.DEAD_LETTER_REFUSED,
                f"{topic}: the dead-letter topic refused records of {counted(count, 'key')} in the "
                f"last {_REFUSED_MS // 1_000} s, the first at {known.first}; each of these keys "
                f"waits, and is tried again {again_ms} ms later. `{self._check(topic)}` says what "
                "the dead-letter topic lacks",
                topic=topic,
                error=kind.__qualname__,
            )
