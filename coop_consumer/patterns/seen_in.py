"""Notes the origins of records that a partition has already.

In: its records, the headers that name an origin. Out: bits in a `Seen`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from coop_consumer.patterns.messages import headers_in
from coop_consumer.patterns.seen import Seen, identity_of

if TYPE_CHECKING:
    from confluent_kafka import Message

IF_GONE = "Start again: it notes what is there now"
"""What to do if records are removed while they are read."""


def note_records(
    slices: Iterable[tuple[Sequence[Message], int]], names: Sequence[str], seen: Seen
) -> None:
    """Read records, and note what they came of; those that do not tell are passed over.

    Raises:
        CoopConsumerError: What the reading raises.
    """
    for messages, _ in slices:
        for message in messages:
            with suppress(ValueError):  # whoever meets such a record in its turn is told of it
                found = identity_of(headers_in(message), names)
                if found is not None:
                    seen.add(*found)
