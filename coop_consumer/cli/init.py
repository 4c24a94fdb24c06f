"""`coop-consumer init`: the topics and the rights of a group."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import click

from coop_consumer.admin.provision import ProvisionedTopic, Provisioner
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.output import echo
from coop_consumer.config import chosen_topics
from coop_consumer.errors import ConfigError
from coop_consumer.plain_text import all_printable
from coop_consumer.status.finding import Finding, worst_exit_code
from coop_consumer.status.rights import (
    NeededRight,
    check_strimzi_user,
    kafka_acls,
    strimzi_topic,
    strimzi_user,
)

FORMS = ("text", "kafka-acls", "strimzi")


@click.command(short_help="Make the topics that a group needs, and list its rights.")
@click.option("--group", "-g", metavar="GROUP", required=True, help="The group.")
@click.option(
    "--topics", "-t", multiple=True, metavar="TOPIC[,TOPIC]", help="The topics that it consumes."
)
@click.option("--keyed-state", is_flag=True, help="Its worker keeps state: changelogs, too.")
@click.option("--dry-run", is_flag=True, help="Show what would be made, and change nothing.")
@click.option(
    "--principal",
    metavar="User:NAME",
    help="Who runs its members; by default who logs in here.",
)
@click.option(
    "--as",
    "form",
    type=click.Choice(FORMS),
    default=FORMS[0],
    show_default=True,
    help="How to print the rights: for people, as commands, or as objects of Strimzi.",
)
@click.option("--json", "in_json", is_flag=True, help="Print JSON, documented in docs/cli.md.")
@connection_options
@log_option("warning")
@click.pass_context
def init(
    ctx: click.Context,
    connection: Connection,
    *,
    group: str,
    topics: tuple[str, ...],
    keyed_state: bool,
    dry_run: bool,
    principal: str | None,
    form: str,
    in_json: bool,
) -> None:
    """Make the topics that GROUP needs for itself, and list the rights of who runs its members.

    The topics are the progress topic, dead-letter topics (on.failure=dead_letter) and changelogs
    (--keyed-state). One that is there is never changed: what differs is told, with the command that
    changes it. Rights are listed, and granted by nobody. Give the settings of the group, as its
    members have them: --config-file, or --config processing.guarantee=exactly_once.
    """
    config = connection.config(group)
    names = chosen_topics(topics) if topics else config.topic_names
    if not names:
        raise ConfigError("--topics", "is missing: no topic to consume", "Name it: --topics orders")
    principal = principal or f"User:{config.user or 'NAME'}"
    if not principal.partition(":")[2]:
        raise ConfigError(
            "--principal", f"={principal} names nobody", "Write it as Kafka does: User:ann"
        )
    if form == "strimzi":
        check_strimzi_user(principal)
    provisioner = Provisioner(config, names, keyed_state=keyed_state)
    found = list(provisioner.consumed())
    rights = provisioner.rights
    provided: list[ProvisionedTopic] = []
    if not in_json:
        _show(found, form)
    for it in provisioner.provide(dry_run=dry_run):
        provided.append(it)
        found += it.findings
        if not in_json:
            _show(it.findings, form)
    if in_json:
        told = _as_dict(found, provided, rights, principal, dry_run=dry_run)
        echo(json.dumps(all_printable(told)))
    else:
        lines = _printed(form, rights, provided, principal, config.bootstrap_servers)
        echo("\n".join(lines))
    ctx.exit(worst_exit_code(found))


def _show(findings: Iterable[Finding], form: str) -> None:
    """Print findings; beside commands or objects they are comments."""
    lead = "" if form == FORMS[0] else "# "
    for it in findings:
        echo(f"{lead}{it.level:<4}  {it.check}: {it.text}")
        if it.remedy:
            echo(f"{lead}      -> {it.remedy}")


def _printed(
    form: str,
    rights: Iterable[NeededRight],
    provided: Iterable[ProvisionedTopic],
    principal: str,
    bootstrap: str,
) -> Iterator[str]:
    if form == "kafka-acls":
        yield from kafka_acls(rights, principal, bootstrap)
    elif form == "strimzi":
        # For a topic that is there, Strimzi would drop settings that its object does not name.
        for it in provided:
            yield from strimzi_topic(it.shape) if it.is_new else ()
        yield from strimzi_user(rights, principal)
    else:
        yield f"\n{principal} needs these rights, and no others:"
        yield from (f"  {right}: {right.purpose}" for right in rights)


def _as_dict(
    findings: Iterable[Finding],
    provided: Iterable[ProvisionedTopic],
    rights: Iterable[NeededRight],
    principal: str,
    *,
    dry_run: bool,
) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "topics": [
            {
                "topic": it.shape.name,
                "role": it.role,
                "is_new": it.is_new,
                "partitions": it.shape.partitions,
                "replication": it.shape.replication,
                "settings": dict(it.shape.settings),
            }
            for it in provided
        ],
        "findings": [
            {"check": it.check, "level": it.level.value, "text": it.text, "remedy": it.remedy}
            for it in findings
        ],
        "principal": principal,
        "rights": [
            {
                "resource": it.kind.value,
                "name": it.name,
                "pattern": "prefixed" if it.is_prefix else "literal",
                "operations": [operation.upper() for operation in it.operations],
                "purpose": it.purpose,
            }
            for it in rights
        ],
    }
