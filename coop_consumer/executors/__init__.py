"""Executors: what runs the lanes. Each takes ready lanes and hands them back when they end."""

from coop_consumer.executors.batch_threads import BatchThreadExecutor
from coop_consumer.executors.event_loop import BatchEventLoopExecutor, EventLoopExecutor
from coop_consumer.executors.inline import InlineBatchExecutor, InlineExecutor
from coop_consumer.executors.manual import ManualExecutor
from coop_consumer.executors.processes import ProcessExecutor
from coop_consumer.executors.record_threads import ThreadExecutor
from coop_consumer.executors.workplace import Executor, PoolExecutor, Workplace

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
