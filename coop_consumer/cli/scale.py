"""`coop-consumer scale`: how many members a group wants, for a person or an autoscaler."""

from __future__ import annotations

import json
import time
from contextlib import suppress

import click

from coop_consumer.admin.advisor import Advisor
from coop_consumer.admin.inspect import Inspector
from coop_consumer.cli.options import Connection, connection_options, log_option, look_options
from coop_consumer.cli.output import echo
from coop_consumer.plain_text import counted
from coop_consumer.status.as_json import scale_as_json
from coop_consumer.status.model import GroupStatus
from coop_consumer.status.scale import ScaleAdvice

WATCH_S = 5.0


@click.command(short_help="Say how many members a group wants, how many can help, and why.")
@look_options(WATCH_S, "Say")
@connection_options
@log_option("warning")
def scale(
    connection: Connection,
    *,
    group: str,
    topics: tuple[str, ...],
    in_json: bool,
    watch: float | None,
) -> None:
    """Say how many members GROUP wants, how many can help at most, and why.

    The members wanted do what arrives, and what is left within scale.drain.target.s (60). With
    --watch the command measures what arrives by itself, and keeps its number steady: so an
    autoscaler should use it.

    It never joins the group and changes nothing.
    """
    with Inspector(connection.config(group)) as inspector:
        advisor = Advisor(inspector, topics)
        if watch is None:
            _show(advisor.look(), in_json=in_json)
            return
        with suppress(KeyboardInterrupt):
            while True:
                _show(advisor.look(), in_json=in_json)
                time.sleep(watch)


def _show(found: tuple[GroupStatus, ScaleAdvice], *, in_json: bool) -> None:
    status, advice = found
    if in_json:
        echo(json.dumps(scale_as_json(status, advice), allow_nan=False))
        return
    useful = "" if not advice.useful else f", at most {advice.useful:,} useful"
    reason = advice.reason[:1].upper() + advice.reason[1:]
    echo(f"{counted(advice.members, 'member')}, {advice.wanted:,} wanted{useful}. {reason}")
