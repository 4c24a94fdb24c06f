"""`coop-consumer release`: a person ends a wait, at the risk of the order of some keys."""

from __future__ import annotations

import click

from assignors import TopicPartition
from coop_consumer.admin.inspect import Inspector
from coop_consumer.admin.releasing import release_all, waits_of
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.output import echo
from coop_consumer.cli.places import TOPIC_PARTITION
from coop_consumer.plain_text import command


@click.command(short_help="Let members begin that wait for another one's handler.")
@click.argument("group")
@click.argument("place", metavar="[TOPIC-PARTITION]", type=TOPIC_PARTITION, required=False)
@click.option("--holder", help="Only what this member holds.")
@click.option("--dry-run", is_flag=True, help="Show what would be released, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@connection_options
@log_option("warning")
def release(
    connection: Connection,
    *,
    group: str,
    place: TopicPartition | None,
    holder: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Release what members of GROUP wait for, in the name of those that hold it.

    No time-out does this: while a handler runs, another handler must not begin with its key. If you
    know that the handler has stopped (its host hangs, for example), this lets the others begin. If
    the handler continues after all, the order of its keys is broken and records repeat; nothing is
    lost. Members count such cases. It is safer to end the holder's process, if you can.

    With exactly once, members that hold what others wait for are put out of the group first. So
    what their handlers still do there never counts, and no order breaks.
    """
    with Inspector(connection.config(group)) as inspector:
        waits = waits_of(inspector, place, holder)
        if not waits.found:
            echo(f"group {group}: nobody waits{f' for {holder}' if holder else ''}")
            return
        for line in waits.lines:
            echo(line)
        if dry_run:
            return
        risk = "" if waits.is_once else "Their order may break. "
        if not (yes or _agrees(f"{risk}Release them?")):
            echo("Nothing was released.")
            return
        release_all(inspector, waits)
    status = command("status", group, options=connection.words)
    echo(f"Released. `{status}` shows who begins.")


def _agrees(question: str) -> bool:
    """The answer of the person at the terminal.

    Raises:
        click.UsageError: Nobody answers: there is no terminal, and no text in its place.
    """
    try:
        return click.confirm(question)
    except click.Abort as abort:
        if isinstance(abort.__context__, KeyboardInterrupt):  # click makes no difference
            raise KeyboardInterrupt from None
        raise click.UsageError(
            "nobody answers the question. Nothing was released. To release without it: --yes."
        ) from None
