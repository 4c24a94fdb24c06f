"""A consumer's member at work, and the executor that hands out its records.

In: what to consume, questions of the user's threads. Out: answers, or what ended the member. A run
that ends by a lost progress topic is followed by another one (`member.runs`), which goes on with
what the user has subscribed to or assigned last.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, cast

from coop_consumer.core import events
from coop_consumer.core.outputs import Outputs
from coop_consumer.errors import CoopConsumerError, MisuseError
from coop_consumer.executors.manual import ManualExecutor
from coop_consumer.log_events import LogEvent
from coop_consumer.member.figures import glimpse_of, metrics_of, stack_of
from coop_consumer.member.identity import Identity
from coop_consumer.member.member import MemberRun
from coop_consumer.member.pulse import ended_health
from coop_consumer.member.runs import Runs
from coop_consumer.ops.health import Health, HealthPhase
from coop_consumer.ops.serving import OwnFeeds, served
from coop_consumer.ops.telemetry import instrumented, refuse_uninstalled, spans_of
from coop_consumer.plain_text import counted

if TYPE_CHECKING:
    from assignors import KeyRange, TopicPartition
    from coop_consumer.config import Config
    from coop_consumer.consumer.listener import RangeListener
    from coop_consumer.core.committed import CommittedOffset
    from coop_consumer.core.glimpse import Glimpse
    from coop_consumer.core.metrics import MemberMetrics
    from coop_consumer.core.snapshot import Snapshot
    from coop_consumer.kafka.output_writer import OutputWriter
    from coop_consumer.ops.actions import Operator
    from coop_consumer.ops.instruments import Source
    from coop_consumer.ops.record_spans import RecordSpans

log = logging.getLogger(__name__)

T = TypeVar("T")

NEW_ONE = "Make a new consumer"
"""What to do once a consumer is closed."""


class Consumption:
    """A member at work, run after run, with the executor that serves the user's threads.

    Args:
        config: The member's.
        topics: What it begins with.
        listener: Hears which ranges come and go.
        alone: Join no group: the user assigns ranges.

    Attributes:
        outputs: Takes what the user sends.
        member: The run under way; between two runs the one before.
        executor: Hands out the records.

    Raises:
        ConfigError: `ops.address` is in use, or a setting needs a package that is not installed.
        CoopConsumerError: Where the broker, a topic or a right is missing.
    """

    def __init__(
        self, config: Config, topics: Sequence[str], listener: RangeListener, *, alone: bool
    ) -> None:
        self._listener = listener
        self._alone = alone
        self._assigned: Mapping[TopicPartition, tuple[KeyRange, ...]] = {}
        self._identity = Identity.of(config)
        self._config = config
        self._at_work: Runs[MemberRun] | None = None  # once its first run has begun
        self._shown: Source | None = None
        refuse_uninstalled(config)
        self._ops = served(
            config,
            self.metrics,
            self.health,
            figures_of_children=str,
            operator=self._operator,
            group=self._own_group,
            glimpse=self._glimpse,
            stack=self._stack,
            calls=self._identity.breath,
        )
        if self._ops is not None:
            self._identity.tally.ops_address = self._ops.address
        try:
            self._begin(config, topics)
        except BaseException:
            self._close_ops()
            raise
        self._at_work = self._runs
        self._shown = instrumented(config, self.metrics)

    def _operator(self) -> Operator:
        # Loaded when it is needed: it has clients that no member has.
        from coop_consumer.admin.operator import MemberOperator  # noqa: PLC0415

        return MemberOperator(self._config, self)

    def _own_group(self) -> OwnFeeds:
        from coop_consumer.admin.own_group import OwnGroup  # noqa: PLC0415

        return OwnGroup(self._config)

    def _close_ops(self) -> None:
        if self._ops is not None:
            self._ops.close()
        if self._shown is not None:
            self._shown.end()

    def _begin(self, config: Config, topics: Sequence[str]) -> None:
        self._sends: OutputWriter | None = None
        self.outputs = Outputs({}, 0)
        if config.output_names:
            # Loaded when a consumer needs it.
            from coop_consumer.kafka.output_writer import OutputWriter  # noqa: PLC0415

            self._sends = OutputWriter(config, config.output_names)
        self.member = self._make(config, topics, again=False)
        if self._sends is not None:
            self.outputs = self._sends.start(self._identity.name)
        self._runs = Runs(config.group_id, self.member, self._again)
        self.executor = self._new_executor(spans_of(config, self._identity.name))
        self._runs.ended.add_done_callback(lambda _: self._end())
        self.member.start(self.executor)

    def _new_executor(self, spans: RecordSpans | None) -> ManualExecutor:
        kind: Callable[..., ManualExecutor] = ManualExecutor
        if spans is not None:
            # Loaded when a consumer needs it.
            from coop_consumer.executors.traced_manual import TracedManualExecutor  # noqa: PLC0415

            kind = partial(TracedManualExecutor, spans=spans)
        return kind(
            self.member.lanes,
            self.member.condition,
            wake=self.member.inbox.wake,
            is_ending=lambda: self._ending() is not None and not self._is_pausing(),
            is_pausing=self._is_pausing,
        )

    def _make(self, config: Config, topics: Sequence[str], *, again: bool) -> MemberRun:
        return MemberRun(
            config,
            topics,
            self._listener,
            self._identity,
            again=again,
            call_user=self._call,
            effects=() if self._sends is None else (self._sends,),
            alone=self._alone,
        )

    def _again(self, before: MemberRun) -> MemberRun:
        """The next run, by what the user has subscribed to or assigned last."""
        before.wait_for_calls()
        self.member = self._make(before.config, before.topics, again=True)
        if self._alone:
            self.member.assign(self._assigned)
        self.executor.serve(self.member.lanes, self.member.inbox.wake)
        self.member.start(self.executor)
        return self.member

    def _end(self) -> None:
        self.executor.stop()
        if self._sends is not None:
            self._sends.close()

    def _call(self, call: Callable[[], None]) -> None:
        self.executor.call(call)

    def subscribe(self, topics: Sequence[str], listener: RangeListener | None) -> None:
        """See `MemberRun.subscribe`; holds for later runs, too."""
        self.member.subscribe(topics, listener)
        self._listener = listener or self._listener

    def assign(self, ranges: Mapping[TopicPartition, tuple[KeyRange, ...]]) -> None:
        """See `MemberRun.assign`; holds for later runs, too."""
        self.member.assign(ranges)
        self._assigned = ranges

    def metrics(self) -> MemberMetrics:
        """What the member counts, and how it stands now; also after its end."""
        return metrics_of(self._config, self._identity, self._at_work)

    def _glimpse(self) -> Glimpse:
        return glimpse_of(self._config, self._identity, self._at_work)

    def _stack(self, tp: TopicPartition, offset: int) -> str:
        runs = self._at_work
        executor = None if runs is None else self.executor
        return stack_of(self._config, self._identity, runs, executor, (tp, offset))

    def health(self) -> Health:
        """How the member is; never blocks."""
        group, name, runs = self._config.group_id, self._identity.name, self._at_work
        if runs is None:
            return Health(group, name, HealthPhase.STARTING)
        if runs.ended.done():
            return ended_health(group, name, runs.ended)
        return runs.member.health()

    def snapshot(self) -> Snapshot:
        """How the member stands."""
        return self.wait_for(self.member.snapshot())

    def committed(
        self, partitions: Sequence[TopicPartition], timeout: float | None
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """What the group has committed: Kafka's own offsets, and then the progress log on top."""
        until_s = None if timeout is None else monotonic() + timeout
        offsets = self.wait_for(self.member.committed(partitions), timeout)
        left_s = None if until_s is None else max(0.0, until_s - monotonic())
        found = self.ask(partial(events.TellProgress, committed=offsets), left_s)
        return cast("dict[TopicPartition, CommittedOffset | None]", found)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Go on with every record of our ranges at or above `offset`.

        Raises:
            MisuseError: The partition does not hold this offset, or no range of it is held here.
        """
        call = f"seek({tp}, {offset})"
        low, high = self.member.bounds(tp)
        if not low <= offset <= high:
            what = f"the partition holds offsets {low} to {high - 1}"
            raise MisuseError(call, what, f"Choose {low} to {high}")
        if not self.ask(partial(events.Seek, tp=tp, offset=offset)):
            raise MisuseError(
                call,
                "no range of this partition is held here",
                "Seek a partition that assignment() lists, or call seek in on_ranges_assigned",
            )

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these partitions, and fetch nothing, until `resume`."""
        self._refuse_before_its_begin("pause()")
        self.ask(partial(events.Pause, partitions=list(partitions)))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with them."""
        self._refuse_before_its_begin("resume()")
        self.ask(partial(events.Resume, partitions=list(partitions)))

    def _refuse_before_its_begin(self, call: str) -> None:
        if self._at_work is None:  # only the page can ask so early
            raise MisuseError(call, "the consumer has not begun", "Ask again in a moment")

    def ask(self, request: Callable[[int], events.Request], timeout: float | None = None) -> object:
        """The answer to a request."""
        return self.wait_for(self.member.inbox.ask(request), timeout)

    def wait_for(self, answer: Future[T], timeout: float | None = None) -> T:
        """The answer, unless the run ends before."""
        awaited: list[Future[Any]] = [answer, self.member.ending, self.member.ended]
        wait(awaited, timeout, FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        self.refuse_if_ended("waiting for the member's answer")
        raise TimeoutError(f"no answer from the member within {timeout} s; what was asked goes on")

    def _ending(self) -> CoopConsumerError | None:
        """The error that ends the run, or has ended it."""
        return self.member.error

    def _is_pausing(self) -> bool:
        """Whether a run is over or about to be, and another follows."""
        error = self._ending()
        return error is not None and self._runs.goes_on_after(error)

    def refuse_if_ended(self, call: str, *, may_wait: bool = False) -> None:
        """Raise what ended the member, if it has ended or is about to.

        Args:
            call: Which the user has made.
            may_wait: It can wait for the next run.
        """
        ended, ending = self._runs.ended, self._ending()
        if ending is not None and not (may_wait and self._is_pausing()):
            raise ending
        if ended.done():
            error = ended.result()
            raise error or MisuseError(call, "the consumer is closed", NEW_ONE)

    def go_on_closing(self) -> None:
        """A close is under way that waits for records in hand: wait for them no more."""
        self._give_back()
        wait([self._runs.ended])

    def close(self, timeout: float) -> None:
        """Stop handing out, wait for records in hand, give back the rest, leave."""
        until_s = monotonic() + timeout
        self.executor.stop()
        self._runs.close()
        self.executor.await_empty_hands(max(0.0, until_s - monotonic()))
        self._give_back()
        try:
            error = self._runs.ended.result()  # raises a defect that has ended the member
            self.executor.make_calls()
        finally:
            self._close_ops()
        if error is not None:
            raise error

    def _give_back(self) -> None:
        given_back = self.executor.give_back()
        if given_back:
            one, more = "record in hand was not done", "records in hand were not done"
            log.info(
                "group %s: %s: given back, to come again",
                self.member.config.group_id,
                counted(given_back, one, more),
                extra=LogEvent.RECORDS_GIVEN_BACK.extra(
                    group=self.member.config.group_id, member=self.member.name
                ),
            )
