"""The status as a picture: partitions down the page, the hash space across it. Pure.

In: a `GroupStatus`. Out: something rich prints. Each partition has two lines. The upper one shades
the progress of each slice of the hash space, and marks records that failed. The lower one shows by
letter and colour who owns the slice. Of many partitions it shows some, those in trouble first
(`large`). Characters say everything that colours say, and `Glyphs` has a
set of plain ASCII for terminals that know no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, groupby

from rich.console import Console, ConsoleOptions, OverflowMethod, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from assignors import KEY_HASH_MAX
from coop_consumer.core.policies import NAMES
from coop_consumer.plain_text import command, counted, printable
from coop_consumer.status.large import folded, left_out, some_of
from coop_consumer.status.load_picture import LoadPicture
from coop_consumer.status.model import (
    GroupStatus,
    PartitionStatus,
    PendingHandover,
    RecordStatus,
)
from coop_consumer.status.standing import commands_for
from coop_consumer.status.words import (
    LETTERS,
    facts_of,
    for_span,
    is_ahead,
    key_text,
    owner_at,
    percent,
    share_done,
    short,
    span,
)

COLOURS = ("cyan", "magenta", "yellow", "blue", "green", "bright_cyan", "bright_magenta", "white")
BAD, WARNING, QUIET = "bold red", "yellow", "bright_black"
NOBODY = " "
RECORDS_SHOWN = 5
"""Failed records listed for each partition; the rest is counted."""

WIDTH_MIN = 60
"""Columns below which the picture is cut, not squeezed."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of a picture.

    Attributes:
        shades: From nothing done to everything done.
        parked: A record that waits for a decision.
        failing: A record that failed and will be tried again, or whose handler is overdue.
        holder: The record that holds the stable offset.
        owned: Fills an owner's line.
        waiting: Fills it where another member still holds the keys.
        left, right: The ends of a bar.
    """

    shades: str
    parked: str
    failing: str
    holder: str
    owned: str
    waiting: str
    left: str
    right: str


UNICODE = Glyphs("·░▒▓█", "✗", "!", "◆", "─", "~", "▕", "▏")
ASCII = Glyphs(" .:=#", "X", "!", "o", "-", "~", "|", "|")


def glyphs_for(encoding: str) -> Glyphs:
    """The characters that a terminal of this encoding can show."""
    try:
        "".join(UNICODE.shades + UNICODE.parked + UNICODE.holder + UNICODE.left).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


class Picture:
    """A group's status for rich to print: as wide as the terminal, in the characters it knows.

    Use `Console().print(Picture(status), crop=False)`: then commands to paste stay on one line,
    however narrow the terminal is.

    Args:
        status: Of the group.
        shows_all: Show all partitions and warnings, and not only what has room.
    """

    def __init__(self, status: GroupStatus, *, shows_all: bool = False) -> None:
        self._status = status
        self._shows_all = shows_all

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw. O(partitions x width)."""
        width = max(options.max_width, WIDTH_MIN)
        drawing = _Drawing(self._status, width, options.encoding, shows_all=self._shows_all)
        yield drawing.title()
        yield Text()
        if self._status.partitions:
            yield drawing.ruler()
            yield from drawing.bars()
            yield drawing.legend()
            yield Text()
            yield drawing.figures()
            yield from drawing.left_out()
        yield from drawing.troubles()
        yield from drawing.open_transactions()
        yield from drawing.patterns()
        yield from drawing.policies()
        yield from drawing.members()
        yield from drawing.load()


def shade(done: float, glyphs: Glyphs = UNICODE) -> str:
    """The character for a share of work done; the full one only for all of it.

    >>> "".join(map(shade, (0.0, 0.01, 0.4, 0.99, 1.0)))
    '·░▒▓█'
    """
    between = glyphs.shades[1:-1]
    if done <= 0:
        return glyphs.shades[0]
    return glyphs.shades[-1] if done >= 1 else between[min(int(done * len(between)), 2)]


