"""The admin side without a broker: what it says, and what it does not."""

from __future__ import annotations

import pytest

from coop_consumer.config import Config
from coop_consumer.errors import BrokerUnreachableError
from coop_consumer.kafka.topics import Topics


def test_an_unreachable_broker_is_one_error_and_no_flood_on_stderr(
    capfd: pytest.CaptureFixture[str],
) -> None:
    topics = Topics(Config.from_dict({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}))
    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1: no broker answered"):
        topics.check_broker(timeout_s=0.5)
    assert capfd.readouterr() == ("", "")
