"""What `exporter` and `web` have in common: options, the watches of groups, the end by a signal.

In: names of groups; none: all that are found. Out: watches at work for as long as a block runs.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

import click

from coop_consumer.admin.group_watch import Watches
from coop_consumer.admin.look_clients import SETS
from coop_consumer.cli.duration import SecondsType
from coop_consumer.cli.limits import (
    refuse_too_few_threads_for_watches,
    refuse_too_little_for_watches,
)
from coop_consumer.cli.options import Connection, connection_options, log_option
from coop_consumer.cli.places import LISTEN_ADDRESS, TOPIC
from coop_consumer.signals import TakenSignals

ADDRESS_OPTION = "--address"
_Command = TypeVar("_Command", bound=Callable[..., Any])


def watch_options(
    *, address: str, told: str, every_s: float, least_s: float, when: str
) -> Callable[[_Command], _Command]:
    """The options of a command that watches groups.

    Args:
        address: Where it answers by default.
        told: What it answers there, for people.
        every_s: How long after a look the next one begins by default.
        least_s: The shortest such time.
        when: When that counts, for people.
    """
    options: Sequence[Callable[[Any], Any]] = (
        click.argument("groups", nargs=-1, metavar="[GROUP]..."),
        click.option("--topic", "-t", "topics", multiple=True, type=TOPIC, help="Look at it, too."),
        click.option(
            ADDRESS_OPTION,
            type=LISTEN_ADDRESS,
            metavar="HOST:PORT",
            default=address,
            show_default=True,
            help=f"Where it answers{told}.",
        ),
        click.option(
            "--every",
            type=SecondsType(least_s),
            metavar="SECONDS",
            default=every_s,
            show_default=True,
            help=f"How long after a look the next one begins{when}.",
        ),
        connection_options,
        log_option("info"),
    )

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


@contextmanager
def watching(watches: Watches) -> Iterator[threading.Event]:
    """Let these watches end with the block; yields what SIGTERM and SIGINT set."""
    ending = threading.Event()

    def end(_: int, __: FrameType | None) -> None:
        ending.set()

    taken = TakenSignals((signal.SIGTERM, signal.SIGINT), end)
    try:
        yield ending
    finally:
        watches.close()
        taken.give_back()


def begin(watches: Watches, groups: Sequence[str], connection: Connection, nobody: str) -> None:
    """Begin to watch these groups, or all of this library that are found from now on.

    Args:
        watches: What looks at a group.
        groups: Their names; none: whatever is found.
        connection: Where they are.
        nobody: The group in whose name groups are listed. It has no member, and nothing is kept
            under it.

    Raises:
        OutOfFilesError, OutOfMemoryError, OutOfThreadsError: This machine gives too little for it.
    """
    named = dict.fromkeys(groups)
    refuse_too_little_for_watches(len(named), min(len(named) or SETS, SETS))
    if named:
        watches.begin(named)
    else:
        watches.find(connection.config(nobody), lambda: refuse_too_few_threads_for_watches(1, SETS))
