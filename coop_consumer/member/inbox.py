"""The inbox: events for the member's thread, and the futures of its answers. No Kafka.

In: events from any thread. Out: the next one, for the member's thread. Each part of a member on
another thread knows the inbox, and no other part of the member.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from queue import Empty, SimpleQueue
from typing import TypeVar

from coop_consumer.core import actions, events

After = Callable[[], None]
T = TypeVar("T")

TICK = events.Tick()


class Inbox:
    """The events of one member, in order. Any thread may call, except where noted."""

    def __init__(self) -> None:
        self._events: SimpleQueue[tuple[events.Event, After | None]] = SimpleQueue()
        self._answers: dict[int, Future[object]] = {}
        self._glances: deque[After] = deque()
        self._tokens = count(1)
        self._waking = False

    def tell(self, event: events.Event, after: After | None = None) -> None:
        """Add an event; `after` is called on the member's thread once the core has taken it."""
        self._events.put((event, after))

    def call(self, call: After) -> None:
        """Call this on the member's thread."""
        self._events.put((TICK, call))

    def wake(self) -> None:
        """Wake the member's thread: executors have finished something."""
        if not self._waking:
            self._waking = True
            self._events.put((TICK, None))

    def fail(self, error: BaseException) -> None:
        """End the member by this error; half alive, it would hold ranges and process nothing."""

        def end() -> None:
            raise error

        self.call(end)

    def ask(self, request: Callable[[int], events.Request | events.Withdraw]) -> Future[object]:
        """Send the core a request, made with its token; returns its answer.

        Wait for the member's end, too: a member that has ended answers nothing.
        """
        answer: Future[object] = Future()
        token = next(self._tokens)
        self._answers[token] = answer
        self.tell(request(token))
        return answer

    def find(self, read: Callable[[], T]) -> Future[T]:
        """The result of `read` on the member's thread. Wait for it as after `ask`."""
        answer: Future[T] = Future()
        self.call(lambda: answer.set_result(read()))
        return answer

    def glance(self, read: Callable[[], T]) -> Future[T]:
        """As `find`, but before the events that wait: each may take tens of milliseconds."""
        answer: Future[T] = Future()
        self._glances.append(lambda: answer.set_result(read()))
        self._events.put((TICK, None))
        return answer

    # ---- the member's thread -------------------------------------------------------------------

    def next(self, timeout_s: float) -> tuple[events.Event, After | None]:
        """The next event; a tick if none has come in time."""
        try:
            event, after = self._events.get(timeout=timeout_s)
        except Empty:
            event, after = TICK, None
        return self._taken(event, after)

    def waiting(self) -> tuple[events.Event, After | None] | None:
        """The next event, if one waits."""
        try:
            return self._taken(*self._events.get_nowait())
        except Empty:
            return None

    def _taken(self, event: events.Event, after: After | None) -> tuple[events.Event, After | None]:
        if event is TICK:
            self._waking = False
        while self._glances:
            self._glances.popleft()()
        return event, after

    def answer(self, action: actions.Answer) -> None:
        """Resolve the answer to a request."""
        self._answers.pop(action.token).set_result(action.value)

    def answer_joins(self) -> None:
        """Answer pending requests for a subscription with the last one: nobody reads any more."""
        while True:
            try:
                event, after = self._events.get_nowait()
            except Empty:
                return
            if isinstance(event, events.Joining) and after is not None:
                after()
