"""What a handler raised, kept as text and places: nothing of it holds a frame in memory. Pure.

In: an exception, when a handler raises it. Out: a `Failure`. The exception is dropped, and so are
the tracebacks of all that led to it: a traceback holds the local variables of each frame that it
passed, and a record may wait for a decision for days.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from types import TracebackType
from typing import Any, NamedTuple

from coop_consumer.log_events import kind_of
from coop_consumer.plain_text import printable, shortened

_ERROR_CHARS = 200
_MESSAGE_LINES, _MESSAGE_CHARS = 20, 2_000
_FRAMES_MAX, _LINKS_MAX = 50, 6
"""So many of the innermost frames of an exception are kept, and so many exceptions of a chain."""
_EXECUTORS = str(PurePath(__file__).parent.parent / "executors")
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"
_PART = "The above exception is part of the following group:"

# The class of an error is a stranger's: it may refuse every assignment, as a frozen dataclass does,
# or define these names anew. So they are read and set as the interpreter does it.
_name_of: Any = vars(type)["__name__"].__get__
_cause_of: Any = vars(BaseException)["__cause__"].__get__
_context_of: Any = vars(BaseException)["__context__"].__get__
_hides_context: Any = vars(BaseException)["__suppress_context__"].__get__
_traceback_of: Any = vars(BaseException)["__traceback__"].__get__
_parts_of: Any = vars(BaseExceptionGroup)["exceptions"].__get__


class Place(NamedTuple):
    """A frame that an exception passed."""

    file: str
    line: int
    function: str


class Raised(NamedTuple):
    """One exception of a chain.

    Attributes:
        places: Where it was raised, the innermost last; empty where nothing raised it.
        left_out: How many outer places are not kept.
        message: Its type and text, by lines.
        link: How it led to the next one; "" for the last.
    """

    places: tuple[Place, ...]
    left_out: int
    message: tuple[str, ...]
    link: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a record failed.

    Attributes:
        kind: The type of what was raised: failures of one kind are alike.
        line: What was raised, in a short line.
        chain: What was raised, as a traceback shows it, the first cause first.
    """

    kind: str
    line: str
    chain: tuple[Raised, ...] = ()

    @property
    def has_places(self) -> bool:
        """Whether there is a traceback to show."""
        return any(raised.places for raised in self.chain)


def describe(error: BaseException) -> str:
    """A failure in one short line, for the log, the status and the progress record.

    The error is a stranger's: its text may hold what UTF-8 does not (bytes of a file's name) or
    what a terminal would obey, and making it may itself fail. None of it may end the member.
    """
    name, text = _name_of(type(error)), " ".join(_text(error).split())
    return shortened(printable(f"{name}: {text}" if text else name), _ERROR_CHARS)


def failure_of(error: BaseException) -> Failure:
    """What a handler raised, as text. The tracebacks of the error are dropped. O(frames).

    It raises nothing, whatever the error is: the thread that calls would end by it.
    """
    failure = failure_told(error)
    drop_tracebacks(error)
    return failure


def failure_told(error: BaseException, within: BaseException | None = None) -> Failure:
    """Why a record failed. The error stays as it is.

    Args:
        error: What is named as the reason.
        within: What was raised, if it only named the error: its places are taken then.
    """
    chain = _chain(error)
    if within is not None and within is not error and not any(raised.places for raised in chain):
        chain = (*chain[:-1], chain[-1]._replace(link=_CAUSE), *_chain(within))
    return Failure(kind_of(error), describe(error), chain)


def is_a(error: BaseException, kind: type[BaseException]) -> bool:
    """Whether an error is of this kind. `isinstance` would ask the error's own class as well."""
    return issubclass(type(error), kind)


def _text(error: BaseException) -> str:
    try:
        return str.__str__(str(error))  # the text may be of a class of its own
    except BaseException as second:  # noqa: BLE001 - whatever it is, the name alone has to do
        return f"(its text cannot be made: {_name_of(type(second))})"


def _chain(error: BaseException) -> tuple[Raised, ...]:
    """The error behind what led to it, as far as that is kept."""
    found: deque[Raised] = deque()
    seen: set[int] = set()
    link, it = "", error
    while id(it) not in seen and len(found) < _LINKS_MAX:
        seen.add(id(it))
        found.appendleft(_raised(it, link))
        cause, context = _cause_of(it), _context_of(it)
        if is_a(it, BaseExceptionGroup):
            link, it = _PART, _parts_of(it)[0]
        elif cause is not None:
            link, it = _CAUSE, cause
        elif context is not None and not _hides_context(it):
            link, it = _CONTEXT, context
        else:
            break
    return tuple(found)


def _raised(error: BaseException, link: str) -> Raised:
    places: deque[Place] = deque(maxlen=_FRAMES_MAX)
    count = 0
    for place in _places(_traceback_of(error)):
        if count or not place.file.startswith(_EXECUTORS):  # who called the handler is not of it
            places.append(place)
            count += 1
    text = f"{_name_of(type(error))}: {_text(error)[:_MESSAGE_CHARS]}"
    message = tuple(map(printable, text.splitlines()[:_MESSAGE_LINES]))
    return Raised(tuple(places), count - len(places), message, link)


def _places(traceback: TracebackType | None) -> Iterator[Place]:
    while traceback is not None:
        code = traceback.tb_frame.f_code
        yield Place(code.co_filename, traceback.tb_lineno, code.co_name)
        traceback = traceback.tb_next


def drop_tracebacks(*errors: BaseException) -> None:
    """Let go of the frames of errors, and of all errors that they know.

    An error may outlive its record: a client that is closed, or a future, raises the same one again
    and again, and each time the handler's frames are added to it.
    """
    todo, seen = list(errors), set[int]()
    while todo:
        it = todo.pop()
        if id(it) in seen:
            continue
        seen.add(id(it))
        BaseException.with_traceback(it, None)
        todo += [other for other in (_cause_of(it), _context_of(it)) if other is not None]
        if is_a(it, BaseExceptionGroup):
            todo += _parts_of(it)
