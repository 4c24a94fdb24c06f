"""A command of `coop-consumer` in this process, as an operator calls it.

In: a job and words. Out: what the command has printed, and its exit code. It is told an address,
and nothing about the group. `command` runs `coop-consumer run` as a process.
"""

from __future__ import annotations

from click.testing import CliRunner, Result

from coop_consumer.cli.app import app
from coop_consumer.errors import ExitCode
from tests.support.job import Job


def command(job: Job, *arguments: str) -> Result:
    """Call a command."""
    bootstrap = str(job.client["bootstrap.servers"])
    return CliRunner().invoke(app, arguments, env={"COOP_BOOTSTRAP": bootstrap, "COLUMNS": "400"})


def done(result: Result) -> str:
    """The output of a command that must have succeeded."""
    assert result.exit_code == ExitCode.OK, result.output
    return result.stdout
