"""Streams and reads that stand still though the broker has more: their client is replaced. Pure.

In: how far streams and log reads are, time, and the ends that the broker tells another client. Out:
the question for these ends, and the order to replace a Consumer that does not notice them. If a
transaction that nobody has decided is why, a line says so instead. After a broker's outage a
Consumer of librdkafka may hand out nothing any more, without an error (measured). If a Consumer is
only slow, replacing it loses nothing: a stream begins anew where its last one ended, and the log is
read again from its beginning. Upholds I10.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coop_consumer.core.actions import (
    APART,
    CATCH_UP,
    MAIN,
    AskEnds,
    Level,
    RenewFetch,
    RenewLogReader,
)
from coop_consumer.log_events import LogEvent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from assignors import TopicPartition
    from coop_consumer.core.events import EndsTold
    from coop_consumer.core.log_reading import LogReading
    from coop_consumer.core.pressure import Pressure
    from coop_consumer.core.state import LogView, MemberState, Partition, Stream
    from coop_consumer.core.streams import Streams

SILENT_MS = 15_000
"""So long may nothing come before the broker is asked, and so long again after its answer."""
_UNDECIDED_MS = 60_000
_AGAIN_MS = 600_000
_KINDS = {MAIN: "main", CATCH_UP: "catch-up"}


@dataclass(slots=True, eq=False)
class Standstill:
    """Watches what should move."""

    state: MemberState
    streams: Streams
    reading: LogReading
    pressure: Pressure
    _due_ms: int = 0
    _report_at_ms: int = 0
    # where it is, and since when
    _moved: dict[Stream | LogView, tuple[int, int]] = field(default_factory=dict)
    # where it was when it lay behind an end
    _behind: dict[Stream | LogView, int] = field(default_factory=dict)

    def look_due(self) -> None:
        """Ask for the ends of what has not moved for long, if it is time."""
        state = self.state
        if state.now_ms < self._due_ms:
            return
        self._due_ms = state.now_ms + SILENT_MS
        moved, self._moved = self._moved, {}
        for thing, at in self._positions():
            known = moved.get(thing)
            is_still = known is not None and known[0] == at
            self._moved[thing] = known if known is not None and is_still else (at, state.now_ms)
        silent = {t for t, (_, since) in self._moved.items() if state.now_ms - since >= SILENT_MS}
        self._behind = {thing: at for thing, at in self._behind.items() if thing in silent}
        for view in state.views.values():
            if view.following and view.current:  # perhaps nothing comes, perhaps its reader is dead
                self.reading.read(view)
        partitions = [p.tp for p, stream in self._fetched() if stream in silent]
        views = [view.log_partition for view in state.views.values() if view in silent]
        if partitions or views:
            state.actions.append(AskEnds(partitions, views))

    def _fetched(self) -> Iterator[tuple[Partition, Stream]]:
        for partition in self.state.partitions.values():
            for stream in partition.streams.values():
                yield partition, stream

    def _positions(self) -> Iterator[tuple[Stream | LogView, int]]:
        for _, stream in self._fetched():
            is_held = stream.is_held if stream.consumer >= APART else self.pressure.holding
            if not is_held:
                yield stream, stream.next_offset
        for view in self.state.views.values():
            if view.asked != view.complete:
                yield view, view.complete

    def fetch_blocked(self, waits: Mapping[TopicPartition, int]) -> None:
        """Note which partitions stand at an undecided transaction; report one that lasts."""
        state = self.state
        waited_ms, tp = max(((ms, tp) for tp, ms in waits.items()), default=(0, None))
        state.counters.input_undecided_since_ms = 0 if tp is None else state.now_ms - waited_ms
        if tp is None or waited_ms < _UNDECIDED_MS or state.now_ms < self._report_at_ms:
            return
        self._report_at_ms = state.now_ms + _AGAIN_MS
        state.report(
            Level.WARNING,
            LogEvent.FETCH_UNDECIDED,
            f"{tp}: no record can be read for {waited_ms // 1_000} s, as a producer has not "
            "decided its transaction there. Nothing is lost. "
            f"`{state.config.command('status', state.group)}` says whose transaction it is, and "
            "what ends it.",
            tp=tp,
        )

    def read_blocked(self, log_partition: int) -> None:
        """Note that the log's reader lives: it says again and again what its read waits for.

        A new client would wait as well, and count its wait from the beginning.
        """
        view = self.state.views.get(log_partition)
        if view is not None:
            self._moved.pop(view, None)
            self._behind.pop(view, None)

    def ends_told(self, event: EndsTold) -> None:
        """Replace the Consumer of whatever lies behind an end for the second time.

        A Consumer that lies at an end may be dead, too, and has not told of it: the broker has.
        """
        for partition, stream in self._fetched():
            is_at_end = event.ends.get(partition.tp) == stream.next_offset
            if stream.consumer == MAIN and is_at_end:
                partition.end_offset = stream.next_offset
        stuck_consumers = {
            stream.consumer
            for partition, stream in self._fetched()
            if self._is_stuck(stream, stream.next_offset, event.ends.get(partition.tp, -1))
        }
        for consumer in sorted(stuck_consumers):
            self._renew_fetch(consumer)
        stuck = [
            view
            for view in self.state.views.values()
            # The broker answers, so the reader should have answered, wherever the end is.
            if view.log_partition in event.log_ends
            and self._is_stuck(view, view.complete, view.asked)
        ]
        if stuck:
            self._renew_reader()

    def _is_stuck(self, thing: Stream | LogView, at: int, end: int) -> bool:
        known = self._moved.get(thing)
        if known is None or known[0] != at or end <= at:
            self._behind.pop(thing, None)
            return False
        if self._behind.get(thing) == at:
            return True
        if self.state.now_ms - known[1] >= SILENT_MS:
            self._behind[thing] = at
        return False

    def _renew_fetch(self, consumer: int) -> None:
        state, kind = self.state, _KINDS.get(consumer, "hot key's")
        state.counters.renewed += 1
        state.report(
            Level.WARNING,
            LogEvent.FETCH_RENEWED,
            f"the {kind} fetch has brought nothing for "
            f"{2 * SILENT_MS // 1_000} s, though the broker has more: it gets a new client and "
            "goes on where it was. Nothing is lost.",
        )
        state.actions.append(RenewFetch(consumer))
        for partition, stream in list(self._fetched()):
            if stream.consumer == consumer:
                self.streams.restart(partition, stream)

    def _renew_reader(self) -> None:
        state = self.state
        state.counters.renewed += 1
        state.report(
            Level.WARNING,
            LogEvent.PROGRESS_LOG_RENEWED,
            f"the progress log was not read for {2 * SILENT_MS // 1_000} s, though the broker "
            "answers: its reader gets a new client and begins again. Nothing is lost.",
        )
        state.actions.append(RenewLogReader())
        for view in state.views.values():
            self._moved.pop(view, None)
            self._behind.pop(view, None)
        self.reading.begin_anew()
