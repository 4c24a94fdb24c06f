"""`coop-consumer scale`: how many members a group wants, for a person or an autoscaler."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import click

from assignors import TopicPartition
from coop_consumer.admin.inspect import Inspector
from coop_consumer.cli.options import Connection, connection_options, log_option, look_options
from coop_consumer.cli.output import echo
from coop_consumer.config import Config, Ordering
from coop_consumer.plain_text import all_printable
from coop_consumer.status.arrivals import Arrivals
from coop_consumer.status.load import with_names
from coop_consumer.status.model import GroupStatus, group_status
from coop_consumer.status.needs import members_of, needs_of
from coop_consumer.status.scale import ScaleAdvice, ScaleRules, advise
from coop_consumer.status.seen import Hashing

WATCH_S = 5.0


@click.command(short_help="Say how many members a group wants, how many can help, and why.")
@look_options(WATCH_S, "Say")
@connection_options
@log_option("warning")
def scale(
    connection: Connection,
    *,
    group: str,
    topics: tuple[str, ...],
    in_json: bool,
    watch: float | None,
) -> None:
    """Say how many members GROUP wants, how many can help at most, and why.

    The members wanted do what arrives, and what is left within scale.drain.target.s (60). With
    --watch the command measures what arrives by itself, and keeps its number steady: so an
    autoscaler should use it.

    It never joins the group and changes nothing.
    """
    with Inspector(connection.config(group)) as inspector:
        advisor = _Advisor(inspector, topics)
        if watch is None:
            _show(advisor.look(), in_json=in_json)
            return
        with suppress(KeyboardInterrupt):
            while True:
                _show(advisor.look(), in_json=in_json)
                time.sleep(watch)


class _Advisor:
    """Looks at a group again and again.

    It remembers what arrived, what it asked for, and the names of heavy keys.
    """

    def __init__(self, inspector: Inspector, topics: tuple[str, ...]) -> None:
        self._inspector = inspector
        self._topics = topics
        self._arrivals = Arrivals()
        self._asked_for: int | None = None
        self._names: dict[tuple[TopicPartition, int], bytes] = {}

    def look(self) -> tuple[GroupStatus, ScaleAdvice]:
        seen = self._inspector.see(self._topics, records=False, waits=False)
        self._arrivals.note(time.monotonic(), {it.tp: it.end for it in seen.partitions})
        status = group_status(seen)
        heavy = status.load.keys
        self._names |= {(it.tp, it.key_hash): it.key for it in heavy if it.key is not None}
        advice = advise(
            needs_of(status, self._arrivals),
            with_names(status.load, self._names),
            members_of(status, self._asked_for),
            _rules(self._inspector.config, status),
        )
        self._asked_for = advice.wanted
        return status, advice


def _rules(config: Config, status: GroupStatus) -> ScaleRules:
    hashing = Hashing(config.ordering.value, config.ordering_block_size)
    return ScaleRules(
        target_s=config.scale_drain_target_s,
        workers=config.workers_on("thread"),
        is_serial=hashing.agreed_by(status.members).ordering == Ordering.PARTITION,
    )


def _show(found: tuple[GroupStatus, ScaleAdvice], *, in_json: bool) -> None:
    status, advice = found
    if in_json:
        echo(json.dumps(_as_json(status, advice), allow_nan=False))
        return
    useful = "" if advice.useful is None else f", at most {advice.useful:,} useful"
    plural = "" if advice.members == 1 else "s"
    echo(f"{advice.members:,} member{plural}, {advice.wanted:,} wanted{useful}. {advice.reason}")


def _as_json(status: GroupStatus, advice: ScaleAdvice) -> dict[str, Any]:
    told: dict[str, Any] = all_printable(
        {
            "members": advice.members,
            "wanted_members": advice.wanted,
            "useful_members": advice.useful,
            "reason": advice.reason,
            "group": status.group,
            "at_ms": status.at_ms,
            "left": advice.left,
            "arrivals": round(advice.arrivals, 3),
            "busy_workers": round(advice.busy_workers, 3),
            "workers": round(advice.workers, 3),
            "handler_us": advice.handler_us,
            "is_assumed": advice.is_assumed,
        }
    )
    return told
