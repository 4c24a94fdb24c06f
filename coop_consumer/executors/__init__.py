"""Executors: what runs the lanes. Each takes ready lanes and hands them back when they end."""

from coop_consumer.executors.event_loop import EventLoopExecutor
from coop_consumer.executors.manual import ManualExecutor
from coop_consumer.executors.threads import ThreadExecutor

__all__ = ["EventLoopExecutor", "ManualExecutor", "ThreadExecutor"]
