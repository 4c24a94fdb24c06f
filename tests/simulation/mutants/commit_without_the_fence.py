"""A transaction is committed though nobody has said whether its generation counts."""

from __future__ import annotations

import pytest

from coop_consumer.core.transaction import Said, Transaction, TransactionCall

BREAKS = ("I9", "I2", "I5")
EXACTLY_ONCE = True
SEED = 730


def plant(patch: pytest.MonkeyPatch) -> None:
    """Silence counts as a yes."""
    real = Transaction.said

    def said(it: Transaction, word: Said, took_ms: int = 0) -> None:
        is_silent = it.next is TransactionCall.OFFSETS and word is Said.AGAIN
        real(it, Said.DONE if is_silent else word, took_ms)

    patch.setattr(Transaction, "said", said)
