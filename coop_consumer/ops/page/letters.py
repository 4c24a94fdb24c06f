"""The letters: what a page calls each member, and how it is drawn. Pure, but remembers.

In: the names of members, look by look. Out: a letter, a colour and a hatching for each. A member
keeps its letter for as long as it is there, though others come and go: so what moves on the page is
what moves in the group. The first look gives letters in the order of names, as `status` does.
"""

from __future__ import annotations

from collections.abc import Iterable

from coop_consumer.ops.page.shown import name_shown
from coop_consumer.status.words import LETTERS

COLOURS = 8
HATCHINGS = 4
"""Of two members with one colour the hatching differs, and so does that of neighbours."""
GONE = "gone"
"""The class of a member that is not in the group any more."""


class Letters:
    """Of one group; one thread."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def meet(self, names: Iterable[str]) -> None:
        """These are there now; others give their letters up."""
        here = sorted(names)
        self._numbers = {name: n for name, n in self._numbers.items() if name in set(here)}
        taken = set(self._numbers.values())
        free = (number for number in range(len(here)) if number not in taken)
        for name in here:
            if name not in self._numbers:
                self._numbers[name] = next(free)

    def letter(self, name: str) -> str:
        """What the page calls it: one that is not in the group has only its name.

        >>> letters = Letters()
        >>> letters.meet(["beta", "gamma"])
        >>> letters.meet(["alpha", "gamma"])
        >>> [letters.letter(name) for name in ("alpha", "gamma", "beta")]
        ['A', 'B', 'beta (gone)']
        """
        number = self._numbers.get(name)
        if number is None:
            return f"{name_shown(name)} (gone)"
        rounds, place = divmod(number, len(LETTERS))
        return LETTERS[place] + (str(rounds + 1) if rounds else "")

    def look(self, name: str | None) -> str:
        """The class of its colour; "": nobody."""
        if name is None:
            return ""
        number = self._numbers.get(name)
        return GONE if number is None else f"o{number % COLOURS}"

    def hatch(self, name: str | None) -> int:
        """The number of its hatching; 0: none."""
        number = self._numbers.get(name) if name is not None else None
        return 0 if number is None else (number + number // COLOURS) % HATCHINGS
