"""`coop-consumer reset`: an empty group begins a new epoch at another place."""

from __future__ import annotations

from collections.abc import Iterator

import click
from rich.table import Table

from assignors import TopicPartition
from coop_consumer.admin.amend import Amender, Reset
from coop_consumer.admin.inspect import Inspector
from coop_consumer.admin.target import Target
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.output import echo
from coop_consumer.cli.places import TOPIC, TOPIC_PARTITION
from coop_consumer.cli.terminal import console
from coop_consumer.config import Guarantee
from coop_consumer.plain_text import counted
from coop_consumer.status.errors import PartitionMissingError
from coop_consumer.status.seen import GroupSeen, PartitionSeen


@click.command(short_help="Move an empty group to another place: a new epoch.")
@click.argument("group")
@click.option(
    "--to",
    required=True,
    metavar="earliest|latest|committed|OFFSET|TIMESTAMP",
    help="Where to: an end, what Kafka has as committed, an offset, or the first record of a time: "
    "ISO 8601 (UTC if it names no zone) or Unix milliseconds (13 digits or more).",
)
@click.option(
    "--topic", "-t", "topics", multiple=True, type=TOPIC, help="Only this topic; may be repeated."
)
@click.option(
    "--partition",
    "-p",
    "places",
    multiple=True,
    type=TOPIC_PARTITION,
    help="Only this partition, as in orders-3; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@connection_options
@log_option("warning")
def reset(
    connection: Connection,
    *,
    group: str,
    to: str,
    topics: tuple[str, ...],
    places: tuple[TopicPartition, ...],
    dry_run: bool,
) -> None:
    """Move GROUP to another place; its records from there on come (again).

    The group must be empty. All of its topics are moved unless --topic or --partition picks some; a
    topic named there may be one that the group has not begun. To repeat the command changes
    nothing more; one that was interrupted is completed by repeating it, or by the next member.
    """
    target = Target.parse(to)
    with Inspector(connection.config(group)) as inspector:
        amender = Amender(inspector)
        named = {*topics, *(place.topic for place in places)}
        seen = inspector.see(named)
        amender.check_empty()
        resets = amender.plan_reset(_chosen(seen, named, topics, places), target)
        console().print(_table(resets))
        for line in _unknown(resets, seen.guarantee):
            echo(line)
        if dry_run:
            echo("dry run: nothing was changed")
            return
        amender.reset(resets)
        changed = sum(reset.is_needed for reset in resets)
        echo(f"{changed} of {counted(len(resets), 'partition')} moved")


def _chosen(
    seen: GroupSeen,
    named: set[str],
    topics: tuple[str, ...],
    places: tuple[TopicPartition, ...],
) -> list[PartitionSeen]:
    """The partitions to move.

    Raises:
        PartitionMissingError: If a partition is named that does not exist.
    """
    if not named:
        return list(seen.partitions)
    known = {partition.tp for partition in seen.partitions}
    for place in places:
        PartitionMissingError.check(place, known)
    return [p for p in seen.partitions if p.tp.topic in topics or p.tp in places]


def _unknown(resets: list[Reset], guarantee: str) -> Iterator[str]:
    """For each partition whose log is lost: what comes though it may be done."""
    is_once = guarantee == Guarantee.EXACTLY_ONCE
    what = "have visible results, which come again" if is_once else "be done"
    for it in resets:
        if it.unknown is not None:
            yield (
                f"{it.seen.tp}: the progress log has lost what was done above the committed offset "
                f"{it.stable}. Offsets {it.unknown} come, and some of them may {what}."
            )


def _table(resets: list[Reset]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bright_black", padding=(0, 2, 0, 0))
    table.add_column("partition", no_wrap=True)
    for name in ("stable", "->", "epoch", "-> ", "comes again", "passed over"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for reset in resets:
        before = reset.stable if reset.stable is not None else reset.offset
        table.add_row(
            str(reset.seen.tp),
            "none" if reset.stable is None else f"{reset.stable:,}",
            f"{reset.offset:,}",
            str(reset.epoch or "none"),
            str(reset.new_epoch),
            f"{max(before - reset.offset, 0):,}",
            f"{max(reset.offset - before, 0):,}",
            "" if reset.is_needed else "stands there",
        )
    return table
