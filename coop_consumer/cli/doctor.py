"""`coop-consumer doctor`: whether everything a member needs is there, and what to do if not."""

from __future__ import annotations

import json
from collections.abc import Iterable

import click

from coop_consumer.admin.checkup import check_up
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.output import echo
from coop_consumer.config import chosen_topics
from coop_consumer.plain_text import all_printable
from coop_consumer.status.finding import Finding, Severity, worst_exit_code

STYLES = {Severity.OK: "green", Severity.WARN: "yellow", Severity.FAIL: "red"}
NO_GROUP = "coop-consumer-doctor"
"""A group name for a configuration that needs one, where none is to be looked at."""


@click.command(short_help="Check broker, topics, rights and clients.")
@click.option("--group", "-g", metavar="GROUP", help="Look at this group, too.")
@click.option(
    "--topics", "-t", multiple=True, metavar="TOPIC[,TOPIC]", help="Look at these topics, too."
)
@click.option("--json", "in_json", is_flag=True, help="Print JSON, documented in docs/cli.md.")
@connection_options
@log_option("error")
@click.pass_context
def doctor(
    ctx: click.Context,
    connection: Connection,
    *,
    group: str | None,
    topics: tuple[str, ...],
    in_json: bool,
) -> None:
    """Check what a member will need: broker, topics, rights, progress topic, clients, Java.

    Each line is ok, warn or fail, with what to do. The exit code is 0 unless a line fails; then it
    is that of the first one that does. Nothing is changed.
    """
    config = connection.config(group or NO_GROUP)
    names = chosen_topics(topics) if topics else config.topic_names
    findings = check_up(config, names, has_group=group is not None)
    shown = _as_json(findings) if in_json else _as_lines(findings)
    ctx.exit(worst_exit_code(shown))


def _as_lines(findings: Iterable[Finding]) -> list[Finding]:
    """Print each finding as it comes: a silent broker takes seconds to detect."""
    shown = []
    for finding in findings:
        shown.append(finding)
        level = click.style(f"{finding.level:<4}", fg=STYLES[finding.level], bold=True)
        click.echo(level, nl=False)
        echo(f"  {finding.check}: {finding.text}")
        if finding.remedy:
            echo(f"      -> {finding.remedy}")
    return shown


def _as_json(findings: Iterable[Finding]) -> list[Finding]:
    shown = list(findings)
    told = {
        "ok": all(finding.level is not Severity.FAIL for finding in shown),
        "findings": [
            {
                "check": finding.check,
                "level": finding.level.value,
                "text": finding.text,
                "remedy": finding.remedy,
            }
            for finding in shown
        ],
    }
    echo(json.dumps(all_printable(told)))
    return shown
