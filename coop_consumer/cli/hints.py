"""What a command adds to its error: the option beside the setting, and lines to paste.

In: an error, the connection of the command, the brokers that run on this machine. Out: the same
error; its remedy names the option, its notes follow the message. The module is loaded only after a
failure, because a member that is started again has no time to lose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

import click

from coop_consumer.admin.nearest import nearest_group, nearest_topic
from coop_consumer.broker import DetachedBroker, running_detached
from coop_consumer.cli.options import BOOTSTRAP_VARIABLE, FILE_VARIABLE, LOOK_AT_TOPIC, Connection
from coop_consumer.config import read_config_file
from coop_consumer.config.librdkafka import PASSED
from coop_consumer.config.settings import SETTINGS
from coop_consumer.errors import (
    BrokerUnreachableError,
    ConfigError,
    CoopConsumerError,
    TopicMissingError,
)
from coop_consumer.plain_text import command
from coop_consumer.status.errors import (
    GroupMissingError,
    PartitionMissingError,
    TopicDiffersError,
)

_BOOTSTRAP = "bootstrap.servers"
_OWN = {
    _BOOTSTRAP: "bootstrap",
    "group.id": "group",
    "topics": "topics",
    "workers": "workers",
    "ops.address": "ops",
    "ops.token.file": "token_file",
    "ops.allowed.hosts": "allowed_hosts",
    "ops.allow.actions": "allow_actions",
}
"""Settings that some commands take by an option or argument of their own → the parameter's name."""
_LOOPBACK = ("127.0.0.1", "localhost")
_NO_GROUP = "coop-consumer"
_INDENT = "    "


def add_hints(error: CoopConsumerError, connection: Connection) -> None:
    """Let the error of a command say what else helps on this machine and on this command line."""
    match error:
        case ConfigError():
            where = _place(error.name, connection)
            if where and where not in str(error):
                error.remedy = f"{error.remedy} ({where})"
            if error.name == _BOOTSTRAP and error.problem.startswith("is missing"):
                error.add_note(_brokers_here(running_detached()))
        case BrokerUnreachableError():
            is_here = any(host in error.bootstrap for host in _LOOPBACK)
            if where := _place(_BOOTSTRAP, connection):
                error.add_note(f"{_BOOTSTRAP} was given by {where}.")
            running = running_detached()
            others = [it for it in running if it.bootstrap_servers not in error.bootstrap]
            if others or (is_here and not running):
                error.add_note(_brokers_here(others))
        case _:
            for note in _ways_on(error, connection):
                error.add_note(note)


def _ways_on(error: CoopConsumerError, connection: Connection) -> Iterator[str]:
    """What to type after an error about something that is not there, or is there otherwise."""
    config = partial(connection.config, _NO_GROUP)
    match error:
        case TopicMissingError():
            if near := nearest_topic(config, error.topic):
                yield f"The topic with the nearest name is {near}."
            name = error.topic
            yield _to(f"create {name}", "topic", "create", name, connection=connection)
        case PartitionMissingError() | TopicDiffersError():
            words = "topic", "describe", error.topic
            yield _to(f"see {error.topic} as it is", *words, connection=connection)
        case GroupMissingError():
            if near := nearest_group(config, error.group):
                yield f"The group with the nearest name is {near}."
            params = click.get_current_context().command.params
            if any(getattr(it, "help", None) == LOOK_AT_TOPIC for it in params):
                yield "If it has not begun yet, name its topics with --topic."
            yield _to("list groups that have progress", "groups", connection=connection)
        case _:
            pass


def _to(do: str, *words: str, connection: Connection) -> str:
    """A line to paste, with what it is for."""
    return f"To {do}:\n{_INDENT}{command(*words, options=connection.words)}"


def export_line(broker: DetachedBroker) -> str:
    """The line for a shell by which its commands find a broker."""
    return f"export {BOOTSTRAP_VARIABLE}={broker.bootstrap_servers}"


def _place(name: str, connection: Connection) -> str:
    """Where a setting was given, or how to give it; "" if that is none of a command line."""
    context = click.get_current_context()
    own = next((p for p in context.command.params if p.name == _OWN.get(name)), None)
    words = "" if own is None else _words(own)
    if own is not None and context.params.get(own.name or "") and name != _BOOTSTRAP:
        return words
    if name in dict(connection.options):
        return words if name == _BOOTSTRAP else f"--config {name}"
    if connection.file is not None:
        with suppress(ConfigError):  # it is the error itself
            if name in read_config_file(connection.file):
                if connection.is_file_from_environment:
                    return f"{FILE_VARIABLE}={connection.file}"
                return f"--config-file {connection.file}"
    if name == _BOOTSTRAP and connection.environment:
        return BOOTSTRAP_VARIABLE
    is_setting = name in SETTINGS or name in PASSED
    return words or (f"--config {name}=VALUE" if is_setting else "")


def _words(parameter: click.Parameter) -> str:
    """An option as it is typed, or an argument as the usage line names it."""
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return parameter.human_readable_name


def _brokers_here(running: Sequence[DetachedBroker]) -> str:
    """These brokers of this machine, each with the line to paste; or how to start one."""
    if not running:
        start = command("broker", "start")
        return f"No Kafka at hand? This runs one on this machine:\n{_INDENT}{start}"
    if len(running) == 1:
        return f"A broker runs on this machine. To use it:\n{_INDENT}{export_line(running[0])}"
    lines = (f"{_INDENT}{export_line(it)}    # broker {it.name}" for it in running)
    return "\n".join(["Brokers run on this machine. To use one of them:", *lines])
