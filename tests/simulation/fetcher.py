"""The fetcher: a member's streams of data, as `coop_consumer.kafka.fetcher` makes them.

In: streams to start and stop, holds. Out: `Fetched` and `OutOfRange` events, late, but one after
the other in each stream. After a stop or a hold, batches that were fetched before still come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.core.actions import APART, CATCH_UP, MAIN
from coop_consumer.core.events import Fetched, OutOfRange

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.core import actions
    from tests.simulation.data_log import DataLog
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World


@dataclass(slots=True, eq=False)
class _Stream:
    """One uninterrupted fetch of a partition.

    Attributes:
        leader_epoch: The newest leader whose batches it has read.
        coming: The batch that is fetched and not handed out yet.
        log_end: Where its partition ended when that batch was fetched.
    """

    log: DataLog
    number: int
    position: int
    leader_epoch: int
    consumer: int
    fetching: bool = False
    coming: Fetched | None = None
    log_end: int = 0


class SimFetcher:
    """The streams of one member.

    Attributes:
        last_batch: How many records the last batch of a partition had.
        seen: Where a partition ended by what was handed out of its main stream, or by what a
            broker told of it there, and under which leader.
        bytes_at_hold: What came with the batch that reached a bound, or was on its way then; 0
            while the fetch is not held.
        bytes_apart: What came with the last batch of each stream of a hot hash.
    """

    def __init__(self, world: World, shell: MemberShell) -> None:
        self._world = world
        self._shell = shell
        self._streams: dict[int, _Stream] = {}
        self._held = False
        self._held_apart = set[int]()
        self._came: Fetched | None = None
        self._dead = set[int]()
        self.last_batch: dict[TopicPartition, int] = {}
        self.seen: dict[TopicPartition, tuple[int, int]] = {}
        self.bytes_at_hold = 0
        self.bytes_apart: dict[int, int] = {}

    def die(self, consumer: int) -> None:
        """Let one of the clients return nothing any more, without an error."""
        self._dead.add(consumer)

    def renew(self, action: actions.RenewFetch) -> None:
        """Start later streams on a new client."""
        self._world.happened("client renewed")
        self._dead.discard(action.consumer)

    def start(self, action: actions.StartStream) -> None:
        """Fetch from an offset on."""
        if action.consumer == MAIN:
            self.seen.pop(action.tp, None)
        else:
            is_behind = action.consumer == CATCH_UP
            self._world.happened("catch-up stream" if is_behind else "hot key")
        log = self._world.data[action.tp]
        stream = _Stream(log, action.stream, action.offset, log.leader_epoch, action.consumer)
        self._streams[action.stream] = stream
        self._fetch_later(stream)

    def stop(self, action: actions.StopStream) -> None:
        """Fetch no more."""
        del self._streams[action.stream]

    def hold(self, action: actions.HoldFetch) -> None:
        """Stop fetching, or go on."""
        self._held, self.bytes_at_hold = action.hold, 0
        if not action.hold:
            for stream in self._streams.values():
                self._fetch_later(stream)
            return
        self._world.happened("fetch held")
        came = [self._came, *(stream.coming for stream in self._streams.values())]
        self.bytes_at_hold = sum(
            len(message) for batch in came if batch for message in batch.messages
        )

    def hold_apart(self, action: actions.HoldApart) -> None:
        """The same for the stream of a hot hash."""
        if action.hold:
            self._world.happened("hot key held")
            self._held_apart.add(action.consumer)
            return
        self._held_apart.discard(action.consumer)
        for stream in self._streams.values():
            if stream.consumer == action.consumer:
                self._fetch_later(stream)

    def _is_held(self, stream: _Stream) -> bool:
        return stream.consumer in self._held_apart if stream.consumer >= APART else self._held

    def _fetch_later(self, stream: _Stream) -> None:
        """One fetch at a time, so that batches join."""
        if not stream.fetching:
            stream.fetching = True
            self._shell.ask_broker(1, self._world.weather.fetch_ms, lambda: self._fetch(stream))

    def _fetch(self, stream: _Stream) -> None:
        """Read the next batch; it is handed out later, even if the stream stops meanwhile."""
        is_wanted = stream.number in self._streams and not self._is_held(stream)
        if not is_wanted or stream.consumer in self._dead:
            stream.fetching = False
            return
        log, rng = stream.log, self._world.scheduler.rng
        low, high = log.bounds(stream.leader_epoch)
        if low <= stream.position <= high:
            offsets_max, repeat = rng.choice((1, 4, 16, 64)), rng.choice((0, 0, 0, 2))
            batch = log.fetch(stream.number, stream.position, offsets_max, repeat)
            batch = batch._replace(log_end=log.end)
            stream.coming, stream.log_end = batch, log.end
            stream.leader_epoch = max(stream.leader_epoch, log.leader_of(batch.end - 1))
            self._shell.later(1, 10, lambda: self._fetched(stream, batch))
        else:
            gone = OutOfRange(log.tp, stream.number, low, high)
            self._shell.later(1, 10, lambda: self._out_of_range(stream, gone))

    def _out_of_range(self, stream: _Stream, event: OutOfRange) -> None:
        """The core starts another stream, or gives the partition up."""
        if stream.number in self._streams:
            self._world.happened("out of range")
        self._shell.handle(event)

    def told_of_end(self, tp: TopicPartition, number: int, end: int) -> None:
        """A broker tells that a main stream is at its partition's end."""
        stream = self._streams.get(number)
        if stream is not None:
            self.seen[tp] = end, stream.leader_epoch

    def _fetched(self, stream: _Stream, batch: Fetched) -> None:
        stream.fetching, stream.coming, stream.position = False, None, batch.end
        if stream.consumer >= APART:
            self.bytes_apart[stream.consumer] = sum(map(len, batch.messages))
        if stream.number in self._streams:
            self._came, self.last_batch[batch.tp] = batch, len(batch.messages)
            if batch.at_end or batch.end > self.seen.get(batch.tp, (-1, 0))[0]:
                self.seen[batch.tp] = stream.log_end, stream.leader_epoch
        self._shell.handle(batch)
        self._came = None
        if stream.number not in self._streams:
            return
        if stream.position == stream.log.end:
            stream.log.tell_when_more(lambda: self._fetch_later(stream))
        else:
            self._fetch_later(stream)
