r"""Text for people: without what a terminal would obey, short, counted, and ready to paste. Pure.

In: text of any origin: errors of handlers, keys, names. Out: text that any terminal shows as it is.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any

CUT = "..."
"""Stands for what was cut off; any terminal shows it."""
_BESIDE = " ,;:.!?-"
"""What would look odd before that."""


def printable(text: str, *, kept: str = "", encoding: str = "utf-8") -> str:
    r"""The text with an escape for each character that is obeyed instead of shown.

    Args:
        text: Keys, errors and names are of strangers.
        kept: Characters to leave as they are, such as line ends.
        encoding: Of the terminal: what it lacks is escaped, too.

    >>> print(printable("no \x1b[31m plane"), printable("\u043a\xe9", encoding="latin-1"))
    no \x1b[31m plane \u043aé
    """
    if text.isprintable() and text.isascii():
        return text
    shown = "".join(c if c.isprintable() or c in kept else _escaped(c) for c in text)
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def all_printable(value: Any) -> Any:
    """The value as JSON can hold it, with printable texts."""
    match value:
        case str():
            return printable(value)
        case dict():
            return {all_printable(name): all_printable(inner) for name, inner in value.items()}
        case list():
            return [all_printable(inner) for inner in value]
        case _:
            return value


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


def shortened(text: str, chars_max: int) -> str:
    """The text, or its first words and three dots: at most so many characters.

    >>> shortened("connection refused by db-7", 21), shortened("x" * 30, 10)
    ('connection refused...', 'xxxxxxx...')
    >>> shortened("it cannot continue, as calls fail", 22)
    'it cannot continue...'
    """
    if len(text) <= chars_max:
        return text
    room = chars_max - len(CUT)
    end = text.rfind(" ", 0, room + 1)
    # A cut that drops more than half hides more than a word cut in two would.
    return text[: end if end * 2 > room else room].rstrip(_BESIDE) + CUT


def counted(number: int, one: str, more: str = "") -> str:
    """A number with what it counts: with 1 the first wording, else the second.

    Args:
        number: How many.
        one: The words for one of them. A verb may be among them.
        more: The words for several; "": those for one, with an s.

    >>> counted(1, "record"), counted(12_000, "record")
    ('1 record', '12,000 records')
    >>> counted(1, "key waits", "keys wait"), counted(0, "key waits", "keys wait")
    ('1 key waits', '0 keys wait')
    """
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def command(*words: object, options: Iterable[str] = ()) -> str:
    """A line for a shell that runs `coop-consumer` with these words, ready to paste.

    >>> command("retry", "my group", "orders-3", 43)
    "coop-consumer retry 'my group' orders-3 43"
    """
    return shlex.join(["coop-consumer", *map(str, words), *options])
