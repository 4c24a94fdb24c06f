"""What a command prints: any text, on any terminal.

In: text that may hold characters outside the terminal's encoding, or control characters (errors,
keys and names come from strangers). Out: the same text with escapes. Printing never ends a command
with a traceback.
"""

from __future__ import annotations

import io
import sys

import click

from coop_consumer.plain_text import printable

_KEPT = "\n\t"


def echo(text: str, *, err: bool = False) -> None:
    """Print a text of one or more lines, without colours of its own."""
    stream = sys.stderr if err else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    click.echo(printable(text, kept=_KEPT, encoding=encoding), err=err)


def let_streams_escape() -> None:
    """Let stdout and stderr escape characters outside their encodings, for all code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
