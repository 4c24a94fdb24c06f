"""`coop-consumer send`: records from a command line, a file or a pipe."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

import click

from coop_consumer.admin.sending import ANY_PARTITION, Sending, TypedRecord
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.output import echo
from coop_consumer.cli.places import TOPIC
from coop_consumer.cli.usage import LinesType, NumberType
from coop_consumer.config.setting import shown
from coop_consumer.errors import ConfigError
from coop_consumer.plain_text import counted

NO_GROUP = "coop-consumer-send"
"""A group name for a configuration that needs one, where none is meant."""


@dataclass(frozen=True, slots=True)
class LineForm:
    """What a line is.

    Attributes:
        common: What all records have.
        separator: What parts key and value, if a line has both.
        tombstones: Whether a line is a key to delete.
    """

    common: TypedRecord
    separator: bytes | None
    tombstones: bool

    def record(self, number: int, line: bytes) -> TypedRecord:
        """The record of a line.

        Raises:
            ConfigError: It has no separator.
        """
        if self.tombstones:
            return replace(self.common, key=line)
        if self.separator is None:
            return replace(self.common, value=line)
        key, found, value = line.partition(self.separator)
        if not found:
            raise ConfigError(
                "--separator",
                f"={shown(os.fsdecode(self.separator))} is not in line {number}, so it has no key",
                "Correct that line, and send it and those behind it",
                "The lines before it were sent",
            )
        return replace(self.common, key=key, value=value)


@click.command(short_help="Send records to a topic.")
@click.argument("topic", type=TOPIC)
@click.option("--key", help="The key. Records of a key keep their order; without one any goes.")
@click.option("--value", help="The value of one record.")
@click.option(
    "--lines",
    type=LinesType(),
    metavar="FILE",
    help="A record for each line of this file; - is the standard input.",
)
@click.option(
    "--separator",
    metavar="TEXT",
    help="With --lines: what parts key and value in a line, as in : or \\t.",
)
@click.option(
    "--tombstone",
    is_flag=True,
    help="Send no value, which deletes the key from a compacted topic. With --lines, a line is a "
    "key.",
)
@click.option(
    "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header; may be repeated."
)
@click.option(
    "--partition",
    type=NumberType(0, sample=1),
    metavar="NUMBER",
    help="To this partition; by default the key says to which.",
)
@click.option("--json", "in_json", is_flag=True, help="Print JSON, documented in docs/cli.md.")
@connection_options
@log_option("warning")
def send(
    connection: Connection,
    *,
    topic: str,
    key: str | None,
    value: str | None,
    lines: BinaryIO | None,
    separator: str | None,
    tombstone: bool,
    headers: tuple[str, ...],
    partition: int | None,
    in_json: bool,
) -> None:
    """Send one record, or one for each line, to TOPIC.

    The command ends once Kafka has all of them. If it ends sooner, it says how many Kafka has.
    """
    _refuse_unclear(key, value, lines, separator, tombstone=tombstone)
    common = TypedRecord(
        None if key is None else os.fsencode(key),
        None if value is None else os.fsencode(value),
        tuple(map(_header, headers)),
        ANY_PARTITION if partition is None else partition,
    )
    records = iter([common])
    if lines is not None:
        parts = None if separator is None else os.fsencode(separator.replace("\\t", "\t"))
        records = _records(lines, LineForm(common, parts, tombstone))
    sending = Sending(connection.config(NO_GROUP), topic)
    try:
        with sending:
            sending.send(records)
    except BaseException:  # also an interrupt
        echo(f"{counted(sending.count, 'record')} in {topic}", err=True)
        raise
    _tell(sending, in_json=in_json)


def _refuse_unclear(
    key: str | None,
    value: str | None,
    lines: BinaryIO | None,
    separator: str | None,
    *,
    tombstone: bool,
) -> None:
    """Refuse options that leave open what is sent.

    Raises:
        click.UsageError: They do.
    """
    problem = ""
    if value is not None and (lines is not None or tombstone):
        problem = "--value is the value of one record: give it without --lines and --tombstone"
    elif value is None and lines is None and not tombstone:
        problem = "nothing to send: give --value TEXT, --lines FILE (- is the standard input)"
    elif lines is None and separator is not None:
        problem = "--separator is for --lines: with --value give --key"
    elif separator == "":
        problem = "--separator is empty"
    elif key is not None and separator is not None:
        problem = "--key and --separator both give the key: give one of them"
    elif tombstone and lines is None and key is None:
        problem = "--tombstone deletes a key: give --key"
    elif tombstone and lines is not None and (key is not None or separator is not None):
        problem = "with --tombstone and --lines each line is a key: leave --key and --separator out"
    if problem:
        raise click.UsageError(problem)


def _header(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise ConfigError("--header", "needs name=value", "Write, say, source=import")
    try:
        name.encode()
    except UnicodeEncodeError:  # bytes of the command line that confluent-kafka would crash by
        remedy = "Only its value may be any bytes"
        raise ConfigError("--header", "needs a name in UTF-8", remedy) from None
    return name, os.fsencode(value)


def _records(lines: BinaryIO, form: LineForm) -> Iterator[TypedRecord]:
    """A record for each line, as the lines come; a line ends in a line feed, or both of Windows."""
    for number, line in enumerate(lines, start=1):
        yield form.record(number, line.removesuffix(b"\n").removesuffix(b"\r"))


def _tell(sending: Sending, *, in_json: bool) -> None:
    places = sending.places()
    if in_json:
        told = [
            {"partition": tp.partition, "records": it.count, "first": it.first, "last": it.last}
            for tp, it in places
        ]
        echo(json.dumps({"topic": sending.topic, "records": sending.count, "partitions": told}))
    elif sending.count == 1:
        [(tp, it)] = places
        echo(f"1 record sent: {tp} offset {it.last}")
    else:
        shares = ", ".join(f"{it.count:,} to {tp}" for tp, it in places)
        echo(f"{counted(sending.count, 'record')} sent{': ' if shares else ''}{shares}")
