"""The writer of the changelogs: takes handlers' puts, and waits for Kafka's acknowledgement.

In: puts of handlers, filed with their records; the effects of finished records, before each commit.
Out: records of changelogs; stores with the acknowledged writes. If many records have changed a key
since the last commit, only the last state is sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from confluent_kafka import KafkaError, Producer

from coop_consumer.core import effects
from coop_consumer.core.record import is_sealed
from coop_consumer.errors import ChangelogError, CoopConsumerError, MemberLostError, MisuseError
from coop_consumer.kafka.acked import Acked, Delivered
from coop_consumer.kafka.clients import making
from coop_consumer.kafka.translate import translated
from coop_consumer.state.shard import Shard, Write

if TYPE_CHECKING:
    from coop_consumer.config import Config
    from coop_consumer.core.effects import Result
    from coop_consumer.core.record import Record

log = logging.getLogger(__name__)

MESSAGE_MAX_BYTES = 1_000_000
"""librdkafka's default for `message.max.bytes`."""

_LINGER_MS = 10
"""Time to hand over all effects of a commit. Writes behind a first request would wait for its
answer, and meanwhile librdkafka's thread would poll all the time."""
_FRAME_BYTES = 100
"""More than librdkafka adds to a key and a value when it checks their size."""
_CHECKPOINT_S = 5.0
"""Writes of this time are read again after a kill -9."""


class Standing(Protocol):
    """What the writer asks of a member's run."""

    name: str

    def is_alive(self) -> bool:
        """Whether the group surely counts on it."""


class ChangelogWriter:
    """Writes the changelogs of a pool.

    Args:
        config: The member's.
        checkpoint: Called every few seconds, on the thread of the delivery reports.
    """

    def __init__(self, config: Config, checkpoint: Callable[[], None]) -> None:
        self._config = config
        self._checkpoint = checkpoint
        self._checkpointed_s = monotonic()
        self._user = config.user
        self._names: dict[str, str] = {}  # topic → its changelog
        self._topic = ""
        self._run: Standing | None = None
        self._losses = 0  # how often all ranges were lost
        self._acked: Acked[Write]

    def start(self, size_max: int) -> None:
        """Begin; no changelog takes a record above `size_max` bytes."""
        self._size_max = size_max
        settings, passed = self._config.producer(), dict(self._config.passed)
        settings["linger.ms"] = passed.get("linger.ms", _LINGER_MS)
        settings["batch.size"] = min(int(passed.get("batch.size", MESSAGE_MAX_BYTES)), size_max)
        with making(self._config):
            self._acked = Acked(
                settings,
                f"coop-state-{self._config.group_id}",
                lambda: self._topic,
                self._produce,
                acknowledged=self._settle,
                reason=self._reason,
                failed=self._store_fails,
                check=self._refuse_lost,
                served=self._checkpoint_due,
            )
        self._acked.start()

    def close(self) -> None:
        """End; nothing may reach the changelogs once others have these keys."""
        self._acked.close()

    def name(self, topic: str) -> str:
        """The changelog of a topic."""
        name = self._names.get(topic)
        if name is None:
            name = self._names[topic] = self._config.changelog_for(topic)
        return name

    def look_up(self, topic: str, timeout_s: float) -> None:
        """Make the Producer look up the changelog of a topic: a partition may be new."""
        self._topic = self.name(topic)
        self._acked.look_up(self._topic, timeout_s)

    def serve_run(self, run: Standing) -> None:
        """A run of the member begins; effects filed in the last run are dropped."""
        self._run = run

    def lose_all(self) -> None:
        """The group may have given all ranges away: earlier puts are never sent."""
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
        if not self._is_alive() or write.shard.is_lost(write.key):
            raise self._lost(write)
        if not effects.file(record, write):
            raise self._over(write, record)
        if not write.shard.put(write):  # lost just now
            raise self._lost(write)
        if is_sealed(record):  # just now: its earlier effects were undone before this put
            write.undo()
            raise self._over(write, record)

    @staticmethod
    def _over(write: Write, record: Record) -> MisuseError:
        problem = (
            f"{write.shard.tp} offset {record._offset} is finished, or this attempt has failed"
        )
        return MisuseError("context.state", problem, "Change the state before the handler returns")

    def _is_alive(self) -> bool:
        return self._run is None or self._run.is_alive()

    def _lost(self, write: Write) -> MemberLostError:
        name = "" if self._run is None else self._run.name
        problem = f"others may have a key of {write.shard.tp} by now"
        return MemberLostError(self._config.group_id, name, problem)

    # ---- commits -------------------------------------------------------------------------------

    def what(self) -> str:
        """See `EffectsWriter`."""
        return f"state to {', '.join(sorted(self._names.values()))}"

    def write(self, results: Sequence[Result]) -> None:
        """Write what these have put to the changelogs; blocks. One call at a time.

        Raises:
            MemberLostError: Others may have some of these keys.
            CoopConsumerError: A changelog has not taken a write, now or at any time before.
        """
        self._acked.wait()  # withdrawn writes are sent again, and must not come behind these
        writes = [it for result in results for it in result.effects if isinstance(it, Write)]
        for write in writes:
            write.before = None  # it will not be undone
        self._acked.send(list({(it.shard, it.key): it for it in writes}.values()))
        self._acked.wait()

    def repair(self, write: Write) -> None:
        """Send a write whose record was committed long ago, at once."""
        write.losses = self._losses
        if write.shard.put(write):
            self._acked.send([write])

    def wait(self) -> None:
        """Wait until all sent writes are acknowledged.

        Raises:
            CoopConsumerError: They will never be.
        """
        self._acked.wait()

    def _refuse_lost(self, write: Write) -> None:
        if write.losses != self._losses or not self._is_alive():
            raise self._lost(write)

    def _produce(self, producer: Producer, write: Write, delivered: Delivered) -> None:
        tp = write.shard.tp
        producer.produce(
            self.name(tp.topic), write.value, write.key, tp.partition, on_delivery=delivered
        )

    def _reason(self, write: Write, error: KafkaError) -> CoopConsumerError:
        where = f"topic {self.name(write.shard.tp.topic)}"
        return translated(error, where, self._user, "write")

    # ---- the thread of the reports -------------------------------------------------------------

    @staticmethod
    def _settle(settled: Sequence[tuple[Write, int]]) -> None:
        """Write acknowledged changes to the stores."""
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
        log.error("group %s: its state cannot be kept", self._config.group_id, exc_info=error)
        problem = f"its store fails: {error!r}"
        remedy = "Check the disk of state.dir for room and faults"
        return ChangelogError("of this group", problem, remedy)
