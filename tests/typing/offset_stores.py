"""What users of offset stores write; mypy checks it."""

from __future__ import annotations

import asyncio
from typing import assert_type

from coop_consumer import Config, OffsetRange, TopicPartition
from coop_consumer.offset_stores import (
    KafkaOffsetStore,
    LogOffsetStore,
    MemoryOffsetStore,
    OffsetConflict,
    OffsetEntry,
    OffsetStore,
)

orders = TopicPartition("orders", 3)


def any_store(config: Config) -> OffsetStore:
    """All three are one."""
    if config.bootstrap_servers:
        return LogOffsetStore(config, "billing-offsets", name="billing-1")
    if config.client_id:
        return KafkaOffsetStore({"bootstrap.servers": "localhost:9092"})
    return MemoryOffsetStore()


def compare(store: OffsetStore) -> int | None:
    """Commit, and see why not."""
    entry = OffsetEntry(42, "in file 7", gaps=(OffsetRange(45, 47),))
    conflict = store.commit("billing", {orders: entry}, expected={orders: None})
    assert_type(conflict, OffsetConflict | None)
    if conflict is not None:
        found = conflict.found[orders]
        return None if found is None else found.offset
    assert_type(store.fetch("billing", [orders]), dict[TopicPartition, OffsetEntry])
    return 42


async def under_way(store: OffsetStore) -> None:
    """Many at once."""
    asked = [store.commit_later("billing", {orders: OffsetEntry(n)}) for n in range(10)]
    for future in asked:
        assert_type(await asyncio.wrap_future(future), OffsetConflict | None)
