"""The reader of the progress log, which knows when a read is complete.

In: requests to read and to follow. Out: `LogRead` events. One thread owns its two Consumers. It
decides nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from assignors import TopicPartition
from coop_consumer.core.blocked_read import Blockage, BlockedRead, writers
from coop_consumer.core.events import LogRead
from coop_consumer.errors import AuthorizationError
from coop_consumer.kafka.clients import close_aside, look_up_leaders, successor
from coop_consumer.kafka.clients import log as client_log
from coop_consumer.kafka.consuming import Consuming
from coop_consumer.kafka.fetcher import waiting_messages
from coop_consumer.kafka.translate import translated
from coop_consumer.kafka.undecided import records_between
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import command as plain_command
from offsets import LogRecord

log = logging.getLogger(__name__)

_BATCH_MAX = 5_000
_POLL_S = 0.05
_END_TIMEOUT_S = 2.0
_LOOK_UP_AGAIN_S = 60.0
_ASK_AGAIN_S = 0.25
_LEAVE_TIMEOUT_S = 2.0
_CUT_MS = 5_000
"""A read that has not got on for so long asks whether its end is still there."""
_TOLD_AFTER_S = 2.0
"""A topic that was just created, or moves to another broker, has no leader for a moment."""
_GOES_ON = (
    "This member reads the log again and appends its own progress again. Progress that no running "
    "member has falls back to the committed offsets: those records repeat. Nothing is lost."
)
_ENDS = (
    "With processing.guarantee=exactly_once all members end, as nobody can tell what is visible "
    "already: coop-consumer reset says where the group goes on."
)
"""What it means that the log has lost records."""


@dataclass(slots=True)
class _Reading:
    """One partition of the log: its position, and the requests for it."""

    position: int = 0
    asked: int = 0
    ends: list[tuple[int, int]] = field(default_factory=list)  # (read number, end it must reach)
    complete: int = 0
    following: bool = False
    assigned: bool = False
    low: int = -1  # first offset of the log at the last question; -1: no answer yet
    first: int = -1  # offset of the first record read
    end_offset: int = 0
    unanswered_since_s: float | None = None  # when brokers first did not report its end
    blocked: BlockedRead = field(default_factory=BlockedRead)
    ask_end_at_s: float = 0.0


@dataclass(slots=True, eq=False)
class Readings:
    """How far a log was read; see `ProgressReader.turn_to`.

    Attributes:
        by_number: By log partition; only a reader's thread looks into it.
    """

    by_number: dict[int, _Reading] = field(default_factory=dict)


def _ignore_refusal(_: AuthorizationError) -> None:
    """Ignore a refusal: the first one was reported."""


class ProgressReader(Consuming):
    """Reads partitions of the progress topic to an end, or follows them.

    A read is complete when the position has reached the end that the broker reported after the
    read was asked for: the high watermark. Between reads nothing is fetched; the next one goes on
    where the last one ended.

    Where only committed records are read, the position cannot get past an undecided transaction.
    The end is the high watermark all the same: to the last stable offset alone, what others have
    committed behind it would be missed. So a read waits until all below its end is decided. If it
    stands for long, the reader looks, uncommitted, whose transactions these are.

    Args:
        settings: What `Config.progress_reader()` returns.
        topic: The progress topic.
        deliver: Takes an event; called on the reader's thread.
        died: Takes the error that ended the thread unexpectedly: a defect.
        name: Names the thread.
        refused: Takes the error, once, if the right to read is missing; on the reader's thread.
        blocked: Hears every 100 ms that a read waits for undecided transactions; on the reader's
            thread.
        command: Completes a command of `coop-consumer` for a line of the log.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        topic: str,
        deliver: Callable[[LogRead], None],
        died: Callable[[Exception], None],
        *,
        name: str,
        refused: Callable[[AuthorizationError], None] | None = None,
        blocked: Callable[[Blockage], None] = lambda _: None,
        command: Callable[..., str] = plain_command,
    ) -> None:
        self._refused = refused
        self._command = command
        self._blocked = blocked
        self._is_strict = settings.get("isolation.level") == "read_committed"
        self._topic = topic
        self._deliver = deliver
        self._readings: dict[int, _Reading] = {}
        self._retry: list[tuple[float, int, int]] = []  # (time, log partition, read number)
        self._look_up_at_s = 0.0
        # It asks where partitions end, and fetches nothing. A broker answers the requests of one
        # connection in turn, and it answers a fetch without news only after 50 ms.
        self._asker: Consumer
        super().__init__(settings, died, name)

    def turn_to(
        self,
        settings: dict[str, Any],
        topic: str,
        readings: Readings,
        deliver: Callable[[LogRead], None],
        died: Callable[[Exception], None],
        *,
        refused: Callable[[AuthorizationError], None],
        blocked: Callable[[Blockage], None],
    ) -> None:
        """Read for somebody from now on, with the same Consumers, until `leave`.

        Args:
            settings: As before, but for what names a group.
            topic: The progress topic.
            readings: How far it was read. They are the reader's until it has left.
            deliver: As for a new reader, as all that follow.
            died: See there.
            refused: See there.
            blocked: See there.
        """

        def turn() -> None:
            self._settings = settings
            if topic != self._topic:
                self._topic, self._look_up_at_s = topic, 0.0
            self._readings = readings.by_number
            self._deliver, self._died = deliver, died
            self._refused, self._blocked = refused, blocked

        self._commands.put(turn)

    def leave(self) -> bool:
        """Read for nobody from now on, as before a turn; whether the readings are given back.

        Blocks; 50 ms, or 2 s if a broker is silent.
        """
        done = threading.Event()

        def leave() -> None:
            self._consumer.unassign()
            self._retry.clear()
            for reading in self._readings.values():  # of a look that was not complete
                reading.assigned = False
                reading.ends.clear()
            self._readings = {}
            done.set()

        self._commands.put(leave)
        return done.wait(_LEAVE_TIMEOUT_S)

    def read(self, log_partition: int, number: int) -> None:
        """Read to an end observed from now on; `LogRead.complete` becomes `number` or newer."""
        self._commands.put(lambda: self._ask(log_partition, number))

    def follow(self, log_partition: int, follow: bool) -> None:
        """Deliver new records, or stop doing so."""
        self._commands.put(lambda: self._follow(log_partition, follow))

    def look(self) -> None:
        """Check that the log still begins where it did; if not, read it from its beginning."""
        self._commands.put(self._look)

    # ---- the thread ----------------------------------------------------------------------------

    def _work(self) -> None:
        self._consumer, self._asker = self._new_consumer(), self._new_asker()
        try:
            while not self._closing:
                was_idle = not self._reading
                self._run_commands()
                if self._reading:
                    messages = waiting_messages(self._consumer, _BATCH_MAX, _POLL_S)
                    self._hand_out(messages)
                    if not messages:
                        self._look_at_waiting()
                    if messages or was_idle:
                        self._silence.end()
                    elif self._silence.is_due():
                        self._replace_if_cut_off()
        finally:
            self._asker.close()
            self._consumer.close()

    def _new_asker(self) -> Consumer:
        """Where only committed records are read, it sees what is undecided, too."""
        silent: dict[str, object] = {"statistics.interval.ms": 0}  # the other one tells for both
        return self._new_consumer({**silent, "isolation.level": "read_uncommitted"})

    def _look_at_waiting(self) -> None:
        """Where a read does not get on: is its end still there, and which transactions are open?"""
        for number, reading in list(self._readings.items()):
            if not reading.ends:
                continue
            waited_ms = reading.blocked.looked(reading.position, int(monotonic() * 1_000))
            end = min(upto for _, upto in reading.ends)
            if waited_ms >= _CUT_MS and monotonic() >= reading.ask_end_at_s:
                reading.ask_end_at_s = monotonic() + _CUT_MS / 1_000
                if self._is_cut_off(number, end):
                    self._start_over(number, reading)
                    continue
            if not waited_ms or not self._is_strict:
                continue
            place = Place(self._topic, number, reading.position)
            hidden = records_between(self._asker, place, end, _END_TIMEOUT_S)
            runs = writers(message.key() or b"" for message in hidden)
            self._blocked(Blockage(number, reading.position, waited_ms, runs))

    def _is_cut_off(self, log_partition: int, end: int) -> bool:
        """Whether a read waits for an end that the log had, and has no more."""
        try:
            _, now = self._asker.get_watermark_offsets(
                Place(self._topic, log_partition), _END_TIMEOUT_S
            )
        except KafkaException:
            return False  # asked again soon
        return bool(now < end)

    def _replace_if_cut_off(self) -> None:
        """If this Consumer is cut off from the brokers, replace it."""
        found = successor(self._consumer, self._new_consumer, self._topic)
        if found is None:
            return
        extra = self._extra(LogEvent.CLIENT_RENEWED, topic=self._topic)
        told = "%s: it continues at its position, with a new client. Nothing is lost"
        log.warning(told, self._thread.name, extra=extra)
        close_aside(self._consumer)
        self._consumer = found
        found.incremental_assign(
            [
                Place(self._topic, number, reading.position)
                for number, reading in self._readings.items()
                if reading.assigned
            ]
        )

    @property
    def _reading(self) -> bool:
        return any(reading.assigned for reading in self._readings.values()) or bool(self._retry)

    def _run_commands(self) -> None:
        while not self._closing:
            try:
                command = self._commands.get(block=not self._reading)
            except Empty:
                break
            command()
        now_s = monotonic()
        due = [retry for retry in self._retry if retry[0] <= now_s]
        self._retry = [retry for retry in self._retry if retry[0] > now_s]
        for _, log_partition, number in due:
            if self._closing:
                return
            self._ask(log_partition, number)

    def _ask(self, log_partition: int, number: int) -> None:
        reading = self._readings.setdefault(log_partition, _Reading())
        place = Place(self._topic, log_partition)
        try:
            low, end = self._asker.get_watermark_offsets(place, _END_TIMEOUT_S)
        except KafkaException as error:
            now_s = monotonic()
            if reading.unanswered_since_s is None:
                reading.unanswered_since_s = now_s
            is_long = now_s - reading.unanswered_since_s >= _TOLD_AFTER_S
            if not self._is_refused(error.args[0]) and is_long:
                self._report_no_end(log_partition, reading, error.args[0])
            if not self._closing:
                self._replace_asker_if_cut_off()
            self._retry.append((now_s + _ASK_AGAIN_S, log_partition, number))
            return
        reading.unanswered_since_s = None
        # A higher beginning: records were deleted. A lower one, which no log returns to: a broker
        # with a failed disk reported a wrong beginning, so reading began in the middle.
        if reading.low not in (-1, low) or 0 <= reading.first < low:
            reading.ends.append((number, end))
            self._start_over(log_partition, reading)
            return
        reading.low = low
        reading.position = max(reading.position, low)
        reading.ends.append((number, end))
        reading.end_offset = max(reading.end_offset, end)
        if reading.position < end:
            self._assign(log_partition, reading)
        else:
            self._deliver_records(log_partition, reading, [])

    def _report_no_end(self, log_partition: int, reading: _Reading, error: KafkaError) -> None:
        """Say why a read does not begin; as a line of the clients, which does not come again soon.

        librdkafka calls a partition unknown whose leader it does not know, whatever the reason.
        """
        is_leader_unknown = error.code() == KafkaError._UNKNOWN_PARTITION
        why = "no broker answers, or none leads it" if is_leader_unknown else error.str()
        client_log.warning(
            "topic %s, partition %d: no broker has told its end yet (%s). The question is repeated "
            "until one does, and nothing is lost by waiting; ranges begin later. If this line "
            "comes again and again, look at brokers and topic: `%s`",
            self._topic, log_partition, why, self._describe(),
            extra=self._about(LogEvent.PROGRESS_LOG_READ_FAILED, log_partition, reading),
        )  # fmt: skip

    def _describe(self) -> str:
        return self._command("topic", "describe", self._topic)

    def _look(self) -> None:
        for number, reading in list(self._readings.items()):
            if reading.complete and not reading.ends:
                place = Place(self._topic, number)
                try:
                    low, _ = self._asker.get_watermark_offsets(place, _END_TIMEOUT_S)
                except KafkaException:
                    return  # the next look reports it; requested reads come first
                if low != reading.low:
                    self._start_over(number, reading)

    def _replace_asker_if_cut_off(self) -> None:
        """Make the asker look up leaders, or replace it if it is cut off from the brokers.

        After an answer without a leader, librdkafka asks again only for assigned partitions.
        """
        found = successor(self._asker, self._new_asker, self._topic)
        if found is not None:
            close_aside(self._asker)
            self._asker = found

    def _follow(self, log_partition: int, follow: bool) -> None:
        reading = self._readings.setdefault(log_partition, _Reading())
        reading.following = follow
        if follow:
            self._assign(log_partition, reading)
        else:
            self._unassign_if_idle(log_partition, reading)

    def _assign(self, log_partition: int, reading: _Reading) -> None:
        if not reading.assigned:
            self._look_up(log_partition)
            reading.assigned = True
            place = Place(self._topic, log_partition, reading.position)
            self._consumer.incremental_assign([place])

    def _look_up(self, log_partition: int) -> None:
        """Make the Consumer look up the log's leader, unless it did so lately: it forgets."""
        if monotonic() >= self._look_up_at_s:
            look_up_leaders(self._consumer, self._topic, log_partition)
            self._look_up_at_s = monotonic() + _LOOK_UP_AGAIN_S

    def _unassign_if_idle(self, log_partition: int, reading: _Reading) -> None:
        if reading.assigned and not reading.following and not reading.ends:
            reading.assigned = False
            self._consumer.incremental_unassign([Place(self._topic, log_partition)])

    def _hand_out(self, messages: Sequence[Message]) -> None:
        records: dict[int, list[LogRecord]] = {}
        for message in messages:
            error, number, offset = message.error(), message.partition(), message.offset()
            reading = self._readings.get(-1 if number is None else number)
            if number is None or reading is None or not reading.assigned:
                continue  # or an error of a connection: librdkafka tries again
            assert offset is not None, "a message without an offset"
            if error is None:
                if offset < reading.position:
                    continue
                record = LogRecord(
                    offset, message.key() or b"", message.value(), message.timestamp()[1]
                )
                records.setdefault(number, []).append(record)
                reading.position = offset + 1
                if reading.first < 0:
                    reading.first = offset
            elif error.code() == KafkaError._PARTITION_EOF:
                records.setdefault(number, [])
                reading.position = max(reading.position, offset)
            elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                self._start_over(number, reading)
            elif not self._is_refused(error):
                log.warning(
                    "progress topic %s, partition %d: a read has failed (%s). Nothing is lost: it "
                    "is read again; ranges may begin later. If this line comes again and again, "
                    "look at brokers and topic: `%s`",
                    self._topic, number, error.str(), self._describe(),
                    extra=self._about(LogEvent.PROGRESS_LOG_READ_FAILED, number, reading),
                )  # fmt: skip
        for number, found in records.items():
            self._deliver_records(number, self._readings[number], found)

    def _is_refused(self, error: KafkaError) -> bool:
        """Whether a right is missing; the first such error is reported to `refused`."""
        where, user = f"topic {self._topic}", str(self._settings.get("sasl.username", ""))
        reason = translated(error, where, user, "read")
        if not isinstance(reason, AuthorizationError) or self._refused is None:
            return False
        refused, self._refused = self._refused, _ignore_refusal
        refused(reason)
        return True

    def _start_over(self, log_partition: int, reading: _Reading) -> None:
        """Read the log from its beginning, because records read or at our position are gone."""
        log.error(
            "%s: progress log %d begins elsewhere than before, or has lost the records from offset "
            "%d on (records were deleted, the topic was truncated or created again, or a broker "
            "fails). %s Find out who deletes records of %s: its cleanup.policy must be compact.",
            self._thread.name,
            log_partition,
            reading.position,
            _ENDS if self._is_strict else _GOES_ON,
            self._topic,
            extra=self._about(LogEvent.PROGRESS_LOG_STARTS_OVER, log_partition, reading),
        )
        if reading.assigned:
            self._consumer.incremental_unassign([Place(self._topic, log_partition)])
        number = max((n for n, _ in reading.ends), default=reading.complete)
        following = reading.following
        self._readings[log_partition] = _Reading(following=following)
        self._deliver(LogRead(log_partition, [], 0, 0, restart=True))
        self._ask(log_partition, number)

    def _about(self, event: LogEvent, log_partition: int, reading: _Reading) -> dict[str, object]:
        tp = TopicPartition(self._topic, log_partition)
        return self._extra(event, tp=tp, offset=reading.position)

    def _deliver_records(
        self, log_partition: int, reading: _Reading, records: list[LogRecord]
    ) -> None:
        reached = [number for number, end in reading.ends if reading.position >= end]
        reading.ends = [item for item in reading.ends if reading.position < item[1]]
        reading.complete = max([reading.complete, *reached])
        reading.end_offset = max(reading.end_offset, reading.position)
        complete = 0 if reading.ends else reading.complete
        if records or reached:
            self._deliver(LogRead(log_partition, records, complete, reading.end_offset))
        self._unassign_if_idle(log_partition, reading)
