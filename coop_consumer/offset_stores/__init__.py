"""Offsets of groups, kept by whoever needs more than Kafka's own store gives. See `OffsetStore`.

`store` is the interface, `memory`, `log` and `kafka` are its implementations. They are loaded when
they are asked for, as two of them load Kafka's clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coop_consumer.lazy_names import lazily

if TYPE_CHECKING:
    from coop_consumer.offset_stores.kafka import KafkaOffsetStore
    from coop_consumer.offset_stores.log import LogOffsetStore
    from coop_consumer.offset_stores.memory import MemoryOffsetStore
    from coop_consumer.offset_stores.store import OffsetStore
    from offsets import OffsetConflict, OffsetEntry

__all__ = [
    "KafkaOffsetStore",
    "LogOffsetStore",
    "MemoryOffsetStore",
    "OffsetConflict",
    "OffsetEntry",
    "OffsetStore",
]

_HOMES = {
    "KafkaOffsetStore": "coop_consumer.offset_stores.kafka",
    "LogOffsetStore": "coop_consumer.offset_stores.log",
    "MemoryOffsetStore": "coop_consumer.offset_stores.memory",
    "OffsetConflict": "offsets",
    "OffsetEntry": "offsets",
    "OffsetStore": "coop_consumer.offset_stores.store",
}

__getattr__ = lazily(__name__, _HOMES)
