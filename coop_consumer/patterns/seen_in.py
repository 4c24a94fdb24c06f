"""Notes the origins of records that a partition has already.

In: a partition, offsets, the headers that name an origin. Out: bits in a `Seen`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coop_consumer.kafka.slice_reader import read_slice
from coop_consumer.patterns.messages import headers_in
from coop_consumer.patterns.seen import Seen, identity_of

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.config import Config
    from offsets import OffsetRange


def note_records(
    config: Config,
    place: TopicPartition,
    offsets: OffsetRange,
    names: Sequence[str],
    seen: Seen,
    *,
    patience_s: float,
) -> None:
    """Read records, and note what they came of; those that do not tell are passed over.

    Raises:
        DataLossError, TopicMissingError, AuthorizationError, BrokerUnreachableError: As they say.
    """
    for messages, _ in read_slice(config, place, offsets, patience_s=patience_s):
        for message in messages:
            found = identity_of(headers_in(message), names)
            if found is not None:
                seen.add(*found)
