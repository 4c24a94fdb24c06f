"""A batch written exactly once: plan and parts, each a transaction with its mark.

In: records of a batch, by parts. Out: the same in Kafka, once, however often parts and batches are
tried again; or an error. Kafka has no transaction that spans producers, so a batch in several parts
is several transactions, and the marks tell which of them have happened.

    plan    group and transactional id "<name>"       query, batch, parts   before any part begins
    part p  group and transactional id "<name>-<p>"   batch, fingerprint    with the part's records

The marks are committed offsets (the batch's number) on partition 0 of the progress topic, with
their text as metadata. What can fall, and what then:

- *A task, before its commit.* The broker aborts its transaction when the next attempt comes.
- *A task, after its commit and before Spark knows.* The next attempt reads the mark, and skips.
- *A task whose commit was not answered.* The next attempt's fence ends the commit; then as above.
- *A task that lives on* (its executor is cut off; speculation). The attempt that came last fences
  it. If it fences the other, that fails and is tried again.
- *The driver, between plan and parts, or after some of them.* The batch comes again and keeps the
  number of parts of its plan; marks show which parts are written. With several parts, each written
  part is compared with its rows now, before any other part is written. If one differs, the batch is
  refused: its rows might be in another part now. A batch in one part that is written is skipped,
  without a comparison.
- *The driver, after all parts and before Spark's commit of the batch.* All parts are skipped.
- *A driver that lives on.* The other driver's plan fences its plan. If it had planned before, its
  tasks work on the same parts of the same batch, or find another plan, and stop.
- *The marks.* Brokers forget the offsets of a group after seven idle days (and with the progress
  topic). A later batch is then refused until the user says what it is; never written in doubt.

Two cases are not covered. Readers with isolation.level=read_uncommitted see aborted records. With
several parts, a query that is not deterministic may double a row: a task is repeated within a
batch, and the row moves from a written part to a part that is not written yet. Spark does not
report this. Several parts become visible one by one, also to readers of transactions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from assignors import TopicPartition
from coop_consumer.config import Config, sendable
from coop_consumer.config.patterns import KAFKA_NAME
from coop_consumer.config.setting import shown
from coop_consumer.errors import BatchConflictError, MisuseError
from coop_consumer.kafka.gathered import Gathered
from coop_consumer.kafka.own_topics import batch_limit
from coop_consumer.kafka.patience import patiently
from coop_consumer.kafka.publish import Publisher, marks_of
from coop_consumer.kafka.topics import Topics
from coop_consumer.log_events import LogEvent
from streams_adapter.sinks.columns import DIGEST_END, OutputRecord
from streams_adapter.sinks.marks import (
    BatchPlan,
    Written,
    check_current,
    check_same,
    has_written,
    next_plan,
)

log = logging.getLogger(__name__)

Mark = TypeVar("Mark")


@dataclass(frozen=True, slots=True)
class Sink:
    """One sink of one query; travels to tasks.

    Attributes:
        config: Of the clients.
        name: Of its marks and transactions.
        first_batch: See `next_plan`.
        rows_name_topics: Whether each row names its topic, so that batches fit none of them yet.
    """

    config: Config
    name: str
    first_batch: int = 0
    rows_name_topics: bool = False

    @property
    def place(self) -> TopicPartition:
        """Of all marks."""
        return TopicPartition(self.config.progress_topic, 0)

    def part_name(self, part: int) -> str:
        """Of a part's group and transactions."""
        return f"{self.name}-{part}"

    def read(
        self, found: dict[TopicPartition, tuple[int, str]], parse: Callable[[str], Mark]
    ) -> Mark | None:
        """A mark, or None if there is none.

        Raises:
            BatchConflictError: There is something else.
        """
        if self.place not in found:
            return None
        offset, text = found[self.place]
        try:
            return parse(text)
        except ValueError as error:
            raise BatchConflictError(
                self.name,
                offset,
                f"the group of this name has an offset that is no mark ({error})",
                "Choose another name=, that no consumer group has",
            ) from error


