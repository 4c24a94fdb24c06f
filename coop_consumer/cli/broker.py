"""`coop-consumer broker`: a real Apache Kafka in the background, for a first try."""

from __future__ import annotations

import os
from pathlib import Path

import click

from coop_consumer.broker import (
    DetachedBroker,
    running_detached,
    start_detached,
    status_detached,
    stop_detached,
)
from coop_consumer.broker.detached import USUAL_PORT
from coop_consumer.cli.hints import export_line
from coop_consumer.cli.options import BOOTSTRAP_VARIABLE, log_option
from coop_consumer.cli.output import echo
from coop_consumer.cli.usage import NumberType
from coop_consumer.errors import ExitCode
from coop_consumer.plain_text import command

DEFAULT_NAME = "default"

name_option = click.option(
    "--name", default=DEFAULT_NAME, show_default=True, help="What the broker is called."
)


@click.group(short_help="Start, stop or find a broker in the background.")
def broker() -> None:
    """Start, stop or find a broker in the background: real Apache Kafka, one node, loopback only.

    It is for trying things out. Without --data, its data goes when it is stopped.
    """


@broker.command()
@name_option
@click.option(
    "--port",
    type=NumberType(1, 65535, sample=USUAL_PORT),
    help=f"Its port; by default {USUAL_PORT} if that is free, else another one.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for its data, which stays.",
)
@log_option("info")
def start(name: str, port: int | None, data: Path | None) -> None:
    """Start a broker and leave it running.

    It prints where the broker is, and the line by which other commands of this shell find it. If
    one of this name runs already, it does the same and starts none.
    """
    running = status_detached(name)
    if running is not None and _is_as_asked(running, port, data):
        _tell(running)
        return
    started = start_detached(name, port, data)
    _tell(started)
    if port is None and not _has_port(started, USUAL_PORT):
        ours = [it.name for it in running_detached() if _has_port(it, USUAL_PORT)]
        holder = f"broker {ours[0]}" if ours else "another program"
        echo(f"port {USUAL_PORT} is taken by {holder}", err=True)


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
    if running is None:
        words = [] if name == DEFAULT_NAME else ["--name", name]
        echo(f"broker {name}: not running. To start it:")
        echo(f"    {command('broker', 'start', *words)}")
        ctx.exit(ExitCode.MISSING)
    _tell(running)


def _is_as_asked(running: DetachedBroker, port: int | None, data: Path | None) -> bool:
    """Whether it has the port and the folder that are named, if any are."""
    has_data = data is None or Path(running.data_dir) == data.absolute()
    return has_data and (port is None or _has_port(running, port))


def _has_port(broker: DetachedBroker, port: int) -> bool:
    return broker.bootstrap_servers.endswith(f":{port}")


def _tell(found: DetachedBroker) -> None:
    """Say where a broker is; and how commands find it, unless they do."""
    echo(str(found))
    if os.environ.get(BOOTSTRAP_VARIABLE) != found.bootstrap_servers:
        echo(f"\n{export_line(found)}")
