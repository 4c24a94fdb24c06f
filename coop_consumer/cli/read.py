"""`coop-consumer read`: the records of a topic, as text or JSON."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import nullcontext, suppress

import click

from coop_consumer.admin.reading import TopicRecord, read_topic
from coop_consumer.admin.target import Target
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.output import echo
from coop_consumer.cli.places import TOPIC
from coop_consumer.cli.usage import NumberType
from coop_consumer.plain_text import printable

NO_GROUP = "coop-consumer-read"
"""A group name for a configuration that needs one; nothing is committed."""


@click.command(short_help="Show the records of a topic.")
@click.argument("topic", type=TOPIC)
@click.option(
    "--from",
    "start",
    default="earliest",
    show_default=True,
    metavar="earliest|latest|OFFSET|TIMESTAMP",
    help="Where to begin: an end, an offset, or the first record of a time: ISO 8601 (UTC if it "
    "names no zone) or Unix milliseconds (13 digits or more). latest follows.",
)
@click.option("--count", type=NumberType(1, sample=10), help="End after so many records.")
@click.option(
    "--partition",
    "-p",
    "numbers",
    multiple=True,
    type=NumberType(0, sample=1),
    metavar="NUMBER",
    help="Only this partition; may be repeated.",
)
@click.option(
    "--follow", "-f", is_flag=True, help="Go on with records that come later, until interrupted."
)
@click.option("--json", "in_json", is_flag=True, help="Print JSON, documented in docs/cli.md.")
@connection_options
@log_option("warning")
def read(
    connection: Connection,
    *,
    topic: str,
    start: str,
    count: int | None,
    numbers: tuple[int, ...],
    follow: bool,
    in_json: bool,
) -> None:
    """Show the records that TOPIC has now, a line each.

    It joins no group and commits nothing. Of each partition the records come in order; partitions
    take turns. Records of open and aborted transactions are left out, unless --config
    isolation.level=read_uncommitted says otherwise.
    """
    target = Target.parse(start, "--from", committed=False)
    config = connection.config(NO_GROUP)
    follows = follow or target.kind == "latest"
    shown = 0
    with suppress(KeyboardInterrupt) if follows else nullcontext():
        for batch in read_topic(config, topic, target, numbers=numbers, follows=follows):
            records = batch if count is None else batch[: count - shown]
            shown += len(records)
            if records:
                echo("\n".join(_as_json(it) if in_json else _as_text(it) for it in records))
            if shown == count:
                return
    if not shown and not follows:
        echo(f"topic {topic}: no records from {start} on", err=True)


def _as_text(record: TopicRecord) -> str:
    key = "(no key)" if record.key is None else _text(record.key)
    value = "(tombstone)" if record.value is None else _text(record.value)
    headers = ", ".join(
        printable(name) if value is None else f"{printable(name)}={_text(value)}"
        for name, value in record.headers
    )
    line = f"{record.tp} offset {record.offset}  {key}  {value}"
    return f"{line}  {{{headers}}}" if headers else line


def _text(raw: bytes) -> str:
    return printable(raw.decode("utf-8", "backslashreplace"))


def _as_json(record: TopicRecord) -> str:
    told: dict[str, object] = {
        "topic": record.tp.topic,
        "partition": record.tp.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
    }
    for name, raw in (("key", record.key), ("value", record.value)):
        told |= _json_of(name, raw)
    told["headers"] = [{"name": name, **_json_of("value", raw)} for name, raw in record.headers]
    return json.dumps(told)


def _json_of(name: str, raw: bytes | None) -> dict[str, object]:
    """Bytes as text; if they are no UTF-8, exactly as well."""
    if raw is None:
        return {name: None}
    try:
        return {name: raw.decode("utf-8")}
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "backslashreplace")
        return {name: text, f"{name}_base64": b64encode(raw).decode()}
