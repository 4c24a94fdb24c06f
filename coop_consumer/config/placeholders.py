r"""Placeholders in settings: `${env:NAME}` and `${file:PATH}`, replaced once, at the door.

Room: `coop_consumer.config`; reads the environment and the files that a value names. In: settings
by name, as a user gives them. Out: the same with the values that are meant, and the names of those
that had a placeholder: their values are secrets. What a variable or a file holds is never looked
through again. Only texts can have placeholders, and texts in a list.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from coop_consumer.config.setting import shown
from coop_consumer.errors import ConfigError

FILE_MAX_BYTES = 1 << 20
"""A larger file holds no setting, and may have no end."""

_DEPTH_MAX = 8
_PLAIN = re.compile(r"[$}]?[^$}]*")
_LAST_LINE_END = re.compile(r"\r?\n\Z")


class Resolved(NamedTuple):
    """Settings without placeholders.

    Attributes:
        settings: Name to value.
        secret: The names of those whose value came from a placeholder.
    """

    settings: dict[str, object]
    secret: frozenset[str]


def resolve(settings: Mapping[str, object]) -> Resolved:
    """Replace every placeholder. O(text and files).

    A placeholder may be a part of a value (`user-${env:STAGE}`), and may have another one inside
    (`${file:${env:SECRETS}/password}`). `$${` stands for `${` itself. One line end at the end of a
    file does not count.

    Raises:
        ConfigError: A variable or a file is missing, or a placeholder is none. The text has the
            placeholder as the user wrote it, and nothing of any value.
    """
    found: dict[str, object] = {}
    secret = set()
    for name, value in settings.items():
        found[name], has_any = _resolved(name, value)
        if has_any:
            secret.add(name)
    return Resolved(found, frozenset(secret))


def _resolved(name: str, value: object) -> tuple[object, bool]:
    match value:
        case str() if "${" in value:
            reader = _ValueReader(name, value)
            return reader.read(), reader.has_any
        case list() | tuple() if any(isinstance(item, str) and "${" in item for item in value):
            items = [_resolved(name, item) for item in value]
            return [item for item, _ in items], any(has_any for _, has_any in items)
        case _:
            return value, False


class _ValueReader:
    """Reads one value from left to right.

    Args:
        name: The setting.
        text: Its value.

    Attributes:
        has_any: Whether a placeholder has been met.
    """

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self._at = 0
        self.has_any = False

    def read(self, depth: int = 0) -> str:
        """Read to the end; inside of a placeholder (`depth` > 0) to its closing brace."""
        parts: list[str] = []
        while self._at < len(self._text):
            if self._text.startswith("$${", self._at):
                parts.append("${")
                self._at += 3
            elif self._text.startswith("${", self._at):
                parts.append(self._placeholder(depth))
            elif depth and self._text[self._at] == "}":
                self._at += 1
                return "".join(parts)
            else:
                plain = _PLAIN.match(self._text, self._at)
                assert plain is not None, "it matches any text"
                parts.append(plain[0])
                self._at = plain.end()
        if depth:
            raise ConfigError(
                self._name,
                "has a placeholder without its closing brace",
                "Write ${env:NAME} or ${file:PATH}; $${ stands for ${ itself",
            )
        return "".join(parts)

    def _placeholder(self, depth: int) -> str:
        start = self._at
        kind = next((it for it in LOOK_UPS if self._text.startswith(f"${{{it}:", start)), None)
        if kind is None or depth == _DEPTH_MAX:
            problem = "has a ${ that begins no placeholder"
            if kind is not None:
                problem = f"has placeholders in one another, more than {_DEPTH_MAX} deep"
            remedy = "Write ${env:NAME} or ${file:PATH}; $${ stands for ${ itself"
            raise ConfigError(self._name, problem, remedy)
        self.has_any = True
        self._at += len(kind) + 3
        wanted = self.read(depth + 1)
        try:
            return LOOK_UPS[kind](wanted)
        except _AbsentError as absent:
            source = shown(self._text[start : self._at])
            raise ConfigError(self._name, f"={source}: {absent}", absent.remedy) from None


class _AbsentError(Exception):
    """What a placeholder names is not there."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.remedy = remedy


def _variable(name: str) -> str:
    try:
        return os.environ[name]
    except (KeyError, ValueError):  # no variable can have a name that is not UTF-8
        raise _AbsentError(
            "there is no such environment variable",
            "Set the variable where the program starts, or correct its name",
        ) from None


def _file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_MAX_BYTES + 1)
        text = content.decode("utf-8-sig")  # editors on Windows begin with a mark
    except OSError as error:
        problem = f"the file cannot be read ({error.strerror or type(error).__name__})"
        remedy = "Create the file, let this user read it, or correct its path"
        raise _AbsentError(problem, remedy) from None
    except ValueError:
        raise _AbsentError("the file or its name is no text", "Name a file of UTF-8 text") from None
    if len(content) > FILE_MAX_BYTES:
        problem = f"the file is larger than {FILE_MAX_BYTES} bytes"
        raise _AbsentError(problem, "Name a file that holds the value alone")
    return _LAST_LINE_END.sub("", text)


LOOK_UPS: Mapping[str, Callable[[str], str]] = {"env": _variable, "file": _file}
