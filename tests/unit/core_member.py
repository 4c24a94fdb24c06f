"""One `MemberCore` on a table: its broker answers at once, unless a test keeps an answer back.

In: events, or short words for them (`assign`, `produce`, `start`, `finish`). Out: the core's
actions, and what is in its log. There is one log partition and one data partition, `t-0`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import AbstractContextManager
from random import Random
from typing import TypeVar

from assignors import WHOLE, AssignmentData, KeyRange, TopicPartition, Wait, key_hash
from coop_consumer.config import Config
from coop_consumer.core import actions, events
from coop_consumer.core.failure import failure_told
from coop_consumer.core.lane import Entry, Lane
from coop_consumer.core.member import MemberCore
from coop_consumer.core.record import Record
from offsets import Committed, MemoryLog, PartitionStore, ProgressStore
from tests.simulation.data_log import SimMessage

T0 = TopicPartition("t", 0)
TOPIC_ID = b"topic-id-of-t---"
GROUP = "billing"
LOW, HIGH = WHOLE.parts(2)
ToLog = actions.Append | actions.Commit
"""The actions that write to the progress log."""
TO_LOG = (actions.Append, actions.Commit)

AnAction = TypeVar("AnAction", bound=actions.Action)


def keys_in(key_range: KeyRange, count: int) -> list[bytes]:
    """So many keys whose hashes lie in a range."""
    found = (b"k%d" % i for i in range(9_000) if key_hash(b"k%d" % i) in key_range)
    return [next(found) for _ in range(count)]


class TableMember:
    """A member and everything it talks to.

    Args:
        log: The progress log, shared with members of other tests' making.
        lock: Guards the lanes, where threads work them off.
        settings: Dotted names.

    Attributes:
        kept_back: Types of actions that are not answered by themselves.
        unanswered: Those actions, oldest first.
        seen: All actions so far.
        committed: The group's committed offset of `t-0`.
        committed_beside: Those of other partitions.
        end: Where every partition ends, as far as anybody asks.
        fenced: Another run of its name has taken its place in the group.
    """

    def __init__(
        self,
        name: str = "m1",
        *,
        log: MemoryLog | None = None,
        incarnation: int = 1,
        static: bool = False,
        committed: Committed | None = None,
        kept_back: Iterable[type] = (),
        lock: AbstractContextManager[object] | None = None,
        exactly_once: bool = False,
        **settings: object,
    ) -> None:
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        given = {"bootstrap.servers": "table:9092", "group.id": GROUP, "host": "table", **dotted}
        if exactly_once:
            given["processing.guarantee"] = "exactly_once"
        self.config = Config.from_dict(given)
        self.name = name
        self.log = log if log is not None else MemoryLog()
        self.core = MemberCore(
            self.config,
            name=name,
            incarnation=incarnation,
            log_partitions=1,
            contract="table",
            rng=Random(1),
            lock=lock,
            static=static,
        )
        self.shared = lock is not None  # with threads, which may be in the middle of something
        self.now_ms = 0
        self.committed = committed
        self.committed_beside: dict[TopicPartition, Committed] = {}
        self.end = 0
        self.kept_back = set(kept_back)
        self.unanswered: list[actions.Action] = []
        self.seen: list[actions.Action] = []
        self.messages: list[SimMessage] = []
        self.finished: list[int] = []
        self.running: dict[tuple[bytes | None, int], tuple[Entry, Record, int]] = {}
        self.fenced = False
        self._read_to = 0
        self._delivered: dict[int, int] = {}
        self._generation = 0
        self.tell(events.TopicsKnown({"t": (TOPIC_ID, 1)}))

    # ---- events --------------------------------------------------------------------------------

    def tell(self, event: events.Event) -> list[actions.Action]:
        """Hand in an event, answer what it brings about; returns all actions of that."""
        first = len(self.seen)
        todo = deque([event])
        while todo:
            for action in self.core.handle(todo.popleft(), self.now_ms):
                self.seen.append(action)
                if type(action) in self.kept_back:
                    self.unanswered.append(action)
                else:
                    todo.extend(self.answers(action))
            if not self.shared:
                self.core.check()
        return self.seen[first:]

    def answers(self, action: actions.Action) -> Iterable[events.Event]:
        """What the broker says to an action."""
        match action:
            case actions.Append(_, entries, token):
                yield events.Appended(token, [self.log.append(k, v) for k, v in entries])
            case actions.Commit(_, token):
                offsets = [self.log.append(k, v) for k, v in action.entries]
                yield events.CommitDone(token, offsets)
            case actions.ReadLog(partition, number):
                yield self.read(partition, number)
            case actions.FetchCommitted(partitions):
                beside = {tp: self.committed_beside.get(tp) for tp in partitions if tp != T0}
                own = {T0: self.committed} if T0 in partitions else {}
                yield events.CommittedRead(own | beside)
            case actions.CommitOffsets(offsets, _, token):
                self.committed = offsets.get(T0, self.committed)
                self.committed_beside |= {tp: it for tp, it in offsets.items() if tp != T0}
                yield events.OffsetsCommitted(token, None)
            case actions.ConfirmMembership(log_partitions, _, token):
                ends = dict.fromkeys(log_partitions, self.log.end_offset)
                yield events.MembershipConfirmed(token, not self.fenced, ends)
            case actions.ResolveOffset(tp, policy):
                yield events.OffsetResolved(tp, self.end if policy == "latest" else 0)
            case actions.RangesAssigned(_, _, token):
                yield events.RangesReady(token)
            case actions.StartStream(_, stream, offset):
                self._delivered[stream] = offset
            case _:
                pass

    def read(self, partition: int, number: int, records_max: int = 1_000) -> events.LogRead:
        """What the log holds now, or the first records of it."""
        found = self.log.read(self._read_to, records_max)
        self._read_to = found.next_offset
        return events.LogRead(partition, found.records, number, found.end_offset)

    def let_go(self) -> list[actions.Action]:
        """Answer what was kept back, and keep nothing back any more."""
        self.kept_back, first = set(), len(self.seen)
        waiting, self.unanswered = self.unanswered, []
        for action in waiting:
            for event in self.answers(action):
                self.tell(event)
        return self.seen[first:]

    def after(self, ms: int) -> list[actions.Action]:
        """Time passes."""
        self.now_ms += ms
        return self.tell(events.Tick())

    def hear_log(self, records_max: int = 1_000) -> list[actions.Action]:
        """Deliver the records written meanwhile, or the first of them, as to a follower."""
        asked = self.core.state.views[0].asked
        return self.tell(self.read(0, asked, records_max))

    def lose_log(self, left: MemoryLog) -> list[actions.Action]:
        """Records of the log are gone; this is what is left."""
        self.log, self._read_to = left, 0
        restart = self.tell(events.LogRead(0, [], 0, 0, restart=True))
        return [*restart, *self.hear_log()]

    def cut_off(self, end: int, position: int | None = None) -> list[actions.Action]:
        """`t-0` ends at `end`, below what its stream wants next: that, or `position`."""
        stream = self.core.state.partitions[T0].streams[actions.MAIN]
        assert stream is not None
        if position is not None:
            stream.next_offset = position
        return self.tell(events.OutOfRange(T0, stream.number, low=0, high=end))

    def assign(
        self,
        *ranges: KeyRange,
        waits: tuple[Wait, ...] = (),
        lead: str | None = None,
        live: tuple[str, ...] = (),
        epoch: int = 0,
        planned: int | None = None,
        stop: str = "",
        refused: str = "",
        generation: int | None = None,
    ) -> list[actions.Action]:
        """A generation gives these ranges of `t-0`; this member leads the log, if not said.

        The plan knows `planned` partitions, or all that the member knows of. Generations are
        counted from 1, if not said.
        """
        self._generation = generation or self._generation + 1
        self.now_ms += 1_000
        self.tell(events.Joining())
        data = AssignmentData(
            ranges={T0: ranges} if ranges else {},
            waits=waits,
            lead=self.name if lead is None else lead,
            members=1,
            live=live,
            split=() if ranges == (WHOLE,) else (T0,),
            planned={
                topic: count if planned is None else planned
                for topic, (_, count) in self.core.state.topics.items()
            },
            epochs={T0: epoch} if epoch else {},
            stop=stop,
            refused=refused,
        )
        return self.tell(events.Assigned(events.GroupMetadata(self._generation), data))

    # ---- records -------------------------------------------------------------------------------

    def produce(self, *keys: bytes | None) -> list[actions.Action]:
        """Messages of these keys are appended to `t-0`, and fetched."""
        for key in keys:
            self.messages.append(SimMessage(0, len(self.messages), key))
        return self.fetch()

    def fetch(self) -> list[actions.Action]:
        """Each stream delivers all it has not delivered yet, but for a hot hash that is held."""
        first, end = len(self.seen), len(self.messages)
        partition = self.core.state.partitions[T0]
        for stream in [it for it in partition.streams.values() if not it.is_held]:
            start = self._delivered[stream.number]
            self._delivered[stream.number] = end
            batch = self.messages[start:end]
            self.tell(events.Fetched(T0, stream.number, start, end, batch, at_end=True))
        return self.seen[first:]

    def start(self) -> list[int]:
        """Idle workers take everything that is ready, a worker a lane; the offsets they start."""
        lanes = self.core.lanes
        started = []
        while lanes.ready:
            started.append(self._begin(lanes.begin()))
        return sorted(started)

    def _begin(self, entry: Entry) -> int:
        record = entry if isinstance(entry, Record) else entry.records[entry.done]
        self.running[record.key, record.offset] = entry, record, 0
        return record.offset

    def finish(self, offset: int) -> list[actions.Action]:
        """The handler of this record ends; the worker goes on with the lane's next record."""
        entry, record, done = self._of(offset)
        lanes = self.core.lanes
        lanes.finished.append(record)
        self.finished.append(offset)
        done += 1
        if isinstance(entry, Lane) and entry.done + done < len(entry.records):
            following = entry.records[entry.done + done]
            self.running[record.key, following.offset] = entry, following, done
            return self.tell(events.Tick())
        if isinstance(entry, Lane):
            entry.done += done
        behind = lanes.tables.of(record.tenure.tp).get(record.key)
        goes_on = isinstance(behind, Lane) and behind.ahead is record
        lanes.ended.append(entry)
        told = self.tell(events.Tick())
        if behind is not None and goes_on:
            lanes.ready.withdraw({id(behind): behind})
            self._begin(lanes.begun(behind))
        return told

    def fail(self, *offsets: int, why: str = "no route") -> list[actions.Action]:
        """The handlers of these records raise."""
        for offset in offsets:
            entry, record, done = self._of(offset)
            failure = failure_told(ValueError(why))
            if isinstance(entry, Lane):
                entry.failure, entry.done = (record, failure), entry.done + done
            else:
                self.core.lanes.errors[record] = failure
            self.core.lanes.ended.append(entry)
        return self.tell(events.Tick())

    def _of(self, offset: int) -> tuple[Entry, Record, int]:
        place = next(place for place in self.running if place[1] == offset)
        return self.running.pop(place)

    def finish_all(self) -> list[int]:
        """Workers run everything; the offsets in the order in which they finish."""
        first = len(self.finished)
        while self.core.lanes.ready or self.running:
            self.start()
            for _, offset in sorted(self.running, key=lambda place: place[1]):
                self.finish(offset)
        return self.finished[first:]

    # ---- what is seen --------------------------------------------------------------------------

    def told(self, kind: type[AnAction]) -> list[AnAction]:
        """All actions of this kind so far."""
        return [action for action in self.seen if isinstance(action, kind)]

    def to_log(self) -> list[ToLog]:
        """All actions so far that write to the progress log."""
        return [action for action in self.seen if isinstance(action, TO_LOG)]

    @property
    def store(self) -> PartitionStore:
        """What the log tells about `t-0`, read from its beginning."""
        return store_of(self.log, self.core.state.topics["t"][0])


def tag(epoch: int) -> str:
    """The metadata of a committed offset of `t-0`."""
    return Committed.mirror(0, epoch, TOPIC_ID).metadata


def store_of(log: MemoryLog, topic_id: bytes = TOPIC_ID) -> PartitionStore:
    """What a log tells about `t-0`."""
    store = ProgressStore(GROUP)
    for record in log.read(0, max_records=1_000).records:
        store.apply(record)
    return store.partition(topic_id, 0)
