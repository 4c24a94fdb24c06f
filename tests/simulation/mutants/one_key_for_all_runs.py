"""All runs of a static member write the same record keys: each overwrites the last one's."""

from __future__ import annotations

from typing import Any

import pytest

from coop_consumer.core.member import MemberCore

BREAKS = ("I3",)
SEED = 46


def plant(patch: pytest.MonkeyPatch) -> None:
    """Every run takes itself for the first."""
    real = MemberCore.__init__

    def init(core: MemberCore, *args: Any, **settings: Any) -> None:
        real(core, *args, **{**settings, "incarnation": 1})

    patch.setattr(MemberCore, "__init__", init)
