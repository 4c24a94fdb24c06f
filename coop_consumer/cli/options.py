"""What several commands take: where the broker is, how to log in, how much to say.

In: options, a file of settings, `COOP_CONFIG_FILE`, `COOP_BOOTSTRAP`. Out: a `Connection`; its
`config` makes the same checked `Config` that a member has. If a setting is given several times, the
first of these counts: its own option, `--config`, the file, `COOP_BOOTSTRAP`. The file is that of
`--config-file`; without this option it is that of `COOP_CONFIG_FILE`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from importlib import import_module
from typing import Any, Concatenate, ParamSpec, TypeVar

import click
from click.core import ParameterSource

from coop_consumer.cli.duration import SecondsType
from coop_consumer.cli.limits import refuse_too_little_for_a_look
from coop_consumer.cli.log import LEVELS, set_up_format, set_up_level
from coop_consumer.cli.places import TOPIC
from coop_consumer.cli.worker import import_from_here
from coop_consumer.config import SECRETS, Config, parse_option, read_config_file
from coop_consumer.config.librdkafka import ALIASES
from coop_consumer.errors import ConfigError, CoopConsumerError
from coop_consumer.ops.log_format import FORMATS
from coop_consumer.ops.log_format import VARIABLE as FORMAT_VARIABLE

P = ParamSpec("P")
R = TypeVar("R")

BOOTSTRAP_VARIABLE = "COOP_BOOTSTRAP"
FILE_VARIABLE = "COOP_CONFIG_FILE"


@dataclass(frozen=True, slots=True)
class Connection:
    """Where the settings are, from the command line; nothing is checked yet.

    Attributes:
        file: A file of settings, if one is named.
        options: Settings of the command line, after the option for the brokers to ask first.
        environment: Brokers to ask first if nothing else names them.
        is_file_from_environment: Whether `COOP_CONFIG_FILE` names the file.
    """

    file: str | None
    options: tuple[tuple[str, str], ...]
    environment: str | None
    is_file_from_environment: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The same as words of a command line, without what the environment or a secret says."""
        words: list[str] = []
        if self.file is not None and not self.is_file_from_environment:
            words += ["--config-file", self.file]
        for name, value in self.options:
            if name == "bootstrap.servers":
                words += ["--bootstrap", value]
            elif name not in SECRETS:
                words += ["--config", f"{name}={value}"]
        return tuple(words)

    def words_elsewhere(self, nobody: str) -> tuple[str, ...]:
        """The same for a reader whose shell has none of this one's variables: with the brokers.

        Args:
            nobody: The group of a configuration that needs one, where none is meant.

        Raises:
            ConfigError: As `config`.
        """
        words = self.words
        if {"--bootstrap", "--config-file"} & set(words):
            return words
        found = self.config(nobody).command_options
        pairs = [*zip(found[::2], found[1::2], strict=True)]
        known = [*zip(words[::2], words[1::2], strict=True)]
        return (*(word for pair in pairs if pair not in known for word in pair), *words)

    def and_also(self, name: str, value: str) -> Connection:
        """The same with a setting of an option of its own, which counts before all others."""
        return replace(self, options=(*self.options, (name, value)))

    def config(self, group: str | None = None) -> Config:
        """The checked configuration, of a member of `group`.

        Reads the file each time, and what placeholders of its values name.

        Raises:
            ConfigError: If a setting is unknown or wrong, or no broker is named.
        """
        settings: dict[str, str] = {}
        if self.environment is not None:
            settings["bootstrap.servers"] = self.environment
        if self.file is not None:
            source = f"{FILE_VARIABLE}=" if self.is_file_from_environment else ""
            settings |= _by_one_name(read_config_file(self.file, source))
        settings |= _by_one_name(dict(self.options))
        if group is not None:
            settings["group.id"] = group
        if not settings.get("bootstrap.servers"):
            raise ConfigError(
                "bootstrap.servers",
                "is missing: no broker to ask",
                f"Give --bootstrap host:port, or set {BOOTSTRAP_VARIABLE}",
            )
        config = Config.from_dict(settings)
        if config.oauth_token_provider is not None:
            import_from_here()
        return config


def _by_one_name(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings, with brokers by the name that those of other origins are compared by."""
    brokers = "bootstrap.servers"
    found = {brokers if ALIASES.get(it) == brokers else it: value for it, value in settings.items()}
    return found if len(found) == len(settings) else dict(settings)  # both: `Config` compares them


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
        envvar=FILE_VARIABLE,
        show_envvar=True,
        help="A .properties file of settings, as Kafka's own tools take.",
    )
    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        given: dict[str, Any] = {
            name: kwargs.pop(name) for name in ("bootstrap", "options", "config_file")
        }
        connection = _connection(**given)
        refuse_too_little_for_a_look()
        try:
            return command(connection, *args, **kwargs)
        except CoopConsumerError as error:
            import_module("coop_consumer.cli.hints").add_hints(error, connection)
            raise

    return wrapped


def _connection(
    bootstrap: str | None, options: tuple[str, ...], config_file: str | None
) -> Connection:
    from_environment = _is_from_environment("bootstrap")
    named = list(map(parse_option, options))
    if bootstrap is not None and not from_environment:
        named.append(("bootstrap.servers", bootstrap))
    return Connection(
        config_file,
        tuple(named),
        bootstrap if from_environment else None,
        _is_from_environment("config_file"),
    )


def _is_from_environment(parameter: str) -> bool:
    source = click.get_current_context().get_parameter_source(parameter)
    return source is ParameterSource.ENVIRONMENT


LOOK_AT_TOPIC = "Look at it, too."


def look_options(every_s: float, verb: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Add what a look at a group takes: the group, `--topic`, `--json` and `--watch`.

    Args:
        every_s: How often it looks, unless `--watch` says that.
        verb: What it does with what it finds, for the help.
    """
    added = (
        click.argument("group"),
        click.option("--topic", "-t", "topics", multiple=True, type=TOPIC, help=LOOK_AT_TOPIC),
        click.option(
            "--json", "in_json", is_flag=True, help="Print JSON, documented in docs/cli.md."
        ),
        click.option(
            "--watch",
            type=SecondsType(0.1),
            is_flag=False,
            flag_value=every_s,
            metavar="[SECONDS]",
            help=f"{verb} it anew, by default every {every_s:g} seconds, until interrupted.",
        ),
    )

    def with_options(command: Callable[P, R]) -> Callable[P, R]:
        for add in reversed(added):
            command = add(command)
        return command

    return with_options


def log_option(default: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Add `--log-level` and `--log-format`; logging is set up before the command begins."""

    def chosen(context: click.Context, parameter: click.Parameter, value: str) -> None:
        del context
        set_up = set_up_level if parameter.name == "log_level" else set_up_format
        set_up(value)

    level = click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        default=default,
        show_default=True,
        expose_value=False,
        is_eager=True,
        callback=chosen,
        help="How much to say on stderr; debug shows tracebacks.",
    )
    log_format = click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        default=FORMATS[0],
        show_default=True,
        envvar=FORMAT_VARIABLE,
        show_envvar=True,
        expose_value=False,
        is_eager=True,
        callback=chosen,
        help="How the log looks; json needs coop-consumer[log].",
    )
    return lambda command: level(log_format(command))
