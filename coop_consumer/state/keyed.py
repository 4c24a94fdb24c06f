"""What a worker sees of its state: `context.state`.

In: a record, whose key and place say what is meant. Out: bytes. All calls may be made on any
thread, and on an event loop: they take microseconds, and wait for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from coop_consumer import forks
from coop_consumer.core.record import Origin, place_of
from coop_consumer.errors import MisuseError
from coop_consumer.state.entry import StateEntry, Version
from coop_consumer.state.shard import Shard, Write

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.core.record import Record


@dataclass(slots=True)
class StateCounters:
    """What has happened so far; to be read only.

    Attributes:
        restores: Times that ranges were restored.
        read: Records of changelogs read for it.
        applied: Of these, those of the ranges that were restored.
        repaired: Keys whose state was written again, as a late write of another process hid it.
    """

    restores: int = 0
    read: int = 0
    applied: int = 0
    repaired: int = 0


class KeyedState:
    """State by key: of the key of a record, in its partition.

    A record finds what earlier records of its key have put, wherever these were processed. What it
    puts counts with it: the commit that tells that the record is done takes its state along. The
    state gets into the changelog after the worker's `flush`, so the changelog tells of no record
    whose output got lost. State of a record that still runs, or has failed, does not get there.

    After a crash a record may come again, and so may a record whose handler raised. It then finds
    what it found the first time, as long as no later record of its key has put something, too.
    Where one has, it finds the last state, and `changed_by` tells: it is not below the record's own
    offset. So a handler that leaves out such records counts each record exactly once::

        def process(self, record):
            state = self.context.state
            changed_by = state.changed_by(record)
            if changed_by is not None and changed_by >= record.offset:
                return
            count = int(state.get(record) or 0)
            state.put(record, b"%d" % (count + 1))

    Args:
        shards: The state of each partition that has ranges here.
        write: Has a change found, and files it with its record.

    Attributes:
        counters: What has happened so far.
    """

    def __init__(
        self, shards: Mapping[TopicPartition, Shard], write: Callable[[Record, Write], None]
    ) -> None:
        self.counters = StateCounters()
        self._shards = shards
        self._write = write
        forks.watch(self)

    def shut_in_fork(self) -> None:
        """The store is the parent's, files and all."""
        forks.keep(self._shards)
        shut = forks.Shut("context.state", "this state")
        self._shards = cast("Mapping[TopicPartition, Shard]", shut)

    def get(self, record: Record) -> bytes | None:
        """What the record found: its own `put` does not change that. None: nothing.

        Raises:
            MisuseError: The record's key is null.
        """
        found = self._found(record)
        return None if found is None else found.value

    def changed_by(self, record: Record) -> int | None:
        """The offset of the record that made what `get` returns; None: it returns nothing.

        Raises:
            MisuseError: As `get`.
        """
        found = self._found(record)
        return None if found is None else found.offset

    def put(self, record: Record, value: bytes) -> None:
        """Let this be the state that later records of the key find; the last `put` counts.

        Raises:
            MisuseError: As `get`; or the value is no bytes; or the record is finished.
            MemberLostError: The group may have given the key to others: we were silent.
            RecordTooLargeError: The changelog does not take so much; the state before counts, too.
        """
        if not isinstance(value, bytes):
            kind = type(value).__name__
            raise MisuseError(
                "state.put()", f"the value is {kind}, no bytes", "Encode the value to bytes first"
            )
        shard, key = self._place("state.put()", record)
        place, entry = _place_in_time(record), shard.find(key)
        changed = (
            StateEntry(Version(*place, value)) if entry is None else entry.changed(place, value)
        )
        self._write(record, Write(shard, key, shard.encoded(changed)))

    def delete(self, record: Record) -> None:
        """Forget the key, and who changed it: the record finds nothing if it comes again.

        Raises:
            MisuseError, MemberLostError: As `put`.
        """
        shard, key = self._place("state.delete()", record)
        if shard.find(key) is not None:
            self._write(record, Write(shard, key, None))

    def _found(self, record: Record) -> Version | None:
        shard, key = self._place("state.get()", record)
        entry = shard.find(key)
        return None if entry is None else entry.found_by(_place_in_time(record))

    def _place(self, call: str, record: Record) -> tuple[Shard, bytes]:
        if isinstance(record.tenure, Origin):
            remedy = "Pass the record itself that process was given"
            raise MisuseError(call, f"{record!r} is a copy, pickled or copied", remedy)
        key = record._key
        if key is None:
            raise MisuseError(
                call,
                f"{place_of(record)} has no key, and so no state",
                "Skip records without a key before you use their state",
            )
        return self._shards[record.tenure.tp], key


def _place_in_time(record: Record) -> tuple[int, int]:
    return record.tenure.epoch, record._offset
