"""Puts of handlers, as they are filed with their records, whatever way they leave.

In: puts, on any thread; what the member hears of its ranges. Out: writes that the key's next record
finds at once, filed with the record that put them. `state.writer` and `state.transacted` send them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from confluent_kafka import KafkaError

from coop_consumer.core import effects
from coop_consumer.core.record import is_sealed
from coop_consumer.errors import (
    ChangelogError,
    CoopConsumerError,
    MemberLostError,
    MisuseError,
)
from coop_consumer.kafka.translate import translated
from coop_consumer.log_events import LogEvent
from coop_consumer.state.shard import Shard, Write

if TYPE_CHECKING:
    from coop_consumer.config import Config
    from coop_consumer.core.record import Record

log = logging.getLogger(__name__)

_FRAME_BYTES = 100
"""More than librdkafka adds to a key and a value when it checks their size."""
_CHECKPOINT_S = 5.0
"""Writes of this time are read again after a kill -9."""


class Standing(Protocol):
    """What is asked of a member's run."""

    name: str

    def is_alive(self) -> bool:
        """Whether the group surely counts on it."""


class Filing:
    """Files puts, and settles those that count.

    Args:
        config: The member's.
        checkpoint: Called every few seconds, on the thread that settles.
    """

    def __init__(self, config: Config, checkpoint: Callable[[], None]) -> None:
        self._config = config
        self._checkpoint = checkpoint
        self._checkpointed_s = monotonic()
        self._user = config.user
        self._names: dict[str, str] = {}  # topic → its changelog
        self._run: Standing | None = None
        self._losses = 0  # how often all ranges were lost
        self._size_max = 0

    def name(self, topic: str) -> str:
        """The changelog of a topic."""
        name = self._names.get(topic)
        if name is None:
            name = self._names[topic] = self._config.changelog_for(topic)
        return name

    def serve_run(self, run: Standing) -> None:
        """A run of the member begins; effects filed in the last run are dropped."""
        self._run = run

    def lose_all(self) -> None:
        """The group may have given all ranges away."""
        self._losses += 1

    # ---- handlers ------------------------------------------------------------------------------

    def put(self, record: Record, write: Write) -> None:
        """File a change with its record; visible at once, and sent once the record is finished.

        Raises:
            RecordTooLargeError: The changelog takes no such record.
            MemberLostError: Others may have the key.
            MisuseError: The record is finished, or this attempt at it has failed.
        """
        if len(write.key) + len(write.value or b"") + _FRAME_BYTES > self._size_max:
            raise self._reason(write, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        write.losses = self._losses
        if self._may_be_lost(record) or write.shard.is_lost(write.key):
            raise self._lost(write)
        if not effects.file(record, write):
            raise self._lost(write) if record._tenure.is_void else self._over(write, record)
        if not write.shard.put(write):  # lost just now
            raise self._lost(write)
        if is_sealed(record):  # just now: its earlier effects were undone before this put
            write.undo()
            raise self._over(write, record)

    def _may_be_lost(self, record: Record) -> bool:
        """Whether others may have the record's key."""
        raise NotImplementedError

    @staticmethod
    def _over(write: Write, record: Record) -> MisuseError:
        problem = (
            f"{write.shard.tp} offset {record._offset} is finished, or this attempt has failed"
        )
        return MisuseError("context.state", problem, "Change the state before the handler returns")

    def _lost(self, write: Write) -> MemberLostError:
        name = "" if self._run is None else self._run.name
        problem = f"others may have a key of {write.shard.tp} by now"
        return MemberLostError(self._config.group_id, name, problem)

    def _reason(self, write: Write, error: KafkaError) -> CoopConsumerError:
        where = f"topic {self.name(write.shard.tp.topic)}"
        return translated(error, where, self._user, "write")

    # ---- what counts ---------------------------------------------------------------------------

    def _settle(self, settled: Sequence[tuple[Write, int]]) -> None:
        """Write changes that count to the stores."""
        by_shard: dict[Shard, list[tuple[Write, int]]] = {}
        for write, offset in settled:
            by_shard.setdefault(write.shard, []).append((write, offset))
        for shard, writes in by_shard.items():
            shard.settle(writes)

    def _checkpoint_due(self) -> None:
        if monotonic() - self._checkpointed_s > _CHECKPOINT_S:
            self._checkpointed_s = monotonic()
            self._checkpoint()

    def _store_fails(self, error: Exception) -> ChangelogError:
        group = self._config.group_id
        extra = LogEvent.STATE_NOT_KEPT.extra(group=group, error=error)
        remedy = "Check the disk of state.dir for room and faults"
        told = "group %s: its state cannot be kept, and the member ends. The changelog has it. %s"
        log.error(told, group, remedy, exc_info=error, extra=extra)
        problem = f"its store fails: {error!r}"
        return ChangelogError("of this group", problem, remedy)
