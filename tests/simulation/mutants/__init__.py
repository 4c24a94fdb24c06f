"""Mutants: planted bugs that show whether the simulation would notice. One small file each.

In: nothing; every module of this package is one. Out: `Mutant`s, to be planted for the length of a
simulation. A module says in its docstring what is wrong, in `BREAKS` with which word a violation
begins that shows it ("I4"; "stuck": not done within bounded time; "mirror": all have left, and
Kafka's own offsets lag; "start": `latest` does not begin at the end; "attempts": failures are
counted wrongly, or a parked record runs without a decision; "pause": a record of a paused partition
starts; "answer": a user is told what is not true; "plain": a member of ours and a plain one are at
one partition together; "load": a member tells more or other work than it has), and in `plant` which
behaviour of the library it replaces, at run time. `BUFFERED = True`: it shows only where handlers
buffer their output. `EXACTLY_ONCE = True`: it shows only where output and progress leave in
transactions. `SEED`: the seed that found it last, which is tried first. A violation of another kind
does not count: a patch may crash, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug that can be planted.

    Attributes:
        name: Its module's.
        story: What is wrong, in a sentence.
        breaks: The invariants that show it, or "stuck".
        plant: Replaces what it breaks; the patch is undone by whoever gave it.
        seed: The one that found it last: a hint, as whatever draws from a seed's chance moves it.
        buffered: Whether handlers have to buffer their output for it to show.
        exactly_once: Whether output and progress have to leave in transactions.
    """

    name: str
    story: str
    breaks: tuple[str, ...]
    plant: Callable[[pytest.MonkeyPatch], None]
    seed: int
    buffered: bool = False
    exactly_once: bool = False


def named(name: str) -> Mutant:
    """The mutant of this name. Raises `ModuleNotFoundError` if there is none."""
    module = import_module(f"{__name__}.{name}")
    return Mutant(
        name,
        (module.__doc__ or "").partition("\n")[0],
        module.BREAKS,
        module.plant,
        module.SEED,
        getattr(module, "BUFFERED", False),
        getattr(module, "EXACTLY_ONCE", False),
    )


def names() -> list[str]:
    """Of all mutants, in alphabetical order."""
    return sorted(module.name for module in iter_modules(__path__))


def remember(name: str, seed: int) -> None:
    """Note in a mutant's file which seed has found it."""
    path = Path(__file__).parent / f"{name}.py"
    text = re.sub(r"^SEED = \d+$", f"SEED = {seed}", path.read_text(), flags=re.MULTILINE)
    path.write_text(text)
