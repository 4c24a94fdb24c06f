"""What a wrong word of a command line is told: what is right, and an example to type.

click's own messages name neither the range of a number nor a whole command.
"""

from __future__ import annotations

import os
from typing import IO, Any

import click

from coop_consumer.config.setting import shown
from coop_consumer.plain_text import command

_SAMPLES = {
    "GROUP": ("billing",),
    "TOPIC": ("orders",),
    "TOPIC...": ("orders",),
    "SOURCE": ("totals",),
    "TARGET": ("totals.clean",),
    "MODULE:WORKER": ("billing:Billing", "--topics", "orders", "--group", "billing"),
    "NAME=true|false": ("accept.range.fetch=false", "--topic", "orders"),
    "WHAT": ("ready", "--address", "127.0.0.1:9464"),
    "--to": ("earliest",),
    "--group": ("billing", "--topics", "orders"),
}
"""What stands for a word that a command needs, by its name; and what is to go with it."""

_MORE = {"retry": ("orders-1", 43), "skip": ("orders-1", 43)}
"""What else such a command needs: its usage has it in brackets, as options may stand for it."""


class NumberType(click.IntRange):
    """A whole number within bounds.

    Args:
        least: The least one.
        most: The largest one; None: any.
        sample: One for an example.
    """

    def __init__(self, least: int, most: int | None = None, *, sample: int) -> None:
        super().__init__(least, most)
        self._bounds = f"of {least} or more" if most is None else f"from {least} to {most}"
        self._sample = sample

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it; the message names the bounds, also for what is no number."""
        try:
            found: int = super().convert(value, param, ctx)
        except click.BadParameter:
            option = f"{_name(param)} " if isinstance(param, click.Option) else ""
            told = f"is no whole number {self._bounds}; write one, as in {option}{self._sample}"
            self.fail(f"{shown(str(value))} {told}", param, ctx)
        return found


class LinesType(click.File):
    """A file of lines, or the standard input."""

    def __init__(self) -> None:
        super().__init__("rb")

    def convert(
        self,
        value: str | os.PathLike[str] | IO[Any],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> IO[Any]:
        """Open it; the message says what else to write."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            told = f"{error.message}; name a file that can be read, or - for the standard input"
            self.fail(told, param, ctx)


def with_example(error: click.MissingParameter) -> click.MissingParameter:
    """The error about a word that is missing; it ends with a command that has all words."""
    if error.ctx is None:
        return error
    _, *words = error.ctx.command_path.split()
    more = _MORE.get(words[-1], ())
    for param in error.ctx.command.params:
        if param.required:
            named = [_name(param)] if isinstance(param, click.Option) else []
            words += [*named, *_SAMPLES[_name(param)]]
    told = f"As in: {command(*words, *more)}"
    return click.MissingParameter(told, error.ctx, error.param, error.param_hint, error.param_type)


def _name(param: click.Parameter) -> str:
    """An option as it is typed, or an argument as the usage line names it."""
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return param.human_readable_name
