"""One setting: its name, type, default, bounds, and why these bounds. Pure.

Room: `coop_consumer.config`. In: a value as a caller, a command line or a file gives it. Out: the
typed value, or a `ConfigError` that names the setting, the bound it breaks, and the reason for the
bound. A `Setting` is read off a dataclass field, so that name, type and default are said once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields
from enum import Enum, StrEnum
from types import NoneType
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args, get_type_hints

from coop_consumer.errors import ConfigError
from coop_consumer.plain_text import printable, shortened

P = ParamSpec("P")
T = TypeVar("T")

SettingValue = int | str | None
"""A parsed setting. A `bool` is an `int`; a choice is a `StrEnum`, and so a `str`."""

TRUTHS = {"true": True, "false": False}
NUMBER_MAX = 2**63 - 1
TEXT_MAX = 1_000
"""Bytes of a text that goes to a broker. Its protocol ends at 32,767, and librdkafka's buffers may
end before."""
_SHOWN_MAX = 60
_NEVER_SENT = re.compile(r"[\0\ud800-\udfff]")
_CONTROL = re.compile(r"[\0-\x1f\x7f-\x9f\ud800-\udfff]")


def unsendable(text: str, *, controls: bool = False) -> str | None:
    r"""The problem that keeps a text from reaching a client; None if there is none.

    A text that is not UTF-8 ends the process in C, and a null byte cuts a text off there.

    Args:
        text: A setting, a name, or a key of an option.
        controls: Whether other control characters are harmless in it.

    >>> unsendable("billing"), unsendable("a\ud800")
    (None, 'has the character \\ud800, which no client can send')
    """
    found = (_NEVER_SENT if controls else _CONTROL).search(text)
    if found is not None:
        return f"has the character {printable(found[0])}, which no client can send"
    return None


def shown(value: object) -> str:
    """A value as a message shows it: short, and without what a terminal would obey."""
    if isinstance(value, str):
        return shortened(printable(value), _SHOWN_MAX)
    try:
        text = repr(value)
        if isinstance(value, int | float | None):
            return shortened(text, _SHOWN_MAX)
    except Exception as error:  # noqa: BLE001 - a stranger's object: show its type instead
        text = f"<its repr raised {type(error).__name__}>"
    return f"{shortened(printable(text), _SHOWN_MAX)} ({type(value).__name__})"


class Section(Enum):
    """The parts of the table, in the order of the documentation."""

    GROUP = "Group and connection"
    SHARING = "Sharing"
    PROGRESS = "Progress and commits"
    STATE = "Keyed state"
    MEMORY = "Memory"
    FAILURE = "Failures"
    TIMING = "Timing"
    OPERATION = "Operation"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern that a whole text must match, and its description in words."""

    regex: str
    words: str


@dataclass(frozen=True, slots=True)
class About:
    """The facts of a setting beside its field's annotation and default.

    Attributes:
        meaning: The decision that it makes; a sentence.
        why: The reason for its bounds, or for its default; continues "... is below 5: ".
        low: The least value allowed, for a number.
        high: The greatest value allowed, for a number.
        pattern: The pattern of a text.
        derived: How the default is found, if the field's own default is None.
        aliases: Other spellings of a choice, as librdkafka takes them.
        listed: Whether it may also be a list; in text, commas separate the items.
    """

    meaning: str
    why: str
    _: KW_ONLY
    low: int | None = None
    high: int | None = None
    pattern: Pattern | None = None
    derived: str | None = None
    aliases: Mapping[str, str] | None = None
    listed: bool = False


def _setting(make: Callable[P, About]) -> Callable[Concatenate[T, P], T]:
    def field_of(default: T, /, *args: P.args, **given: P.kwargs) -> T:
        found: T = field(default=default, metadata={"about": make(*args, **given)})
        return found

    return field_of


