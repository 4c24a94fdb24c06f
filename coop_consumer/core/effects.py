"""Effects: what handlers leave behind of their records, and what of it a commit takes along. Pure.

A handler files an effect with its record while it runs: a put of keyed state today. When the record
is finished, its effect is *sealed*. A commit takes all sealed effects: they are made durable before
the log tells that their records are done. So nothing of a record that still runs, or that failed,
leaves with the progress of another one. A record without effects costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coop_consumer.core.record import Record
    from coop_consumer.core.tenure import Tenure

Effect = object
"""What it is, only its maker and the committer know."""


def file(record: Record, effect: Effect) -> bool:
    """File what a record leaves behind, in the place of what it has filed before. Any thread.

    Returns:
        False if the record is finished: its effects are sealed, and no commit would take this one.
    """
    tenure, offset = record.tenure, record._offset
    tenure.effects[offset] = effect
    # A record at work is pending, but for one from before its stream began anew. Filed first,
    # looked at then: the member's thread takes the offset out of `pending` before it seals.
    key_hash = record._key_hash
    if (
        offset in tenure.pending
        or key_hash in tenure.blocked.lingering
        or key_hash in tenure.draining
    ):
        return True
    return tenure.effects.pop(offset, None) is not effect


class Effects:
    """The sealed effects of one member, in the order in which their records were finished."""

    def __init__(self) -> None:
        self._sealed: list[Effect] = []

    def seal(self, tenure: Tenure, offsets: Iterable[int]) -> None:
        """These records of a tenure that has effects are finished."""
        filed = tenure.effects
        found = (filed.pop(offset, None) for offset in offsets)
        self._sealed += [effect for effect in found if effect is not None]

    def collect(self) -> Sequence[Effect]:
        """Take what is sealed, for the commit that is built now."""
        taken, self._sealed = self._sealed, []
        return taken
