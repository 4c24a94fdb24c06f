"""Settings as text: a `.properties` file, or `name=value` from a command line.

Room: `coop_consumer.config`; reads the one file it is given. In: the format of Kafka's own tools
(`--consumer.config`): `name=value` or `name: value` a line, `#` or `!` for comments, a backslash to
continue in the next line or before a special character. Out: a dict of text for `Config.from_dict`.
There is no second format: files of Kafka's tools work as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from coop_consumer.errors import ConfigError

# A name ends at the first separator that no backslash guards; blanks around it do not count.
ENTRY = re.compile(r"((?:\\.|[^\\\s=:])+)(?:\s*[=:]\s*|\s+)(.*)", re.DOTALL)
ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def read_config_file(path: str | Path, source: str = "") -> dict[str, str]:
    """The settings of a UTF-8 `.properties` file, in their order. O(file).

    Args:
        path: Of the file.
        source: What named it, for the error that it cannot be read, as in "COOP_CONFIG_FILE=".

    Raises:
        ConfigError: If it cannot be read, has a line that is no setting, or sets a name twice; the
            text names file and line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # editors on Windows begin with a mark
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{source}{path}", f"cannot be read ({error})", "Name a UTF-8 .properties file"
        ) from error
    settings: dict[str, str] = {}
    for number, line in _logical_lines(text):
        entry = ENTRY.fullmatch(line)
        # The line's text stays out of the message: it may be a password without its name.
        if entry is None:
            raise ConfigError(f"{path}:{number}", "is no setting", "Write name=value")
        name, value = _plain(entry[1]), _plain(entry[2])
        if name in settings:
            raise ConfigError(
                f"{path}:{number}", f"sets {name} a second time", "Keep one of the two lines"
            )
        settings[name] = value
    return settings


def parse_option(text: str) -> tuple[str, str]:
    """The name and value of one `name=value`, as a command line gives it. O(text).

    Raises:
        ConfigError: If there is no `=` or no name.

    >>> parse_option("commit.interval.ms = 250")
    ('commit.interval.ms', '250')
    """
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise ConfigError("--config", "needs name=value", "Write, say, commit.interval.ms=250")
    return name.strip(), value.strip()


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that hold something, continuations joined, each with the number of its first line."""
    begun, begun_at = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.lstrip()
        if not begun and (not line or line[0] in "#!"):
            continue
        begun_at = begun_at or number
        trailing = len(line) - len(line.rstrip("\\"))
        # An even number of backslashes at the end is a text of backslashes, not a continuation.
        if trailing % 2:
            begun += line[:-1]
            continue
        yield begun_at, begun + line
        begun, begun_at = "", 0
    if begun:
        yield begun_at, begun


def _plain(text: str) -> str:
    return ESCAPE.sub(_unescaped, text)


def _unescaped(escape: re.Match[str]) -> str:
    body = escape[1]
    return chr(int(body[1:], 16)) if len(body) > 1 else CONTROL.get(body, body)
