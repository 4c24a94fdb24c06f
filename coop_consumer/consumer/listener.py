"""What a user of `CooperativeConsumer` overrides to hear which ranges come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assignors import KeyRange, TopicPartition


class RangeListener:
    """Hears which ranges come and go. Subclass it and override what you need.

    The methods are called inside `poll`, `consume` and `close`, one at a time and in their order;
    with many polling threads, by any of them. So a program with one thread needs no lock.
    """

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """These ranges begin here: load what they need. Their records come once this returns.

        If it raises, the consumer commits, leaves, and ends with `WorkerCallbackError`.
        """

    def on_ranges_revoked(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """These ranges have moved away. Records of theirs in hand can still be `done`.

        The call is news, not a question: the new owner starts each key as soon as no record of it
        is in hand here, whether this has been called or not.
        """

    def on_ranges_lost(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """The group has given these ranges away already (we were silent for too long)."""
        self.on_ranges_revoked(tp, ranges)
