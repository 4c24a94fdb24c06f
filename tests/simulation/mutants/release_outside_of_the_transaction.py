"""A release is a plain append, beside the transaction that has the results."""

from __future__ import annotations

from typing import Any

import pytest

from coop_consumer.core.outbox import Outbox
from offsets import TenureKey, decode_key, decode_value

BREAKS = ("I2", "I9", "I5")
EXACTLY_ONCE = True
SEED = 4


def plant(patch: pytest.MonkeyPatch) -> None:
    """Commits that only release go as first records do."""
    real = Outbox.commit

    def commit(outbox: Outbox, entries: Any, results: Any, owner: Any, **more: Any) -> int:
        releases = [
            (number, key, value)
            for number, of_view in entries.items()
            for key, value in of_view
            if value and isinstance(decode_key(key), TenureKey)
            if decode_value(decode_key(key), value).released  # type: ignore[union-attr]
        ]
        for number, key, value in releases:
            outbox.append(outbox.state.views[number], [(key, value)])
        return real(outbox, entries, results, owner, **more)

    patch.setattr(Outbox, "commit", commit)
