"""What a handler may return: anything that is done."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Generator
from concurrent.futures import Future


def refuse_unfinished(result: object) -> None:
    """To return is to say done, and these have not even begun, or are not through.

    Raises:
        TypeError: For what has to be awaited, iterated or waited for; it is cancelled.
    """
    if isinstance(result, Awaitable | Generator | AsyncGenerator | Future):
        end = getattr(result, "close", None) or getattr(result, "cancel", None)
        if end is not None:
            end()
        raise TypeError(
            f"process returned a {type(result).__name__}, so the record is not processed: it has "
            "to return when the record is done"
        )
