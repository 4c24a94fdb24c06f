"""The names of all settings as a TypedDict, made from the table, so that the two cannot differ.

Room: `coop_consumer.config`; writes to standard output when run. In: the table, the lists of names.
Out: the module `settings_dict`. `python -m coop_consumer.config.typed_reference >
coop_consumer/config/settings_dict.py` renews it, and a test fails while it is out of date.
"""

from __future__ import annotations

import sys
from enum import StrEnum

from coop_consumer.config.librdkafka import ALIASES, PASSED
from coop_consumer.config.setting import Setting
from coop_consumer.config.settings import SETTINGS

_HEAD = '''\
"""The names of all settings, for editors and type checkers. Pure.

Room: `coop_consumer.config`. Made by `python -m coop_consumer.config.typed_reference`: change the
table, not this module. A `Settings` is a plain dict. Numbers and truths may be text, as in files.
A choice has only its own words here; a placeholder for one needs a plain dict.
"""

from typing import Literal, TypedDict

from coop_consumer.config.security import Passed

Settings = TypedDict(
    "Settings",
    {
'''
_TAIL = '''\
    },
    total=False,
)
"""Settings by their dotted names: this library's, then librdkafka's."""
'''


def source() -> str:
    """The text of the module. O(settings)."""
    ours = {name: type_of(setting) for name, setting in SETTINGS.items()}
    theirs = dict.fromkeys(sorted(PASSED), "Passed")
    known = ours | theirs
    others = {name: known[first] for name, first in sorted(ALIASES.items()) if first in known}
    rows = (f'        "{name}": {kind},\n' for name, kind in (known | others).items())
    return _HEAD + "".join(rows) + _TAIL


def type_of(setting: Setting) -> str:
    """The type of the values that a setting takes, as source text."""
    if issubclass(setting.kind, StrEnum):
        kind = "Literal[" + ", ".join(f'"{word}"' for word in setting.kind) + "]"
    elif setting.kind is str:
        kind = "str | list[str] | tuple[str, ...]" if setting.about.listed else "str"
    else:
        kind = f"{setting.kind.__name__} | str"
    return kind if setting.required or setting.default is not None else f"{kind} | None"


if __name__ == "__main__":
    sys.stdout.write(source())
