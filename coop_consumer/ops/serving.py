"""What a member serves at `ops.address`, if its configuration has that.

In: a configuration, and how to ask the member for its figures and how it is. Out: a server that
runs, or None.
The libraries are loaded here, once they are needed. An absent one is named, with what brings it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from importlib import util
from typing import TYPE_CHECKING, Protocol

from coop_consumer.errors import ConfigError
from coop_consumer.log_events import LogEvent

if TYPE_CHECKING:
    import socket

    from coop_consumer.config import Config
    from coop_consumer.core.metrics import MemberMetrics
    from coop_consumer.ops.health import Health
    from coop_consumer.ops.prometheus import Collects
    from coop_consumer.ops.server import OpsServer

log = logging.getLogger(__name__)

SETTING = "ops.address"
_PACKAGES = ("prometheus_client", "starlette", "uvicorn")
"""What a server of metrics needs, of the extras `metrics` and `web`."""


class PortKeeper(Protocol):
    """Keeps a port open, and answers there while the process that serves it is replaced."""

    def kept(self, address: str) -> socket.socket | None:
        """What listens at an address since an earlier process; None: nothing does."""

    def keep(self, address: str, listener: socket.socket) -> None:
        """Keep this open. This process answers from now on."""


def refuse_without_packages(setting: str) -> None:
    """Raise if a package is missing.

    Args:
        setting: The setting or option that needs them.

    Raises:
        ConfigError: Names what is missing.
    """
    missing = [name for name in _PACKAGES if util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            setting,
            f"needs {' and '.join(missing)}, not installed here",
            "Install the extras that bring it: pip install 'coop-consumer[metrics,web]'",
        )


def served(
    config: Config,
    metrics: Callable[[], MemberMetrics],
    health: Callable[[], Health],
    *,
    figures_of_children: Callable[[], str],
    ports: PortKeeper | None = None,
) -> OpsServer | None:
    """Serve the member's metrics and probes; None: its configuration has no address for that.

    Args:
        config: The member's.
        metrics: Returns its figures, at any moment.
        health: Returns how it is, at any moment and at once.
        figures_of_children: The directory in which child processes keep theirs; "": there are none.
        ports: What keeps the port open between processes, if anything does.

    Raises:
        ConfigError: A package is missing, or the address is not free.
    """
    if config.ops_address is None:
        return None
    refuse_without_packages(SETTING)
    # Loaded when it is asked for: 60 ms.
    from prometheus_client import REGISTRY  # noqa: PLC0415

    from coop_consumer.ops.child_figures import ChildFigures  # noqa: PLC0415
    from coop_consumer.ops.health_routes import health_routes  # noqa: PLC0415
    from coop_consumer.ops.metrics_route import metrics_route  # noqa: PLC0415
    from coop_consumer.ops.prometheus import Exposition, MemberCollector  # noqa: PLC0415
    from coop_consumer.ops.server import OpsServer  # noqa: PLC0415

    def others() -> Sequence[Collects]:
        folder = figures_of_children()
        return (ChildFigures(folder), REGISTRY) if folder else (REGISTRY,)

    exposition = Exposition(MemberCollector(metrics), others)
    address = config.ops_address
    server = OpsServer(
        address,
        [metrics_route(exposition), *health_routes(health)],
        setting=SETTING,
        remedy="set ops.address, or run --ops, to another port, as in 127.0.0.1:9474",
        group=config.group_id,
        listener=None if ports is None else ports.kept(address),
    )
    server.start()
    if ports is not None:
        ports.keep(address, server.listener)
    extra = LogEvent.METRICS_SERVED.extra(group=config.group_id)
    told = "group %s: metrics at http://%s/metrics"
    log.info(told, config.group_id, server.address, extra=extra)
    return server
