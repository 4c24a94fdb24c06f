"""Proof that a form is one that this server has shown, unchanged, a short while ago.

In: what was asked for, the time. Out: a token for the form, and later whether it is one of ours.
Another site cannot read our pages, so it has no token; a token for one record is of no use for
another. Nothing is kept: the token is a signature.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coop_consumer.ops.actions import Asked

LIFE_S = 600
"""What was shown longer ago may be true no more: it is to be looked at again."""


class Confirmations:
    """The tokens of one server; those of another one, or of an earlier start, do not count.

    Args:
        now_s: The clock.
    """

    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._secret = secrets.token_bytes(32)
        self._now_s = now_s

    def token(self, asked: Asked) -> str:
        """For the form that asks to confirm this."""
        return self._signed(asked, int(self._now_s()))

    def is_confirmed(self, asked: Asked, token: str) -> bool:
        """Whether this form was shown for just that, and not too long ago."""
        issued, _, _ = token.partition(".")
        if not (issued.isascii() and issued.isdecimal() and len(issued) < 20):
            return False
        ours = self._signed(asked, int(issued)).encode()
        is_ours = hmac.compare_digest(ours, token.encode("utf-8", "replace"))
        return is_ours and self._now_s() - int(issued) <= LIFE_S

    def _signed(self, asked: Asked, issued_s: int) -> str:
        what = json.dumps([issued_s, asked.action, asked.group, sorted(asked.fields.items())])
        return f"{issued_s}.{hmac.new(self._secret, what.encode(), hashlib.sha256).hexdigest()}"
