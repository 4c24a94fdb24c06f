"""A worker's view of its state: `context.state`.

In: a record, whose key and place name the state. Out: bytes. All calls may be made on any thread
and on an event loop: they take microseconds, and never block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from coop_consumer import forks
from coop_consumer.core.histogram import STEP_S, Histogram
from coop_consumer.core.record import Origin, place_of
from coop_consumer.errors import MisuseError
from coop_consumer.state.entry import StateEntry, Version
from coop_consumer.state.shard import Shard, Write

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.core.record import Record


@dataclass(slots=True)
class StateCounters:
    """What has happened so far; read only.

    Attributes:
        restores: How often ranges were restored.
        read: Records of changelogs read for this.
        applied: Those of them in the restored ranges.
        restore: How long these took.
        repaired: Keys whose state was written again, because a late write of another process hid
            it.
    """

    restores: int = 0
    read: int = 0
    applied: int = 0
    repaired: int = 0
    restore: Histogram = field(default_factory=lambda: Histogram(STEP_S))


class KeyedState:
    """State by key: of the key of a record, in its partition.

    A record finds what earlier records of its key have put, in whatever process. Its own puts count
    with the record: the commit of the record includes its state. The state gets into the changelog
    after the worker's `flush`, so the changelog has nothing of a record whose output got lost.
    State of a record that still runs does not get there. If its handler raises, its puts are
    undone.

    A record may be repeated after a crash. It then finds what it found the first time, unless a
    later record of its key has put something, too. In that case it finds the last state, and
    `changed_by` is not below the record's own offset. A handler that skips such
    records counts each record exactly once::

        def process(self, record):
            state = self.context.state
            changed_by = state.changed_by(record)
            if changed_by is not None and changed_by >= record.offset:
                return
            count = int(state.get(record) or 0)
            state.put(record, b"%d" % (count + 1))

    Args:
        shards: The state of each partition that has ranges here.
        write: Makes a change visible, and files it with its record.

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
        """Refuse calls in a forked child: the store belongs to its parent, files and all."""
        forks.keep(self._shards)
        shut = forks.Shut("context.state", "this state")
        self._shards = cast("Mapping[TopicPartition, Shard]", shut)

    def get(self, record: Record) -> bytes | None:
        """What the record found: its own `put` does not change it. None: there was nothing.

        Raises:
            MisuseError: The record's key is null.
        """
        found = self._found(record)
        return None if found is None else found.value

    def changed_by(self, record: Record) -> int | None:
        """The offset of the record that put what `get` returns; None if `get` returns None.

        Raises:
            MisuseError: As `get`.
        """
        found = self._found(record)
        return None if found is None else found.offset

    def put(self, record: Record, value: bytes) -> None:
        """Set the state that later records of the key find; the last `put` counts.

        Raises:
            MisuseError: As `get`; or the value is not bytes; or the record is finished, or this
                attempt at it has failed.
            MemberLostError: The group may have given the key to others: this member was silent.
            RecordTooLargeError: The changelog takes no such size; the former state counts.
        """
        if not isinstance(value, bytes):
            kind = type(value).__name__
            raise MisuseError(
                "state.put()", f"the value is {kind}, not bytes", "Encode the value to bytes first"
            )
        shard, key = self._place("state.put()", record)
        place, entry = _place_in_time(record), shard.find(key)
        changed = (
            StateEntry(Version(*place, value)) if entry is None else entry.changed(place, value)
        )
        self._write(record, Write(shard, key, shard.encoded(changed)))

    def delete(self, record: Record) -> None:
        """Delete the key and its history: if the record is repeated, it finds nothing.

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
            raise MisuseError(call, f"{place_of(record)} is a copy, pickled or copied", remedy)
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
