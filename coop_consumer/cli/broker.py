"""`coop-consumer broker`: a real Apache Kafka in the background, for a first try."""

from __future__ import annotations

from pathlib import Path

import click

from coop_consumer.broker import (
    DEFAULT_VERSION,
    start_detached,
    status_detached,
    stop_detached,
)
from coop_consumer.cli.options import log_option
from coop_consumer.cli.output import echo
from coop_consumer.errors import ExitCode

name_option = click.option(
    "--name", default="default", show_default=True, help="What the broker is called."
)


@click.group(short_help="Start, stop or find a broker in the background.")
def broker() -> None:
    """Start, stop or find a broker in the background: real Apache Kafka, one node, loopback only.

    It is for trying things out. Without --data, its data goes when it is stopped.
    """


@broker.command()
@name_option
@click.option("--port", type=click.IntRange(1, 65535), help="Its port; by default a free one.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for its data, which stays.",
)
@click.option(
    "--kafka-version", default=DEFAULT_VERSION, show_default=True, help="Which Kafka to run."
)
@log_option("info")
def start(name: str, port: int | None, data: Path | None, kafka_version: str) -> None:
    """Start a broker and leave it running; its address is printed."""
    echo(str(start_detached(name, port, data, version=kafka_version)))


@broker.command()
@name_option
@log_option("warning")
def stop(name: str) -> None:
    """Stop a broker; it is no error if none runs."""
    stopped = stop_detached(name)
    echo(f"broker {name}: {'stopped' if stopped else 'none was running'}")


@broker.command()
@name_option
@log_option("warning")
@click.pass_context
def status(ctx: click.Context, name: str) -> None:
    """Say where a broker runs; exit code 6 if none of this name does."""
    running = status_detached(name)
    echo(str(running) if running else f"broker {name}: not running")
    ctx.exit(ExitCode.OK if running else ExitCode.MISSING)
