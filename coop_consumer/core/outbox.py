"""The outbox: entries on their way to the progress log, and the parts that await answers. Pure.

In: entries and their owner, then answers by token. Out: an `Append`, or a `Commit` that takes the
effects of finished records along; each answer goes to the owner that waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from coop_consumer.core.actions import Append, Commit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coop_consumer.core.effects import Effects, Result
    from coop_consumer.core.state import LogView, MemberState
    from coop_consumer.errors import CoopConsumerError

Entries = list[tuple[bytes, bytes | None]]
"""Keys and values; None: a tombstone."""


class AppendOwner(Protocol):
    """A part of the core that hears what became of its entries."""

    def appended(self, token: int, offsets: Sequence[int]) -> None:
        """The log has them, at these offsets."""

    def append_failed(self, token: int, error: CoopConsumerError) -> None:
        """The log may or may not have them."""


@dataclass(slots=True, eq=False)
class Outbox:
    """Appends to the progress log, and commits, for all parts of the core."""

    state: MemberState
    effects: Effects
    _owners: dict[int, AppendOwner] = field(default_factory=dict)

    def append(
        self, view: LogView, entries: Entries, owner: AppendOwner | None = None, *, token: int = 0
    ) -> int:
        """Append entries that rest on nothing that was finished here.

        Args:
            view: Of which partition of the log.
            entries: What to append; all are in it, or the answer is a failure.
            owner: Who gets the answer; None: nobody waits for it.
            token: Of the answer; a new one if not given.

        Returns:
            The token.
        """
        token = self._owned(owner, token)
        self.state.actions.append(Append(view.log_partition, entries, token))
        return token

    def append_behind(
        self, view: LogView, entries: Entries, owner: AppendOwner, *, token: int = 0
    ) -> int:
        """Append entries that may rest on what was finished here; see `append`.

        With at least once all effects go before them. With exactly once only commits tell what was
        finished here. So other entries tell nothing but what was read, and rest on nothing.
        """
        if self.state.config.exactly_once:
            return self.append(view, entries, owner, token=token)
        return self.commit({view.log_partition: entries}, self.take_results(), owner, token=token)

    def commit(
        self,
        entries: Mapping[int, Entries],
        results: Sequence[Result],
        owner: AppendOwner,
        *,
        token: int = 0,
    ) -> int:
        """Append entries, by log partition, that rest on what was finished here; see `append`."""
        token = self._owned(owner, token)
        metadata = self.state.membership.metadata
        self.state.actions.append(Commit(entries, token, results, metadata))
        return token

    def take_results(self) -> Sequence[Result]:
        """Take the results that have to be durable before the user's code loads a range.

        With exactly once there are none: a range comes back only once all of them are committed.
        """
        if self.state.config.exactly_once:
            return ()
        results = self.effects.take()
        self.effects.settled(results)  # they are few, and wait for nothing else
        return results

    def _owned(self, owner: AppendOwner | None, token: int) -> int:
        token = token or self.state.token()
        if owner is not None:
            self._owners[token] = owner
        return token

    def appended(self, token: int, offsets: Sequence[int]) -> AppendOwner | None:
        """Tell the owner that the log has its entries; returns the owner, if one waits."""
        owner = self._owners.pop(token, None)
        if owner is not None:
            owner.appended(token, offsets)
        return owner

    def forget(self, token: int) -> None:
        """The owner hears of this answer in another way."""
        self._owners.pop(token, None)

    def append_failed(self, token: int, error: CoopConsumerError) -> AppendOwner | None:
        """Tell the owner that they may be lost; returns the owner, if one waits."""
        owner = self._owners.pop(token, None)
        if owner is not None:
            owner.append_failed(token, error)
        return owner
