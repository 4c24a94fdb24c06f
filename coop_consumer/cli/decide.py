"""`coop-consumer retry` and `skip`: a person decides about parked records."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, ParamSpec, TypeVar

import click

from assignors import TopicPartition, key_hash
from coop_consumer.admin.amend import Amender
from coop_consumer.admin.inspect import Inspector
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.output import echo
from coop_consumer.cli.places import TOPIC_PARTITION, BracketedArgument
from coop_consumer.plain_text import printable
from coop_consumer.status.errors import (
    GroupMissingError,
    NotParkedError,
    PartitionMissingError,
)
from coop_consumer.status.model import GroupStatus, PartitionStatus, RecordStatus, group_status
from coop_consumer.status.seen import GroupSeen
from coop_consumer.status.words import key_text

P = ParamSpec("P")
R = TypeVar("R")

_ERRORS_SHOWN = 5
"""Of each partition; the number of each of them is shown."""
OUTCOMES = {
    "retry": "is tried again, with all its attempts before it",
    "skip": "counts as done without having been processed, and the next of its key follows",
}


def _choice_options(command: Callable[P, R]) -> Callable[P, R]:
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
                type=click.IntRange(min=0),
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
        command = add(command)
    return command


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
        """Whether a record is chosen by the options."""
        return (
            record.is_parked
            and (not self.topics or tp.topic in self.topics)
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


def _decide(
    connection: Connection, group: str, choice: _Choice, action: Literal["retry", "skip"]
) -> None:
    one = choice.one
    if one is None:
        _decide_many(connection, group, choice, action)
        return
    place, offset = one
    with Inspector(connection.config(group)) as inspector:
        seen = inspector.see([place.topic])
        _refuse_unknown(seen)
        record = _parked(group_status(seen), place, offset)
        partition = next(p for p in seen.partitions if p.tp == place)
        if not choice.dry_run:
            Amender(inspector).decide([(partition, [offset])], action)
    who = (
        f"at member {record.member} on {record.host}" if record.member else "once a member owns it"
    )
    what = "is parked; nothing was decided" if choice.dry_run else f"{OUTCOMES[action]}, {who}"
    echo(f"{place} offset {offset} ({key_text(record)}): {what}")


def _decide_many(
    connection: Connection, group: str, choice: _Choice, action: Literal["retry", "skip"]
) -> None:
    with Inspector(connection.config(group)) as inspector:
        seen = inspector.see(choice.topics, records=False)
        _refuse_unknown(seen)
        chosen = {
            partition.tp: records
            for partition in group_status(seen).partitions
            if (records := [it for it in partition.failed if choice.fits(partition.tp, it)])
        }
        if not choice.dry_run:
            partitions = {partition.tp: partition for partition in seen.partitions}
            Amender(inspector).decide(
                [(partitions[tp], [it.offset for it in them]) for tp, them in chosen.items()],
                action,
            )
    for tp, records in chosen.items():
        for error, count in Counter(record.error for record in records).most_common(_ERRORS_SHOWN):
            echo(f"{tp}: {_count(count)}, {error}")
    total = sum(map(len, chosen.values()))
    if not total:
        echo("No parked record fits. `coop-consumer status` lists those that are parked.")
    elif choice.dry_run:
        echo(f"{_count(total)} would be decided about. Nothing was decided (--dry-run).")
    else:
        echo(f"{_count(total)}: each {OUTCOMES[action]}")


def _refuse_unknown(seen: GroupSeen) -> None:
    """See that somebody knows the group; a topic that was named proves nothing.

    Raises:
        GroupMissingError: Nobody does.
    """
    known = bool(seen.members or seen.topics_committed)
    stores = [partition.store for partition in seen.partitions]
    if not known and all(store.epoch is None and not store.tenures() for store in stores):
        raise GroupMissingError(seen.group)


def _count(count: int) -> str:
    return f"{count:,} parked record{'' if count == 1 else 's'}"


def _parked(status: GroupStatus, place: TopicPartition, offset: int) -> RecordStatus:
    """The parked record.

    Raises:
        PartitionMissingError: The partition does not exist.
        NotParkedError: The record is not parked; the text says what it is instead.
    """
    partitions = {p.tp: p for p in status.partitions}
    PartitionMissingError.check(place, partitions)
    partition = partitions[place]
    record = next((r for r in partition.failed if r.offset == offset), None)
    if record is None or not record.is_parked:
        problem = _actual_standing(partition, offset, record)
        raise NotParkedError(place.topic, place.partition, offset, problem)
    return record


def _actual_standing(partition: PartitionStatus, offset: int, record: RecordStatus | None) -> str:
    if record is not None:
        return f"is not parked: it failed {record.attempts} times and is being tried again"
    if offset >= partition.end:
        return f"is not there yet, the partition ends at {partition.end}"
    if partition.stable is not None and offset < partition.stable:
        return f"is done already, the stable offset is {partition.stable}"
    return "has not failed: it is done, or waits its turn"
