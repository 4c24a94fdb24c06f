"""`coop-consumer gc`: clears what groups that Kafka has forgotten have left."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

import click

from coop_consumer.admin.collector import Collected, Collector, CollectOutcome
from coop_consumer.admin.remains import Remains
from coop_consumer.cli.duration import DURATION, ago
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.output import echo
from coop_consumer.errors import ExitCode
from coop_consumer.plain_text import all_printable, counted
from coop_consumer.status.finding import delete_command

NO_GROUP = "coop-consumer-gc"
"""A group name for a configuration that needs one, where none is meant."""


@click.command(short_help="Clear what groups that Kafka has forgotten have left.")
@click.option(
    "--older-than",
    "age_ms",
    type=DURATION,
    default="30d",
    show_default=True,
    metavar="DURATION",
    help="Leave groups alone that have written since, as in 30d, 12h.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be cleared, and change nothing.")
@click.option("--json", "in_json", is_flag=True, help="Print JSON, documented in docs/cli.md.")
@connection_options
@log_option("warning")
@click.pass_context
def gc(
    ctx: click.Context, connection: Connection, *, age_ms: int, dry_run: bool, in_json: bool
) -> None:
    """Clear from progress topics what groups have left that Kafka has forgotten.

    Kafka forgets a group that has no members and no committed offset any more. A group that lives
    is never touched, and one that wakes up meanwhile is left alone. Who starts a cleared group
    later begins anew, by auto.offset.reset. Policies stay, and so do topics.
    """
    config = connection.config(NO_GROUP)
    now_ms = time.time_ns() // 1_000_000
    with Collector(config, now_ms - age_ms) as collector:
        forgotten, refused = collector.found()
        done = map(_found, forgotten) if dry_run else collector.collect(forgotten)
        all_of_it = [*refused]
        if not in_json:
            _show(refused, now_ms)
        for it in done:
            all_of_it.append(it)
            if not in_json:
                _show([it], now_ms)
        hidden = collector.hidden_topics
    if in_json:
        told = {
            "dry_run": dry_run,
            "groups": [_as_dict(it) for it in all_of_it],
            "hidden_topics": list(hidden),
        }
        echo(json.dumps(all_printable(told)))
    else:
        _sum_up(all_of_it, hidden, config.bootstrap_servers, dry_run=dry_run)
    ctx.exit(next((it.exit_code for it in all_of_it if it.exit_code), ExitCode.OK))


def _found(it: Remains) -> Collected:
    told = (it.group, it.topic, CollectOutcome.FOUND, it.keys, it.size_bytes, it.last_ms)
    return Collected(*told)


def _show(results: Iterable[Collected], now_ms: int) -> None:
    for it in results:
        what = "would be cleared" if it.outcome is CollectOutcome.FOUND else it.outcome.value
        size = f"{counted(it.keys, 'key')}, {counted(it.size_bytes, 'byte')}"
        detail = f". {it.detail.rstrip('.')}" if it.detail else ""
        last = ago(now_ms - it.last_ms)
        echo(f"group {it.group}: {what} ({size}, wrote last {last} ago){detail}")


def _sum_up(
    results: list[Collected], hidden: Iterable[str], bootstrap: str, *, dry_run: bool
) -> None:
    for topic in hidden:
        echo(f"topic {topic}: this user may not read it. Grant read on topic {topic}")
    left = sorted({name for it in results for name in it.left})
    if left:
        echo("\nThese topics were used by cleared groups alone. If nobody needs them, delete them:")
        for name in left:
            echo(f"  {delete_command(bootstrap, name)}")
    if dry_run:
        found = sum(it.outcome is CollectOutcome.FOUND for it in results)
        echo(f"dry run: {counted(found, 'group')} would be cleared, and nothing was changed")
        return
    cleared = sum(it.outcome is CollectOutcome.CLEARED for it in results)
    echo(f"{counted(cleared, 'group')} cleared")


def _as_dict(it: Collected) -> dict[str, object]:
    return {
        "group": it.group,
        "topic": it.topic,
        "outcome": it.outcome.value,
        "keys": it.keys,
        "bytes": it.size_bytes,
        "last_record_ms": it.last_ms or None,
        "detail": it.detail,
        "left_topics": list(it.left),
    }
