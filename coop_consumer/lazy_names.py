"""Names of a package that are loaded when first used: clients take a third of a second to load.

In: a package, and the home of each of its public names. Out: what Python asks for a missing name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package.

    Args:
        package: Its `__name__`.
        homes: By public name the module that has it; `.module` lies in the package.
    """

    def load(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(home, package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
