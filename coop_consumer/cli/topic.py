"""`coop-consumer topic`: topics made, listed, and shown."""

from __future__ import annotations

import json

import click
from rich.console import Group
from rich.table import Table
from rich.text import Text

from coop_consumer.admin.topic_admin import BROKERS_DEFAULT, TopicAdmin, TopicView
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.output import echo
from coop_consumer.cli.places import TOPIC
from coop_consumer.cli.terminal import console
from coop_consumer.cli.usage import NumberType
from coop_consumer.errors import ConfigError
from coop_consumer.plain_text import all_printable, counted

NO_GROUP = "coop-consumer-topic"
"""A group name for a configuration that needs one, where none is meant."""
PARTITIONS_MAX, COPIES_MAX = 100_000, 10_000
"""librdkafka asks for no more."""


@click.group(short_help="Create, list and describe topics.")
def topic() -> None:
    """Create, list and describe topics."""


@topic.command()
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True, type=TOPIC)
@click.option(
    "--partitions",
    type=NumberType(1, PARTITIONS_MAX, sample=3),
    help="How many; by default as the brokers say.",
)
@click.option(
    "--replication",
    type=NumberType(1, COPIES_MAX, sample=3),
    help="On how many brokers each is kept; by default as the brokers say.",
)
@click.option(
    "--topic-config",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the topic, as in retention.ms=-1; may be repeated.",
)
@connection_options
@log_option("warning")
def create(
    connection: Connection,
    *,
    names: tuple[str, ...],
    partitions: int | None,
    replication: int | None,
    settings: tuple[str, ...],
) -> None:
    """Create topics, and wait until brokers serve all their partitions.

    A topic that exists as it is to be is left alone. If it differs from what is named here, nothing
    is changed, and the exit code is 7.
    """
    wanted = dict(map(_setting, settings))
    try:
        topics = TopicAdmin(connection.config(NO_GROUP))
    except ConfigError as error:
        if error.name in dict(connection.options):
            error.add_note("A setting of the topic itself is given by --topic-config NAME=VALUE.")
        raise
    topics.check_broker()
    for name in names:
        is_new, facts = topics.make(
            name, partitions or BROKERS_DEFAULT, replication or BROKERS_DEFAULT, wanted
        )
        count = counted(facts.partitions, "partition")
        echo(f"topic {name}: {'created' if is_new else 'exists'}, {count}")


@topic.command(name="list", short_help="List topics.")
@click.option("--all", "everything", is_flag=True, help="Also those of Kafka and of progress.")
@click.option("--json", "in_json", is_flag=True, help="Print JSON, documented in docs/cli.md.")
@connection_options
@log_option("warning")
def list_topics(connection: Connection, *, everything: bool, in_json: bool) -> None:
    """List the topics that this user may see."""
    topics = TopicAdmin(connection.config(NO_GROUP))
    topics.check_broker()
    found = topics.sizes(internal=everything)
    if in_json:
        told = [
            {"topic": name, "partitions": it.partitions, "replication": it.replication}
            for name, it in sorted(found.items())
        ]
        echo(json.dumps({"topics": told}))
        return
    if not found:
        echo("no topics; `coop-consumer topic create NAME` makes one")
        return
    table = _table("topic", "partitions", "replication")
    for name, it in sorted(found.items()):
        table.add_row(name, str(it.partitions), str(it.replication))
    console().print(table)


@topic.command(short_help="Show a topic's partitions and settings.")
@click.argument("name", metavar="TOPIC", type=TOPIC)
@click.option("--json", "in_json", is_flag=True, help="Print JSON, documented in docs/cli.md.")
@connection_options
@log_option("warning")
def describe(connection: Connection, *, name: str, in_json: bool) -> None:
    """Show the partitions of TOPIC, and the settings that are its own.

    The records of a partition are those from `begin` to the one before `end`. Compaction and
    transactions leave holes there.
    """
    topics = TopicAdmin(connection.config(NO_GROUP))
    topics.check_broker()
    view = topics.view(name)
    if in_json:
        echo(json.dumps(all_printable(_as_dict(view))))
    else:
        console().print(_picture(view), crop=False)


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise ConfigError("--topic-config", "needs name=value", "Write, say, retention.ms=-1")
    return name.strip(), value.strip()


def _as_dict(view: TopicView) -> dict[str, object]:
    return {
        "topic": view.name,
        "id": view.id,
        "partitions": [
            {
                "partition": it.number,
                "begin": it.begin,
                "end": it.end,
                "leader": it.leader,
                "replicas": list(it.replicas),
                "in_sync": list(it.in_sync),
            }
            for it in view.partitions
        ],
        "settings": dict(view.settings),
    }


def _picture(view: TopicView) -> Group:
    table = _table("partition", "begin", "end", "leader", "replicas", "in sync")
    for it in view.partitions:
        offsets = ("?" if at is None else f"{at:,}" for at in (it.begin, it.end))
        brokers = (", ".join(map(str, nodes)) for nodes in (it.replicas, it.in_sync))
        leader = "none" if it.leader is None else str(it.leader)
        table.add_row(str(it.number), *offsets, leader, *brokers)
    own = [f"{name}={value}" for name, value in view.settings.items()]
    settings = "\n".join(["", "settings of its own:", *(f"  {it}" for it in own)] if own else [])
    return Group(Text(f"topic {view.name}  id {view.id}\n"), table, Text(settings))


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bright_black", padding=(0, 2, 0, 0))
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table
