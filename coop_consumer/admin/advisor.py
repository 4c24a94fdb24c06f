"""Looks at a group again and again, and says how many members it wants.

In: an inspector. Out: the group's status and a `ScaleAdvice` at each look. Between looks it
remembers what arrived, what it asked for, and the names of heavy keys: so its number is steady.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coop_consumer.config import Config, Ordering
from coop_consumer.status.arrivals import Arrivals
from coop_consumer.status.load import with_names
from coop_consumer.status.model import GroupStatus, group_status
from coop_consumer.status.needs import members_of, needs_of
from coop_consumer.status.scale import ScaleAdvice, ScaleRules, advise
from coop_consumer.status.seen import Hashing

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.admin.inspect import Inspector


class Advisor:
    """Of one group; one thread.

    Args:
        inspector: Looks at the group.
        topics: Topics to look at besides those of the group.
        records: Whether to read the records that the status names.
        options: Words that commands need to find the group, for those that the status names.
    """

    def __init__(
        self,
        inspector: Inspector,
        topics: tuple[str, ...],
        *,
        records: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        self._inspector = inspector
        self._topics = topics
        self._records = records
        self._options = options
        self._arrivals = Arrivals()
        self._asked_for: int | None = None
        self._names: dict[tuple[TopicPartition, int], bytes] = {}

    def look(self) -> tuple[GroupStatus, ScaleAdvice]:
        """Look at it now.

        Raises:
            CoopConsumerError: As `Inspector.see`.
        """
        seen = self._inspector.see(self._topics, records=self._records, waits=False)
        self._arrivals.note(time.monotonic(), {it.tp: it.end for it in seen.partitions})
        status = group_status(seen, self._options)
        heavy = status.load.keys
        self._names |= {(it.tp, it.key_hash): it.key for it in heavy if it.key is not None}
        advice = advise(
            needs_of(status, self._arrivals),
            with_names(status.load, self._names),
            members_of(status, self._asked_for),
            _rules(self._inspector.config, status),
        )
        self._asked_for = advice.wanted
        return status, advice


def _rules(config: Config, status: GroupStatus) -> ScaleRules:
    hashing = Hashing(config.ordering.value, config.ordering_block_size)
    return ScaleRules(
        target_s=config.scale_drain_target_s,
        workers=config.workers_on("thread"),
        is_serial=hashing.agreed_by(status.members).ordering == Ordering.PARTITION,
    )
