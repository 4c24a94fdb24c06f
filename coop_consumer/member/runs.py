"""The runs of a member, one after another: after a lost progress topic, the next run begins.

Room: `coop_consumer`, below pool and consumer. In: how a run ended. Out: the next run, after a
pause, or the end. A lost progress topic costs repeats: the next run creates it again if it may, and
continues at Kafka's committed offsets. Members notice the loss one after the other, so for a while
old and new contracts meet. A member that is refused for its contract also begins another run. A
newcomer does so for half a minute only: its configuration may name another topic.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import KW_ONLY, dataclass
from time import monotonic
from typing import Generic, Protocol, TypeVar

from coop_consumer.core.contract import guarantee_the_same
from coop_consumer.errors import (
    ContractMismatchError,
    CoopConsumerError,
    LogLostForGoodError,
    MemberLostError,
    ProgressLogLostError,
    ProgressTopicError,
    RetriableError,
    TopicMissingError,
)
from coop_consumer.log_events import LogEvent

log = logging.getLogger(__name__)

PAUSE_S, PAUSE_MAX_S = 0.5, 10.0
NEWCOMER_PATIENCE_S = 30.0


class RunPort(Protocol):
    """What `Runs` asks of a run; see `coop_consumer.member.member.MemberRun`."""

    name: str
    ended: Future[CoopConsumerError | None]

    @property
    def accepted(self) -> bool:
        """Whether the group has given this run an assignment by its contract."""

    def close(self) -> None:
        """End the run in order."""


AnyRun = TypeVar("AnyRun", bound=RunPort)


@dataclass(eq=False, repr=False)
class Runs(Generic[AnyRun]):
    """Keeps a member running.

    Args:
        group: The member's group, for the log.
        member: The first run; it may be started already. Later the present run, and between two
            runs the last one.
        again: Creates and starts the next run; blocks, and raises what prevents it.
        pause_s: The first pause; each try doubles it, up to `PAUSE_MAX_S`.
        now_s: The clock.

    Attributes:
        ended: Done when no other run follows; holds the error that ended the last one, or None.
    """

    group: str
    member: AnyRun
    again: Callable[[AnyRun], AnyRun]
    _: KW_ONLY
    pause_s: float = PAUSE_S
    now_s: Callable[[], float] = monotonic

    def __post_init__(self) -> None:
        self.ended: Future[CoopConsumerError | None] = Future()
        self._closing = threading.Event()
        self._lock = threading.Lock()  # so that a close also reaches a run that begins meanwhile
        self._accepted = False
        self._pause_s = self.pause_s
        self._patient_until_s = self.now_s() + NEWCOMER_PATIENCE_S
        self.member.ended.add_done_callback(self._over)

    def close(self) -> None:
        """Close the present run, and begin no other; then `ended` is done."""
        with self._lock:
            self._closing.set()
            self.member.close()

    def goes_on_after(self, error: CoopConsumerError | None) -> bool:
        """Whether another run follows a run that ends by this error."""
        if self._closing.is_set():
            return False
        match error:
            case LogLostForGoodError():
                return False
            case ProgressLogLostError() | MemberLostError():
                return True
            case ContractMismatchError(_, theirs, ours):
                is_known = self._accepted or self.member.accepted
                is_patient = self.now_s() < self._patient_until_s
                return (is_known or is_patient) and guarantee_the_same(theirs, ours)
            case _:
                return False

    def _over(self, ended: Future[CoopConsumerError | None]) -> None:
        failure = ended.exception()
        if failure is not None:
            self.ended.set_exception(failure)
        elif self.goes_on_after(error := ended.result()):
            if self.member.accepted:
                self._accepted, self._pause_s = True, self.pause_s
            name = f"coop-runs-{self.group}"
            threading.Thread(target=self._begin, args=(error,), name=name, daemon=True).start()
        else:
            self.ended.set_result(error)

    def _begin(self, error: CoopConsumerError) -> None:
        try:
            self._begin_again(error)
        except BaseException as failure:
            extra = LogEvent.RUN_FAILED.extra(group=self.group, error=failure)
            told = (
                "group %s: no new run of the member can begin. It processes nothing any more, and "
                "nothing is lost. Start the process again, and report this, with its traceback"
            )
            log.exception(told, self.group, extra=extra)
            self.ended.set_exception(failure)

    def _begin_again(self, error: CoopConsumerError) -> None:
        while True:
            log.warning(
                "group %s, member %s: a new run begins in %g s: %s",
                self.group,
                self.member.name,
                self._pause_s,
                error,
                extra=LogEvent.RUN_BEGINS.extra(
                    group=self.group, member=self.member.name, error=error
                ),
            )
            if self._closing.wait(self._pause_s):
                self.ended.set_result(None)
                return
            self._pause_s = min(self._pause_s * 2, PAUSE_MAX_S)
            try:
                member = self.again(self.member)
            except (RetriableError, ProgressTopicError, TopicMissingError) as reason:
                error = reason
                continue
            except CoopConsumerError as reason:
                self.ended.set_result(reason)
                return
            with self._lock:
                self.member = member
                if self._closing.is_set():
                    member.close()
            member.ended.add_done_callback(self._over)
            return