class Planner:
    """Plans batches, on the driver; the newest planner of a name fences those before it."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._publisher: Publisher | None = None

    def plan(self, query: str, batch: int, parts: int) -> tuple[BatchPlan, bool]:
        """How to write a batch: as it was begun, or else in so many parts; and whether it was.

        Raises:
            BatchConflictError: It must not be written.
            CoopConsumerError: Kafka refuses.
        """
        sink, wanted = self._sink, BatchPlan(query, batch, parts)
        try:
            publisher = self._open()
            was = sink.read(publisher.marks([sink.place]), BatchPlan.parse)
            plan = next_plan(sink.name, was, wanted, sink.first_batch)
            if was is not None and was.query != plan.query:
                extra = LogEvent.SINK_TAKEN_OVER.extra()
                told = (
                    "sink %s: query %s takes it from %s, which is refused from now on. Give each "
                    "query a sink of its own, if both run"
                )
                log.warning(told, sink.name, query, was.query, extra=extra)
            if plan != was:
                with publisher.transaction():
                    publisher.mark(sink.place, plan.batch, plan.text())
        except BaseException:
            self.close()
            raise
        return plan, plan == was

    def _open(self) -> Publisher:
        if self._publisher is None:
            topics = Topics(self._sink.config)
            # It holds the marks' places.
            patiently(topics.progress_topic, f"sink {self._sink.name}: its marks' topic")
            self._publisher = Publisher(self._sink.config, self._sink.name)
        return self._publisher

    def close(self) -> None:
        """End the clients; the next plan makes new ones."""
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            publisher.close()


def written_parts(sink: Sink, plan: BatchPlan) -> dict[int, Written]:
    """The parts of a batch that are written; of those that are being written just now, some.

    Raises:
        CoopConsumerError: Kafka does not tell.
    """
    found = {}
    for part in range(plan.parts):
        marks = marks_of(sink.config, sink.part_name(part), [sink.place])
        was = sink.read(marks, Written.parse)
        if was is not None and has_written(sink.name, plan, was):
            found[part] = was
    return found


def write_part(
    sink: Sink, plan: BatchPlan, part: int, records: Iterable[OutputRecord]
) -> tuple[Written, bool]:
    """Write a part of a planned batch, unless it is written; returns its mark, and whether it was.

    Raises:
        BatchConflictError: The plan is not the sink's any more, or the part is not what it was.
        CoopConsumerError: Kafka refuses; nothing of this attempt is written.
    """
    with Publisher(sink.config, sink.part_name(part)) as publisher:
        # In this order: whoever planned anew before we came, we see; who does later, fences us.
        now = sink.read(marks_of(sink.config, sink.name, [sink.place]), BatchPlan.parse)
        check_current(sink.name, plan, now)
        was = sink.read(publisher.marks([sink.place]), Written.parse)
        if was is not None and has_written(sink.name, plan, was):
            again = sum_up(plan, records)
            if plan.parts > 1:
                check_same(sink.name, part, was, again)
            extra = LogEvent.SINK_PART_WRITTEN.extra()
            told = "sink %s, batch %d: part %d is written"
            log.info(told, sink.name, plan.batch, part, extra=extra)
            return was, True
        with publisher.transaction():
            written = sum_up(plan, _each_written(sink, publisher, records))
            publisher.mark(sink.place, plan.batch, written.text())
        return written, False


def _each_written(
    sink: Sink, publisher: Publisher, records: Iterable[OutputRecord]
) -> Iterator[OutputRecord]:
    checked: set[str] = set()
    gathered = Gathered(_limits_for(sink), publisher.send) if sink.rows_name_topics else None
    for record in records:
        if record.topic not in checked:  # a row may name its topic
            if not sendable(record.topic):
                raise MisuseError(
                    f"sink {sink.config.group_id}",
                    f"a row has topic {shown(record.topic)}, and none can be called so",
                    f"Correct the column: a name has {KAFKA_NAME.words}",
                )
            sink.config.refuse_output(record.topic)
            checked.add(record.topic)
            if gathered is not None:
                gathered.begin(record.topic)
        if gathered is not None:
            gathered.add(record.topic, record.value, record.key, record.headers)
        publisher.write(
            record.topic, record.value, record.key, record.headers, partition=record.partition
        )
        yield record


def _limits_for(sink: Sink) -> Callable[[str], int | None]:
    """Asks for the limit of a topic; the client is made with the first question."""
    topics = cache(lambda: Topics(sink.config))

    def limit(topic: str) -> int | None:
        what = f"sink {sink.name}: topic {topic}"
        return patiently(lambda: batch_limit(sink.config, topics(), topic), what)

    return limit


def sum_up(plan: BatchPlan, records: Iterable[OutputRecord]) -> Written:
    """What a part's mark says, in case of these records."""
    rows = digest = 0
    for record in records:
        rows += 1
        if plan.parts > 1:  # else nobody compares
            digest = (digest + record.fingerprint()) % DIGEST_END
    return Written(plan.query, plan.batch, rows, digest)
