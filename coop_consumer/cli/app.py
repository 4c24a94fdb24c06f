"""The commands and where they live; a command's module is loaded when it is called.

In: a command line. Out: the command, carried out. `--help` loads none of Kafka's clients, so it
answers at once. The table here has its line for each command; a test compares these lines with the
commands themselves.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import NamedTuple

import click

from coop_consumer import __version__
from coop_consumer.cli.ending import ends_well
from coop_consumer.errors import ExitCode


class CommandEntry(NamedTuple):
    """One command: the module and the name it is found by, and its line in the help."""

    module: str
    name: str
    summary: str


COMMANDS = {
    "demo": CommandEntry(
        "demo", "demo", "See it work: real flights, many workers, a crash, and a check."
    ),
    "topic": CommandEntry("topic", "topic", "Create, list and describe topics."),
    "send": CommandEntry("send", "send", "Send records to a topic."),
    "read": CommandEntry("read", "read", "Show the records of a topic."),
    "run": CommandEntry("run", "run", "Run a worker class, as one member of a group."),
    "status": CommandEntry(
        "status", "status", "Show where a group stands: progress, owners, what holds it up."
    ),
    "gaps": CommandEntry("gaps", "gaps", "Show what is done above a group's stable offsets."),
    "scale": CommandEntry(
        "scale", "scale", "Say how many members a group wants, how many can help, and why."
    ),
    "exporter": CommandEntry(
        "exporter", "exporter", "Show groups from outside as metrics, for Prometheus."
    ),
    "web": CommandEntry(
        "web", "web", "Show groups on a page in the browser: what is stuck, and what helps."
    ),
    "retry": CommandEntry("decide", "retry", "Try parked records again."),
    "skip": CommandEntry("decide", "skip", "Count parked records as done, unprocessed."),
    "release": CommandEntry(
        "release", "release", "Let members begin that wait for another one's handler."
    ),
    "reset": CommandEntry("reset", "reset", "Move an empty group to another place: a new epoch."),
    "policy": CommandEntry("policy", "policy", "Allow or forbid sharing, for a topic or a group."),
    "clean": CommandEntry("clean", "clean", "Copy a topic without its repeats."),
    "init": CommandEntry(
        "init", "init", "Make the topics that a group needs, and list its rights."
    ),
    "doctor": CommandEntry("doctor", "doctor", "Check broker, topics, rights and clients."),
    "groups": CommandEntry(
        "groups", "groups", "List the groups that have records in a progress topic."
    ),
    "gc": CommandEntry("collect", "gc", "Clear what groups that Kafka has forgotten have left."),
    "probe": CommandEntry("probe", "probe", "Ask whether a member is alive, or ready."),
    "broker": CommandEntry("broker", "broker", "Start, stop or find a broker in the background."),
}


class Commands(click.Group):
    """A group that knows its commands by `COMMANDS`, and how they may end."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The commands in the order of the table: as a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command, or None: no such command."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        module = import_module(f"coop_consumer.cli.{entry.module}")
        command: click.Command = getattr(module, entry.name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names; a word that is none names the nearest."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            near = get_close_matches(name, COMMANDS, n=1)
            ctx.fail(f"No such command '{name}'.{f' The nearest is {near[0]}.' if near else ''}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands from the table, without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the exit codes."""
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), code.meaning) for code in ExitCode])

    def invoke(self, ctx: click.Context) -> object:
        """Carry out a command; any failure ends in one message and an exit code."""
        with ends_well(ctx):
            return super().invoke(ctx)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", prog_name="coop-consumer")
def app() -> None:
    """Kafka consumers that share partitions, each a range of the key-hash space, in key order."""
