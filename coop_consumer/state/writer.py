"""The writer of the changelogs: takes handlers' puts, and waits for Kafka's acknowledgement.

In: puts of handlers, filed with their records; the effects of finished records, before each commit.
Out: records of changelogs; stores with the acknowledged writes. If many records have changed a key
since the last commit, only the last state is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from coop_consumer.kafka.acked import Acked, Delivered
from coop_consumer.kafka.clients import making
from coop_consumer.state.filing import Filing
from coop_consumer.state.shard import Write

if TYPE_CHECKING:
    from coop_consumer.config import Config
    from coop_consumer.core.effects import Result
    from coop_consumer.core.record import Record

MESSAGE_MAX_BYTES = 1_000_000
"""librdkafka's default for `message.max.bytes`."""

_LINGER_MS = 10
"""Time to hand over all effects of a commit. Writes behind a first request would wait for its
answer, and meanwhile librdkafka's thread would poll all the time."""


class ChangelogWriter(Filing):
    """Writes the changelogs of a pool at least once, before each commit."""

    def __init__(self, config: Config, checkpoint: Callable[[], None]) -> None:
        super().__init__(config, checkpoint)
        self._topic = ""
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

    def look_up(self, topic: str, timeout_s: float) -> None:
        """Make the Producer look up the changelog of a topic: a partition may be new."""
        self._topic = self.name(topic)
        self._acked.look_up(self._topic, timeout_s)

    def _may_be_lost(self, record: Record) -> bool:
        del record
        return not self._is_alive()

    def _is_alive(self) -> bool:
        return self._run is None or self._run.is_alive()

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
            self.name(tp.topic), write.logged, write.key, tp.partition, on_delivery=delivered
        )
