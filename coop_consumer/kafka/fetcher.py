"""The fetcher: Consumers turn streams into batches. One thread a Consumer makes all its calls.

In: streams to start and stop, holds. Out: `Fetched` and `OutOfRange` events. The main Consumer
fetches every partition once, however many ranges it feeds. Other Consumers serve ranges that catch
up, and hot keys; each is made when first needed. While the member pauses it, a thread prefetches
until it has something of every partition, and hands it on in turns. Upholds I7 and, with the core,
I10: a stream starts at an explicit offset, and its batches join without a gap.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from math import inf
from queue import Empty
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from assignors import TopicPartition
from coop_consumer.config.config import PREFETCH_KBYTES
from coop_consumer.core import actions
from coop_consumer.core.actions import StartStream
from coop_consumer.core.events import FetchBlocked, Fetched, OutOfRange
from coop_consumer.core.record import RECORD_BYTES, sampled_beside
from coop_consumer.kafka.batch_size import BATCH_MIN, BatchSize
from coop_consumer.kafka.clients import close_aside, look_up_leaders, successor
from coop_consumer.kafka.consuming import Consuming
from coop_consumer.kafka.look_ahead import LookAhead
from coop_consumer.kafka.stable_ends import StableEnds
from coop_consumer.kafka.translate import words_of
from coop_consumer.log_events import Facts, LogEvent
from coop_consumer.plain_text import command as plain_command

log = logging.getLogger(__name__)

_QUEUED_MAX = 1_000_000
_POLL_S = 0.05
_GATHER_S, _GATHER_POLL_S = 0.05, 0.002
"""How long a stream waits for others that are about to start, so that one fetch serves all.

A client has one fetch a broker under way, with the partitions that it knew when it asked. A later
partition waits for that answer: up to `fetch.wait.max.ms` if the others have no more records.
"""
_CREDIT = 2
"""Batches that may wait for the member: one in work, and the next one."""
_AHEAD_BYTES_MAX = 16 << 20
_PREFETCHED_MAX = 100_000
"""librdkafka's prefetch in messages, unless `queued.min.messages` says otherwise."""
_WORTH_IT = 4
"""A new client is worth it if it prefetches this many times fewer messages."""
_PREFETCH_OF_ONE_KBYTES = 4_096
_WATERMARK_TIMEOUT_S = 5.0
_END_TOLD_S = 1.0

_IN_TURN_CODES = (
    KafkaError._PARTITION_EOF,
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
)
"""These errors of a partition are handed on behind the records fetched before them."""
_MISSING_CODES = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)

Deliver = Callable[[Fetched | OutOfRange, Callable[[], None]], None]
"""Takes an event, and a function to call once the member has taken the event in. It bounds how far
the fetch runs ahead."""


def _not_the_last() -> None:
    """Do nothing: another event of the batch follows."""


@dataclass(slots=True)
class _Stream:
    number: int
    next_offset: int
    is_at_end: bool = False
    end_due_s: float = 0.0  # when to tell where the partition ends


@dataclass(slots=True)
class _Batch:
    messages: list[Any] = field(default_factory=list)  # Any: confluent types them as optional
    end: int = -1
    at_end: bool = False


def bytes_of(messages: Sequence[Any]) -> float:
    """About how many bytes messages take, from the keys and headers of a few. O(messages)."""
    looked_at = sampled_beside(messages)
    beside = RECORD_BYTES + sum(looked_at) / len(looked_at)
    return sum(map(len, messages)) + len(messages) * beside


def prefetching_fewer(
    settings: Mapping[str, Any], messages: Sequence[Any]
) -> dict[str, Any] | None:
    """Settings of a client that prefetches fewer messages, if keys and headers are large; or None.

    librdkafka bounds only the values of its prefetch in bytes. Keys and headers have just a bound
    in messages, which only a new client takes. O(messages / 64).
    """
    looked_at = sampled_beside(messages)
    mean = sum(looked_at) / len(looked_at)
    if mean < prefetched_beside_max(settings):
        return None
    fit = max(1, int(_prefetch_bytes(settings) / mean))
    return {**settings, "queued.min.messages": fit}


