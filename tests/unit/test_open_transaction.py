"""What people read of a transaction that nobody has decided: where, since when, whose it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assignors import TopicPartition
from coop_consumer.status.open_transaction import OpenTransaction

FOUND = OpenTransaction(TopicPartition("log-billing", 3), 17, 20, "b:9092", since_ms=1_000)


@pytest.mark.parametrize(
    ("members", "transactional_id", "whose"),
    [
        ((), "", "a writer that this user cannot see"),
        (("alpha",), "", "member alpha"),
        ((), "tx-9", "transactional.id tx-9"),
        (("alpha", "beta"), "tx-9", "member alpha and beta (transactional.id tx-9)"),
    ],
)
def test_it_is_told_whose_it_is_as_far_as_that_is_known(
    members: tuple[str, ...], transactional_id: str, whose: str
) -> None:
    found = replace(FOUND, members=members, transactional_id=transactional_id)
    assert found.told(13_500) == (
        "log-billing-3: readers of committed records stop at offset 17 of 20, where a transaction "
        f"of {whose} has been undecided for 12 s"
    )


def test_one_that_hangs_is_ended_by_a_command_alone() -> None:
    assert "brokers abort the transaction after 10 s" in replace(FOUND, timeout_ms=10_000).outlook
    assert "15 minutes at most" in FOUND.outlook
    hanging = replace(FOUND, is_hanging=True)
    assert "Brokers will never end it" in hanging.outlook
    assert hanging.command == (
        "kafka-transactions.sh --bootstrap-server b:9092 abort --topic log-billing --partition 3 "
        "--start-offset 17"
    )


def test_a_writer_at_work_is_no_news() -> None:
    assert not FOUND.stands_for_long(now_ms=2_900)
    assert FOUND.stands_for_long(now_ms=3_100)
    assert replace(FOUND, is_hanging=True).stands_for_long(now_ms=1_000)
