"""Topics of outputs that make trouble: what they refuse, and how long they have no leader.

In: a seed's number, records. Out: whether the topic refuses what a record leaves behind, and how
long an output waits for a leader. They have a chance of their own: a draw more from the world's
would change every other world.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assignors import TopicPartition

_EVERY, _AT = 8, 5
"""One seed in so many has such topics, by its number."""
_REFUSED, _LETTER_TOO, _LEADERLESS, _LEADERLESS_MS = 0.08, 0.5, 0.7, (500, 3_000)


class OutputTopics:
    """The topics that handlers of one world send to."""

    def __init__(self, seed: int, *, exactly_once: bool) -> None:
        self._rng = Random(f"outputs {seed}")
        self._makes_trouble = exactly_once and seed % _EVERY == _AT
        self._refused: set[tuple[TopicPartition, int]] = set()
        self._refused_letters: set[tuple[TopicPartition, int]] = set()

    def produced(self, tp: TopicPartition, offset: int) -> None:
        """An input record is there; its output may be one that no topic takes."""
        if self._makes_trouble and self._rng.random() < _REFUSED:
            self._refused.add((tp, offset))
            if self._rng.random() < _LETTER_TOO:
                self._refused_letters.add((tp, offset))

    def refuses(self, tp: TopicPartition, offset: int, *, is_letter: bool) -> bool:
        """Whether the topic refuses the output of this record, or its dead letter."""
        return (tp, offset) in (self._refused_letters if is_letter else self._refused)

    def mend(self) -> None:
        """Somebody has raised the limit of the topics, or has mended the handler."""
        self._refused.clear()
        self._refused_letters.clear()

    def heal(self, tp: TopicPartition, offset: int) -> None:
        """Somebody has mended the handler for this record."""
        self._refused.discard((tp, offset))
        self._refused_letters.discard((tp, offset))

    def wait_ms(self) -> int:
        """How long an output waits for a leader."""
        if not self._makes_trouble or self._rng.random() >= _LEADERLESS:
            return 0
        return self._rng.randint(*_LEADERLESS_MS)
