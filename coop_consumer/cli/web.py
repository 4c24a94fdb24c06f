"""`coop-consumer web`: groups on a page in the browser, for as long as it runs.

In: names of groups, an address. Out: a page for each, which brings what changes by itself. A thread
for each group looks at it, with clients that stay open: every two seconds while somebody has its
page open, and every ten otherwise, for the history. However many browsers look, it is one look.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING

import click

from coop_consumer.admin.group_watch import GroupWatch, Watches
from coop_consumer.cli.guarding import GuardChoice, guard_options
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.places import LISTEN_ADDRESS, TOPIC
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.feed import GroupFeed
from coop_consumer.ops.history import GroupHistory
from coop_consumer.ops.serving import refuse_without_web
from coop_consumer.signals import TakenSignals

if TYPE_CHECKING:
    from starlette.middleware import Middleware
    from starlette.routing import BaseRoute

    from coop_consumer.ops.server import OpsServer

log = logging.getLogger(__name__)

ADDRESS = "127.0.0.1:9466"
EVERY_S = 2.0
UNWATCHED_S = 10.0
_LOOK_S = 2.0
"""A look that takes longer makes the picture before it old."""
_SETTING = "--address"
_NOBODY = "coop-consumer-web"
"""The group in whose name groups are listed; it has no member, and nothing is kept under it."""


class WatchedGroups:
    """The feeds of all groups, and the watches that fill them.

    Args:
        connection: Where the groups are.
        topics: Topics to look at besides those of the groups.
        every_s: How long after a look the next one begins, while somebody looks.
    """

    def __init__(self, connection: Connection, topics: tuple[str, ...], every_s: float) -> None:
        self._connection = connection
        self._topics = topics
        self._every_s = every_s
        self._feeds: dict[str, GroupFeed] = {}
        self.watches = Watches(self._watch)

    def names(self) -> Sequence[str]:
        """The groups, in order."""
        return sorted(self._feeds)

    def get(self, group: str) -> GroupFeed | None:
        """The feed of a group; None: it is not watched."""
        return self._feeds.get(group)

    def _watch(self, group: str) -> GroupWatch:
        feed = GroupFeed(group, GroupHistory())

        def every_s() -> float:
            return self._every_s if feed.is_watched else max(self._every_s, UNWATCHED_S)

        watch = GroupWatch(
            self._connection.config(group),
            self._topics,
            every_s,
            noticed=feed.put,
            options=self._connection.words,
        )
        feed.hurry = watch.look_soon
        self._feeds = {**self._feeds, group: feed}
        return watch


@click.command(short_help="Show groups on a page in the browser: what is stuck, and what helps.")
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
@click.option("--topic", "-t", "topics", multiple=True, type=TOPIC, help="Look at it, too.")
@click.option(
    _SETTING,
    type=LISTEN_ADDRESS,
    metavar="HOST:PORT",
    default=ADDRESS,
    show_default=True,
    help="Where it answers.",
)
@click.option(
    "--every",
    type=click.FloatRange(min=0.5),
    metavar="SECONDS",
    default=EVERY_S,
    show_default=True,
    help="How long after a look the next one begins, while somebody looks.",
)
@guard_options
@connection_options
@log_option("info")
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

    Without a GROUP, it shows all groups that have had members of this library since it runs.

    It sees them also while no member is alive. It never joins a group and changes nothing.

    SIGTERM and SIGINT end it (exit code 0).
    """
    refuse_without_web(_SETTING)
    middleware = guard.middleware(address, _SETTING)
    ending = threading.Event()

    def end(_: int, __: FrameType | None) -> None:
        ending.set()

    watched = WatchedGroups(connection, topics, every)
    config = connection.config(groups[0] if groups else _NOBODY)
    with ExitStack() as stack:
        taken = TakenSignals((signal.SIGTERM, signal.SIGINT), end)
        stack.callback(taken.give_back)
        stack.callback(watched.watches.close)
        # It listens before anything is looked at: a port that is in use is told at once.
        server = _server(address, _routes(watched, connection, groups, guard, every), middleware)
        stack.callback(server.close)
        if groups:
            watched.watches.begin(dict.fromkeys(groups))
        else:
            watched.watches.find(config)
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
) -> list[BaseRoute]:
    # Loaded here: the packages may be missing.
    from coop_consumer.ops.api_routes import api_routes  # noqa: PLC0415
    from coop_consumer.ops.page.rendering import environment  # noqa: PLC0415
    from coop_consumer.ops.page.routes import page_routes  # noqa: PLC0415

    pages = page_routes(
        watched,
        allows=frozenset(guard.allows),
        options=connection.words,
        has_list=len(groups) != 1,
        old_ms=round(1_000 * (max(every_s, UNWATCHED_S) + _LOOK_S)),
    )
    acting = guard.action_routes(connection, environment())
    return [*pages, *api_routes(watched), *acting]


def _server(
    address: str, routes: Sequence[BaseRoute], middleware: Sequence[Middleware]
) -> OpsServer:
    from coop_consumer.ops.server import OpsServer  # noqa: PLC0415

    return OpsServer(
        address,
        routes,
        setting=_SETTING,
        remedy=f"give {_SETTING} another port, as in 127.0.0.1:9476",
        group="web",
        middleware=middleware,
    )
