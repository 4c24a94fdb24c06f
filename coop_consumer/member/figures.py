"""The figures of a member over its runs: asked of the run at work, or read where none is.

In: what a member keeps over its runs, and the runs. Out: `MemberMetrics`, at any moment: before the
first run, between two, after the end. The member's thread makes the value while a run is at work.
Otherwise nobody writes what was counted, so any thread may read it. A `Glimpse` and stacks are of
the run at work, and there are none without one.
"""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from coop_consumer.core.glimpse import Glimpse
from coop_consumer.core.metrics import MemberMetrics, MemberPhase
from coop_consumer.errors import MemberSilentError

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.config import Config
    from coop_consumer.core.lane import Entry
    from coop_consumer.member.identity import Identity
    from coop_consumer.member.member import MemberRun
    from coop_consumer.member.runs import Runs

T = TypeVar("T")


class ShowsStacks(Protocol):
    """An executor, as far as stacks need it."""

    def stack(self, entry: Entry) -> str:
        """The stack of the handler that runs it; "" if it cannot be seen."""


ANSWER_S = 5.0
"""The member's thread answers within milliseconds, and under full load within some ten."""


def metrics_of(
    config: Config, identity: Identity, runs: Runs[MemberRun] | None, *, answer_s: float = ANSWER_S
) -> MemberMetrics:
    """The figures now; from any thread.

    Args:
        config: The member's.
        identity: What it keeps over its runs.
        runs: Its runs; None: none is at work yet.
        answer_s: How long to wait for the member's thread.

    Raises:
        MemberSilentError: The member's thread has not answered in time.
    """
    if runs is None:
        return _at_rest(config, identity, MemberPhase.STARTING)
    found = _answered(config, identity, runs.member, runs.member.metrics(), answer_s)
    if found is not None:
        return found
    is_over = runs.ended.done()
    return _at_rest(config, identity, MemberPhase.ENDED if is_over else MemberPhase.STARTING)


def glimpse_of(
    config: Config, identity: Identity, runs: Runs[MemberRun] | None, *, answer_s: float = ANSWER_S
) -> Glimpse:
    """What the member does now, for a person who looks; from any thread.

    Raises:
        MemberSilentError: The member's thread has not answered in time.
    """
    if runs is None:
        return Glimpse()
    found = _answered(config, identity, runs.member, runs.member.glimpse(), answer_s)
    return found or Glimpse()


def stack_of(
    config: Config,
    identity: Identity,
    runs: Runs[MemberRun] | None,
    executor: ShowsStacks | None,
    place: tuple[TopicPartition, int],
    *,
    answer_s: float = ANSWER_S,
) -> str:
    """The stack of the handler that runs a record; "": none does, or it cannot be seen.

    Args:
        config: The member's.
        identity: What it keeps over its runs.
        runs: Its runs; None: none is at work.
        executor: Runs the handlers.
        place: Partition and offset of the record.
        answer_s: How long to wait for the member's thread.

    Raises:
        MemberSilentError: The member's thread has not answered in time.
    """
    if runs is None or executor is None:
        return ""
    member = runs.member
    entry = _answered(config, identity, member, member.entry_at(*place), answer_s)
    return "" if entry is None else executor.stack(entry)


def _answered(
    config: Config, identity: Identity, member: MemberRun, answer: Future[T], answer_s: float
) -> T | None:
    """The answer of the member's thread; None: the member has ended."""
    awaited: list[Future[Any]] = [answer, member.ended]
    wait(awaited, answer_s, FIRST_COMPLETED)
    if answer.done():
        return answer.result()
    if not member.ended.done():
        raise MemberSilentError(config.group_id, identity.name, answer_s)
    return None


def _at_rest(config: Config, identity: Identity, phase: MemberPhase) -> MemberMetrics:
    return identity.metrics(config, phase, time.time_ns() // 1_000_000)
