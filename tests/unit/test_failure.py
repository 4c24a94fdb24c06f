"""What a handler raised becomes text: its places, its causes, and none of its frames."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest

from coop_consumer import BatchFailure
from coop_consumer.core.failure import Failure, failure_of, failure_told
from coop_consumer.tracebacks import traceback_of


class Response:
    """What a handler holds in a local variable."""


def raised_by(handler: Callable[[], object]) -> BaseException:
    try:
        handler()
    except BaseException as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError("the handler raised nothing")


def ask_the_database() -> None:
    raise ConnectionError("no route")


def charge() -> None:
    try:
        ask_the_database()
    except ConnectionError as error:
        raise ValueError("not charged") from error


def test_a_traceback_names_files_lines_functions_and_causes_as_python_does() -> None:
    told = traceback_of(failure_of(raised_by(charge)), 30)
    lines = told.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert '", line ' in lines[1]
    assert "in charge" in told
    assert '    raise ConnectionError("no route")' in lines
    cause = lines.index("ConnectionError: no route")
    assert lines[cause + 1] == (
        "The above exception was the direct cause of the following exception:"
    )
    assert lines[-1] == "ValueError: not charged"


def recurse(depth: int) -> None:
    if depth:
        recurse(depth - 1)
    raise RecursionError("too deep")


@pytest.mark.parametrize("lines_max", [3, 10, 20])
def test_of_a_long_traceback_the_middle_is_left_out(lines_max: int) -> None:
    lines = traceback_of(failure_of(raised_by(lambda: recurse(200))), lines_max).splitlines()
    assert len(lines) == lines_max
    assert lines[-1] == "RecursionError: too deep"
    assert sum("lines left out (failure.traceback.lines=" in line for line in lines) == 1


def test_no_lines_are_no_traceback() -> None:
    assert traceback_of(failure_of(raised_by(charge)), 0) == ""


def test_what_nothing_raised_has_no_traceback() -> None:
    assert traceback_of(failure_of(ValueError("named by hand")), 20) == ""


def test_the_first_of_a_group_of_errors_is_shown() -> None:
    error = BaseExceptionGroup("two tasks", [raised_by(charge), ValueError("other")])
    told = traceback_of(failure_of(raised_by(lambda: _raise(error))), 40)
    assert "in charge" in told
    assert told.splitlines()[-1] == "ExceptionGroup: two tasks (2 sub-exceptions)"


def _raise(error: BaseException) -> None:
    raise error


def test_nothing_that_a_terminal_obeys_gets_through() -> None:
    kind = type("Evil\x1b[2J", (Exception,), {})
    failure = failure_of(
        raised_by(lambda: _raise(kind("\x1b]0;title\x07 \x9b31m\nnext \u202eline")))
    )
    for text in (failure.line, *traceback_of(failure, 20).splitlines()):
        assert text.isprintable(), text
    assert r"\x1b]0;title" in failure.line


class ExitsError(Exception):
    """Its text cannot be made, and ends whoever asks."""

    def __str__(self) -> str:
        raise SystemExit(1)


def test_an_error_whose_text_ends_the_process_ends_nothing() -> None:
    assert failure_of(raised_by(lambda: _raise(ExitsError()))).line == (
        "ExitsError: (its text cannot be made: SystemExit)"
    )


def test_frames_are_gone_with_the_error_without_a_collection() -> None:
    """Also where the same error is raised again and again, and so outlives its record."""
    shared = ConnectionError("the client is closed")
    refs: list[weakref.ref[Response]] = []

    def handler() -> None:
        response = Response()
        refs.append(weakref.ref(response))
        try:
            raise shared
        except ConnectionError:
            raise ValueError("again") from shared

    gc.disable()
    try:
        for _ in range(3):
            assert failure_of(raised_by(handler)).has_places
        assert [ref() for ref in refs] == [None] * 3
    finally:
        gc.enable()


def test_what_a_user_names_keeps_its_traceback() -> None:
    error = raised_by(charge)
    assert failure_told(error).has_places
    assert error.__traceback__ is not None


def test_an_error_that_was_only_named_shows_where_it_was_named() -> None:
    within = raised_by(lambda: _raise(BatchFailure([], "rows 3 and 4")))
    named = failure_told(ValueError("row 3"), within)
    told = traceback_of(named, 20).splitlines()
    assert (named.kind, named.line) == ("ValueError", "ValueError: row 3")
    assert told[0] == "ValueError: row 3"
    assert told[-1] == "BatchFailure: rows 3 and 4"


def test_a_failure_without_places_is_one_line() -> None:
    assert traceback_of(Failure("KeyError", "KeyError: 'x'"), 20) == ""
