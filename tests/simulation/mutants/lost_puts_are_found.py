"""What a member has put and lost with its membership is found when the range comes back."""

from __future__ import annotations

from typing import Any

import pytest

from coop_consumer.state.shard import Shard

BREAKS = ("I9",)
EXACTLY_ONCE = True
SEED = 21


def plant(patch: pytest.MonkeyPatch) -> None:
    """Nothing that waits is dropped: not with a loss, not with a restore, nor with its tenure."""
    hold, release = Shard.hold, Shard.release

    def keep(real: Any) -> Any:
        def kept(shard: Shard, *args: Any, **more: Any) -> None:
            pending = dict(shard._pending)
            real(shard, *args, **more)
            shard._pending = pending

        return kept

    patch.setattr(Shard, "hold", keep(hold))
    patch.setattr(Shard, "release", keep(release))
