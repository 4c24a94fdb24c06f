"""The outbox: what the core appends to the progress log, and who hears what became of it. Pure.

In: entries and their sender, then the log's answers by token. Out: `Append` actions; each answer
goes to the sender that waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from coop_consumer.core.actions import Append

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coop_consumer.core.state import LogView, MemberState
    from coop_consumer.errors import CoopConsumerError

Entries = list[tuple[bytes, bytes | None]]
"""Keys and values; None: a tombstone."""


class Sender(Protocol):
    """A part of the core that hears what became of its entries."""

    def appended(self, token: int, offsets: Sequence[int]) -> None:
        """The log has them, at these offsets."""

    def append_failed(self, token: int, error: CoopConsumerError) -> None:
        """The log may or may not have them."""


class Outbox:
    """Appends to the progress log for all parts of the core."""

    def __init__(self, state: MemberState) -> None:
        self._state = state
        self._senders: dict[int, Sender] = {}

    def append(
        self,
        view: LogView,
        entries: Entries,
        sender: Sender | None = None,
        *,
        token: int = 0,
        flush: bool = False,
    ) -> int:
        """Append entries to one partition of the log; all are in it, or the answer is a failure.

        Args:
            view: Of which partition.
            entries: What to append.
            sender: Who hears of the answer; None: nobody waits for it.
            token: A new one if not given.
            flush: Whether the worker's output has to be flushed before.

        Returns:
            The token of the answer.
        """
        token = token or self._state.token()
        if sender is not None:
            self._senders[token] = sender
        self._state.actions.append(Append(view.log_partition, entries, token, flush=flush))
        return token

    def appended(self, token: int, offsets: Sequence[int]) -> Sender | None:
        """Tell the sender that the log has its entries; returns the sender, if one waits."""
        sender = self._senders.pop(token, None)
        if sender is not None:
            sender.appended(token, offsets)
        return sender

    def append_failed(self, token: int, error: CoopConsumerError) -> Sender | None:
        """Tell the sender that they may be lost; returns the sender, if one waits."""
        sender = self._senders.pop(token, None)
        if sender is not None:
            sender.append_failed(token, error)
        return sender
