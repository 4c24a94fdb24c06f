"""Whether Python finds the top-level modules that come with this package, or a stranger's. Pure.

In: the path on which Python looks for modules. Out: nothing, or an `ImportError` that names both
files. A program's own `offsets.py`, or a distribution `offsets` from the index, hides our module of
that name. Without this check the program would end in an `ImportError` about a name unknown to its
author.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec

NAMES = ("assignors", "offsets")
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of this package and of its neighbours."""


def check() -> None:
    """See that the modules of these names are ours.

    Raises:
        ImportError: One is not.
    """
    for name in NAMES:
        found = _found(name)
        if found is not None and not _is_ours(name, found):
            raise ImportError(shadowed(name, found), name=name, path=found)


def shadowed(name: str, found: str) -> str:
    """The message about a stranger's module."""
    return (
        f"coop_consumer needs its own module {name} ({_own(name)}), but Python finds {found} "
        "first. Rename that file, or take its folder off sys.path. If it came with a distribution "
        f"from the index: pip uninstall {name}, then pip install --force-reinstall coop-consumer."
    )


def hides(name: str, found: str) -> str:
    """The message about a module that cannot be imported, because ours has its name."""
    return (
        f"{found} has the name of coop-consumer's own module {name} ({_own(name)}), which is "
        "imported instead of it"
    )


def hidden_in(folder: str) -> tuple[str, str] | None:
    """A module in this folder that has the name of one of ours, and its file; None: there is none.

    An import of its name gets ours, which is loaded already.
    """
    for name in NAMES:
        spec = PathFinder.find_spec(name, [folder])
        if spec is not None and spec.origin is not None and not _is_ours(name, spec.origin):
            return name, spec.origin
    return None


def _found(name: str) -> str | None:
    """The file of the module of this name, as Python would import it; None if it is unknown."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        return getattr(loaded, "__file__", None)
    spec = find_spec(name)
    return None if spec is None else spec.origin


def _own(name: str) -> str:
    return os.path.join(_HOME, name, "__init__.py")


def _is_ours(name: str, found: str) -> bool:
    return os.path.realpath(found) == os.path.realpath(_own(name))
