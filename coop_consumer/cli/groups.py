"""`coop-consumer groups`: which groups progress topics hold records of, and whether they live."""

from __future__ import annotations

import json
import time

import click
from rich.table import Table

from coop_consumer.admin.group_list import GroupList, GroupRow, list_groups
from coop_consumer.cli.duration import ago
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.output import echo
from coop_consumer.cli.terminal import console
from coop_consumer.plain_text import all_printable, counted, printable

NO_GROUP = "coop-consumer-groups"
"""A group name for a configuration that needs one, where none is meant."""


@click.command(short_help="List the groups that have records in a progress topic.")
@click.option("--json", "in_json", is_flag=True, help="Print JSON, documented in docs/cli.md.")
@connection_options
@log_option("warning")
def groups(connection: Connection, *, in_json: bool) -> None:
    """List the groups that have records in a progress topic.

    For each: Kafka's word for its state, when it wrote last, and how much the topic holds of it.
    Kafka does not know a Forgotten group any more: it has no members, and its committed offsets
    have expired. The log still has its progress, until `coop-consumer gc` clears it.
    """
    found = list_groups(connection.config(NO_GROUP))
    now_ms = time.time_ns() // 1_000_000
    if in_json:
        echo(json.dumps(all_printable(_as_dict(found, now_ms))))
        return
    if found.rows:
        console().print(_table(found.rows, now_ms), crop=False)
    else:
        echo("no group has records in a progress topic")
    for reason, count in sorted(found.unreadable.items()):
        echo(f"{counted(count, 'record')} could not be read: {reason}")
    for topic in found.hidden_topics:
        echo(f"topic {topic}: this user may not read it. Grant read on topic {topic}")


def _table(rows: tuple[GroupRow, ...], now_ms: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bright_black", padding=(0, 2, 0, 0))
    table.add_column("group", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("guarantee", no_wrap=True)
    for name in ("last record", "records", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    for it in rows:
        last = f"{ago(now_ms - it.last_ms)} ago" if it.last_ms else "none"
        guarantee = it.guarantee.value.replace("_", " ")
        size = f"{it.records:,}", f"{it.size_bytes:,}"
        table.add_row(printable(it.group), it.state, guarantee, last, *size)
    return table


def _as_dict(found: GroupList, now_ms: int) -> dict[str, object]:
    return {
        "at_ms": now_ms,
        "groups": [
            {
                "group": it.group,
                "state": it.state,
                "guarantee": it.guarantee.value,
                "topic": it.topic,
                "last_record_ms": it.last_ms or None,
                "records": it.records,
                "bytes": it.size_bytes,
            }
            for it in found.rows
        ],
        "unreadable": dict(found.unreadable),
        "hidden_topics": list(found.hidden_topics),
    }
