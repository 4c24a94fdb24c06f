"""`coop-consumer gaps`: what a group has done above its stable offsets, and what is left."""

from __future__ import annotations

import json

import click

from assignors import TopicPartition
from coop_consumer.admin.inspect import Inspector
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.output import echo
from coop_consumer.cli.places import TOPIC_PARTITION
from coop_consumer.plain_text import all_printable, counted
from coop_consumer.status import gaps as shown_gaps
from coop_consumer.status.errors import PartitionMissingError
from coop_consumer.status.model import group_status


@click.command(short_help="Show what is done above a group's stable offsets.")
@click.argument("group")
@click.argument("place", metavar="[TOPIC-PARTITION]", type=TOPIC_PARTITION, required=False)
@click.option("--json", "in_json", is_flag=True, help="Print JSON, documented in docs/cli.md.")
@connection_options
@log_option("warning")
def gaps(
    connection: Connection, *, group: str, place: TopicPartition | None, in_json: bool
) -> None:
    """Show the gap ranges of GROUP: what is done above stable offsets, and what is left.

    A gap range is done for every key. Where key ranges differ, each has a line of its own. Without
    TOPIC-PARTITION, partitions without gap ranges are only counted.
    """
    with Inspector(connection.config(group)) as inspector:
        seen = inspector.see([place.topic] if place else [], records=False, waits=False)
    status = group_status(seen)
    if place is not None:
        PartitionMissingError.check(place, [it.tp for it in status.partitions])
    partitions = [it for it in status.partitions if place in (None, it.tp)]
    if in_json:
        told = {
            "group": group,
            "at_ms": status.at_ms,
            "partitions": [shown_gaps.partition_as_json(it) for it in partitions],
        }
        echo(json.dumps(all_printable(told)))
        return
    shown = [it for it in partitions if place or shown_gaps.has_gaps(it)]
    for partition in shown:
        echo("\n".join(shown_gaps.lines(partition)))
    without = len(partitions) - len(shown)
    if without:
        others = counted(without, "partition has", "partitions have")
        echo(f"{others} nothing done above the stable offset")
