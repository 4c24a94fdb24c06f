"""A pool's worker and its surroundings: its style of being called, and its keyed state.

In: a worker, the moments of its pool, the ranges of its member. Out: calls of the worker's methods
in their order, from `setup` to `teardown`. What the worker raises is translated here.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from coop_consumer.config import ExecutorName
from coop_consumer.core.failure import describe
from coop_consumer.errors import CoopConsumerError, WorkerMethodError
from coop_consumer.log_events import LogEvent
from coop_consumer.log_filter import whatever_a_log_does
from coop_consumer.styles import refuse_state, style_of
from coop_consumer.worker import Context, Worker, checked_outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from coop_consumer.config import Config
    from coop_consumer.kafka.committer import EffectsWriter
    from coop_consumer.kafka.output_writer import OutputWriter
    from coop_consumer.kafka.transaction_client import TransactedState
    from coop_consumer.member.member import MemberRun
    from coop_consumer.member.range_calls import RangeCallbacks
    from coop_consumer.state.changelog import Changelog

log = logging.getLogger(__name__)


class WorkerSide:
    """Calls one worker, over all runs of its member.

    Args:
        worker: The worker.
        config: Its pool's configuration.
        workers: How many records, or batches, are processed at a time.
        executor: Where its records run, by name.
        fail: Ends the member by an error, in order.
        die: Ends the member by an error at once.

    Attributes:
        style: Where and how the worker's methods run.
        changelog: Keeps the worker's state; None for a worker without keyed state.
        callbacks: Notified about ranges: the worker, after its state.
        flush: Makes durable what the worker has buffered; None: it buffers nothing.
        error: The error of `teardown`; None if it raised none.

    Raises:
        MisuseError, ConfigError: The worker does not go with its executor or configuration.
    """

    def __init__(
        self,
        worker: Worker,
        config: Config,
        workers: int,
        executor: ExecutorName,
        *,
        fail: Callable[[CoopConsumerError], None],
        die: Callable[[BaseException], None],
    ) -> None:
        self.error: WorkerMethodError | None = None
        self._worker = worker
        self._group = config.group_id
        self.style = style_of(worker, config, workers, executor)
        self.style.fail, self.style.die = fail, die
        self.flush: Callable[[], object] | None = None
        if type(worker).flush is not Worker.flush:
            self.flush = self.style.flush
        self.callbacks: RangeCallbacks = self.style
        self._is_transacted = config.exactly_once
        self._sends: OutputWriter | None = None
        names = config.output_names | checked_outputs(worker)
        if names:
            # Loaded when a worker needs it, as the next one.
            from coop_consumer.kafka.output_writer import OutputWriter  # noqa: PLC0415

            self._sends = OutputWriter(config, names)
        self.changelog: Changelog | None = None
        if worker.keyed_state:
            refuse_state(config, executor)
            # Loaded when a worker needs it: it takes a member 20 ms.
            from coop_consumer.state.changelog import CallsWithState, Changelog  # noqa: PLC0415

            self.changelog = Changelog(config)
            self.callbacks = CallsWithState(self.style, self.changelog)

    @property
    def effects(self) -> Sequence[EffectsWriter]:
        """Write the worker's outputs and state before each commit; none: they go along with it."""
        if self._is_transacted:
            return ()
        state = None if self.changelog is None else self.changelog.effects
        return [writer for writer in (self._sends, state) if writer is not None]

    @property
    def transacted(self) -> TransactedState | None:
        """The worker's state, as transactions take it along; None: nothing has to go along."""
        return None if self.changelog is None else self.changelog.transacted

    def set_up(self, context: Context, topics: Collection[str]) -> None:
        """Begin to keep its state, and call its `setup`.

        Raises:
            WorkerMethodError: `setup` raised; nothing is left to end.
            CoopConsumerError: Its state cannot be kept, or a topic that it sends to cannot be
                written.
        """
        try:
            if self._sends is not None:
                context = replace(context, outputs=self._sends.start(context.member))
            if self.changelog is not None:
                context = replace(context, keyed=self.changelog.start(topics))
            self.style.start()
        except BaseException:
            self._close()
            raise
        try:
            self.style.call(self._worker.setup, context)
        except BaseException as error:  # sys.exit(0) in there would look like success
            self._end()
            if isinstance(error, KeyboardInterrupt):
                raise
            raise self.error_of("setup", error) from error

    def begin_run(self, member: MemberRun) -> None:
        """A run of the member is about to begin: the worker's state belongs to that run."""
        if self.changelog is not None:
            self.changelog.begin_again(member)

    def tear_down(self) -> None:
        """Call `teardown`; `error` keeps what it raises, as nothing is left that could fail."""
        try:
            self.style.call(self._worker.teardown)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.error = self.error_of("teardown", error)
            with whatever_a_log_does():
                extra = LogEvent.TEARDOWN_FAILED.extra(group=self._group, error=error)
                log.exception("group %s: %s", self._group, self.error, extra=extra)
        finally:
            self._end()

    def error_of(self, method: str, error: BaseException) -> WorkerMethodError:
        """The error of the worker's method, in our words."""
        return WorkerMethodError(type(self._worker).__name__, method, describe(error))

    def _end(self) -> None:
        self.style.end()
        self._close()

    def _close(self) -> None:
        if self._sends is not None:
            self._sends.close()
        if self.changelog is not None:
            self.changelog.close()
