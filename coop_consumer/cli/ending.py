"""How a failed command ends: one message on stderr, one exit code.

In: an exception of a command. Out: `click`'s own exit. The error's text says what went wrong, what
happens now and what to do. A traceback is shown only at `--log-level debug`.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from coop_consumer.cli.log import is_json
from coop_consumer.cli.output import echo
from coop_consumer.cli.usage import with_example
from coop_consumer.errors import CoopConsumerError, exit_code_of, lacking
from coop_consumer.log_events import LogEvent

log = logging.getLogger(__name__)

_BY_SIGNAL = 128
"""Less a signal's number: the exit code of who was ended by it, as shells have it."""


@contextmanager
def ends_well(ctx: click.Context) -> Iterator[None]:
    """Turn an error of the block into a message and an exit code; click's own pass."""
    try:
        yield
    except click.MissingParameter as error:
        raise with_example(error) from error
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt as interrupt:
        echo("interrupted", err=True)
        ctx.exit(exit_code_of(interrupt))
    except BrokenPipeError:  # the reader of our output has gone, as with `| head`
        _drop_output()
        ctx.exit(_BY_SIGNAL + signal.SIGPIPE)
    except Exception as error:
        extra = LogEvent.COMMAND_FAILED.extra(error=error)
        log.debug("where it went wrong", exc_info=True, extra=extra)
        if is_json():  # whoever reads JSON can read nothing else
            told = _message_of(error).removeprefix("error: ")
            log.error("%s", told, extra=extra)  # noqa: TRY400 - the text suffices
        else:
            echo(_message_of(error), err=True)
        ctx.exit(exit_code_of(error))


def _drop_output() -> None:
    """Let nothing more be written: else the interpreter complains, which flushes at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # it has no number, or is closed
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _message_of(error: Exception) -> str:
    if isinstance(error, CoopConsumerError):
        return "\n".join([f"error: {error}", *getattr(error, "__notes__", ())])
    if (found := lacking(error)) is not None:
        return f"error: {found}"
    return (
        f"error: {type(error).__name__}: {error}. This is not an error that coop-consumer knows. "
        "Repeat with --log-level debug to see where it comes from."
    )
