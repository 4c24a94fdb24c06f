"""`coop-consumer release`: a person ends a wait, at the risk of the order of some keys."""

from __future__ import annotations

import click

from assignors import TopicPartition
from coop_consumer.admin.amend import Amender
from coop_consumer.admin.inspect import Inspector
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.output import echo
from coop_consumer.cli.places import TOPIC_PARTITION
from coop_consumer.config import Guarantee
from coop_consumer.status.errors import PartitionMissingError
from coop_consumer.status.model import PendingHandover, group_status, holders_at_work


@click.command(short_help="Let members begin that wait for another one's handler.")
@click.argument("group")
@click.argument("place", metavar="[TOPIC-PARTITION]", type=TOPIC_PARTITION, required=False)
@click.option("--holder", help="Only what this member holds.")
@click.option("--dry-run", is_flag=True, help="Show what would be released, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@connection_options
@log_option("warning")
def release(
    connection: Connection,
    *,
    group: str,
    place: TopicPartition | None,
    holder: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Release what members of GROUP wait for, in the name of those that hold it.

    No time-out does this: while a handler runs, another handler must not begin with its key. If you
    know that the handler has stopped (its host hangs, for example), this lets the others begin. If
    the handler continues after all, the order of its keys is broken and records repeat; nothing is
    lost. Members count such cases. It is safer to end the holder's process, if you can.

    With exactly once, members that hold what others wait for are put out of the group first. So
    what their handlers still do there never counts, and no order breaks.
    """
    with Inspector(connection.config(group)) as inspector:
        seen = inspector.see([place.topic] if place else [])
        status = group_status(seen)
        if place is not None:
            PartitionMissingError.check(place, [p.tp for p in status.partitions])
        found = [
            (partition.tp, handover)
            for partition in status.partitions
            for handover in partition.handovers
            if place in (None, partition.tp) and holder in (None, handover.holder)
        ]
        if not found:
            echo(f"group {group}: nobody waits{f' for {holder}' if holder else ''}")
            return
        for tp, handover in found:
            echo(_line(tp, handover, status.at_ms))
        is_once = seen.guarantee == Guarantee.EXACTLY_ONCE
        put_out = holders_at_work(seen, [it for _, it in found]) if is_once else ()
        for member in put_out:
            echo(
                f"{member.place} is in the group. It is put out of it first, so that nothing "
                "counts that it has not committed. If it lives, it joins again."
            )
        if dry_run:
            return
        if not yes:
            risk = "" if is_once else "Their order may break. "
            click.confirm(f"{risk}Release them?", abort=True)
        amender = Amender(inspector)
        for member in put_out:
            amender.put_out(member)
        for partition in seen.partitions:
            amender.release(partition, [h for tp, h in found if tp == partition.tp])
    echo(f"Released. `coop-consumer status {group}` shows who begins.")


def _line(tp: TopicPartition, handover: PendingHandover, now_ms: int) -> str:
    keys = " ".join(map(str, handover.ranges))
    since = f" for {(now_ms - handover.since_ms) // 1_000} s" if handover.since_ms else ""
    return f"{tp} keys {keys}: {handover.waiting} waits{since} for {handover.holder}"
