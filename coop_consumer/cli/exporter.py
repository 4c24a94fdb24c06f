"""`coop-consumer exporter`: groups from outside, as metrics, for as long as it runs.

In: names of groups, an address. Out: `/metrics`. A thread for each group looks at it, with clients
that stay open. A scrape shows the last looks and asks no broker.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

import click

from coop_consumer.admin.group_watch import GroupWatch, Watches
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.places import LISTEN_ADDRESS, TOPIC
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.group_metrics import group_samples
from coop_consumer.ops.serving import refuse_without_packages
from coop_consumer.ops.telemetry import refuse_without_otel, show_samples
from coop_consumer.signals import TakenSignals

if TYPE_CHECKING:
    from coop_consumer.ops.group_metrics import GroupLook
    from coop_consumer.ops.samples import Sample

log = logging.getLogger(__name__)

ADDRESS = "127.0.0.1:9465"
EVERY_S = 10.0
_SETTING, _OTEL = "--address", "--otel"
_NOBODY = "coop-consumer-exporter"
"""The group in whose name groups are listed; it has no member, and nothing is kept under it."""


@click.command(short_help="Show groups from outside as metrics, for Prometheus.")
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
@click.option("--topic", "-t", "topics", multiple=True, type=TOPIC, help="Look at it, too.")
@click.option(
    _SETTING,
    type=LISTEN_ADDRESS,
    metavar="HOST:PORT",
    default=ADDRESS,
    show_default=True,
    help="Where it answers: metrics at /metrics.",
)
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    default=EVERY_S,
    show_default=True,
    help="How long after a look the next one begins.",
)
@click.option(_OTEL, "shows_otel", is_flag=True, help="Show them by OpenTelemetry, too.")
@connection_options
@log_option("info")
def exporter(
    connection: Connection,
    *,
    groups: tuple[str, ...],
    topics: tuple[str, ...],
    address: str,
    every: float,
    shows_otel: bool,
) -> None:
    """Show GROUPs from outside as metrics at /metrics: offsets, what is left, what stands.

    Without a GROUP, it shows all groups that have had members of this library since it runs.

    It sees them also while no member is alive. It never joins a group and changes nothing. A group
    that does not exist, or that this user may not see, has coop_group_up 0, and the log says why.

    SIGTERM and SIGINT end it (exit code 0).
    """
    refuse_without_packages(_SETTING)
    if shows_otel:
        refuse_without_otel(_OTEL, "")
    ending = threading.Event()

    def end(_: int, __: FrameType | None) -> None:
        ending.set()

    watches = Watches(lambda group: GroupWatch(connection.config(group), topics, every))
    config = connection.config(groups[0] if groups else _NOBODY)
    with ExitStack() as stack:
        taken = TakenSignals((signal.SIGTERM, signal.SIGINT), end)
        stack.callback(taken.give_back)
        _serve(stack, address, watches)
        if shows_otel:
            show_samples("exporter", lambda: _samples(watches.looks), _OTEL, of_groups=True)
        stack.callback(watches.close)
        if groups:
            watches.begin(dict.fromkeys(groups))
        else:
            watches.find(config)
        ending.wait()


def _serve(stack: ExitStack, address: str, watches: Watches) -> None:
    # Loaded here: the packages may be missing.
    from coop_consumer.ops.metrics_route import metrics_route  # noqa: PLC0415
    from coop_consumer.ops.prometheus import Exposition, SampleCollector  # noqa: PLC0415
    from coop_consumer.ops.server import OpsServer  # noqa: PLC0415

    exposition = Exposition(SampleCollector(lambda: _samples(watches.looks)))
    server = OpsServer(
        address,
        [metrics_route(exposition)],
        setting=_SETTING,
        remedy=f"give {_SETTING} another port, as in 127.0.0.1:9475",
        group="exporter",
    )
    stack.callback(server.close)
    server.start()
    extra = LogEvent.METRICS_SERVED.extra()
    log.info("metrics of groups at http://%s/metrics", server.address, extra=extra)


def _samples(looks: Sequence[GroupLook]) -> Iterator[Sample]:
    now_s = monotonic()
    for look in looks:
        yield from group_samples(look, now_s)
