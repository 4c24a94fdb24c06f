"""`coop-consumer retry` and `skip`: a person decides about a parked record."""

from __future__ import annotations

from typing import Literal

import click

from assignors import TopicPartition
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.output import echo
from coop_consumer.cli.places import TOPIC_PARTITION
from coop_consumer.kafka.amend import Amender
from coop_consumer.kafka.inspect import Inspector
from coop_consumer.status import (
    GroupStatus,
    NotParkedError,
    PartitionMissingError,
    PartitionStatus,
    RecordStatus,
    group_status,
)
from coop_consumer.status.picture import key_text

OUTCOMES = {
    "retry": "is tried again, with all its attempts before it",
    "skip": "counts as done without having been processed, and the next of its key follows",
}


@click.command(short_help="Try a parked record again.")
@click.argument("group")
@click.argument("place", metavar="TOPIC-PARTITION", type=TOPIC_PARTITION)
@click.argument("offset", type=click.IntRange(min=0))
@connection_options
@log_option("warning")
def retry(connection: Connection, *, group: str, place: TopicPartition, offset: int) -> None:
    """Try the parked record at OFFSET of TOPIC-PARTITION again.

    The decision is written to the progress log; the member that holds the record obeys within
    moments, or the next one that owns its key does.
    """
    _decide(connection, group, place, offset, "retry")


@click.command(short_help="Count a parked record as done, unprocessed.")
@click.argument("group")
@click.argument("place", metavar="TOPIC-PARTITION", type=TOPIC_PARTITION)
@click.argument("offset", type=click.IntRange(min=0))
@connection_options
@log_option("warning")
def skip(connection: Connection, *, group: str, place: TopicPartition, offset: int) -> None:
    """Count the parked record at OFFSET of TOPIC-PARTITION as done, though it was not processed.

    The decision is written to the progress log; the member that holds the record obeys within
    moments, or the next one that owns its key does. It cannot be taken back.
    """
    _decide(connection, group, place, offset, "skip")


def _decide(
    connection: Connection,
    group: str,
    place: TopicPartition,
    offset: int,
    action: Literal["retry", "skip"],
) -> None:
    with Inspector(connection.config(group)) as inspector:
        seen = inspector.see([place.topic])
        status = group_status(seen)
        record = _parked(status, place, offset)
        partition = next(p for p in seen.partitions if p.tp == place)
        Amender(inspector).decide(partition, offset, action)
    who = (
        f"at member {record.member} on {record.host}" if record.member else "once a member owns it"
    )
    echo(f"{place} offset {offset} ({key_text(record)}): {OUTCOMES[action]}, {who}")


def _parked(status: GroupStatus, place: TopicPartition, offset: int) -> RecordStatus:
    """The parked record.

    Raises:
        PartitionMissingError: If there is no such partition.
        NotParkedError: If it is not parked; the text tells what it is instead.
    """
    partition = next((p for p in status.partitions if p.tp == place), None)
    if partition is None:
        count = sum(p.tp.topic == place.topic for p in status.partitions)
        raise PartitionMissingError(place.topic, place.partition, count)
    record = next((r for r in partition.failed if r.offset == offset), None)
    if record is None or not record.is_parked:
        problem = _instead(partition, offset, record)
        raise NotParkedError(place.topic, place.partition, offset, problem)
    return record


def _instead(partition: PartitionStatus, offset: int, record: RecordStatus | None) -> str:
    if record is not None:
        return f"is not parked: it failed {record.attempts} times and is being tried again"
    if offset >= partition.end:
        return f"is not there yet, the partition ends at {partition.end}"
    if partition.stable is not None and offset < partition.stable:
        return f"is done already, the stable offset is {partition.stable}"
    return "has not failed: it is done, or waits its turn"