class _Drawing:
    """One picture under way: the letters of the members, and the columns."""

    def __init__(self, status: GroupStatus, width: int, encoding: str, *, shows_all: bool) -> None:
        self.status = status
        self.partitions = status.partitions if shows_all else some_of(status.partitions)
        self.warnings = status.warnings if shows_all else folded(status.warnings)
        self.encoding = encoding
        self.glyphs = glyphs_for(encoding)
        self.overflow: OverflowMethod = "ellipsis" if self.glyphs is UNICODE else "crop"
        names = [member.name for member in status.members]
        self.letters = dict(zip(names, cycle(LETTERS), strict=False))
        self.colours = dict(zip(names, cycle(COLOURS), strict=False))
        self.label_width = max((len(str(p.tp)) for p in self.partitions), default=0)
        self.label_width = min(self.label_width, width // 4)
        # A space, the bar's two ends, and what is left in words: at most " about 99.9k left".
        self.cells = width - self.label_width - 3 - 18

    # ---- the bars ------------------------------------------------------------------------------

    def title(self) -> Text:
        """The group and its state, on one line."""
        status = self.status
        state_style = "green" if status.state.lower() == "stable" else WARNING
        text = Text.assemble(("group ", QUIET), (self._shown(status.group), "bold"), "  ")
        text.append(self._shown(status.state), state_style)
        text.append(f"  {counted(len(status.members), 'member')}", QUIET)
        text.append(f"  {status.guarantee.replace('_', ' ')}", QUIET)
        parked = sum(len(partition.parked) for partition in status.partitions)
        if parked:
            text.append(f"  {self.glyphs.parked} {counted(parked, 'record')} parked", BAD)
        handovers = sum(len(partition.handovers) for partition in status.partitions)
        if handovers:
            text.append(f"  {self.glyphs.waiting} {counted(handovers, 'handover')}", WARNING)
        return text

    def ruler(self) -> Text:
        """What the bars' ends mean."""
        ends, name = ("0", "2^63"), " key hash "
        line = self.glyphs.owned * (self.cells - len(ends[0]) - len(ends[1]) - 2)
        middle = (len(line) - len(name)) // 2
        line = line[:middle] + name + line[middle + len(name) :]
        return Text(f"{'':{self.label_width}}  {ends[0]} {line} {ends[1]}", QUIET)

    def bars(self) -> Iterator[Text]:
        """Two lines a partition."""
        for partition in self.partitions:
            yield self._progress_line(partition)
            if partition.owners:
                yield self._owner_line(partition)

    def _progress_line(self, partition: PartitionStatus) -> Text:
        label = str(partition.tp)
        if len(label) > self.label_width:  # the end of a name distinguishes partitions
            label = f"..{label[2 - self.label_width :]}"
        style = BAD if partition.parked else "bold"
        line = Text.assemble((f"{label:<{self.label_width}}", style), " ", self.glyphs.left)
        marks = self._marks(partition)
        for i, owner, done in self._cells(partition):
            character, style = marks.get(i, (shade(done, self.glyphs), self._colour(owner)))
            line.append(character, style)
        line.append(f"{self.glyphs.right} ")
        line.append(self._outcome(partition), BAD if partition.parked else "")
        return line

    def _owner_line(self, partition: PartitionStatus) -> Text:
        line = Text(f"{'':{self.label_width}}  ")
        for (owner, waits), run in groupby(self._owner_cells(partition)):
            width = len(list(run))
            if owner is None:
                line.append(NOBODY * width)
                continue
            fill = self.glyphs.waiting if waits else self.glyphs.owned
            style = WARNING if waits else self._colour(owner)
            line.append(self._letter(owner) + fill * (width - 1), style)
        return line

    def _letter(self, member: str) -> str:
        """How the picture calls a member; "?" for one that is not in the group."""
        return self.letters.get(member, "?")

    def _outcome(self, partition: PartitionStatus) -> str:
        left = partition.remaining
        if left.records == 0:
            return "caught up"
        return f"{'' if left.is_exact else 'about '}{short(left.records)} left"

    def _cells(self, partition: PartitionStatus) -> Iterator[tuple[int, str | None, float]]:
        """For each column: its owner and the share done of its slice, since the epoch began."""
        shares = [(piece.range.hi, share_done(piece, partition)) for piece in partition.progress]
        at = 0
        for i in range(self.cells):
            middle = self._hash_at(i)
            while shares[at][0] < middle:
                at += 1
            yield i, owner_at(partition.owners, middle), shares[at][1]

    def _owner_cells(self, partition: PartitionStatus) -> Iterator[tuple[str | None, bool]]:
        waits = [key_range for h in partition.handovers for key_range in h.ranges]
        for i in range(self.cells):
            middle = self._hash_at(i)
            owner = owner_at(partition.owners, middle)
            yield owner, any(middle in key_range for key_range in waits)

    def _marks(self, partition: PartitionStatus) -> Mapping[int, tuple[str, str]]:
        """Columns with a character of their own; the worst one wins."""
        glyphs, marks = self.glyphs, {}
        if partition.holder is not None and partition.gaps:
            marks[self._cell_of(partition.holder.key_hash)] = glyphs.holder, "bold"
        for record in partition.failed:
            if not record.is_parked:
                marks[self._cell_of(record.key_hash)] = glyphs.failing, WARNING
        for record in partition.parked:
            marks[self._cell_of(record.key_hash)] = glyphs.parked, BAD
        return marks

    def _hash_at(self, cell: int) -> int:
        return (2 * cell + 1) * KEY_HASH_MAX // (2 * self.cells)

    def _cell_of(self, key_hash: int) -> int:
        return min(key_hash * self.cells // KEY_HASH_MAX, self.cells - 1)

    def _colour(self, owner: str | None) -> str:
        return self.colours.get(owner or "", QUIET)

    def legend(self) -> Text:
        """What the characters mean: the shades, and the marks that this picture has."""
        glyphs, partitions = self.glyphs, self.partitions
        none, some, everything = glyphs.shades[0], glyphs.shades[1], glyphs.shades[-1]
        marks = {mark for p in partitions for mark, _ in self._marks(p).values()}
        words = [
            (f"{everything} done  {some} begun  {none if none.strip() else 'blank'} to do", QUIET)
        ]
        if glyphs.holder in marks:
            words.append((f"{glyphs.holder} holds the stable offset", "bold"))
        if glyphs.failing in marks:
            words.append((f"{glyphs.failing} failing or overdue", WARNING))
        if glyphs.parked in marks:
            words.append((f"{glyphs.parked} parked", BAD))
        if any(p.handovers for p in partitions):
            words.append((f"{glyphs.waiting} handover", WARNING))
        text = Text(f"{'':{self.label_width}}  ", no_wrap=True, overflow="crop")
        for i, (word, style) in enumerate(words):
            text.append("  " if i else "").append(word, style)
        return text

    # ---- the words -----------------------------------------------------------------------------

    def figures(self) -> Table:
        """The offsets of each partition, and what holds it up."""
        table = Table(box=None, pad_edge=False, header_style=QUIET, padding=(0, 2, 0, 0))
        table.add_column("partition", no_wrap=True, overflow=self.overflow)
        for name in ("stable", "end", "lag", "left", "gap ranges", "epoch"):
            table.add_column(name, justify="right", no_wrap=True)
        for p in self.partitions:
            table.add_row(
                str(p.tp),
                "?" if p.stable is None else f"{p.stable:,}",
                f"{p.end:,}",
                "?" if p.lag is None else f"{p.lag:,}",
                f"{'' if p.remaining.is_exact else '~'}{p.remaining.records:,}",
                f"{len(p.gaps):,}",
                str(p.epoch or "-"),
            )
        return table

    def left_out(self) -> Iterator[RenderableType]:
        """How many partitions are not shown, and the command that shows all."""
        if told := left_out(self.status.partitions, self.partitions):
            yield Text(told, QUIET)
            line = Text(no_wrap=True, overflow="ignore")
            shows_all = command("status", self.status.group, "--all", options=self.status.options)
            line.append("  to see all:  ", QUIET).append(self._shown(shows_all))
            yield line

    def troubles(self) -> Iterator[RenderableType]:
        """What a person should read: failed records, handovers, warnings."""
        troubles = [t for partition in self.partitions for t in self._problems_of(partition)]
        troubles += [("!", Text(self._shown(it), WARNING), WARNING) for it in self.warnings]
        if troubles:
            yield Text()
        for mark, line, style in troubles:
            if not mark:
                yield line
                continue
            table = Table.grid(padding=(0, 1))
            table.add_row(Text(mark, style), line)
            yield table

    def open_transactions(self) -> Iterator[RenderableType]:
        """What readers of committed records have waited for, longer than a writer takes."""
        now_ms = self.status.at_ms
        held = [it for it in self.status.open_transactions if it.stands_for_long(now_ms)]
        if held:
            yield Text()
        for it in held:
            table = Table.grid(padding=(0, 1))
            text = self._shown(f"{it.told(now_ms)}. {it.outlook}")
            table.add_row(Text("!", WARNING), Text(text, WARNING))
            yield table
            line = Text(no_wrap=True, overflow="ignore")
            line.append("  to abort it:  ", QUIET).append(self._shown(it.command))
            yield line

    def patterns(self) -> Iterator[RenderableType]:
        """By which patterns topics come and go."""
        if self.status.patterns:
            shown = ", ".join(map(self._shown, self.status.patterns))
            yield Text()
            yield Text(f"topics by pattern: {shown}", QUIET)

    def policies(self) -> Iterator[RenderableType]:
        """What an operator forbids."""
        refusals = list(self.status.policies.refusals(self.status.group))
        if refusals:
            yield Text()
        for key in refusals:
            name = self._shown(key.name)
            yield Text(f"policy: {key.scope} {name} {NAMES[key.scope]}=false", QUIET)

    def _problems_of(self, partition: PartitionStatus) -> Iterator[tuple[str, Text, str]]:
        """Mark, text and style of each; a line without a mark is to stay one line."""
        holder = partition.holder
        shown = list(partition.failed[:RECORDS_SHOWN])
        if holder is not None and holder not in shown:
            shown.insert(0, holder)
        for record in shown:
            yield self._record_line(partition, record, holds=record == holder)
            status = self.status
            for found in commands_for(status.group, partition.tp, record, status.options):
                line = Text(no_wrap=True, overflow="ignore")
                line.append(f"  to {found.purpose}:  ", QUIET).append(self._shown(found.line))
                yield "", line, ""
        if len(partition.failed) > RECORDS_SHOWN:
            rest = len(partition.failed) - RECORDS_SHOWN
            yield self.glyphs.parked, Text(f"{partition.tp}: {rest:,} more failed", BAD), BAD
        for handover in partition.handovers:
            line = Text(self._handover(partition, handover), WARNING)
            yield self.glyphs.waiting, line, WARNING

    def _record_line(
        self, partition: PartitionStatus, record: RecordStatus, *, holds: bool
    ) -> tuple[str, Text, str]:
        mark, style = self.glyphs.holder, "bold"
        if record.is_parked:
            mark, style = self.glyphs.parked, BAD
        elif record.attempts:
            mark, style = self.glyphs.failing, WARNING
        facts = [self._shown(key_text(record))]
        if holds:
            facts.append("holds the stable offset")
        facts += facts_of(record, self.status.at_ms, self._member)
        if record.member:
            facts.append(f"at {self._letter(record.member)} ({self._shown(record.host)})")
        if record.attempts and not record.is_overdue:
            # Last: it is text of others, with commas of its own, and may end with dots for a cut.
            facts.append(self._shown(record.error))
        place = (f"{partition.tp} offset {record.offset}", style)
        return mark, Text.assemble(place, ": " + ", ".join(facts)), style

    def _handover(self, partition: PartitionStatus, handover: PendingHandover) -> str:
        share = sum(r.size for r in handover.ranges) / (KEY_HASH_MAX + 1)
        waiting, holder = self._letter(handover.waiting), self._member(handover.holder)
        text = f"{partition.tp}: {waiting} waits for {holder}, {percent(share)} of the keys"
        if not handover.since_ms:
            return text
        if is_ahead(handover.since_ms, self.status.at_ms):
            return text + for_span(handover.since_ms, self.status.at_ms)
        return f"{text}, since {span(self.status.at_ms - handover.since_ms)}"

    def _member(self, name: str) -> str:
        return self.letters.get(name) or f"{self._shown(name)} (gone)"

    def _shown(self, text: str) -> str:
        """Text of others as this terminal can show it: keys, errors and names are theirs."""
        return printable(text, encoding=self.encoding)

    def members(self) -> Iterator[RenderableType]:
        """Which member each letter stands for."""
        if not self.status.members:
            yield Text()
            yield Text("no members: nobody is processing", WARNING)
            return
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow=self.overflow)
        table.add_column(no_wrap=True, overflow=self.overflow)
        for name in ("workers", "ranges", "lead"):
            table.add_column(name, justify="right", no_wrap=True)
        for member in self.status.members:
            ranges = sum(len(found) for found in member.ranges.values())
            table.add_row(
                Text(self._letter(member.name), self._colour(member.name)),
                Text(self._shown(member.name)),
                Text(self._shown(member.host), QUIET),
                counted(member.capacity, "worker") if member.capacity else "plain",
                counted(ranges, "range"),
                "lead" if member.leads else "",
            )
        yield Text()
        yield table

    def load(self) -> Iterator[RenderableType]:
        """How busy members are, and with which keys."""
        empty, full = self.glyphs.shades[0], self.glyphs.shades[-1]
        load, letters = self.status.load, self.letters
        yield from LoadPicture(load, letters, self.colours, full, empty, self._shown).lines()
