"""`coop-consumer clean`: a topic copied without its repeats."""

from __future__ import annotations

import click
from rich.table import Table

from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.places import TOPIC, WRITER
from coop_consumer.cli.terminal import console
from coop_consumer.cli.usage import NumberType
from coop_consumer.patterns.cleaning import (
    Cleaned,
    Unidentified,
    clean_partition,
    cleaning_order,
)
from coop_consumer.patterns.seen import IDENTITY


@click.command(short_help="Copy a topic without its repeats.")
@click.argument("source", type=TOPIC)
@click.argument("target", type=TOPIC)
@click.option(
    "--identity",
    default=",".join(IDENTITY),
    show_default=True,
    metavar="HEADER[,HEADER]",
    help="The headers that say what a record came of; the last is an offset in digits.",
)
@click.option(
    "--look-back",
    type=NumberType(1, sample=1_000_000),
    metavar="RECORDS",
    help="How many records of each partition of TARGET are read to know what it has; by default "
    "all.",
)
@click.option(
    "--unidentified",
    type=click.Choice(["stop", "copy"]),
    default="stop",
    show_default=True,
    help="What to do with a record without these headers.",
)
@click.option(
    "--name",
    type=WRITER,
    metavar="NAME",
    help="Of the group that keeps the places in SOURCE; by default TARGET.cleanup.",
)
@connection_options
@log_option("warning")
def clean(
    connection: Connection,
    *,
    source: str,
    target: str,
    identity: str,
    look_back: int | None,
    unidentified: Unidentified,
    name: str | None,
) -> None:
    """Copy SOURCE to TARGET without the records that came before.

    It copies what SOURCE has now, and goes on from there when it is called again. If it is killed,
    call it again: each record is in TARGET once. TARGET must exist, with as many partitions, and
    nobody else may write to it.
    """
    order = cleaning_order(
        connection.config(name or f"{target}.cleanup"),
        source,
        target,
        identity=tuple(identity.split(",")),
        look_back=look_back,
        unidentified=unidentified,
    )
    table = Table(box=None, pad_edge=False, header_style="bright_black", padding=(0, 2, 0, 0))
    for column in ("partition", "read", "copied", "repeats"):
        table.add_column(column, justify="right", no_wrap=True)
    try:
        for number in range(len(order.ends)):
            _add(table, clean_partition(order, number))
    finally:  # what was done is shown, whatever ends it
        console().print(table)


def _add(table: Table, done: Cleaned) -> None:
    numbers = (done.read, done.copied, done.repeats)
    table.add_row(str(done.partition), *(f"{number:,}" for number in numbers))
