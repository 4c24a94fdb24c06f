"""Cleaning by Spark: a topic copied without repeats, a task for each partition.

In: a topic whose records name their origin, and another topic. Out: what was copied, by partition.
`coop_consumer.patterns.cleaning` copies a partition, and says what holds when a task falls. The
command `coop-consumer clean` does the same without Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coop_consumer.config import Config, Settings
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.log_format import json_if_asked
from coop_consumer.patterns.cleaning import Cleaned, Unidentified, clean_partition, cleaning_order
from coop_consumer.patterns.seen import IDENTITY
from streams_adapter.cluster import check_connect, use_own_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_CALL = "cleanup()"


def cleanup(
    spark: SparkSession,
    config: Settings | Mapping[str, object],
    source_topic: str,
    target_topic: str,
    *,
    name: str = "",
    identity: Sequence[str] = IDENTITY,
    look_back: int | None = None,
    unidentified: Unidentified = "stop",
) -> list[Cleaned]:
    """Copy what is new in a topic to another one, each record once; a batch job.

    It ends at the end that the source had at its beginning (of what is committed), and goes on from
    there when it is called again. The copies are exactly once, whatever falls.

    Args:
        spark: A classic session.
        config: One dict of dotted names; no group is needed.
        source_topic: Has repeats.
        target_topic: Gets the copies; exists, with as many partitions, and is not compacted.
        name: Of the group that keeps the places in the source; by default the target's with
            ".cleanup".
        identity: The headers that tell what a record came of; the last is an offset in digits,
            the others any bytes.
        look_back: How many records of each partition of the target are read to know what it has;
            None: all. A repeat whose first is further back is copied.
        unidentified: What to do with a record without these headers: "copy" it (again and again,
            if it is repeated), or "stop".

    Returns:
        What was done, by partition.

    Raises:
        ConfigError: For a bad setting.
        MisuseError: The topics do not fit each other.
        TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
        Exception: What Spark makes of a task's error, such as an `InputGoneError`: the source has
            lost records that were not copied.

    Example::

        cleanup(spark, {"bootstrap.servers": "b:9092"}, "totals", "totals.clean")
    """
    check_connect(spark, _CALL, "RDDs, by which partitions are copied")
    group = name or f"{target_topic}.cleanup"
    order = cleaning_order(
        Config.from_dict({**config, "group.id": group}, both_clients=False),
        source_topic,
        target_topic,
        identity=identity,
        look_back=look_back,
        unidentified=unidentified,
    )
    context = spark.sparkContext
    use_own_python(context)

    def task(number: int, _: Iterable[int]) -> Iterator[Cleaned]:
        json_if_asked()
        yield clean_partition(order, number)

    numbers = context.parallelize(range(len(order.ends)), len(order.ends))
    found: list[Cleaned] = numbers.mapPartitionsWithIndex(task).collect()
    copied, read = sum(c.copied for c in found), sum(c.read for c in found)
    extra = LogEvent.CLEANING_DONE.extra(group=group)
    log.info("%s: %d of %d copied", group, copied, read, extra=extra)
    return found


def cleaner(
    config: Settings | Mapping[str, object], source_topic: str, target_topic: str, **settings: Any
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch`: whenever a batch comes, the target is brought up to date.

    A batch's rows are not used, only its coming, so any stream on the source will do. Python
    processes that Spark uses again remember what was seen, and read in the target only what is new.

    Args:
        config: As for `cleanup`.
        source_topic: As there.
        target_topic: As there.
        settings: The other arguments there.
    """

    def clean(batch: DataFrame, _: int) -> None:
        cleanup(batch.sparkSession, config, source_topic, target_topic, **settings)

    return clean
