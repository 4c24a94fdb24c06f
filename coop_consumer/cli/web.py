"""`coop-consumer web`: groups on a page in the browser, for as long as it runs.

In: names of groups, an address. Out: a page for each, which brings what changes by itself. A thread
for each group looks at it, with clients that stay open: every two seconds while somebody has its
page open, and every ten otherwise, for the history. However many browsers look, it is one look.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from coop_consumer.admin.group_watch import GroupWatch, Watches
from coop_consumer.admin.look_clients import SharedClients
from coop_consumer.cli.guarding import GuardChoice, guard_options
from coop_consumer.cli.options import Connection
from coop_consumer.cli.watching import ADDRESS_OPTION, begin, watch_options, watching
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.feed import EVERY_S, UNWATCHED_S, GroupFeed
from coop_consumer.ops.history import GroupHistory
from coop_consumer.ops.serving import refuse_without_web

if TYPE_CHECKING:
    from starlette.middleware import Middleware
    from starlette.routing import BaseRoute

    from coop_consumer.ops.server import OpsServer

log = logging.getLogger(__name__)

ADDRESS = "127.0.0.1:9466"
_LOOK_S = 2.0
"""A look that takes longer makes the picture before it old."""
_NOBODY = "coop-consumer-web"


class WatchedGroups:
    """The feeds of all groups, and the watches that fill them.

    Args:
        connection: Where the groups are.
        topics: Topics to look at besides those of the groups.
        every_s: How long after a look the next one begins, while somebody looks.
        options: Words by which commands on the page find a group.
    """

    def __init__(
        self,
        connection: Connection,
        topics: tuple[str, ...],
        every_s: float,
        options: tuple[str, ...],
    ) -> None:
        self._connection = connection
        self._options = options
        self._topics = topics
        self._every_s = every_s
        self._feeds: dict[str, GroupFeed] = {}
        self.watches = Watches(self._watch, self._drop)

    def names(self) -> Sequence[str]:
        """The groups, in order."""
        return sorted(self._feeds)

    def get(self, group: str) -> GroupFeed | None:
        """The feed of a group; None: it is not watched."""
        return self._feeds.get(group)

    def _drop(self, group: str) -> None:
        self._feeds = {name: feed for name, feed in self._feeds.items() if name != group}

    def _watch(self, group: str, clients: SharedClients) -> GroupWatch:
        feed = GroupFeed(group, GroupHistory())

        def every_s() -> float:
            return self._every_s if feed.is_watched else max(self._every_s, UNWATCHED_S)

        watch = GroupWatch(
            self._connection.config(group),
            self._topics,
            every_s,
            noticed=feed.put,
            options=self._options,
            clients=clients,
        )
        feed.hurry = watch.look_soon
        self._feeds = {**self._feeds, group: feed}
        return watch


@click.command(short_help="Show groups on a page in the browser: what is stuck, and what helps.")
@watch_options(
    address=ADDRESS, told="", every_s=EVERY_S, least_s=0.5, when=", while somebody looks"
)
@guard_options
def web(
    connection: Connection,
    *,
    groups: tuple[str, ...],
    topics: tuple[str, ...],
    address: str,
    every: float,
    guard: GuardChoice,
) -> None:
    """Show GROUPs on a page: what needs you first, each with the command that helps.

    Without a GROUP, it shows all groups of this library that it finds: those that have members,
    and those without that have committed offsets.

    It sees them also while no member is alive. It never joins a group, and changes nothing without
    --allow-actions.

    SIGTERM and SIGINT end it (exit code 0).
    """
    refuse_without_web("coop-consumer web")
    middleware = guard.middleware(address, ADDRESS_OPTION)
    options = connection.words_elsewhere(_NOBODY)
    watched = WatchedGroups(connection, topics, every, options)
    with ExitStack() as stack:
        ending = stack.enter_context(watching(watched.watches))
        # It listens before anything is looked at: a port that is in use is told at once.
        routes = _routes(watched, connection, groups, guard, every, options=options)
        server = _server(address, routes, middleware)
        stack.callback(server.close)
        begin(watched.watches, groups, connection, _NOBODY)
        server.start()
        told = "groups are shown at http://%s/"
        log.info(told, server.address, extra=LogEvent.PAGE_SERVED.extra())
        ending.wait()


def _routes(
    watched: WatchedGroups,
    connection: Connection,
    groups: Sequence[str],
    guard: GuardChoice,
    every_s: float,
    *,
    options: tuple[str, ...],
) -> list[BaseRoute]:
    # Loaded here: the packages may be missing.
    from coop_consumer.ops.api_routes import api_routes  # noqa: PLC0415
    from coop_consumer.ops.page.rendering import environment  # noqa: PLC0415
    from coop_consumer.ops.page.routes import page_routes  # noqa: PLC0415

    pages = page_routes(
        watched,
        allows=frozenset(guard.allows),
        options=options,
        has_list=len(groups) != 1,
        old_ms=round(1_000 * (max(every_s, UNWATCHED_S) + _LOOK_S)),
        listing=lambda: watched.watches.listing,
    )
    acting = guard.action_routes(connection, environment(), options)
    return [*pages, *api_routes(watched), *acting]


def _server(
    address: str, routes: Sequence[BaseRoute], middleware: Sequence[Middleware]
) -> OpsServer:
    from coop_consumer.ops.server import OpsServer  # noqa: PLC0415

    return OpsServer(
        address,
        routes,
        setting=ADDRESS_OPTION,
        remedy=f"give {ADDRESS_OPTION} another port",
        group="web",
        middleware=middleware,
    )
