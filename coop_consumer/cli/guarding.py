"""Options of a command that serves a page: who may ask, and whether people may act.

In: options. Out: a `GuardChoice`, which makes what an `OpsServer` needs for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

from coop_consumer.config.addresses import host_of, is_loopback
from coop_consumer.errors import ConfigError

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.middleware import Middleware
    from starlette.routing import BaseRoute

    from coop_consumer.cli.options import Connection
    from coop_consumer.ops.actions import PageAction

P = ParamSpec("P")
R = TypeVar("R")

TOKEN_FILE, ALLOWED_HOST, ALLOW_ACTIONS = "--token-file", "--allowed-host", "--allow-actions"


@dataclass(frozen=True, slots=True)
class GuardChoice:
    """Who may ask.

    Attributes:
        token_file: A file with the secret that opens the page; None: there is none.
        hosts: Further names by which browsers ask.
        allows_actions: Whether the page offers to retry, skip and release.
    """

    token_file: Path | None
    hosts: tuple[str, ...]
    allows_actions: bool

    def middleware(self, address: str, setting: str = "--address") -> Sequence[Middleware]:
        """What a request passes first.

        Args:
            address: Where the server listens: host:port.
            setting: The option that has the address, for errors.

        Raises:
            ConfigError: Others reach the address, and there is no secret; or its file has none.
        """
        # Loaded here: the package may be missing.
        from coop_consumer.ops.guard import Door, guarded_by  # noqa: PLC0415
        from coop_consumer.ops.token_file import TokenFile  # noqa: PLC0415

        host = host_of(address)
        if self.token_file is None and not is_loopback(host):
            raise ConfigError(
                setting,
                f"={address} lets other machines ask, and nothing says who may",
                f"Give {TOKEN_FILE} FILE with a secret, or listen at 127.0.0.1",
            )
        token = None if self.token_file is None else TokenFile(str(self.token_file), TOKEN_FILE)
        return guarded_by(Door(host=host, token=token, hosts=frozenset(self.hosts)))

    @property
    def allows(self) -> frozenset[PageAction]:
        """The actions that the page offers."""
        from coop_consumer.admin.operator import GROUP_ACTIONS  # noqa: PLC0415

        return GROUP_ACTIONS if self.allows_actions else frozenset()

    def action_routes(
        self, connection: Connection, pages: Environment, options: Sequence[str]
    ) -> Sequence[BaseRoute]:
        """The routes of the actions; if they are not allowed, they say so.

        Args:
            connection: Where the groups are.
            pages: Makes the pages that ask and answer.
            options: Words by which commands on these pages find a group.
        """
        from coop_consumer.ops.action_routes import action_routes, refusing_routes  # noqa: PLC0415

        if not self.allows_actions:
            return refusing_routes()
        from coop_consumer.admin.operator import GroupOperator  # noqa: PLC0415

        return action_routes(GroupOperator(connection.config, options), pages)


def guard_options(command: Callable[P, R]) -> Callable[..., R]:
    """Add the options; the command gets them as `guard`, a `GuardChoice`."""

    @click.option(
        TOKEN_FILE,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A file with the secret that the page asks for; needed at any address but 127.0.0.1.",
    )
    @click.option(
        ALLOWED_HOST,
        "allowed_hosts",
        multiple=True,
        metavar="NAME",
        help="A further name under which browsers ask, as that of a proxy; may be repeated.",
    )
    @click.option(
        ALLOW_ACTIONS,
        is_flag=True,
        help="Let the page retry and skip parked records, and release ranges.",
    )
    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        token_file, hosts, allows = (
            kwargs.pop(name) for name in ("token_file", "allowed_hosts", "allow_actions")
        )
        kwargs["guard"] = GuardChoice(token_file, hosts, allows)  # type: ignore[arg-type]
        return command(*args, **kwargs)

    return wrapped
