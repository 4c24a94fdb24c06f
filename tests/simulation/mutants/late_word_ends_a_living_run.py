"""A late word ends a living run: of two runs of a name, who announced itself last came last.

A run that slept since the coordinator confirmed it wakes up behind its successor, and announces
itself before it hears that it is fenced: whoever waits for the successor's release waits no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsets import Announced

if TYPE_CHECKING:
    import pytest

    from offsets import LoggedTenure

BREAKS = ("I1", "I4")
SEED = 1446


def plant(patch: pytest.MonkeyPatch) -> None:
    """Whatever another incarnation began is over."""

    def ends(announced: Announced, tenure: LoggedTenure) -> bool:
        return tenure.id.incarnation != announced.incarnation

    patch.setattr(Announced, "ends", ends)