def prefetched_beside_max(settings: Mapping[str, Any]) -> float:
    """From this mean size of keys and headers on, a client has to prefetch fewer messages."""
    fewest = int(settings.get("queued.min.messages", _PREFETCHED_MAX))
    return _prefetch_bytes(settings) * _WORTH_IT / fewest


def _prefetch_bytes(settings: Mapping[str, Any]) -> int:
    return int(settings.get("queued.max.messages.kbytes", PREFETCH_KBYTES)) * 1_024


def of_one_key(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a client that fetches for one key: its handler is slower than any prefetch."""
    prefetch = min(_PREFETCH_OF_ONE_KBYTES, _prefetch_bytes(settings) // 1_024)
    return {**settings, "queued.max.messages.kbytes": prefetch}


def waiting_messages(consumer: Consumer, count_max: int, timeout_s: float) -> list[Message]:
    """The messages that a Consumer has now; if none, wait for the first, and take those with it.

    `consume` with a time-out would wait for `count_max` messages, or for the whole time-out.
    """
    messages = consumer.consume(count_max, 0)
    if not messages:
        first = consumer.poll(timeout_s)
        if first is None:
            return []
        messages = [first, *consumer.consume(count_max - 1, 0)]
    return messages


def _place_and_code(message: Message) -> tuple[tuple[str, int], int | None]:
    error = message.error()
    place = (message.topic() or "", message.partition() or 0)
    return place, error.code() if error is not None else None


class Fetcher:
    """The Consumers of a member, behind the core's commands.

    Args:
        settings: What `Config.data_plane()` returns.
        deliver: Takes an event; called on a fetch thread.
        fatal: Takes an error that no retry repairs.
        died: Takes the error that ended a fetch thread unexpectedly: a defect.
        missing: Called when a broker does not know a topic that is fetched.
        blocked: Hears which partitions wait for undecided transactions.
        name: Names the threads.
        figures: Adds to the settings of a Consumer what has it say how it is, by its role.
        command: Completes a command of `coop-consumer` for a line of the log.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        deliver: Deliver,
        fatal: Callable[[KafkaError, str], None],
        died: Callable[[Exception], None],
        *,
        missing: Callable[[], None],
        blocked: Callable[[FetchBlocked], None],
        name: str,
        figures: Callable[[dict[str, Any], str], dict[str, Any]] = lambda it, _: it,
        command: Callable[..., str] = plain_command,
    ) -> None:
        self._settings, self._blocked, self._name = settings, blocked, name
        self._figures = figures
        self._make = partial(
            FetchThread,
            deliver=deliver,
            fatal=fatal,
            died=died,
            missing=missing,
            command=command,
        )
        self._threads = {actions.MAIN: self._new_thread(actions.MAIN)}
        self._of: dict[int, FetchThread] = {}
        self._held = False

    def _new_thread(self, consumer: int) -> FetchThread:
        """The thread of a Consumer that has no streams yet."""
        if consumer == actions.MAIN:
            settings = self._figures(self._settings, "fetch")
            return self._make(settings, blocked=self._blocked, name=self._name)
        if consumer == actions.CATCH_UP:
            settings = self._figures(self._settings, "catch_up")
            return self._make(settings, name=f"{self._name}-catch-up")
        number = consumer - actions.APART + 1
        settings = self._figures(of_one_key(self._settings), f"hot_{number}")
        return self._make(settings, name=f"{self._name}-hot-{number}")

    def renew(self, consumer: int) -> None:
        """Abandon a Consumer that no longer works; streams begin on a new one."""
        if consumer in self._threads:
            self._threads.pop(consumer).abandon()

    def start_stream(self, start: StartStream) -> None:
        """Fetch a partition; each Consumer has at most one stream of a partition."""
        thread = self._threads.get(start.consumer)
        if thread is None:
            thread = self._threads[start.consumer] = self._new_thread(start.consumer)
            thread.hold(self._held and start.consumer < actions.APART)
        self._of[start.stream] = thread
        thread.start_stream(start)

    def stop_stream(self, tp: TopicPartition, number: int) -> None:
        """Stop fetching this stream."""
        self._of.pop(number).stop_stream(tp, number)

    def hold(self, hold: bool) -> None:
        """Stop handing on, or continue. Unlike pause(), it keeps the prefetch."""
        self._held = hold
        for consumer, thread in self._threads.items():
            if consumer < actions.APART:
                thread.hold(hold)

    def hold_apart(self, hold: actions.HoldApart) -> None:
        """The same for the Consumer of one hot hash."""
        if hold.consumer in self._threads:  # a new one, after `renew`, is not held
            self._threads[hold.consumer].hold(hold.hold)

    def stepped_s(self) -> dict[str, float]:
        """When each thread took a step last, by the threads' names; see `Consuming`. Any thread."""
        return {thread.name: thread.stepped_s for thread in list(self._threads.values())}

    def close(self) -> None:
        """End the threads and close the consumers."""
        for thread in self._threads.values():
            thread.close()