setting = _setting(About)
"""A field of a section: its default, and the facts of `About`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the table. `kind` is int, bool, str or a `StrEnum`."""

    section: Section
    name: str
    field: str
    kind: type[int | str]
    required: bool
    default: SettingValue
    about: About

    def parse(self, value: object) -> SettingValue:
        """The typed value of `value`, which may be text whatever the type. O(1).

        Raises:
            ConfigError: If it is not of the setting's type or breaks a bound.
        """
        if self.about.listed and isinstance(value, list | tuple):
            if not all(isinstance(item, str) for item in value):
                raise self._error(value, "is not a list of texts")
            value = ",".join(value)
        parsed = self._from_text(value) if isinstance(value, str) else value
        return self.check(parsed)

    def check(self, value: object) -> SettingValue:
        """The same value, if it is of the setting's type and within its bounds. O(1).

        Raises:
            ConfigError: If not.
        """
        match value:
            case None if self.default is None and not self.required:
                return None
            case bool() if self.kind is bool:
                return value
            case int() if self.kind is int and type(value) is int:
                return self._within_bounds(value)
            case str() if self.kind is str:
                return self._matching(str(value))
            case str() if isinstance(value, self.kind):
                return value
            case _:
                raise self._error(value, f"is not {self._kind_words()}")

    @property
    def bounds(self) -> str:
        """The allowed values, in words."""
        about = self.about
        if issubclass(self.kind, StrEnum):
            return ", ".join(self.kind)
        if self.kind is bool:
            return "true, false"
        if self.kind is str:
            return about.pattern.words if about.pattern else "any text"
        return f"{about.low} or more" if about.high is None else f"{about.low} to {about.high}"

    @property
    def default_words(self) -> str:
        """The default as a user would write it, or how it comes about."""
        if self.required:
            return "required"
        if self.default is None:
            return self.about.derived or "none"
        return str(self.default).lower() if self.kind is bool else str(self.default)

    def _from_text(self, text: str) -> object:
        text = text.strip()
        if self.kind is bool:
            return TRUTHS.get(text.lower(), text)
        if self.kind is int:
            try:
                return int(text)
            except ValueError:
                return text
        if issubclass(self.kind, StrEnum):
            word = (self.about.aliases or {}).get(text.lower(), text.lower())
            return self.kind(word) if word in set(self.kind) else text
        return text

    def _within_bounds(self, value: int) -> int:
        about = self.about
        if about.low is not None and value < about.low:
            raise self._error(value, f"is below {about.low}: {about.why}")
        if about.high is not None and value > about.high:
            raise self._error(value, f"is above {about.high}: {about.why}")
        if value > NUMBER_MAX:
            raise self._error(value, f"is above {NUMBER_MAX}, the largest number of 64 bits")
        return value

    def _matching(self, value: str) -> str:
        if (problem := unsendable(value)) is not None:
            problem = f"={shown(value)} {problem}"
            raise ConfigError(self.name, problem, "Give the text without that character")
        pattern = self.about.pattern
        if self.kind is str and len(value.encode()) > TEXT_MAX and not self.about.listed:
            raise self._error(value, f"is longer than {TEXT_MAX} bytes: brokers take no such text")
        if pattern is not None and not re.fullmatch(pattern.regex, value):
            raise self._error(value, f"is not {pattern.words}: {self.about.why}")
        return value

    def _kind_words(self) -> str:
        if issubclass(self.kind, StrEnum):
            return "one of its choices"
        return {bool: "true or false", int: "a whole number"}.get(self.kind, "text")

    @property
    def _remedy(self) -> str:
        if issubclass(self.kind, StrEnum):
            *others, last = self.kind
            return f"Choose {', '.join(others)} or {last}"
        if self.kind is bool:
            return "Choose true or false"
        return f"Choose {self.bounds}"

    def _error(self, value: object, problem: str) -> ConfigError:
        return ConfigError(self.name, f"={shown(value)} {problem}", self._remedy)


def settings_of(config_class: type) -> dict[str, Setting]:
    """The table of a configuration class: dotted name to setting, in the order of its fields.

    A field takes part if its metadata has an `About` under "about"; `commit_interval_ms` becomes
    "commit.interval.ms". The class that declares it names its section. O(fields).
    """
    hints = get_type_hints(config_class)
    sections = {
        name: vars(base)["SECTION"]
        for base in config_class.__mro__
        if "SECTION" in vars(base)
        for name in base.__annotations__
    }
    rows = (
        Setting(
            section=sections[field.name],
            name=field.name.replace("_", "."),
            field=field.name,
            kind=_kind_of(hints[field.name]),
            required=field.default is MISSING,
            default=None if field.default is MISSING else field.default,
            about=field.metadata["about"],
        )
        for field in fields(config_class)
        if "about" in field.metadata
    )
    return {row.name: row for row in rows}


def _kind_of(hint: Any) -> type[int | str]:
    """`int` of `int | None`: whether None is allowed shows in the default."""
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
    assert len(kinds) == 1, f"a setting has one type, not {hint}"
    kind: type[int | str] = kinds[0]
    return kind
