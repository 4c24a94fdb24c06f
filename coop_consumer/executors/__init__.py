"""Executors: what runs the lanes. Each takes ready lanes and hands them back when they end.

Each is loaded when it is asked for: a member needs one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coop_consumer.lazy_names import lazily

if TYPE_CHECKING:
    from coop_consumer.executors.batch_threads import BatchThreadExecutor
    from coop_consumer.executors.event_loop import BatchEventLoopExecutor, EventLoopExecutor
    from coop_consumer.executors.inline import InlineBatchExecutor, InlineExecutor
    from coop_consumer.executors.manual import ManualExecutor
    from coop_consumer.executors.processes import ProcessExecutor
    from coop_consumer.executors.record_threads import ThreadExecutor
    from coop_consumer.executors.workplace import Executor, PoolExecutor, Workplace

_HOMES = {
    "BatchEventLoopExecutor": ".event_loop",
    "BatchThreadExecutor": ".batch_threads",
    "EventLoopExecutor": ".event_loop",
    "Executor": ".workplace",
    "InlineBatchExecutor": ".inline",
    "InlineExecutor": ".inline",
    "ManualExecutor": ".manual",
    "PoolExecutor": ".workplace",
    "ProcessExecutor": ".processes",
    "ThreadExecutor": ".record_threads",
    "Workplace": ".workplace",
}

__all__ = [
    "BatchEventLoopExecutor",
    "BatchThreadExecutor",
    "EventLoopExecutor",
    "Executor",
    "InlineBatchExecutor",
    "InlineExecutor",
    "ManualExecutor",
    "PoolExecutor",
    "ProcessExecutor",
    "ThreadExecutor",
    "Workplace",
]

__getattr__ = lazily(__name__, _HOMES)
