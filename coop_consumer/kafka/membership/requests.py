"""Requests of a member to its group: each is answered exactly once, even if the member ends.

In: a question for the coordinator, and a function that takes its answer. Out: the answer, or an
error of ours. Before there is a coordinator, a request waits for it. After the coordinator's end, a
request fails at once. Questions run on kafka-python's IO thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

from kafka import errors as kafka_errors

from coop_consumer.errors import CoopConsumerError, MemberLostError, MembershipError
from coop_consumer.kafka.membership.coordinator import TAKEN_OVER, Coordinator
from coop_consumer.kafka.membership.errors import in_our_words
from coop_consumer.log_events import LogEvent

log = logging.getLogger(__name__)

HAS_LEFT = (
    "This member has left the group; what it had not committed comes again at the other members."
)
_NOT_STORED = "The request is given up, and it is not known to be stored; the membership goes on."

Ask: TypeAlias = Callable[[Coordinator], Coroutine[Any, Any, Any]]
OnAnswer: TypeAlias = Callable[[Any, CoopConsumerError | None], None]


class GroupRequests:
    """Takes a member's requests, over the whole life of its coordinator.

    Args:
        settings: The client's, completed.

    Attributes:
        coordinator: The one in use; None before the member connects, and after its end.
        lock: Guards `coordinator` against requests after its end.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.coordinator: Coordinator | None = None
        self.lock = threading.Lock()
        self._settings = settings
        self._early: list[tuple[Ask, OnAnswer]] | None = []  # until there is a coordinator to ask
        self._io: Any = None

    def begin(self, make: Callable[[], Coordinator], io: Any) -> None:
        """Create the coordinator, and send it all requests from now on, on this IO loop."""
        with self.lock:  # no subscription may change meanwhile
            self.coordinator, self._io = make(), io
            early, self._early = self._early, None
        for ask, answer in early or ():
            self.request(ask, answer)

    def end(self) -> Coordinator | None:
        """Stop sending requests; returns the last coordinator."""
        with self.lock:
            coordinator, self.coordinator = self.coordinator, None
            early, self._early = self._early, None
        for _, answer in early or ():
            answer(None, self._lost("it left before it had joined"))
        return coordinator

    def request(self, ask: Ask, answer: OnAnswer) -> None:
        """Run `ask` on the IO thread; `answer` gets its result or error, exactly once."""
        with self.lock:
            coordinator = self.coordinator
            if coordinator is not None:
                self._io.call_soon_with_future(self._asked, coordinator, ask, answer)
                return
            if self._early is not None:
                self._early.append((ask, answer))
                return
        answer(None, self._lost("it has left"))

    async def _asked(self, coordinator: Coordinator, ask: Ask, answer: OnAnswer) -> None:
        # If the client closes while the request is under way, this is the outcome.
        error: CoopConsumerError | None = self._lost("it left before the broker had answered")
        result = None
        try:
            result = await ask(coordinator)
            error = None
        except kafka_errors.FencedInstanceIdError as fenced:
            error = self.translated(fenced, HAS_LEFT)
            coordinator.fail(error, TAKEN_OVER)
        except Exception as failure:  # noqa: BLE001 - it is the request's answer
            is_closed = self.coordinator is not coordinator  # any error may come of that
            if not is_closed or isinstance(failure, kafka_errors.KafkaError):
                error = self.translated(failure, _NOT_STORED)
        finally:
            try:
                answer(result, error)
            except Exception as failure:
                group = self._settings["group_id"]
                extra = LogEvent.MEMBERSHIP_CALL_FAILED.extra(group=group, error=failure)
                told = (
                    "group %s: what waits for an answer of the group's coordinator has failed at "
                    "it. The member goes on, and nothing is lost; if it stands still, start it "
                    "again. Report this defect, with its traceback"
                )
                log.exception(told, group, extra=extra)

    def translated(self, error: Exception, consequence: str) -> CoopConsumerError:
        """Our error; `consequence` says what it means for the member."""
        if isinstance(error, CoopConsumerError):
            return error
        translated = in_our_words(error, self._settings, self._name()) or MembershipError(
            self._settings["group_id"], f"{type(error).__name__}: {error}", consequence
        )
        translated.__cause__ = error
        return translated

    def _lost(self, detail: str) -> MemberLostError:
        return MemberLostError(self._settings["group_id"], self._name(), detail)

    def _name(self) -> str:
        """The member id, or what this member is known by before it has one."""
        coordinator = self.coordinator
        if coordinator is not None and coordinator.snapshot is not None:
            return coordinator.snapshot.member_id
        name: str = self._settings["group_instance_id"] or self._settings["client_id"]
        return name
