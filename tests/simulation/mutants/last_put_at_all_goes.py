"""Of a key the last put at all goes along with a transaction, not the last one of its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from coop_consumer.core.effects import Result
from coop_consumer.core.record import Record
from coop_consumer.state.shard import Write
from coop_consumer.state.transacted import TransactedWriter

BREAKS = ("I9",)
EXACTLY_ONCE = True
SEED = 1


def plant(patch: pytest.MonkeyPatch) -> None:
    """A write has the value that the key's next record would find."""
    real = TransactedWriter.last_of

    def last_of(
        writer: TransactedWriter, results: Sequence[Result]
    ) -> Sequence[tuple[Record, Write]]:
        return [
            (record, replace(it, value=it.shard._pending.get(it.key, it).value))
            for record, it in real(writer, results)
        ]

    patch.setattr(TransactedWriter, "last_of", last_of)
