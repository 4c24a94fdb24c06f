"""Every line of the log has an event with a stable name; the loud ones are in the runbook."""

from __future__ import annotations

import ast
import logging
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import coop_consumer
from assignors import TopicPartition
from coop_consumer.cli.app import COMMANDS
from coop_consumer.log_events import Facts, LogEvent, trace_id

ROOT = Path(str(coop_consumer.__file__)).parents[1]
PACKAGES = ("assignors", "offsets", "coop_consumer", "streams_adapter")
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
METHODS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "exception": logging.ERROR,
    "critical": logging.CRITICAL,
    "log": None,
}
FORWARDS = {"member/member.py"}
"""Here a line gets its event from whoever asks for it."""


class Module:
    """What one module of ours says of its lines.

    Attributes:
        events: Of each event the levels at which it is reported; None: that is not written here.
        nameless: Lines of calls of a logger that name no event.
    """

    def __init__(self, path: Path) -> None:
        self.events: dict[LogEvent, set[int | None]] = defaultdict(set)
        self.nameless: list[str] = []
        self._place = str(path.relative_to(ROOT))
        self._scopes: list[ast.AST] = []
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self._visit(tree)
        for event in events_in(tree):
            if event not in self.events:  # a helper of the module adds the level
                self.events[event].add(None)

    def _visit(self, node: ast.AST) -> None:
        is_scope = isinstance(node, ast.FunctionDef | ast.Module)
        if is_scope:
            self._scopes.append(node)
        if isinstance(node, ast.Call):
            self._call(node)
        for inner in ast.iter_child_nodes(node):
            self._visit(inner)
        if is_scope:
            self._scopes.pop()

    def _call(self, call: ast.Call) -> None:
        method = method_of(call)
        if method is None:
            levels = levels_in(call.args[0]) if call.args else set()
            if levels and len(call.args) > 1:
                self._note(self._events(call.args[1], call.lineno), levels)
            return
        extra = next((word.value for word in call.keywords if word.arg == "extra"), None)
        found = self._events(extra, call.lineno) if extra is not None else set()
        known = METHODS[method]
        self._note(found, {known} if known is not None else levels_in(call.args[0]) or {None})
        if not found and not self._place.endswith(tuple(FORWARDS)):
            self.nameless.append(f"{self._place}:{call.lineno}: {ast.unparse(call)}")

    def _note(self, found: set[LogEvent], levels: set[int | None]) -> None:
        for event in found:
            self.events[event] |= levels

    def _events(self, value: ast.AST, line: int) -> set[LogEvent]:
        """The events in an expression, and in the last assignments to its names before a line."""
        found = set(events_in(value))
        for name in {it.id for it in ast.walk(value) if isinstance(it, ast.Name)}:
            before = [
                node
                for node in ast.walk(self._scopes[-1])
                if isinstance(node, ast.Assign)
                and node.lineno < line
                and any(name in names_in(target) for target in node.targets)
            ]
            if before:
                last = max(before, key=lambda node: node.lineno)
                found |= self._events(last.value, last.lineno)
        return found


def names_in(target: ast.AST) -> set[str]:
    return {it.id for it in ast.walk(target) if isinstance(it, ast.Name)}


def method_of(call: ast.Call) -> str | None:
    """The method of a logger that is called; None: it is another call."""
    match call.func:
        case ast.Attribute(ast.Name("log" | "_log"), method) if method in METHODS:
            return method
        case ast.Attribute(ast.Call(ast.Attribute(_, "getLogger")), method) if method in METHODS:
            return method
        case _:
            return None


def events_in(value: ast.AST) -> Iterator[LogEvent]:
    """The events that an expression names."""
    for node in ast.walk(value):
        match node:
            case ast.Attribute(ast.Name("LogEvent"), name) if name.isupper():
                yield LogEvent[name]
            case ast.Dict(keys, values):  # where coop_consumer may not be importable
                for key, inner in zip(keys, values, strict=True):
                    match key, inner:
                        case ast.Constant("event"), ast.Constant(str(text)):
                            yield LogEvent(text)


def levels_in(value: ast.AST) -> set[int | None]:
    """The levels that an expression names: `Level.ERROR`, or one of two."""
    return {
        METHODS[node.attr.lower()]
        for node in ast.walk(value)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("Level", "logging")
        and node.attr.isupper()
    }


