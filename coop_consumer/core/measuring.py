"""Measuring: which slices of streams are looked at, and what is counted of them as load. Pure.

In: slices that intake has admitted. Out: samples for the loads of tenures. What a tenure has not
taken in is no load of its: records of other ranges, records that are done, and records that came
twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coop_consumer.core.record import Message
    from coop_consumer.core.state import MemberState, Stream
    from coop_consumer.core.tenure import Tenure

SeenBefore = tuple["Tenure", int]
"""A tenure, and the first offset that it had not seen."""


def _behind(message: Message) -> int:
    return (message.offset() or 0) + 1


@dataclass(slots=True, eq=False)
class Measuring:
    """Samples what tenures take in."""

    state: MemberState

    def due(self, stream: Stream) -> Sequence[SeenBefore]:
        """Whose records of the next slice are to be counted; mostly nobody's.

        Where inherited facts lie ahead, others have done some of it. The rest alone would look
        light.
        """
        if not stream.sampler.is_due(self.state.now_ms):
            return ()
        return [(it, it.tracker.seen_to) for it in stream.tenures if not it.tracker.ahead]

    def count(
        self,
        seen: Sequence[SeenBefore],
        messages: Sequence[Message],
        first: int,
        end: int,
        admitted: list[int] | None,
    ) -> None:
        """Count a slice that was admitted just now. O(slice).

        Args:
            seen: What `due` has said.
            messages: All messages of a batch.
            first: The number of the first one of the slice; `end`: of the one behind it.
            end: See `first`.
            admitted: The hashes that were taken in, all of one tenure; None: look.
        """
        some = messages[first:end]
        behind = _behind(some[-1])
        for tenure, seen_to in seen:
            begin = max(seen_to, _behind(messages[first - 1])) if first else seen_to
            if begin < behind and tenure.ranges:
                taken = self._taken(tenure, some, begin) if admitted is None else admitted
                tenure.load.sample(tenure.ranges, begin, behind, taken, self.state.now_ms)
                self._name_heavy(tenure, some)

    @staticmethod
    def _taken(tenure: Tenure, messages: Sequence[Message], first: int) -> list[int]:
        """The hashes of what a tenure has just taken in, from its first new offset on."""
        pending, draining = tenure.pending, tenure.draining
        return [
            key_hash
            for offset in [message.offset() or 0 for message in messages]
            if (key_hash := pending.get(offset)) is not None
            and offset >= first
            and not (draining and key_hash in draining)
        ]

    def _name_heavy(self, tenure: Tenure, messages: Sequence[Message]) -> None:
        """Note the keys of heavy hashes, where one of them is among these messages."""
        load = tenure.load
        nameless = load.nameless() if load.heavy else ()
        if nameless and self.state.config.ordering == "key":
            for message in messages:
                key_hash = tenure.pending.get(message.offset() or 0)
                if key_hash is not None and key_hash in nameless:
                    load.keys[key_hash] = message.key()
