"""`coop-consumer exporter`: groups from outside, as metrics, for as long as it runs.

In: names of groups, an address. Out: `/metrics`. A thread for each group looks at it, with clients
that stay open, and that all groups share. A scrape shows the last looks and asks no broker.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING

import click

from coop_consumer.admin.group_watch import GroupWatch, Watches
from coop_consumer.admin.look_clients import SharedClients
from coop_consumer.cli.options import Connection
from coop_consumer.cli.watching import ADDRESS_OPTION, begin, watch_options, watching
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.group_metrics import FirstSeen, group_samples
from coop_consumer.ops.serving import refuse_without_packages
from coop_consumer.ops.telemetry import refuse_without_otel, show_samples

if TYPE_CHECKING:
    from coop_consumer.ops.samples import Sample

log = logging.getLogger(__name__)

ADDRESS = "127.0.0.1:9465"
EVERY_S = 10.0
_OTEL = "--otel"
_NOBODY = "coop-consumer-exporter"


@click.command(short_help="Show groups from outside as metrics, for Prometheus.")
@watch_options(address=ADDRESS, told=": metrics at /metrics", every_s=EVERY_S, least_s=0.1, when="")
@click.option(_OTEL, "shows_otel", is_flag=True, help="Show them by OpenTelemetry, too.")
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

    Without a GROUP, it shows all groups of this library that it finds: those that have members,
    and those without that have committed offsets.

    It sees them also while no member is alive. It never joins a group and changes nothing. A group
    that does not exist, or that this user may not see, has coop_group_up 0, and the log says why.

    SIGTERM and SIGINT end it (exit code 0).
    """
    refuse_without_packages("coop-consumer exporter")
    if shows_otel:
        refuse_without_otel(_OTEL, "")
    seen = defaultdict[str, FirstSeen](FirstSeen)

    def watch(group: str, clients: SharedClients) -> GroupWatch:
        config, noticed = connection.config(group), seen[group].note
        return GroupWatch(config, topics, every, noticed=noticed, clients=clients)

    def samples() -> Iterator[Sample]:
        now_s = monotonic()
        for look in watches.looks:
            yield from group_samples(look, now_s, seen[look.group])

    watches = Watches(watch, dropped=lambda group: seen.pop(group, None))
    with ExitStack() as stack:
        ending = stack.enter_context(watching(watches))
        _serve(stack, address, samples)
        if shows_otel:
            show_samples("exporter", samples, _OTEL, of_groups=True)
        begin(watches, groups, connection, _NOBODY)
        ending.wait()


def _serve(stack: ExitStack, address: str, samples: Callable[[], Iterator[Sample]]) -> None:
    # Loaded here: the packages may be missing.
    from coop_consumer.ops.metrics_route import metrics_route  # noqa: PLC0415
    from coop_consumer.ops.prometheus import Exposition, SampleCollector  # noqa: PLC0415
    from coop_consumer.ops.server import OpsServer  # noqa: PLC0415

    exposition = Exposition(SampleCollector(samples))
    server = OpsServer(
        address,
        [metrics_route(exposition)],
        setting=ADDRESS_OPTION,
        remedy=f"give {ADDRESS_OPTION} another port",
        group="exporter",
    )
    stack.callback(server.close)
    server.start()
    extra = LogEvent.METRICS_SERVED.extra()
    log.info("metrics of groups at http://%s/metrics", server.address, extra=extra)
