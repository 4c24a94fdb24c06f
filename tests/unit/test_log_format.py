"""The log as JSON: its fields, whoever writes the line, and what it never shows."""

from __future__ import annotations

import json
import logging
import pickle
import subprocess
import sys
from importlib import util
from io import StringIO
from typing import Any

import pytest

from assignors import WHOLE, TopicPartition
from coop_consumer.config import LogKeys
from coop_consumer.core import actions
from coop_consumer.core.actions import LogLine
from coop_consumer.errors import ConfigError
from coop_consumer.executors.child import _handler
from coop_consumer.executors.children import _formatter
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.log_format import VARIABLE, formatter_of, json_if_asked
from tests.unit.core_member import T0, TableMember


class JsonLog:
    """A logger whose lines are JSON."""

    def __init__(self) -> None:
        self._text = StringIO()
        handler = logging.StreamHandler(self._text)
        self.formatter = formatter_of("json", "")
        handler.setFormatter(self.formatter)
        self.logger = logging.Logger("coop_consumer.test")  # noqa: LOG001 - nobody else's
        self.logger.addHandler(handler)

    def line(self) -> dict[str, Any]:
        """The one line that was written since."""
        [line] = self._text.getvalue().splitlines()
        self._text.seek(0)
        self._text.truncate()
        found: dict[str, Any] = json.loads(line)
        return found


@pytest.fixture
def log() -> JsonLog:
    return JsonLog()


def test_a_line_of_ours_has_its_time_level_event_and_facts(log: JsonLog) -> None:
    tp = TopicPartition("orders", 3)
    extra = LogEvent.RECORD_PARKED.extra(
        group="billing", member="m-1", tp=tp, offset=42, key="k", attempt=5, error="ValueError"
    )
    record = log.logger.makeRecord(
        "coop_consumer.member", logging.ERROR, "", 0, "group %s", ("billing",), None, extra=extra
    )
    record.created = 1_700_000_000.25
    log.logger.handle(record)
    line = log.line()
    assert [*line][:4] == ["ts", "level", "event", "message"]
    assert line["ts"] == "2023-11-14T22:13:20.250Z"
    assert (line["level"], line["event"], line["message"]) == (
        "error",
        "record.parked",
        "group billing",
    )
    assert (line["group"], line["member"], line["topic"], line["partition"]) == (
        "billing",
        "m-1",
        "orders",
        3,
    )
    assert (line["offset"], line["key"], line["attempt"], line["error"]) == (
        42,
        "k",
        5,
        "ValueError",
    )
    assert line["logger"] == "coop_consumer.member"


def test_a_line_of_a_stranger_has_no_event_and_keeps_its_extra(log: JsonLog) -> None:
    log.logger.warning("paid %d", 7, extra={"customer": 11})
    line = log.line()
    assert (line["message"], line["customer"]) == ("paid 7", 11)
    assert "event" not in line
    assert "coop_passed" not in line


def test_a_line_of_a_process_with_one_member_names_it_unless_it_names_another_one(
    log: JsonLog,
) -> None:
    log.formatter.belongs_to("billing", "m-1")  # type: ignore[attr-defined] # a JsonLines
    log.logger.warning("paid")
    line = log.line()
    assert (line["group"], line["member"]) == ("billing", "m-1")
    log.logger.warning("left", extra=LogEvent.MEMBER_LEFT.extra(group="billing", member="m-2"))
    assert log.line()["member"] == "m-2"


def test_an_exception_is_a_field_of_its_own_and_a_line_stays_one(log: JsonLog) -> None:
    error = ValueError("two\nlines \x1b[31m\u2028")
    log.logger.error("it failed", exc_info=error)
    line = log.line()
    assert line["traceback"].endswith("ValueError: two\nlines \x1b[31m\u2028")
    assert "exc_info" not in line


def test_json_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'coop-consumer\[log\]'"):
        formatter_of("json", "")


# -- processes that others start -------------------------------------------------------------------


def bare(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """The root logger, without pytest's handlers, to the end of the test."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    return root


def test_a_child_writes_as_its_parent_does_and_text_in_its_own_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bare_root = bare(monkeypatch)
    assert _formatter(bare_root) == b""
    handler = logging.StreamHandler()
    bare_root.addHandler(handler)
    handler.setFormatter(logging.Formatter("%(message)s"))
    assert _formatter(bare_root) == b"", "it would not say which child a line is of"
    handler.setFormatter(formatter_of("json", ""))
    formatter = _handler(_formatter(bare_root)).formatter
    assert type(formatter) is type(handler.formatter)


class Unpicklable(logging.Formatter):
    def __reduce__(self) -> str:
        raise pickle.PicklingError


def test_a_formatter_that_does_not_travel_stays_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    bare_root = bare(monkeypatch)
    handler = logging.StreamHandler()
    handler.setFormatter(Unpicklable())
    bare_root.addHandler(handler)
    assert _formatter(bare_root) == b""
    formatter = _handler(b"no pickle").formatter
    assert formatter is not None
    line = logging.makeLogRecord({"msg": "x", "processName": "child-3"})
    assert "child-3" in formatter.format(line)


def test_an_executor_of_spark_writes_json_if_its_environment_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bare_root = bare(monkeypatch)
    monkeypatch.delenv(VARIABLE, raising=False)
    json_if_asked()
    assert bare_root.handlers == []
    monkeypatch.setenv(VARIABLE, "json")
    json_if_asked()
    json_if_asked()
    [handler] = bare_root.handlers
    assert type(handler.formatter) is type(formatter_of("json", ""))


def test_the_module_of_the_format_needs_no_package_and_no_client() -> None:
    rooms = "coop_consumer.ops.log_format, coop_consumer.ops.health_file"
    code = f"import sys, {rooms}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert not {"pythonjsonlogger", "click", "kafka", "confluent_kafka"} & {*loaded}


# -- keys and values -------------------------------------------------------------------------------


def parked_line(keys: str) -> LogLine:
    """What is reported of a record that is parked, with `log.keys` so."""
    member = TableMember(max_attempts=1, log_keys=keys)
    member.assign(WHOLE)
    member.produce(b"anna")
    member.start()
    member.fail(0)
    [line] = [it for it in member.told(actions.LogLine) if it.event is LogEvent.RECORD_PARKED]
    return line


@pytest.mark.parametrize("keys", [*LogKeys])
def test_the_field_of_a_key_obeys_the_setting_as_the_text_does(keys: LogKeys) -> None:
    line = parked_line(keys)
    assert (line.facts["tp"], line.facts["offset"], line.facts["attempt"]) == (T0, 0, 1)
    key, text = line.facts["key"], line.text
    match keys:
        case LogKeys.TEXT:
            assert key == "anna"
            assert "anna" in text
        case LogKeys.HASH:
            assert key is not None
            assert key.startswith("hash ")
            assert f"({key})" in text
            assert "anna" not in text
        case LogKeys.NONE:
            assert key is None
            assert "anna" not in text
            assert "key" not in LogEvent.RECORD_PARKED.extra(**line.facts)
