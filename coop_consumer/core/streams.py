"""Streams: uninterrupted fetches of a partition, and which tenures each of them feeds. Pure.

In: tenures that begin, shrink or end. Out: streams to start and stop. A range belongs to one
stream, which has to start at or below what the range has seen (I10). A partition has a main stream.
A tenure that is far behind it gets one of its own, which catches up and then joins the main one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coop_consumer.core.actions import StartStream, StopStream
from coop_consumer.core.state import MemberState, Partition, Stream

if TYPE_CHECKING:
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
        seen_to = tenure.tracker.seen_to
        if partition.main is None:
            partition.main = self._start(partition, seen_to, catch_up=False)
        if partition.main.next_offset <= seen_to:
            partition.main.tenures.append(tenure)
            return
        behind = partition.catch_up
        if behind is not None and behind.next_offset > seen_to:
            self._stop(partition, behind)
            tenures, behind = behind.tenures, None
        else:
            tenures = []
        if behind is None:
            behind = partition.catch_up = self._start(partition, seen_to, catch_up=True)
            behind.tenures += tenures
        behind.tenures.append(tenure)

    def unfeed(self, partition: Partition) -> None:
        """Stop all streams of a partition."""
        for stream in (partition.main, partition.catch_up):
            if stream is not None:
                stream.tenures = []
        self.rearrange(partition)

    def rearrange(self, partition: Partition) -> None:
        """Take tenures without ranges off their streams; stop streams that feed nobody."""
        for stream in (partition.main, partition.catch_up):
            if stream is not None:
                stream.tenures = [tenure for tenure in stream.tenures if tenure.ranges]
        self._join_main(partition)
        main, behind = partition.main, partition.catch_up
        if behind is not None and not behind.tenures:
            self._stop(partition, behind)
            partition.catch_up = None
        if main is not None and not main.tenures:
            self._stop(partition, main)
            partition.main = None
            if partition.catch_up is not None:  # the one behind becomes the main one
                orphans = partition.catch_up.tenures
                self._stop(partition, partition.catch_up)
                partition.catch_up = None
                for tenure in sorted(orphans, key=lambda tenure: tenure.tracker.seen_to):
                    self.feed(partition, tenure)

    def _join_main(self, partition: Partition) -> None:
        """Move tenures that have caught up to the main stream."""
        main, behind = partition.main, partition.catch_up
        if main is None or behind is None:
            return
        joined = [t for t in behind.tenures if t.tracker.seen_to >= main.next_offset]
        if joined:
            main.tenures += joined
            behind.tenures = [tenure for tenure in behind.tenures if tenure not in joined]

    def _start(self, partition: Partition, offset: int, *, catch_up: bool) -> Stream:
        self._count += 1
        if not catch_up:
            partition.end_offset = -1  # it may have grown while nothing of it was fetched
        others_follow = not catch_up and self._others_follow(partition)
        self._state.actions.append(
            StartStream(partition.tp, self._count, offset, catch_up, others_follow)
        )
        return Stream(self._count, offset)

    def _others_follow(self, partition: Partition) -> bool:
        """Whether other partitions are about to be fetched for the first time."""
        stopped = self._load.paused | self._load.walled
        return any(
            other.main is None and other.assigned and other.tp not in stopped
            for other in self._state.partitions.values()
            if other is not partition
        )

    def _stop(self, partition: Partition, stream: Stream) -> None:
        self._state.actions.append(StopStream(partition.tp, stream.number))

    def stream_of(self, partition: Partition, number: int) -> Stream | None:
        """The stream of that number, if it is still wanted."""
        for stream in (partition.main, partition.catch_up):
            if stream is not None and stream.number == number:
                return stream
        return None

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
        catch_up = stream is partition.catch_up
        self._stop(partition, stream)
        fresh = self._start(partition, offset, catch_up=catch_up)
        fresh.tenures = stream.tenures
        if catch_up:
            partition.catch_up = fresh
        else:
            partition.main = fresh
        self.rearrange(partition)
