"""The fenced blocks of a page: which are run, in which order, and what they must print.

In: README or a page of docs. Out: its blocks, each with its mark; a run of them in a folder, as a
reader pastes them. A mark is a comment above a block, which only the source shows:

    <!-- not run: REASON -->                 the block is a part of something, or takes too long
    <!-- prints: TEXT -->                    its output contains the text
    <!-- saved as FILE, runs on -->          it is a program: saved, and started in the background
    <!-- saved as FILE, runs until it prints: TEXT -->
    <!-- runs until it prints: TEXT -->      the same of a shell's block
    <!-- run first:                          no block is shown, and these lines are run
    LINES
    -->

What runs in the background gets a Ctrl-C at the end of the page, and must end well.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.offspring import kill_with_children

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
RUN = ("sh", "python")
"""The languages of blocks that are run, unless their mark says otherwise."""
SHOWN = ("", "json", "properties", "sql", "yaml")
"""Those of blocks that show something: output, a picture, a file."""
BLOCK_S = 300.0
"""Until a block counts as stuck. One of README's installs packages."""
_SHELL = ("bash", "-euo", "pipefail", "-c")
_OURS = ("COOP_", "PYTHON", "VIRTUAL_ENV", "XDG_")
"""How the names of variables begin that a stranger does not have."""

_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$"
    r"|<!-- run first:\n(?P<first>.*?)^-->",
    re.DOTALL | re.MULTILINE,
)
_MARK = re.compile(
    r"not run: (?P<reason>.+)|prints: (?P<prints>.+)"
    r"|(?:saved as (?P<file>[\w.]+), )?runs (?:(?P<on>on)|until it prints: (?P<until>.+))"
)


@dataclass(frozen=True, slots=True)
class Mark:
    """What a comment above a block says; "" for what it does not say."""

    reason: str = ""
    prints: str = ""
    file: str = ""
    until: str = ""
    runs_on: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page, with the line where it begins."""

    page: Path
    line: int
    language: str
    text: str
    mark: Mark

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


class UnknownMarkError(Exception):
    """A comment above a block that is no mark."""


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, in its order.

    Raises:
        UnknownMarkError: A mark is none of those above.
    """
    text = page.read_text(encoding="utf-8")
    found = []
    for it in _BLOCK.finditer(text):
        line = text.count("\n", 0, it.start()) + 1
        if it["first"] is not None:
            found.append(Block(page, line, "sh", it["first"], Mark()))
            continue
        mark = Mark() if it["mark"] is None else mark_of(it["mark"], f"{page.name}:{line}")
        found.append(Block(page, line, it["language"], it["text"], mark))
    return found


def mark_of(text: str, place: str) -> Mark:
    """The mark that a comment is.

    Raises:
        UnknownMarkError: It is none.
    """
    if (found := _MARK.fullmatch(text)) is None:
        raise UnknownMarkError(f"{place}: {text!r} is no mark; {__name__} lists them")
    said = {name: found[name] or "" for name in ("reason", "prints", "file", "until")}
    return Mark(**said, runs_on=bool(found["on"]))


class Background:
    """A command that runs on, and what it prints."""

    def __init__(self, words: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # so that a Ctrl-C gets to all of it, as in a terminal
        )
        self.printed = ""
        self._news = threading.Condition()
        self._has_ended = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                with self._news:
                    self.printed += line
                    self._news.notify_all()
        with self._news:
            self._has_ended = True
            self._news.notify_all()

    def wait_for(self, text: str) -> None:
        """Wait until it has printed a text."""
        with self._news:
            self._news.wait_for(lambda: text in self.printed or self._has_ended, BLOCK_S)
            assert text in self.printed, f"{text!r} was not printed:\n{self.printed}"

    def press_ctrl_c(self) -> None:
        """All its processes get it, as in a terminal."""
        os.killpg(self._process.pid, signal.SIGINT)

    def interrupt(self) -> None:
        """Press Ctrl-C; it must end well."""
        self.press_ctrl_c()
        code = self.end()
        assert code == 0, f"exit code {code} after Ctrl-C:\n{self.printed}"

    def end(self) -> int:
        """Wait for its end; its exit code."""
        code = self._process.wait(BLOCK_S)
        self._reader.join(BLOCK_S)
        return code

    def put_away(self) -> None:
        """End it, whatever has happened."""
        if self._process.poll() is None:
            kill_with_children(self._process)
            self._process.wait()
        self._reader.join(BLOCK_S)


class PageRun:
    """Runs the blocks of one page, one after the other, as a reader pastes them into one shell.

    Args:
        folder: The reader's home, and where the first block runs. A `cd` counts for all blocks
            that follow.
        replaced: What the suite has instead of what the page names, such as a broker's address.
        variables: More of the environment.
        installs: Run lines of `pip install`, too, instead of having what the suite has.
    """

    def __init__(
        self,
        folder: Path,
        replaced: Mapping[str, str],
        variables: Mapping[str, str],
        *,
        installs: bool = False,
    ) -> None:
        self._folder = folder
        self._replaced = replaced
        self._installs = installs
        own = {name: it for name, it in os.environ.items() if not name.startswith(_OURS)}
        packages = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        self._environment = {
            **own,
            **({} if installs else packages),
            "HOME": str(folder),
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "120",
            **variables,
        }
        self._foreground = ""
        self._background: list[Background] = []
        self._leftovers = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._leftovers:
            if error is None:
                for it in reversed(self._background):
                    it.interrupt()

    @property
    def printed(self) -> str:
        """All that was printed so far, what still runs included."""
        return "".join([self._foreground, *(it.printed for it in self._background)])

    def run(self, block: Block) -> None:
        """Run one block, unless its mark says otherwise; it must end with exit code 0."""
        if block.language not in RUN or block.mark.reason:
            return
        text = self._ours(block.text)
        if not self._installs:
            text = without_installs(text)
        if block.mark.file:
            (self._folder / block.mark.file).write_text(text, encoding="utf-8")
        if block.mark.until or block.mark.runs_on:
            self._start(block, text)
            return
        if block.language == "python":
            printed = self.call("python", "-c", text, where=str(block))
        else:
            after = self._folder / ".environment"
            script = f"{text}\nenv -0 > '{after}'\n"
            printed = self.call(*_SHELL, script, where=str(block))
            self._environment = dict(_variables(after.read_text()))
            self._folder = Path(self._environment["PWD"])
        assert block.mark.prints in printed, f"{block} printed:\n{printed}"

    def _start(self, block: Block, text: str) -> None:
        words = [*_SHELL, text]
        if block.language == "python":
            words = ["python", block.mark.file]
        started = Background(words, self._folder, self._environment)
        self._leftovers.callback(started.put_away)
        self._background.append(started)
        if block.mark.until:
            started.wait_for(block.mark.until)

    def call(self, *words: str, where: str = "") -> str:
        """Run a command, which must end with exit code 0; what it has printed."""
        ended = subprocess.run(
            words,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BLOCK_S,
            check=False,
        )
        self._foreground += ended.stdout
        assert ended.returncode == 0, f"{where} ended with {ended.returncode}:\n{ended.stdout}"
        return ended.stdout

    def _ours(self, text: str) -> str:
        for theirs, ours in self._replaced.items():
            text = text.replace(theirs, ours)
        return text


def without_installs(text: str) -> str:
    """A script without its lines of `pip install`; another test looks at their extras."""
    return re.sub(r"^pip install .*\n", "", text, flags=re.MULTILINE)


def _variables(text: str) -> Iterator[tuple[str, str]]:
    for entry in text.split("\0"):
        name, separator, value = entry.partition("=")
        if separator:
            yield name, value