class FetchThread(Consuming):
    """One Consumer and the only thread that calls it."""

    def __init__(
        self,
        settings: dict[str, Any],
        deliver: Deliver,
        fatal: Callable[[KafkaError, str], None],
        died: Callable[[Exception], None],
        *,
        missing: Callable[[], None],
        blocked: Callable[[FetchBlocked], None] = lambda _: None,
        name: str,
        command: Callable[..., str] = plain_command,
    ) -> None:
        self._missing = missing
        self._command = command
        self._stable_ends = StableEnds[TopicPartition](lambda waits: blocked(FetchBlocked(waits)))
        self._beside_max = prefetched_beside_max(settings)
        self._message_bytes: float = RECORD_BYTES  # mean size of the messages fetched last
        self._deliver = deliver
        self._fatal = fatal
        self._streams: dict[TopicPartition, _Stream] = {}
        self._places: dict[tuple[str, int], TopicPartition] = {}
        self._gathered: list[TopicPartition] = []  # partitions whose streams are about to start
        self._gathered_by_s = 0.0
        self._ahead: LookAhead[TopicPartition, Message] = LookAhead()
        self._held = self._is_ahead = False
        self._batches = BatchSize(monotonic())
        self._under_way = 0  # batches delivered and not taken in; both threads change it
        super().__init__(settings, died, name)

    # ---- commands, from the member's thread ----------------------------------------------------

    def start_stream(self, start: StartStream) -> None:
        """Fetch a partition from an offset; replaces its present stream."""
        self._commands.put(lambda: self._start(start))

    def stop_stream(self, tp: TopicPartition, number: int) -> None:
        """Stop fetching this stream."""
        self._commands.put(lambda: self._stop(tp, number))

    def hold(self, hold: bool) -> None:
        """Stop handing on, or continue."""
        self._commands.put(lambda: setattr(self, "_held", hold))

    def taken(self) -> None:
        """Note that all events of a batch were taken in: the next batch may follow."""
        self._commands.put(self._give_credit)

    # ---- the thread ----------------------------------------------------------------------------

    def _work(self) -> None:
        self._consumer = self._new_consumer()
        try:
            messages: list[Message] = []
            while not self._closing:
                was_idle = not self._may_look()
                self._run_commands(found=bool(messages))
                if self._gathered and monotonic() >= self._gathered_by_s:
                    self._assign(self._gathered)
                is_drained = False
                if self._may_look():
                    self._is_ahead = self._held or bool(self._ahead)
                    patience_s = 0 if self._is_ahead else self._poll_s
                    count = self._batches.size
                    messages = waiting_messages(self._consumer, count, patience_s)
                    is_drained = len(messages) < count
                    self._queue_messages(messages)
                    if messages:
                        self._measure(messages)
                    if messages or was_idle:
                        self._silence.end()
                    elif self._silence.is_due():
                        self._replace_if_cut_off()
                if self._is_wanted():
                    count = self._batches.size
                    self._hand_out(self._ahead.take(count, cuts=count < BATCH_MIN))
                if is_drained and not self._ahead:  # so its positions are as far as it can read
                    self._look_at_ends()
        finally:
            self._consumer.close()

    def _look_at_ends(self) -> None:
        """Once a second, see which partitions end above what can be read; asks no broker."""
        now_s = monotonic()
        if not self._stable_ends.is_due(now_s):
            return
        at_end = {}
        for tp, stream in self._streams.items():
            if stream.is_at_end:
                place = Place(tp.topic, tp.partition)
                _, end = self._consumer.get_watermark_offsets(place, cached=True)
                at_end[tp] = stream.next_offset, end
        self._stable_ends.looked(at_end, now_s)

    def _replace_if_cut_off(self) -> None:
        """If this Consumer is cut off from the brokers, replace it."""
        topic = next(iter(self._streams)).topic
        found = successor(self._consumer, self._new_consumer, topic)
        if found is None:
            return
        told = "%s: it continues at its positions, with a new client. Nothing is lost"
        log.warning(told, self._thread.name, extra=self._extra(LogEvent.CLIENT_RENEWED))
        self._use_consumer(found)

    def _measure(self, messages: Sequence[Any]) -> None:
        """Measure the size of some messages, once for all bounds that depend on it."""
        sizes = sampled_beside(messages)
        beside = sum(sizes) / len(sizes)
        self._message_bytes = RECORD_BYTES + beside + len(messages[0])
        if beside >= self._beside_max:
            self._bound_the_prefetch(messages)

    def _bound_the_prefetch(self, messages: Sequence[Any]) -> None:
        """If keys and headers are large, prefetch fewer messages."""
        bounded = prefetching_fewer(self._settings, messages)
        if bounded is not None:
            self._settings = bounded
            self._beside_max = prefetched_beside_max(bounded)
            log.info(
                "%s: keys and headers are large, so a new client prefetches %d messages at most",
                self._thread.name,
                bounded["queued.min.messages"],
                extra=self._extra(LogEvent.FETCH_PREFETCHES_LESS),
            )
            self._use_consumer(self._new_consumer())

    def _use_consumer(self, consumer: Consumer) -> None:
        """Fetch all streams with another Consumer, each from its position."""
        close_aside(self._consumer)
        self._consumer = consumer
        self._ahead = LookAhead()
        self._places = {(tp.topic, tp.partition): tp for tp in self._streams}
        self._assign(self._streams)

    def _is_wanted(self) -> bool:
        """Whether the member takes batches now."""
        return not self._held and self._under_way < _CREDIT

    def _may_look(self) -> bool:
        """Whether to fetch: for the member now, or some records of each partition for later.

        Prefetch only while the member is paused; otherwise it takes the batch at once. While
        records of some partitions wait, fetch the others: each has its turn.
        """
        if not self._held and (self._under_way >= _CREDIT or not self._ahead):
            return self._under_way < _CREDIT and bool(self._streams)
        is_full = self._ahead.size >= _AHEAD_BYTES_MAX
        return not is_full and any(tp not in self._ahead for tp in self._streams)

    def _run_commands(self, *, found: bool) -> None:
        """Carry out commands; if there is nothing else to do, wait for one."""
        while True:
            patience_s = self._patience_s(found)
            self.stepped_s = inf if patience_s is None else monotonic()
            try:
                command = self._commands.get(timeout=patience_s)
            except Empty:
                return
            self.stepped_s = monotonic()
            command()

    def _patience_s(self, found: bool) -> float | None:
        """How long to wait for commands; None: for ever."""
        may_look = self._may_look()
        if self._closing or (may_look and found):
            return 0
        if self._is_wanted() and (self._ahead or may_look):
            return 0
        return self._poll_s if may_look or self._gathered else None

    @property
    def _poll_s(self) -> float:
        """How long to wait for messages while nothing else has come."""
        return _GATHER_POLL_S if self._gathered else _POLL_S

    def _start(self, start: StartStream) -> None:
        tp = start.tp
        if tp in self._streams:
            self._stop(tp, self._streams[tp].number)
        if (tp.topic, tp.partition) in self._places:
            # The partition was fetched before. Messages still queued from then would look like a
            # jump of the new stream (I10). They are dropped, because it has no stream now.
            self._queue_messages(self._consumer.consume(_QUEUED_MAX, 0))
        if not any(other.topic == tp.topic for other in self._streams):
            look_up_leaders(self._consumer, tp.topic, tp.partition)
        self._places[tp.topic, tp.partition] = tp
        self._streams[tp] = _Stream(start.stream, start.offset)
        if not self._gathered:
            self._gathered_by_s = monotonic() + _GATHER_S
        self._gathered.append(tp)
        if not start.others_follow:
            self._gathered_by_s = 0.0

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch these partitions at their streams' offsets; no other start is pending."""
        places = [Place(tp.topic, tp.partition, self._streams[tp].next_offset) for tp in partitions]
        self._consumer.incremental_assign(places)
        self._gathered = []

    def _stop(self, tp: TopicPartition, number: int) -> None:
        stream = self._streams.get(tp)
        if stream is not None and stream.number == number:
            del self._streams[tp]
            self._ahead.drop(tp)
            if tp in self._gathered:
                self._gathered.remove(tp)
            else:
                self._consumer.incremental_unassign([Place(tp.topic, tp.partition)])
        if not self._streams:  # nobody looks any more
            self._stable_ends.looked({}, monotonic())

    def _give_credit(self) -> None:
        self._under_way -= 1

    def _queue_messages(self, messages: list[Message]) -> None:
        """Queue messages behind those of their partition; report errors of no partition."""
        topics = {topic for topic, _ in self._places}
        # (Methods of the type are several times as fast as a lambda, and this is the hot path.)
        if len(topics) == 1 and {*map(Message.error, messages)} <= {None}:
            (topic,) = topics
            for number, group in groupby(messages, Message.partition):
                self._wait(self._places.get((topic, number or 0)), [*group])
            return
        for (place, code), group in groupby(messages, _place_and_code):
            tp = self._places.get(place)
            if code is None or code in _IN_TURN_CODES:
                self._wait(tp, [*group])
            else:
                for message in group:
                    if error := message.error():
                        self._error(message.topic() or "", message.partition(), error)

    def _wait(self, tp: TopicPartition | None, piece: list[Message]) -> None:
        if tp is not None and tp in self._streams:
            # (Messages that are handed on at once need no bound.)
            size = round(bytes_of(piece)) if self._is_ahead else 0
            self._ahead.add(tp, piece, size)

    def _hand_out(self, pieces: Iterable[tuple[TopicPartition, Sequence[Message]]]) -> None:
        batches: dict[TopicPartition, _Batch] = defaultdict(_Batch)
        resets: list[tuple[TopicPartition, int | None]] = []
        for tp, piece in pieces:
            last = piece[-1]
            error = last.error()
            if error is None:
                batches[tp].messages.extend(piece)
                batches[tp].at_end = False
            elif error.code() == KafkaError._PARTITION_EOF:
                batches[tp].end, batches[tp].at_end = last.offset() or 0, True
            else:
                resets.append((tp, last.offset()))
        count = sum(len(it.messages) for it in batches.values())
        self._batches.note(count, monotonic(), self._message_bytes)
        events = [self._fetched(tp, self._streams[tp], batch) for tp, batch in batches.items()]
        for event in events[:-1]:
            self._deliver(event, _not_the_last)
        if events:
            self._under_way += 1
            self._deliver(events[-1], self.taken)
        for tp, reported in resets:
            self._out_of_range(tp, self._streams[tp], reported)

    def _fetched(self, tp: TopicPartition, stream: _Stream, batch: _Batch) -> Fetched:
        start, end = stream.next_offset, max(stream.next_offset, batch.end)
        if batch.messages:
            end = max(end, (batch.messages[-1].offset() or 0) + 1)
        stream.next_offset, stream.is_at_end = end, batch.at_end
        log_end = self._log_end(tp, stream)
        return Fetched(tp, stream.number, start, end, batch.messages, batch.at_end, log_end)

    def _log_end(self, tp: TopicPartition, stream: _Stream) -> int:
        """Where the partition ends by the newest fetch, once a second; -1: not told. No request."""
        now_s = monotonic()
        if now_s < stream.end_due_s:
            return -1
        stream.end_due_s = now_s + _END_TOLD_S
        place = Place(tp.topic, tp.partition)
        try:
            _, high = self._consumer.get_watermark_offsets(place, cached=True)
        except KafkaException:  # a new client has not fetched it yet
            return -1
        return max(high, stream.next_offset) if high >= 0 else -1

    def _error(self, topic: str, partition: int | None, error: KafkaError) -> None:
        if error.fatal() or error.code() in (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.GROUP_AUTHORIZATION_FAILED,
        ):
            self._fatal(error, topic)
        elif error.code() in _MISSING_CODES:
            self._missing()
        else:
            self._report(topic, partition, error)

    def _report(self, topic: str, partition: int | None, error: KafkaError) -> None:
        """Report an error that the client repeats by itself; one may be of no partition."""
        facts, group = Facts(error=error.name()), self._settings.get("group.id", "")
        where, check = "", self._command("doctor", "--group", group)
        if topic:
            where, check = f", topic {topic}", self._command("topic", "describe", topic)
            if partition is None or partition < 0:
                facts["topic"] = topic
            else:
                facts["tp"] = TopicPartition(topic, partition)
                where += f", partition {partition}"
        log.warning(
            "group %s%s: a fetch has failed (%s). Nothing is lost: the client fetches again by "
            "itself. If this line comes again and again, look at brokers and topic: `%s`",
            group,
            where,
            error.str(),
            check,
            extra=self._extra(LogEvent.FETCH_FAILED, **facts),
        )

    def _out_of_range(self, tp: TopicPartition, stream: _Stream, reported: int | None) -> None:
        """Report the partition's offsets; a truncation with the log's end at its time."""
        place = Place(tp.topic, tp.partition)
        try:
            low, high = self._consumer.get_watermark_offsets(place, _WATERMARK_TIMEOUT_S)
        except KafkaException as error:
            log.warning(
                "group %s, %s: no broker tells its first and last offset (%s). Nothing is lost: it "
                "is fetched from offset %d on again. If this line comes again and again: `%s`",
                self._settings.get("group.id", ""),
                tp,
                words_of(error),
                stream.next_offset,
                self._command("topic", "describe", tp.topic),
                extra=self._extra(LogEvent.OFFSETS_UNRESOLVED, tp=tp, error=error),
            )
            low, high = stream.next_offset, stream.next_offset
        if reported is not None and low <= reported < stream.next_offset:
            high = reported
        self._ahead.drop(tp)
        if low <= stream.next_offset <= high:  # a passing state of the broker: continue
            self._consumer.incremental_unassign([place])
            self._consumer.incremental_assign([Place(tp.topic, tp.partition, stream.next_offset)])
            return
        self._under_way += 1
        self._deliver(OutOfRange(tp, stream.number, low, high), self.taken)
