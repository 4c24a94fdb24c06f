"""`coop-consumer probe`: whether a member is alive or ready, for images without curl.

In: the address of a member's server (`run --ops`), or the file of `run --health-file`. Out: the
answer as JSON in one line, and an exit code. It loads none of Kafka's clients, and asks no broker.
"""

from __future__ import annotations

import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import click

from coop_consumer.cli.duration import SecondsType
from coop_consumer.cli.output import echo
from coop_consumer.errors import ConfigError, ExitCode
from coop_consumer.ops.health import NotReady
from coop_consumer.ops.health_file import PROBES, ProbeAnswer, asked, no

ADDRESS = "127.0.0.1:9464"
_PORT_MAX = 65_535


@click.command(short_help="Ask whether a member is alive, or ready.")
@click.argument("what", type=click.Choice(PROBES))
@click.option(
    "--address", metavar="HOST:PORT", help=f"Where `run --ops` listens; by default {ADDRESS}."
)
@click.option(
    "--health-file",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Read the file of `run --health-file` instead.",
)
@click.option(
    "--timeout",
    type=SecondsType(0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for an answer.",
)
def probe(what: str, *, address: str | None, health_file: Path | None, timeout: float) -> None:
    """Ask whether a member is alive (live), or works on all that it was assigned (ready).

    The answer is one line of JSON. The exit code is 0 for yes, and 3 for no; also if nobody
    answers, or if the file is older than 10 s.
    """
    if address is not None and health_file is not None:
        raise click.UsageError("--address and --health-file exclude each other")
    if health_file is not None:
        answer = asked(health_file, what, time.time())
    else:
        answer = _fetched(what, *_place(address or ADDRESS), timeout)
    echo(answer.text)
    if not answer.ok:
        click.get_current_context().exit(ExitCode.UNAVAILABLE)


def _place(address: str) -> tuple[str, int]:
    """Host and port.

    Raises:
        ConfigError: It is no address.
    """
    host, _, port = address.rpartition(":")
    is_port = port.isascii() and port.isdigit() and int(port) <= _PORT_MAX
    if not is_port or (":" in host and not host.startswith("[")):
        raise ConfigError("--address", f"={address} is no HOST:PORT", f"Write it as in {ADDRESS}")
    return host.strip("[]") or "127.0.0.1", int(port)


def _fetched(what: str, host: str, port: int, timeout_s: float) -> ProbeAnswer:
    connection = HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", f"/{what}z")
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace").strip()
    except (OSError, HTTPException) as error:
        told = str(error) or type(error).__name__
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        asks = f"Does a member run there, with `coop-consumer run --ops {place}`?"
        return no(NotReady.UNKNOWN, f"{place} does not answer: {told}. {asks}")
    finally:
        connection.close()
    return ProbeAnswer(answer.status == 200, text)
