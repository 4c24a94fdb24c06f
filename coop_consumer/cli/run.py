"""`coop-consumer run`: a worker class, as one member of a group.

In: `module:Worker`, topics, a group. Out: a pool that runs until a signal, until it has caught up,
or until it must end; its log on stderr. All of it runs in the worker process, which reports its
place in the group to its parent (see `supervisor`).
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from coop_consumer.cli import HEALTH_FILE, NO_SUPERVISE
from coop_consumer.cli.garbage import collect_less_often
from coop_consumer.cli.guarding import ALLOW_ACTIONS, ALLOWED_HOST, TOKEN_FILE
from coop_consumer.cli.limits import refuse_too_little
from coop_consumer.cli.log import belongs_to
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.reread import Signals
from coop_consumer.cli.seat import ParentsSeat, orders_from
from coop_consumer.cli.usage import NumberType
from coop_consumer.cli.worker import load_worker
from coop_consumer.config import ExecutorName, LogKeys
from coop_consumer.config.patterns import CALLABLE
from coop_consumer.kafka.membership import leave_for
from coop_consumer.log_events import LogEvent
from coop_consumer.one_core import threads_on_one_core
from coop_consumer.ops.health import live, ready
from coop_consumer.ops.health_file import HealthFile
from coop_consumer.ops.serving import refuse_without_packages
from coop_consumer.plain_text import counted
from coop_consumer.pool import WorkerPool
from coop_consumer.styles import EXECUTORS
from coop_consumer.worker import is_async

log = logging.getLogger(__name__)

OPS_ADDRESS = "127.0.0.1:9464"
"""The port that exporters of OpenTelemetry use for Prometheus."""


class _RunCommand(click.Command):
    """Knows a worker behind `--ops`: click would take it for the address."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse words of which each `--ops` has its address."""
        return super().parse_args(ctx, list(map(_spelled_out, args, [*args[1:], ""])))


def _spelled_out(word: str, following: str) -> str:
    """`--ops` before MODULE:WORKER with its default address; no port begins with a letter."""
    is_bare = word == "--ops" and re.fullmatch(CALLABLE.regex, following)
    return f"{word}={OPS_ADDRESS}" if is_bare else word


