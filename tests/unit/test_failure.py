"""What a handler raised becomes text: its places, its causes, and none of its frames."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import pytest

from assignors import TopicPartition
from coop_consumer import BatchFailure, Record
from coop_consumer.core.failure import Failure, failure_of, failure_told
from coop_consumer.core.record import Contents, copy_of
from coop_consumer.executors.batches import errors_by
from coop_consumer.tracebacks import traceback_of

TP = TopicPartition("orders", 0)


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


@dataclass(frozen=True)
class FrozenError(Exception):
    """Refuses every assignment, to its traceback as well."""

    code: int = 7


class DeafError(Exception):
    """Exits whenever something is read of it or assigned to it."""

    def __getattribute__(self, name: str) -> object:
        raise SystemExit(1)

    def __setattr__(self, name: str, value: object) -> None:
        raise SystemExit(1)


class RenamedError(Exception):
    """Defines anew what an error tells."""

    @property
    def exits(self) -> object:
        raise SystemExit(1)

    __class__ = __cause__ = __context__ = __traceback__ = exits  # type: ignore[assignment]


class Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise SystemExit(1)


def nameless() -> BaseException:
    class NamelessError(Exception, metaclass=Nameless):
        """Its class does not tell its name."""

    return NamelessError()


class Text(str):
    """A text that cannot be taken to pieces."""

    __slots__ = ()

    def split(self, *_: object) -> list[str]:  # type: ignore[override]
        raise SystemExit(1)

    __getitem__ = splitlines = split  # type: ignore[assignment]


class WordyError(Exception):
    """Its text is of a class of its own."""

    def __str__(self) -> str:
        return Text("two words")


class Partless(ExceptionGroup[Exception]):
    """A group that tells of no part."""

    @property
    def exceptions(self) -> tuple[Exception, ...]:  # type: ignore[override]
        raise SystemExit(1)


HOSTILE: tuple[tuple[Callable[[], BaseException], str], ...] = (
    (FrozenError, "FrozenError"),
    (DeafError, "DeafError"),
    (RenamedError, "RenamedError"),
    (nameless, "NamelessError"),
    (WordyError, "WordyError: two words"),
    (lambda: Partless("parts", [ValueError("inner")]), "Partless: parts (1 sub-exception)"),
)


@pytest.mark.parametrize(("make", "line"), HOSTILE)
def test_an_error_that_is_hostile_itself_is_told_and_its_frames_are_let_go(
    make: Callable[[], BaseException], line: str
) -> None:
    held: list[weakref.ref[Response]] = []

    def handler() -> None:
        response = Response()
        held.append(weakref.ref(response))
        raise make() from OSError("no disk")

    error = raised_by(handler)
    failure = failure_of(error)
    assert failure.line == line
    assert failure.has_places
    gc.collect()
    assert held[0]() is None


@pytest.mark.parametrize(("make", "line"), HOSTILE)
def test_a_batch_fails_by_hostile_errors_record_by_record(
    make: Callable[[], BaseException], line: str
) -> None:
    first, second = (copy_of(Contents(TP, n, b"k", 0, 1, 0, b"", [], (0, 0), None)) for n in (0, 1))
    named = errors_by([first, second], BatchFailure({second: make()}))
    assert named is not None
    assert {record.offset: failure.line for record, failure in named.items()} == {1: line}
    assert errors_by([first, second], make()) is None


def test_a_batch_whose_named_records_cannot_be_read_fails_as_a_whole() -> None:
    first, second = (copy_of(Contents(TP, n, b"k", 0, 1, 0, b"", [], (0, 0), None)) for n in (0, 1))

    class Exits(dict[Record, BaseException]):
        def keys(self) -> NoReturn:  # type: ignore[override]
            sys.exit(0)

        __iter__ = keys  # type: ignore[assignment]

    assert errors_by([first, second], BatchFailure(Exits({first: OSError()}))) is None
