"""The load of a group in the status picture: a bar for each member, the heaviest keys. Pure.

In: a `GroupLoad`, the letters and colours of the members. Out: something rich prints. Members that
report nothing have no bar. Without any report there are no lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from coop_consumer.status.load import GroupLoad, KeyWork, MemberWork
from coop_consumer.status.words import handler_time

CELLS = 20
"""The length of a bar."""

KEYS_SHOWN = 5
_SHARE_MIN = 0.05
"""A key with less of a partition's work holds nobody up."""

_QUIET, _WARNING = "bright_black", "yellow"
_HOT = 0.5
"""From this share on, a partition keeps at most two workers busy in the long run."""


@dataclass(frozen=True, slots=True)
class LoadPicture:
    """Draws the load.

    Attributes:
        load: What members report.
        letters: How the picture calls each member.
        colours: The colour of each member.
        full: Fills a bar.
        empty: The rest of it.
        shown: Makes text of others printable.
    """

    load: GroupLoad
    letters: Mapping[str, str]
    colours: Mapping[str, str]
    full: str
    empty: str
    shown: Callable[[str], str]

    def lines(self) -> Iterator[RenderableType]:
        """The bars, then the keys; O(members + keys)."""
        if self.load.works:
            yield Text()
            yield self._bars()
        keys = [key for key in self.load.keys if key.share >= _SHARE_MIN][:KEYS_SHOWN]
        if keys:
            yield Text()
        for key in keys:
            yield self._key_line(key)
            if key.is_busy:
                yield Text(
                    f"  at most {key.workers_at_most:.1f} workers can be busy there: make its "
                    "handler quicker, or split the key",
                    _WARNING,
                )

    def _bars(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style=_QUIET, padding=(0, 2, 0, 0))
        table.add_column("load", no_wrap=True)
        table.add_column("workers busy", no_wrap=True)
        for name in ("", "done/s", "handler"):
            table.add_column(name, justify="right", no_wrap=True)
        for work in self.load.works:
            letter = self.letters.get(work.member, "?")
            colour = self.colours.get(work.member, "")
            table.add_row(
                Text(letter, colour),
                Text(self._bar(work), colour),
                f"{work.busy * 100:.0f} %",
                f"{work.finished:,}",
                handler_time(work.handler_us),
            )
        return table

    def _bar(self, work: MemberWork) -> str:
        filled = round(work.busy * CELLS)
        if work.busy > 0:
            filled = max(filled, 1)
        return self.full * filled + self.empty * (CELLS - filled)

    def _key_line(self, key: KeyWork) -> Text:
        at = f" (at {self.letters[key.member]})" if key.member in self.letters else ""
        text = f"{key.tp}: {self.shown(key.words)} is {key.percent} of the work{at}"
        if key.is_busy:
            return Text(f"{text}, and keeps one worker busy", _WARNING)
        if key.share < _HOT:
            return Text(text, _QUIET)
        return Text(f"{text}, and runs on one worker", _WARNING)
