"""Streams: uninterrupted fetches of a partition, and which tenures each of them feeds. Pure.

In: tenures that begin, shrink or end. Out: streams to start and stop. A range belongs to one
stream, which has to start at or below what the range has seen (I10). A partition has a main stream.
Tenures that are far behind it share a stream that catches up. A tenure of one hot hash has a stream
of its own, so that nobody waits for it. Whoever has caught up joins the main stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coop_consumer.core.actions import (
    APART,
    CATCH_UP,
    MAIN,
    HoldApart,
    StartStream,
    StopStream,
)
from coop_consumer.core.state import RESUME_SHARE, MemberState, Partition, Stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coop_consumer.core.tenure import Tenure


class Streams:
    """Starts and stops the streams of all partitions."""

    def __init__(self, state: MemberState) -> None:
        self._state = state
        self._load = state.load
        self._count = 0

    def feed(self, partition: Partition, tenure: Tenure) -> None:
        """Give a tenure that has begun a stream that starts at or below what it has seen."""
        if partition.tp in self._load.paused or partition.tp in self._load.walled:
            return
        seen_to, main = tenure.tracker.seen_to, partition.streams.get(MAIN)
        is_behind = main is None or main.next_offset > seen_to
        if partition.is_hot(tenure) and (is_behind or self._have_much([tenure])):
            self._start(partition, seen_to, self._free_consumer()).tenures.append(tenure)
            return
        if main is None:
            main = self._start(partition, seen_to, MAIN)
        if main.next_offset <= seen_to:
            self._join(partition, main, tenure)
            return
        behind = partition.streams.get(CATCH_UP)
        tenures = []
        if behind is not None and behind.next_offset > seen_to:
            self._stop(partition, behind)
            tenures, behind = behind.tenures, None
        if behind is None:
            behind = self._start(partition, seen_to, CATCH_UP)
            behind.tenures += tenures
        behind.tenures.append(tenure)

    def _free_consumer(self) -> int:
        """The first Consumer for hot hashes that has no stream."""
        taken = {c for partition in self._state.partitions.values() for c in partition.streams}
        return next(
            number for number in range(APART, APART + len(taken) + 1) if number not in taken
        )

    @staticmethod
    def _join(partition: Partition, main: Stream, tenure: Tenure) -> None:
        main.tenures.append(tenure)
        if partition.is_hot(tenure):
            partition.hot.discard(tenure.ranges[0].lo)

    def unfeed(self, partition: Partition) -> None:
        """Stop all streams of a partition."""
        for stream in partition.streams.values():
            stream.tenures = []
        self.rearrange(partition)

    def rearrange(self, partition: Partition) -> None:
        """Take tenures without ranges off their streams; stop streams that feed nobody."""
        for stream in partition.streams.values():
            stream.tenures = [tenure for tenure in stream.tenures if tenure.ranges]
        self._join_main(partition)
        for stream in list(partition.streams.values()):
            if not stream.tenures:
                self._stop(partition, stream)
        behind = partition.streams.get(CATCH_UP)
        if behind is not None and MAIN not in partition.streams:
            self._stop(partition, behind)  # it becomes the main one
            for tenure in sorted(behind.tenures, key=lambda tenure: tenure.tracker.seen_to):
                self.feed(partition, tenure)

    def _join_main(self, partition: Partition) -> None:
        """Move tenures that have caught up to the main stream."""
        main = partition.streams.get(MAIN)
        for stream in list(partition.streams.values()):
            if stream is main:
                continue
            if stream.consumer >= APART and self._have_much(stream.tenures):
                continue  # it would fill the room of all others at once
            if main is not None:
                joined = [t for t in stream.tenures if t.tracker.seen_to >= main.next_offset]
                stream.tenures = [tenure for tenure in stream.tenures if tenure not in joined]
                for tenure in joined:
                    self._join(partition, main, tenure)
            elif stream.consumer >= APART and stream.next_offset == partition.end_offset:
                self._stop(partition, stream)  # it becomes the main one
                for tenure in stream.tenures:
                    partition.hot.discard(tenure.ranges[0].lo)
                    self.feed(partition, tenure)

    def _have_much(self, tenures: Iterable[Tenure]) -> bool:
        waiting = sum(len(tenure.pending) for tenure in tenures)
        return waiting >= max(1, self._state.apart_max() * RESUME_SHARE)

    def _start(self, partition: Partition, offset: int, consumer: int) -> Stream:
        self._count += 1
        if consumer == MAIN:
            partition.end_offset = -1  # it may have grown while nothing of it was fetched
        others_follow = consumer == MAIN and self._others_follow(partition)
        self._state.actions.append(
            StartStream(partition.tp, self._count, offset, consumer, others_follow)
        )
        stream = partition.streams[consumer] = Stream(self._count, consumer, offset)
        return stream

    def _others_follow(self, partition: Partition) -> bool:
        """Whether other partitions are about to be fetched for the first time."""
        stopped = self._load.paused | self._load.walled
        return any(
            not other.streams and other.assigned and other.tp not in stopped
            for other in self._state.partitions.values()
            if other is not partition
        )

    def _stop(self, partition: Partition, stream: Stream) -> None:
        del partition.streams[stream.consumer]
        self._state.actions.append(StopStream(partition.tp, stream.number))
        if stream.is_held:
            self._state.actions.append(HoldApart(stream.consumer, hold=False))

    def stream_of(self, partition: Partition, number: int) -> Stream | None:
        """The stream of that number, if it is still wanted."""
        found = (it for it in partition.streams.values() if it.number == number)
        return next(found, None)

    def skip_to(self, partition: Partition, stream: Stream, offset: int) -> None:
        """Records below `offset` are gone: they count as seen, and the stream goes on there."""
        for tenure in stream.tenures:
            if tenure.tracker.seen_to < offset:
                tenure.tracker.cover(tenure.tracker.seen_to, offset)
                tenure.dirty = True
        self._start_at(partition, stream, offset)

    def restart(self, partition: Partition, stream: Stream) -> None:
        """Go on where a stream is, in a new one."""
        self._start_at(partition, stream, stream.next_offset)

    def _start_at(self, partition: Partition, stream: Stream, offset: int) -> None:
        self._stop(partition, stream)
        self._start(partition, offset, stream.consumer).tenures = stream.tenures
        self.rearrange(partition)