@click.command(cls=_RunCommand, short_help="Run a worker class, as one member of a group.")
@click.argument("worker", metavar="MODULE:WORKER")
@click.option(
    "--topics",
    "-t",
    multiple=True,
    metavar="TOPIC[,TOPIC]",
    help="What to consume, if the setting topics does not say.",
)
@click.option("--group", "-g", metavar="GROUP", help="The group to join (group.id).")
@click.option(
    "--workers",
    "-w",
    type=NumberType(1, sample=64),
    help="Records, or batches, processed at a time; by default 64, or a process for each core.",
)
@click.option(
    "--executor",
    type=click.Choice(EXECUTORS),
    default=EXECUTORS[0],
    show_default=True,
    help="What runs a handler defined with def; processes are for handlers that compute.",
)
@click.option(
    "--until", type=click.Choice(["caught-up"]), help="End once everything assigned is processed."
)
@click.option(
    "--one-core",
    is_flag=True,
    help="Keep all Python threads on one core, the least busy one: quicker for handlers that take "
    "a millisecond or less, and no help to those that compute outside Python.",
)
@click.option(
    "--ops",
    is_flag=False,
    flag_value=OPS_ADDRESS,
    metavar="[HOST:PORT]",
    help="Answer over HTTP: metrics at /metrics, probes at /livez and /readyz (ops.address); by "
    f"default at {OPS_ADDRESS}.",
)
@click.option(
    TOKEN_FILE,
    metavar="FILE",
    help="A file with the secret that the page of --ops asks for (ops.token.file).",
)
@click.option(
    ALLOWED_HOST,
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A further name under which browsers ask for it (ops.allowed.hosts); may be repeated.",
)
@click.option(
    ALLOW_ACTIONS,
    is_flag=True,
    help="Let it retry and skip records, release ranges and pause partitions (ops.allow.actions).",
)
@click.option(
    NO_SUPERVISE,
    is_flag=True,
    expose_value=False,  # `coop_consumer.cli.main` has seen to it
    help="Be one process, which nobody starts again if it falls.",
)
@click.option(
    "--log-keys",
    type=click.Choice([keys.value for keys in LogKeys]),
    help="What lines of the log may show of keys, which may be about persons (log.keys).",
)
@click.option(
    HEALTH_FILE,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Write there once a second, as JSON, whether this member is alive and ready.",
)
@connection_options
@log_option("info")
def run(
    connection: Connection,
    *,
    worker: str,
    topics: tuple[str, ...],
    group: str | None,
    workers: int | None,
    executor: ExecutorName,
    until: str | None,
    one_core: bool,
    ops: str | None,
    token_file: str | None,
    allowed_hosts: tuple[str, ...],
    allow_actions: bool,
    log_keys: str | None,
    health_file: Path | None,
) -> None:
    """Run a worker class, as one member of a group.

    MODULE:WORKER names a class that derives from coop_consumer.Worker, importable from the current
    directory or PYTHONPATH. Start the command as often as you like, on as many hosts: the members
    share the partitions by key ranges.

    SIGTERM and SIGINT end it in order (exit code 0): running handlers finish, progress is
    committed, the member leaves. A second signal ends it at once (exit code 128 and the signal's
    number); records in work repeat. On SIGHUP it reads its file of settings
    again and applies "workers".

    A small parent watches the worker process. If the worker process falls while it is a member, the
    parent starts another one, which takes its place in the group. --no-supervise does without.
    """
    if one_core and executor == "process":
        raise click.UsageError("--one-core is for threads: processes are to have a core each")
    if log_keys is not None:
        connection = connection.and_also("log.keys", log_keys)
    if ops is not None:
        refuse_without_packages("--ops (ops.address)")
    page = {
        "ops.address": ops,
        "ops.token.file": token_file,
        "ops.allowed.hosts": ",".join(allowed_hosts),
        "ops.allow.actions": "true" if allow_actions else None,
    }
    for name, value in page.items():
        connection = connection.and_also(name, value) if value else connection
    config = connection.config(group)
    orders = orders_from(os.environ)
    if orders is not None and orders.leaves:
        group, member = config.group_id, orders.leaves
        belongs_to(group, member)
        leave_for(config.membership(), member)
        extra = LogEvent.MEMBER_LEFT.extra(group=group, member=member)
        log.info("group %s: member %s has left, after its process fell", group, member, extra=extra)
        return
    loaded = load_worker(worker)
    # Tasks share the thread of their event loop.
    at_once = 1 if is_async(loaded) else workers or config.workers_on(executor)
    refuse_too_little(at_once, has_threads=executor == "thread")
    seat = None
    if orders is not None:
        seat = ParentsSeat(orders)
        seat.follow_parent()
    pool = WorkerPool(
        loaded,
        config,
        topics or None,
        workers=workers,
        executor=executor,
        until_caught_up=until is not None,
        seat=seat,
        ports=seat,
    )
    belongs_to(config.group_id, pool.name)
    if seat is not None:
        seat.named(config.group_id, pool.name)
    signals = Signals(pool, connection, config, executor, workers)
    signals.listen()
    if seat is not None:
        seat.pass_signals_to(signals.come)
    log.info(
        "group %s: member %s, %s, topics %s",
        config.group_id,
        pool.name,
        counted(pool.workers, "worker"),
        ", ".join(pool.topics),
        extra=LogEvent.MEMBER_STARTED.extra(group=config.group_id, member=pool.name),
    )
    collect_less_often()
    with ExitStack() as stack:
        if health_file is not None:
            stack.enter_context(_health_told(health_file, pool, seat))
        if one_core:
            stack.enter_context(threads_on_one_core())
        pool.run()
    extra = LogEvent.MEMBER_LEFT.extra(group=config.group_id, member=pool.name)
    log.info("group %s: member %s has left", config.group_id, pool.name, extra=extra)


@contextmanager
def _health_told(path: Path, pool: WorkerPool, seat: ParentsSeat | None) -> Iterator[None]:
    """Write the file of `--health-file` in the block, instead of the parent.

    Raises:
        ConfigError: It cannot be written.
    """
    file = HealthFile(path, lambda: (live(health := pool.health()), ready(health)))
    file.start()
    if seat is not None:
        seat.tells_health()
    try:
        yield
    finally:
        file.end()
