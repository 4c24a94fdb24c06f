"""What users of `WorkerPool` write, as mypy has to understand it. Never run."""

from __future__ import annotations

from typing import assert_type

from coop_consumer import (
    Context,
    CoopConsumerError,
    Health,
    KeyRange,
    MemberMetrics,
    Record,
    TopicPartition,
    Worker,
    WorkerPool,
    live,
    ready,
)


class Billing(Worker):
    def setup(self, context: Context) -> None:
        self.member = context.member

    def process(self, record: Record) -> None:
        assert_type(self.member, str)
        assert_type((record.topic, record.partition, record.offset), tuple[str, int, int])
        assert_type(record.attempt, int)

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        assert_type({tp: ranges}, dict[TopicPartition, tuple[KeyRange, ...]])


class Fetching(Worker):
    async def setup(self, context: Context) -> None:
        self.member = context.member

    async def process(self, record: Record) -> None:
        assert_type(self.member, str)
        assert_type(record.key, bytes | None)

    def on_ranges_assigned(self, tp: TopicPartition, ranges: tuple[KeyRange, ...]) -> None:
        """Beside `async def` methods there may be others."""


def run() -> None:
    config = {"bootstrap.servers": "b:9092", "group.id": "billing", "commit.interval.ms": 100}
    with WorkerPool(Billing, config, ["orders"], workers=64) as pool:
        try:
            assert_type(pool.metrics(), MemberMetrics)
            assert_type(pool.metrics().topics["orders"].handler.sum_s, float)
            assert_type(pool.wait(timeout_s=60.0), bool)
        except CoopConsumerError as error:
            assert_type(error.code, int | None)
        assert_type(pool.health(), Health)
        assert_type(live(pool.health()).ok, bool)
        assert_type([reason.text for reason in ready(pool.health()).reasons], list[str])


def mistakes() -> None:
    config = {"bootstrap.servers": "b:9092", "group.id": "billing"}
    WorkerPool(Billing, config, "orders")  # type: ignore[arg-type]
    WorkerPool(Billing, config, ["orders"], executor="threads")  # type: ignore[arg-type]
    WorkerPool(Billing, config, ("orders",), executor="process")
    WorkerPool(Billing, config, {"orders"}, executor="inline")
