"""The inbox: where events wait for the member's thread, and who waits for its answers. No Kafka.

In: events from any thread. Out: the next one, for the member's thread. Everything of a member that
works beside that thread knows the inbox, and nothing else of the member.
"""

from __future__ import annotations

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
    """The events of one member, in order. Any thread, where nothing else is said."""

    def __init__(self) -> None:
        self._events: SimpleQueue[tuple[events.Event, After | None]] = SimpleQueue()
        self._answers: dict[int, Future[object]] = {}
        self._tokens = count(1)
        self._waking = False

    def tell(self, event: events.Event, after: After | None = None) -> None:
        """Put an event in; `after` is called on the member's thread once the core has taken it."""
        self._events.put((event, after))

    def call(self, call: After) -> None:
        """Have the member's thread call this."""
        self._events.put((TICK, call))

    def wake(self) -> None:
        """Executors have ended something that the member should look at."""
        if not self._waking:
            self._waking = True
            self._events.put((TICK, None))

    def fail(self, error: BaseException) -> None:
        """End the member by this error: half alive it would hold ranges and process nothing."""

        def end() -> None:
            raise error

        self.call(end)

    def ask(self, request: Callable[[int], events.Request | events.Withdraw]) -> Future[object]:
        """Put a request, made with its token, before the core; its answer.

        Whoever waits has to wait for the member's end too: one that has ended answers nothing.
        """
        answer: Future[object] = Future()
        token = next(self._tokens)
        self._answers[token] = answer
        self.tell(request(token))
        return answer

    def find(self, read: Callable[[], T]) -> Future[T]:
        """What `read` finds on the member's thread. Wait for it as after `ask`."""
        answer: Future[T] = Future()
        self.call(lambda: answer.set_result(read()))
        return answer

    # ---- the member's thread -------------------------------------------------------------------

    def next(self, timeout_s: float) -> tuple[events.Event, After | None]:
        """The next event, or a tick when none has come in time."""
        try:
            event, after = self._events.get(timeout=timeout_s)
        except Empty:
            event, after = TICK, None
        if event is TICK:
            self._waking = False
        return event, after

    def answer(self, action: actions.Answer) -> None:
        """The core has answered a request."""
        self._answers.pop(action.token).set_result(action.value)

    def answer_joins(self) -> None:
        """Nobody reads on from here: who waits for a subscription gets the last one."""
        while True:
            try:
                event, after = self._events.get_nowait()
            except Empty:
                return
            if isinstance(event, events.Joining) and after is not None:
                after()
