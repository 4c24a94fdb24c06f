"""A log that stays readable while no broker answers."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest

from coop_consumer.log_filter import Seldom

REFUSED = "b:9092: Connect failed: Connection refused"


class Log:
    """What a filter lets pass, by the time of the lines."""

    def __init__(self) -> None:
        self.seldom = Seldom()

    def line(self, text: str, created_s: float, level: int = logging.ERROR) -> str | None:
        record = logging.LogRecord("x", level, "", 0, "FAIL %s", (text,), None)
        record.created = created_s
        return record.getMessage() if self.seldom.filter(record) else None


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_line_that_comes_again_and_again_is_written_seldom_and_tells_how_often(log: Log) -> None:
    assert log.line(f"{REFUSED} (after 0ms in state CONNECT)", 100.0) is None, "it may be over now"
    assert log.line(f"{REFUSED} (after 1ms in state CONNECT)", 102.9) is None
    assert log.line(REFUSED, 103.0) == f"FAIL {REFUSED} [and 2 times before]"
    assert log.line(REFUSED, 162.9) is None
    assert log.line(REFUSED, 163.0) == f"FAIL {REFUSED} [and 1 time before]"
    assert log.line(REFUSED, 223.0) == f"FAIL {REFUSED}"


def test_what_is_over_at_once_is_not_written_the_next_time_either(log: Log) -> None:
    """A broker that is started anew every day is no outage."""
    for day in range(3):
        assert log.line(REFUSED, 86_400.0 * day) is None
        assert log.line(REFUSED, 86_400.0 * day + 1) is None


def test_what_is_no_matter_of_connections_is_written_at_once(log: Log) -> None:
    assert log.line("the record is corrupt", 100.0) == "FAIL the record is corrupt"
    assert log.line("the record is corrupt", 159.0) is None


def test_lines_that_differ_in_numbers_alone_are_of_one_kind(log: Log) -> None:
    log.line("connect: again in 0.11 secs", 100.0)
    assert log.line("connect: again in 0.39 secs", 103.0) is not None
    assert log.line("connect: again in 0.8 secs", 105.0) is None


def test_all_clients_together_write_a_line_a_second_at_most(log: Log) -> None:
    written = [
        moment
        for moment in range(600)
        for client in "abcdefghijklmnop"
        if log.line(f"client {client}: Connection refused", moment / 10)
    ]
    assert len(written) <= 60
    assert all(later - sooner >= 10 for sooner, later in pairwise(written))


def test_an_outage_of_minutes_takes_a_line_a_minute_of_each_kind(log: Log) -> None:
    """Kinds differ by more than numbers: the sort of client, and what it was about to do."""
    kinds = [
        "[coop#consumer-8]: Connection refused",
        "[coop#producer-5]: Connection refused",
        "Bootstrap bootstrap-0 not ready; waiting 1.04 secs",
    ]
    written = [
        kind
        for moment in range(2_990)
        for kind in kinds
        if log.line(kind.replace("1.04", f"{moment / 100}"), moment / 10)
    ]
    assert sorted(written) == sorted(kinds * 5)


def test_a_line_of_a_client_has_an_event_and_one_of_ours_keeps_its_own() -> None:
    events = []
    for extra in ({}, {"event": "client.renewed"}):
        record = logging.LogRecord("kafka.x", logging.ERROR, "", 0, str(extra), (), None)
        record.__dict__.update(extra)
        assert Seldom().filter(record)
        events.append(record.event)  # type: ignore[attr-defined]
    assert events == ["client.line", "client.renewed"]


def test_a_line_that_two_filters_see_is_judged_once(log: Log) -> None:
    """kafka-python's are seen at their logger and at the command's handler."""
    record = logging.LogRecord("x", logging.ERROR, "", 0, "corrupt", (), None)
    assert log.seldom.filter(record)
    assert log.seldom.filter(record)


def test_what_was_asked_for_in_detail_is_shown(log: Log) -> None:
    assert log.line(REFUSED, 100.0, logging.DEBUG) is not None
    assert log.line(REFUSED, 100.1, logging.INFO) is None


def test_what_is_said_of_a_setting_of_ours_is_no_news(log: Log) -> None:
    told = "Configuration property enable.gapless.guarantee is experimental: When set to `true`"
    assert log.line(told, 100.0, logging.WARNING) is None
    assert log.line("Configuration property acks is experimental", 101.0, logging.WARNING)


def test_a_transaction_of_a_generation_that_has_passed_is_the_members_own_matter(log: Log) -> None:
    told = (
        "TXNERR [thrd:main]: Current transaction failed in state InTransaction: {} (after 5ms) ({})"
    )
    assert log.line(told.format("generation id is not valid", "ILLEGAL_GENERATION"), 100.0) is None
    assert log.line(told.format("The coordinator is not aware", "UNKNOWN_MEMBER_ID"), 101.0) is None
    assert log.line(told.format("Topic authorization failed", "TOPIC_AUTHORIZATION_FAILED"), 102.0)
    assert log.line(told.format("fenced", "FENCED_INSTANCE_ID"), 104.0)


def test_a_line_that_cannot_be_formatted_is_loggings_affair() -> None:
    """It reports that itself, and raises nothing for whoever logs."""
    record = logging.LogRecord("kafka", logging.WARNING, "", 0, "%d", ("x",), None)
    assert Seldom().filter(record)
