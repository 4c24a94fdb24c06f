"""What users write of settings, as mypy has to understand it. Never run."""

from __future__ import annotations

from collections.abc import Mapping

from coop_consumer import Config, CooperativeConsumer, Settings, Worker, WorkerPool
from coop_consumer.logs import ConditionalProducer
from coop_consumer.offset_stores import LogOffsetStore

settings: Settings = {
    "bootstrap.servers": "b:9092",
    "group.id": "billing",
    "commit.interval.ms": 100,
    "max.attempts": "5",
    "progress.topic.create": False,
    "on.failure": "dead_letter",
    "topics": ["orders", "^bills-.*"],
    "sasl.password": "${env:PASSWORD}",
    "sasl.mechanisms": "PLAIN",
    "fetch.wait.max.ms": 200,
}


class Billing(Worker):
    pass


def used(plain: Mapping[str, object]) -> None:
    Config.from_dict(settings)
    Config.from_dict(plain)
    WorkerPool(Billing, settings, executor="process")
    WorkerPool(Billing, plain)
    WorkerPool(Billing, {"bootstrap.servers": "b:9092", "group.id": "billing"})
    CooperativeConsumer(settings).subscribe(["^orders-.*"])
    ConditionalProducer(settings, "orders", 0, "writer-1")
    LogOffsetStore(settings, "offsets", name="one")
    more: Settings = {**settings, "workers": 8}
    Config.from_dict({**plain, "workers": more.get("workers", 4)})


def mistakes() -> None:
    settings["on.failure"] = "prak"  # type: ignore[typeddict-item]
    settings["max.attempts"] = 2.5  # type: ignore[typeddict-item]
    wrong: Settings = {"comit.interval.ms": 100}  # type: ignore[typeddict-unknown-key]
    Config.from_dict(wrong)
    executor: str = "thread"
    WorkerPool(Billing, settings, executor=executor)  # type: ignore[arg-type]
    Config.from_dict(settings).workers_on("threads")  # type: ignore[arg-type]