@pytest.fixture(scope="module")
def modules() -> list[Module]:
    return [
        Module(path)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.name != "log_events.py"
    ]


@pytest.fixture(scope="module")
def loud(modules: list[Module]) -> set[str]:
    """The events that are reported at WARNING or above, as far as that can be read."""
    return {
        event.value
        for module in modules
        for event, levels in module.events.items()
        if any(level is None or level >= logging.WARNING for level in levels)
    }


def test_every_line_of_the_log_names_its_event(modules: list[Module]) -> None:
    assert sum(len(module.events) for module in modules) > 100, "the packages were not found"
    assert [line for module in modules for line in module.nameless] == []


def test_every_event_is_reported_somewhere(modules: list[Module]) -> None:
    assert {event for module in modules for event in module.events} == set(LogEvent)


def test_events_are_named_by_a_noun_and_what_became_of_it_in_order() -> None:
    assert [*LogEvent] == sorted(LogEvent)
    for event in LogEvent:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*\.[a-z]+(_[a-z]+)*", event)
        assert event.name == event.replace(".", "_").upper()


# -- the runbook -----------------------------------------------------------------------------------


def sections() -> dict[str, str]:
    """What the runbook says of each event."""
    parts = re.split(r"^#+ (.*)$", RUNBOOK, flags=re.MULTILINE)[1:]
    titled = zip(parts[::2], parts[1::2], strict=True)
    return {title.strip("`"): text for title, text in titled if title.startswith("`")}


def test_the_runbook_has_every_loud_event_and_no_other(loud: set[str]) -> None:
    told = set(sections())
    assert loud - told == set(), "missing in docs/runbook.md"
    assert told - loud == set(), "in docs/runbook.md, and reported nowhere at WARNING or above"


def test_each_section_of_the_runbook_tells_the_cause_how_bad_it_is_and_what_to_do() -> None:
    for title, text in sections().items():
        lines = [line for line in text.splitlines() if line.startswith("- **")]
        labels = [line.split("**")[1] for line in lines]
        assert labels == ["Cause.", "How bad.", "Do."], title


def test_no_section_of_the_runbook_sends_its_reader_to_look_an_error_up() -> None:
    for title, text in sections().items():
        do = text.partition("- **Do.** ")[2]
        assert not re.match(r"(Look up|Read) the error", do), title


def test_each_command_of_the_runbook_is_one() -> None:
    named = set(re.findall(r"coop-consumer ([a-z]+)", RUNBOOK))
    assert {"status", "retry", "skip", "release", "doctor"} <= named <= {*COMMANDS}


# -- facts -----------------------------------------------------------------------------------------


def test_facts_are_attributes_that_a_log_record_does_not_have_yet() -> None:
    record = logging.makeLogRecord({})
    names = {*Facts.__annotations__, "event", "partition", "trace_id"}
    assert {name for name in names if hasattr(record, name)} == set()


def test_of_an_error_the_type_alone_is_a_fact_because_its_text_may_hold_a_value() -> None:
    found = LogEvent.FLUSH_FAILED.extra(error=ValueError("4711 is no number"))
    assert found == {"event": "flush.failed", "error": "ValueError"}


def test_what_is_not_known_or_must_not_be_shown_is_left_out() -> None:
    found = LogEvent.RECORD_PARKED.extra(tp=TopicPartition("t", 0), key=None, error=None)
    assert found == {"event": "record.parked", "topic": "t", "partition": 0}


def span(trace: int, *, is_valid: bool) -> SimpleNamespace:
    context = SimpleNamespace(trace_id=trace, is_valid=is_valid)
    return SimpleNamespace(get_span_context=lambda: context)


def test_the_trace_is_that_of_the_present_span_if_somebody_traces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    assert trace_id() is None
    current = [span(0xABC, is_valid=True), span(0, is_valid=False)]
    tracing = SimpleNamespace(get_current_span=lambda: current.pop(0))
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", tracing)
    assert LogEvent.MEMBER_LEFT.extra()["trace_id"] == f"{0xABC:032x}"
    assert "trace_id" not in LogEvent.MEMBER_LEFT.extra()


def test_a_real_span_gives_its_trace() -> None:
    trace = pytest.importorskip("opentelemetry.trace")
    given = trace.SpanContext(0xF00, 0xB, is_remote=False)
    with trace.use_span(trace.NonRecordingSpan(given)):
        assert trace_id() == f"{0xF00:032x}"
    assert trace_id() is None
