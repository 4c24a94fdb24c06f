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

from coop_consumer.config.addresses import host_of
from coop_consumer.errors import ConfigError
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.feed import Feeds

if TYPE_CHECKING:
    import socket

    from starlette.routing import BaseRoute

    from assignors import TopicPartition
    from coop_consumer.config import Config
    from coop_consumer.core.glimpse import Glimpse
    from coop_consumer.core.metrics import MemberMetrics
    from coop_consumer.ops.actions import Operator
    from coop_consumer.ops.calling import Calls
    from coop_consumer.ops.health import Health
    from coop_consumer.ops.prometheus import Collects
    from coop_consumer.ops.server import OpsServer

log = logging.getLogger(__name__)

SETTING = "ops.address"
_WEB_PACKAGES = ("jinja2", "starlette", "uvicorn")
"""What a page needs, of the extra `web`."""
_PACKAGES = ("prometheus_client", *_WEB_PACKAGES)
"""What a member's server needs, of the extras `metrics` and `web`."""


class PortKeeper(Protocol):
    """Keeps a port open, and answers there while the process that serves it is replaced."""

    def kept(self, address: str) -> socket.socket | None:
        """What listens at an address since an earlier process; None: nothing does."""

    def keep(self, address: str, listener: socket.socket) -> None:
        """Keep this open. This process answers from now on."""


class OwnFeeds(Feeds, Protocol):
    """The feed of one group, filled while somebody asks for it."""

    def close(self) -> None:
        """Fill it no more; returns at once."""


def refuse_without_packages(setting: str) -> None:
    """Raise if a package is missing that a server of metrics needs.

    Args:
        setting: The setting, option or command that needs them.

    Raises:
        ConfigError: Names what is missing.
    """
    _refuse_without(_PACKAGES, setting, "metrics,web")


def refuse_without_web(setting: str) -> None:
    """The same for a page without metrics."""
    _refuse_without(_WEB_PACKAGES, setting, "web")


def _refuse_without(packages: Sequence[str], setting: str, extras: str) -> None:
    missing = [name for name in packages if util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            setting,
            f"needs {' and '.join(missing)}, not installed here",
            f"Install the extras that bring it: pip install 'coop-consumer[{extras}]'",
        )


def served(
    config: Config,
    metrics: Callable[[], MemberMetrics],
    health: Callable[[], Health],
    *,
    figures_of_children: Callable[[], str],
    operator: Callable[[], Operator],
    group: Callable[[], OwnFeeds],
    ports: PortKeeper | None = None,
    glimpse: Callable[[], Glimpse],
    stack: Callable[[TopicPartition, int], str],
    calls: Calls,
) -> OpsServer | None:
    """Serve the member's page, metrics and probes; None: its configuration has no address for that.

    Args:
        config: The member's.
        metrics: Returns its figures, at any moment.
        health: Returns how it is, at any moment and at once.
        figures_of_children: The directory in which child processes keep theirs; "": there are none.
        operator: Makes what carries actions out, if they are allowed.
        group: Makes the feed of its group, which is filled once somebody asks for it.
        ports: What keeps the port open between processes, if anything does.
        glimpse: Returns what it does, at any moment.
        stack: Returns the stack of a handler, by partition and offset of its record.
        calls: Counts who waits for an answer, for the member's thread.

    Raises:
        ConfigError: A package is missing, the address is not free, or its token file has no secret.
    """
    if config.ops_address is None:
        return None
    refuse_without_packages(SETTING)
    # Loaded when it is asked for: 60 ms.
    from prometheus_client import REGISTRY  # noqa: PLC0415
    from starlette.middleware import Middleware  # noqa: PLC0415

    from coop_consumer.ops.action_routes import (  # noqa: PLC0415
        action_routes,
        refusing_routes,
        to_member_or_group,
    )
    from coop_consumer.ops.api_routes import api_routes  # noqa: PLC0415
    from coop_consumer.ops.calling import Calling  # noqa: PLC0415
    from coop_consumer.ops.child_figures import ChildFigures  # noqa: PLC0415
    from coop_consumer.ops.guard import Door, guarded_by  # noqa: PLC0415
    from coop_consumer.ops.health_routes import health_routes  # noqa: PLC0415
    from coop_consumer.ops.history import MemberHistory  # noqa: PLC0415
    from coop_consumer.ops.metrics_route import metrics_route  # noqa: PLC0415
    from coop_consumer.ops.page.member_routes import (  # noqa: PLC0415
        MemberInside,
        member_routes,
    )
    from coop_consumer.ops.page.routes import own_group_routes  # noqa: PLC0415
    from coop_consumer.ops.prometheus import Exposition, MemberCollector  # noqa: PLC0415
    from coop_consumer.ops.server import OpsServer  # noqa: PLC0415
    from coop_consumer.ops.token_file import TokenFile  # noqa: PLC0415

    path = config.ops_token_file
    door = Door(
        host=host_of(config.ops_address),
        token=None if path is None else TokenFile(path, "ops.token.file"),
        hosts=config.ops_host_names,
    )

    def others() -> Sequence[Collects]:
        folder = figures_of_children()
        return (ChildFigures(folder), REGISTRY) if folder else (REGISTRY,)

    allows: frozenset[str] = frozenset()
    acting: Sequence[BaseRoute] = refusing_routes()
    if config.ops_allow_actions:
        from coop_consumer.ops.page.rendering import environment  # noqa: PLC0415

        acts = operator()
        allows = frozenset(acts.allows)
        acting = action_routes(acts, environment(), to_member_or_group)
    history, feeds = MemberHistory(), group()
    exposition = Exposition(MemberCollector(metrics), others)
    address = config.ops_address
    server = OpsServer(
        address,
        [
            metrics_route(exposition),
            *health_routes(health),
            *member_routes(
                MemberInside(config, metrics, health, glimpse, stack, history.series), allows=allows
            ),
            *own_group_routes(feeds, allows=allows, options=config.command_options),
            *api_routes(feeds),
            *acting,
        ],
        setting=SETTING,
        remedy="set ops.address, or run --ops, to another port",
        group=config.group_id,
        middleware=[*guarded_by(door), Middleware(Calling, calls=calls)],
        sample=lambda: history.note(metrics()),
        calls=calls,
        listener=None if ports is None else ports.kept(address),
        closed=feeds.close,
    )
    server.start()
    if ports is not None:
        ports.keep(address, server.listener)
    extra = LogEvent.METRICS_SERVED.extra(group=config.group_id)
    told = "group %s: page at http://%s/, metrics at http://%s/metrics"
    log.info(told, config.group_id, server.address, server.address, extra=extra)
    return server
