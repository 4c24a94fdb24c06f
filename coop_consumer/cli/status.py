"""`coop-consumer status`: where a group stands, as a picture or JSON, once or again and again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress

import click
from rich.live import Live

from coop_consumer.admin.inspect import Inspector
from coop_consumer.cli.options import Connection, connection_options, log_option, look_options
from coop_consumer.cli.output import echo
from coop_consumer.cli.terminal import console
from coop_consumer.status.as_json import as_json
from coop_consumer.status.model import GroupStatus, group_status
from coop_consumer.status.picture import Picture

WATCH_S = 2.0


@click.command(short_help="Show where a group stands: progress, owners, what holds it up.")
@look_options(WATCH_S, "Show")
@click.option(
    "--all", "shows_all", is_flag=True, help="Show all partitions and warnings, however many."
)
@connection_options
@log_option("warning")
def status(
    connection: Connection,
    *,
    group: str,
    topics: tuple[str, ...],
    in_json: bool,
    watch: float | None,
    shows_all: bool,
) -> None:
    """Show where GROUP stands.

    The bars show the hash space of each partition: shaded by what is done, coloured and lettered by
    owner, red where a record is parked. Below: offsets, lag as stock tools see it, and the records
    really left; a number after ~ is an estimate. Of many partitions it shows 50, those in trouble
    first.

    It never joins the group and changes nothing.
    """
    with Inspector(connection.config(group)) as inspector:

        def look() -> GroupStatus:
            return group_status(inspector.see(topics, waits=False), connection.words)

        if watch is None:
            _show(look(), in_json=in_json, shows_all=shows_all)
            return
        with suppress(KeyboardInterrupt):
            _watch(look, watch, in_json=in_json, shows_all=shows_all)


def _show(status: GroupStatus, *, in_json: bool, shows_all: bool) -> None:
    if in_json:
        echo(json.dumps(as_json(status)))
    else:
        picture = Picture(status, shows_all=shows_all)
        console().print(picture, crop=False)  # commands to be pasted stay one line


def _watch(
    look: Callable[[], GroupStatus], interval_s: float, *, in_json: bool, shows_all: bool
) -> None:
    """Show until interrupted; JSON is one line a time, so that a program can follow it."""
    shown_on = console()
    if in_json or not shown_on.is_terminal:
        while True:
            _show(look(), in_json=in_json, shows_all=shows_all)
            time.sleep(interval_s)
    with Live(console=shown_on, auto_refresh=False, screen=True) as live:
        while True:
            live.update(Picture(look(), shows_all=shows_all), refresh=True)
            time.sleep(interval_s)
