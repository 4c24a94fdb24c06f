"""What a member drops of a slice, as it is another's or done, counts as its work."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from assignors import key_hash
from coop_consumer.core.measuring import Measuring, SeenBefore
from coop_consumer.core.record import Message

BREAKS = ("load",)
SEED = 6


def plant(patch: pytest.MonkeyPatch) -> None:
    """All that a slice holds is counted."""
    real = Measuring.count

    def count(
        measuring: Measuring,
        seen: Sequence[SeenBefore],
        messages: Sequence[Message],
        first: int,
        end: int,
        *_: object,
    ) -> None:
        all_of_it = [key_hash(message.key() or b"") for message in messages[first:end]]
        real(measuring, seen, messages, first, end, all_of_it)

    patch.setattr(Measuring, "count", count)
