"""The command line `coop-consumer`: the door for people and scripts.

Room: `coop_consumer.cli`; above everything else in the package, imported by nothing. In: words of a
command line, the environment, files named there. Out: text or JSON on stdout; messages and the log
on stderr; an exit code (`coop_consumer.errors.ExitCode`). It decides nothing about progress: it
asks `coop_consumer.admin.inspect`, shows the values of `coop_consumer.status`, and runs pools.

    app       the commands, loaded when called     options   what all commands take
    ending    errors become a message and a code   log       the log on stderr
    limits    what the machine allows a member
    worker    finds the class of `module:Worker`   output    any text on any terminal
    terminal  where tables and pictures go            hints     what an error says besides
    places    names and places as people type them    duration  lengths of time
    watching  what exporter and web have in common    guarding  who may ask web and `run --ops`
    usage     what a wrong word is told
    run, status, gaps, scale, exporter, web, decide, release, reset, policy, clean, topic, send,
    read, init, doctor, groups, collect (`gc`), probe, broker, demo

`run` is two processes: a small parent, and the worker process that it starts and restarts.

    supervisor  the parent                     restarts  when it starts the worker process again
    kept_port   the port of `run --ops`    stand_in  answers there while no worker process does
    seat        the worker process's end of their bond
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module, util

from coop_consumer.cli.early import end_by_signals

end_by_signals()  # before what takes long to import

from coop_consumer.cli.seat import VARIABLE  # noqa: E402
from coop_consumer.errors import ExitCode, lacking  # noqa: E402

EXTRA = "coop-consumer[cli]"
NEEDED = ("click", "rich")
NO_SUPERVISE = "--no-supervise"
HEALTH_FILE = "--health-file"
LOG_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"


def main() -> None:
    """Run this process's command line and exit; without its extra, say what to install."""
    missing = [name for name in NEEDED if util.find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"coop-consumer: the command line needs {' and '.join(missing)}, not installed here. "
            f"Nothing was started. Install the extra that brings it: pip install '{EXTRA}'.\n"
        )
        sys.exit(ExitCode.USAGE)
    # Before click is loaded: the parent of `run` lives as long as the worker, and stays small.
    if sys.argv[1:2] == ["run"] and NO_SUPERVISE not in sys.argv and VARIABLE not in os.environ:
        sys.exit(import_module("coop_consumer.cli.supervisor").supervise())
    import_module("coop_consumer.cli.output").let_streams_escape()
    try:
        import_module("coop_consumer.cli.app").app.main(prog_name="coop-consumer")
    except OSError as error:  # not even its help or its message could be printed
        found = lacking(error)
        if found is None:
            raise
        with suppress(OSError):
            sys.stderr.write(f"error: {found}\n")
        sys.exit(found.exit_code)
