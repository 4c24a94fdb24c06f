"""Kafka consumers that share partitions: each owns a range of the key-hash space, in key order.

The public surface; everything else is nobody's promise. Names load when first used, so that
importing one pure room does not load Kafka's clients.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assignors import KeyRange, TopicPartition
    from coop_consumer.config import Config
    from coop_consumer.core.record import Record
    from coop_consumer.errors import CoopConsumerError
    from coop_consumer.pool import WorkerPool
    from coop_consumer.worker import Context, Worker

__version__ = "0.1.0"

_HOMES = {
    "Config": "coop_consumer.config",
    "Context": "coop_consumer.worker",
    "CoopConsumerError": "coop_consumer.errors",
    "KeyRange": "assignors",
    "Record": "coop_consumer.core.record",
    "TopicPartition": "assignors",
    "Worker": "coop_consumer.worker",
    "WorkerPool": "coop_consumer.pool",
}

__all__ = [
    "Config",
    "Context",
    "CoopConsumerError",
    "KeyRange",
    "Record",
    "TopicPartition",
    "Worker",
    "WorkerPool",
    "__version__",
]


def __getattr__(name: str) -> object:
    """Load a public name from its home when it is first used."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value
