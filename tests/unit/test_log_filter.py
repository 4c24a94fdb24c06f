"""A log that stays readable while no broker answers."""

from __future__ import annotations

import logging

from coop_consumer.log_filter import Seldom


def test_a_line_that_comes_again_and_again_is_written_seldom_and_tells_how_often() -> None:
    seldom = Seldom()

    def line(text: str, created_s: float) -> str | None:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "FAIL %s", (text,), None)
        record.created = created_s
        return record.getMessage() if seldom.filter(record) else None

    refused = "b:9092: Connection refused"
    assert line(f"{refused} (after 0ms in state CONNECT)", 100.0) is not None
    assert line(f"{refused} (after 1ms in state CONNECT)", 100.1) is None
    assert line(refused, 109.9) is None
    assert line("b:9092: Disconnected", 109.9) == "FAIL b:9092: Disconnected"
    assert line(refused, 110.0) == f"FAIL {refused} [and 2 times before]"
    assert line(refused, 125.0) == f"FAIL {refused}"
