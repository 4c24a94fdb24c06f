"""What several commands take: where the broker is, how to log in, how much to say.

In: options, `COOP_BOOTSTRAP`, a file of settings. Out: a `Connection`, from which `config` makes
the same checked `Config` that a member has. Of a setting given several times the nearest to the
fingers holds: the option of its own, then `--config`, then `--config-file`, then the environment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import click
from click.core import ParameterSource

from coop_consumer.cli.log import LEVELS, set_up_logging
from coop_consumer.config import Config, parse_option, read_config_file
from coop_consumer.errors import ConfigError

P = ParamSpec("P")
R = TypeVar("R")

BOOTSTRAP_VARIABLE = "COOP_BOOTSTRAP"


@dataclass(frozen=True, slots=True)
class Connection:
    """The settings as far as the command line gives them; nothing is checked yet.

    Attributes:
        settings: Dotted names and their text.
    """

    settings: tuple[tuple[str, str], ...]

    def config(self, group: str | None = None) -> Config:
        """The checked configuration, of a member of `group`.

        Raises:
            ConfigError: If a setting is unknown or wrong, or no broker is named.
        """
        settings = dict(self.settings)
        if group is not None:
            settings["group.id"] = group
        if not settings.get("bootstrap.servers"):
            raise ConfigError(
                "bootstrap.servers",
                "is missing: no broker to ask",
                f"Give --bootstrap host:port, or set {BOOTSTRAP_VARIABLE}",
            )
        return Config.from_dict(settings)


def connection_options(command: Callable[Concatenate[Connection, P], R]) -> Callable[P, R]:
    """Add the options of a connection; the command gets a `Connection` as its first argument."""

    @click.option(
        "--bootstrap",
        metavar="HOST:PORT",
        envvar=BOOTSTRAP_VARIABLE,
        show_envvar=True,
        help="The brokers to ask first.",
    )
    @click.option(
        "--config",
        "options",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting, this library's or librdkafka's; may be repeated.",
    )
    @click.option(
        "--config-file",
        metavar="FILE",
        help="A .properties file of settings, as Kafka's own tools take.",
    )
    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        given: dict[str, Any] = {
            name: kwargs.pop(name) for name in ("bootstrap", "options", "config_file")
        }
        return command(_connection(**given), *args, **kwargs)

    return wrapped


def _connection(
    bootstrap: str | None, options: tuple[str, ...], config_file: str | None
) -> Connection:
    source = click.get_current_context().get_parameter_source("bootstrap")
    named = {} if bootstrap is None else {"bootstrap.servers": bootstrap}
    from_environment = source is ParameterSource.ENVIRONMENT
    settings = named if from_environment else {}
    settings |= {} if config_file is None else read_config_file(config_file)
    settings |= dict(map(parse_option, options))
    settings |= {} if from_environment else named
    return Connection(tuple(settings.items()))


def log_option(default: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Add `--log-level`; logging is set up before the command begins."""

    def chosen(_: click.Context, __: click.Parameter, level: str) -> None:
        set_up_logging(level)

    return click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        default=default,
        show_default=True,
        expose_value=False,
        is_eager=True,
        callback=chosen,
        help="How much to say on stderr; debug shows tracebacks.",
    )
