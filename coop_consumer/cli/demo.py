"""`coop-consumer demo`: every aircraft of a year of real flights, followed in three ways."""

from __future__ import annotations

import json

import click

from coop_consumer.cli.options import log_option
from coop_consumer.cli.output import echo
from coop_consumer.cli.terminal import console
from coop_consumer.demo import DemoOptions, run_demo
from coop_consumer.errors import ExitCode

DEFAULTS = DemoOptions()


@click.command(short_help="See it work: real flights, many workers, a crash, and a check.")
@click.option(
    "--latency",
    "latency_ms",
    type=float,
    default=DEFAULTS.latency_ms,
    show_default=True,
    metavar="MS",
    help="How long each flight sleeps, in place of a remote call.",
)
@click.option("--records", type=int, help="Only so many flights.  [default: all 336,776]")
@click.option(
    "--members", type=int, default=DEFAULTS.members, show_default=True, help="Member processes."
)
@click.option(
    "--workers", type=int, default=DEFAULTS.workers, show_default=True, help="Workers of each."
)
@click.option(
    "--slice",
    "slice_s",
    type=float,
    default=DEFAULTS.slice_s,
    show_default=True,
    metavar="SECONDS",
    help="How long each of the other ways runs, to be compared with.",
)
@click.option("--keep", is_flag=True, help="Leave the broker running, for a look around.")
@click.option("--bootstrap", metavar="HOST:PORT", help="Use this broker instead of starting one.")
@click.option("--json", "in_json", is_flag=True, help="End with one line of JSON on stdout.")
@log_option("error")
@click.pass_context
def demo(
    ctx: click.Context,
    *,
    latency_ms: float,
    records: int | None,
    members: int,
    workers: int,
    slice_s: float,
    keep: bool,
    bootstrap: str | None,
    in_json: bool,
) -> None:
    """See it work, on the 336,776 flights of New York in 2013, in about two minutes.

    A plain consumer group, the usual lanes written by hand, and the cooperative group follow every
    aircraft. One member process is killed half-way; the result is then compared with a computation
    in one thread. The exit code is 1 if it differs.
    """
    options = DemoOptions(
        latency_ms=latency_ms,
        records=records,
        members=members,
        workers=workers,
        slice_s=slice_s,
        keep=keep,
        bootstrap=bootstrap,
    )
    # With --json, only the result goes to stdout.
    result = run_demo(options, console(stderr=in_json))
    if in_json:
        echo(json.dumps(result.as_json()))
    ctx.exit(ExitCode.OK if result.ok else ExitCode.BROKEN)
