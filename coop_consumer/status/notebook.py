"""The picture of a status as HTML, for notebooks. Pure.

In: a `GroupStatus`. Out: HTML with the characters and colours that a terminal shows. It needs rich
(the extra `cli`). What comes from records is escaped, by the picture for terminals and by rich for
HTML.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME

from coop_consumer.status.picture import Picture

if TYPE_CHECKING:
    from coop_consumer.status.model import GroupStatus

_WIDTH = 100
# Notebooks have light and dark pages. A picture with a background of its own suits both.
_FORMAT = (
    '<pre style="font-family:monospace;line-height:1.2;overflow-x:auto;padding:0.5em;'
    'color:#000000;background-color:#ffffff"><code style="font-family:inherit">{code}</code></pre>'
)


def html(status: GroupStatus) -> str:
    """What `coop-consumer status` shows, as one element."""
    console = Console(
        file=io.StringIO(),  # a notebook would show what is printed, too
        record=True,
        width=_WIDTH,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        force_jupyter=False,
    )
    console.print(Picture(status), crop=False)
    return console.export_html(
        theme=DEFAULT_TERMINAL_THEME, code_format=_FORMAT, inline_styles=True
    )
