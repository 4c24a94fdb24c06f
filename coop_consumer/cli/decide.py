"""`coop-consumer retry` and `skip`: a person decides about parked records."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ParamSpec, TypeVar

import click

from assignors import TopicPartition, key_hash
from coop_consumer.admin.deciding import (
    OUTCOMES,
    Decision,
    count_of,
    decide_many,
    decide_one,
    in_words,
)
from coop_consumer.admin.inspect import Inspector
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.output import echo
from coop_consumer.cli.places import TOPIC_PARTITION, BracketedArgument
from coop_consumer.cli.usage import NumberType
from coop_consumer.plain_text import command, printable
from coop_consumer.status.errors import NotParkedError
from coop_consumer.status.model import RecordStatus
from coop_consumer.status.words import key_text

P = ParamSpec("P")
R = TypeVar("R")


def _choice_options(decides: Callable[P, R]) -> Callable[P, R]:
    """Add what names one parked record, or many."""
    for add in reversed(
        (
            click.argument("group"),
            click.argument(
                "place",
                metavar="[TOPIC-PARTITION",
                type=TOPIC_PARTITION,
                required=False,
                cls=BracketedArgument,
            ),
            click.argument(
                "offset",
                metavar="OFFSET]",
                type=NumberType(0, sample=43),
                required=False,
                cls=BracketedArgument,
            ),
            click.option("--all", "everything", is_flag=True, help="All that are parked."),
            click.option(
                "--error",
                metavar="TEXT",
                help="Those whose error contains this text, in capitals or not.",
            ),
            click.option(
                "--topic", "topics", multiple=True, metavar="TOPIC", help="Those of this topic."
            ),
            click.option("--key", "keys", multiple=True, metavar="KEY", help="Those of this key."),
            click.option("--dry-run", is_flag=True, help="Show them, and decide nothing."),
        )
    ):
        decides = add(decides)
    return decides


@click.command(short_help="Try parked records again.")
@_choice_options
@connection_options
@log_option("warning")
def retry(connection: Connection, /, *, group: str, **given: Any) -> None:
    """Try the parked record at OFFSET of TOPIC-PARTITION again, or all that the options choose.

    A record is chosen if it fits all options; --topic and --key may be repeated. The decisions are
    written to the progress log. The member that holds a record carries them out within moments; if
    none does, the next owner of the key does.
    """
    _decide(connection, group, _Choice(**given), "retry")


@click.command(short_help="Count parked records as done, unprocessed.")
@_choice_options
@connection_options
@log_option("warning")
def skip(connection: Connection, /, *, group: str, **given: Any) -> None:
    """Count the parked record at OFFSET of TOPIC-PARTITION as done, or all that the options choose.

    None of them is processed. A record is chosen if it fits all options; --topic and --key may be
    repeated. The decisions are written to the progress log. The member that holds a record carries
    them out within moments; if none does, the next owner of the key does. They cannot be undone.
    """
    _decide(connection, group, _Choice(**given), "skip")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """The chosen records: one by its place, or all that fit the options."""

    place: TopicPartition | None
    offset: int | None
    everything: bool
    error: str | None
    topics: tuple[str, ...]
    keys: tuple[str, ...]
    dry_run: bool

    @property
    def one(self) -> tuple[TopicPartition, int] | None:
        """The place of a single record; None: the options choose.

        Raises:
            UsageError: Both are given, or neither; or a text that chooses nothing.
        """
        if self.error is not None and not self.error.strip():
            raise click.UsageError(
                "--error is empty, which every error contains. To choose all: --all."
            )
        chooses = bool(self.everything or self.error is not None or self.topics or self.keys)
        if self.place is None and not chooses:
            raise click.UsageError(
                "Name a record by TOPIC-PARTITION and OFFSET, or choose by --all, --error, "
                "--topic, --key."
            )
        if self.place is None or self.offset is None:
            if self.place is not None:
                raise click.UsageError("Name the record's OFFSET, too; or choose by --topic.")
            return None
        if chooses:
            raise click.UsageError("Name one record, or choose by options: not both.")
        return self.place, self.offset

    def fits(self, tp: TopicPartition, record: RecordStatus) -> bool:
        """Whether a parked record is chosen by the options."""
        return (
            (not self.topics or tp.topic in self.topics)
            and (self.error is None or _printable(self.error) in record.error.casefold())
            and (not self.keys or record.key_hash in _hashes(self.keys))
        )


@cache
def _hashes(keys: tuple[str, ...]) -> frozenset[int]:
    """The hashes of the keys, as the bytes that the shell has given."""
    return frozenset(key_hash(os.fsencode(key)) for key in keys)


@cache
def _printable(text: str) -> str:
    """A text as error messages show it: in one line, without control characters."""
    return printable(re.sub(r"\s+", " ", text)).casefold()


def _decide(connection: Connection, group: str, choice: _Choice, decision: Decision) -> None:
    one = choice.one
    if one is None:
        _decide_many(connection, group, choice, decision)
        return
    place, offset = one
    with Inspector(connection.config(group)) as inspector:
        try:
            record = decide_one(inspector, place, offset, decision, is_trial=choice.dry_run)
        except NotParkedError as error:
            status = command("status", group, options=connection.words)
            error.add_note(f"To see them:\n    {status}")
            raise
    who = (
        f"at member {record.member} on {record.host}" if record.member else "once a member owns it"
    )
    what = "is parked; nothing was decided" if choice.dry_run else f"{OUTCOMES[decision]}, {who}"
    echo(f"{place} offset {offset} ({key_text(record)}): {what}")


def _decide_many(connection: Connection, group: str, choice: _Choice, decision: Decision) -> None:
    with Inspector(connection.config(group)) as inspector:
        chosen = decide_many(
            inspector, choice.fits, decision, topics=choice.topics, is_trial=choice.dry_run
        )
    for line in in_words(chosen):
        echo(line)
    total = sum(map(len, chosen.values()))
    if not total:
        status = command("status", group, options=connection.words)
        echo(f"No parked record fits. `{status}` lists those that are parked.")
    elif choice.dry_run:
        echo(f"{count_of(total)} would be decided about. Nothing was decided (--dry-run).")
    else:
        echo(f"{count_of(total)}: each {OUTCOMES[decision]}")
