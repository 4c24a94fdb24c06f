"""The committer: makes durable what a commit tells, and all that the commit rests on.

In: appends and commits, as the core decides them. Out: one event for each, which says whether all
of it is durable. This is at-least-once: the user's code flushes what it has buffered, effects are
made durable, and only then the log is told. A crash in between repeats records, and loses none.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from coop_consumer.core import actions, events
from coop_consumer.core.events import Refusal
from coop_consumer.core.failure import describe
from coop_consumer.errors import (
    CoopConsumerError,
    MemberLostError,
    ProgressLogLostError,
    WorkerFlushError,
)
from coop_consumer.kafka.log_writer import LogWriter
from coop_consumer.log_filter import whatever_a_log_does

if TYPE_CHECKING:
    from coop_consumer.config import Config
    from coop_consumer.core.effects import Effect

log = logging.getLogger(__name__)

Told = Callable[[CoopConsumerError | None], None]


class EffectsWriter(Protocol):
    """Where effects go."""

    def write(self, effects: Sequence[Effect]) -> None:
        """Make these durable, those of a key in their order; blocks.

        Raises:
            CoopConsumerError: They are not. Nothing that rests on them may be committed, ever.
        """


class Committer(Protocol):
    """How a commit leaves. No call blocks but `close`."""

    def append(self, action: actions.Append) -> None:
        """Append entries that rest on nothing; answered by `Appended` or `AppendFailed`."""

    def commit(self, action: actions.Commit) -> None:
        """Commit; answered by `CommitDone` or `CommitRefused`."""

    def when_durable(self, effects: Sequence[Effect], told: Told) -> None:
        """Make durable what the user's code has buffered, and these; `told` hears how it ended."""

    def dead_letter(self, action: actions.DeadLetter) -> None:
        """Produce the record to its dead-letter topic; answered by `DeadLettered`."""

    def close(self, timeout_s: float, *, lost: bool = False) -> None:
        """Wait for what is under way, up to the time-out; `lost`: drop what waits for the log."""


class AtLeastOnce:
    """Flush, then effects, then the log.

    A thread of its own ("coop-flush") makes the first two steps, where there is one to make. So a
    slow flush holds up neither the member nor its workers. What comes while a flush runs shares the
    next one: a commit waits for a flush that *began* after it came.

    Args:
        config: The member's.
        settings: Of the Producer that writes the log.
        tell: Takes an event; any thread.
        flush: Makes durable what the user's code has buffered; None: it buffers nothing.
        effects: Where effects go; None: handlers leave none.
    """

    def __init__(
        self,
        config: Config,
        settings: dict[str, Any],
        tell: Callable[[events.Event], None],
        *,
        flush: Callable[[], object] | None = None,
        effects: EffectsWriter | None = None,
    ) -> None:
        self._config = config
        self._group = config.group_id
        self._tell = tell
        self._flush = flush
        self._effects = effects
        self._commits: set[int] = set()  # tokens under way
        self._waiting: SimpleQueue[tuple[Sequence[Effect], Told] | None] = SimpleQueue()
        self._writer = LogWriter(
            settings, config.progress_topic, self._answered, name=f"coop-commit-{self._group}"
        )
        self._thread: threading.Thread | None = None
        if flush is not None or effects is not None:
            name = f"coop-flush-{self._group}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    # ---- what leaves ---------------------------------------------------------------------------

    def append(self, action: actions.Append) -> None:
        """See `Committer`; it need not wait for a flush."""
        self._writer.append(action.log_partition, action.entries, action.token)

    def commit(self, action: actions.Commit) -> None:
        """See `Committer`."""
        token = action.token

        def told(error: CoopConsumerError | None) -> None:
            if error is None:
                self._commits.add(token)
                self._writer.append(action.log_partition, action.entries, token)
            else:
                why = Refusal.FENCED if isinstance(error, MemberLostError) else Refusal.FINAL
                self._tell(events.CommitRefused(token, error, why))

        self.when_durable(action.effects, told)

    def when_durable(self, effects: Sequence[Effect], told: Told) -> None:
        """See `Committer`."""
        if self._thread is None:
            told(None)
        else:
            self._waiting.put((effects, told))

    def _answered(self, event: events.Appended | events.AppendFailed) -> None:
        """On the writer's thread."""
        if event.token not in self._commits:
            self._tell(event)
            return
        self._commits.discard(event.token)
        if isinstance(event, events.Appended):
            self._tell(events.CommitDone(event.token, event.offsets))
            return
        why = Refusal.FINAL if event.is_final else Refusal.RETRY
        if event.is_final and isinstance(event.error, ProgressLogLostError):
            why = Refusal.LOST
        self._tell(events.CommitRefused(event.token, event.error, why))

    def dead_letter(self, action: actions.DeadLetter) -> None:
        """See `Committer`; the letter is the record as it came, whatever its handler made of it."""
        record = action.record
        letter = record.contents()
        headers: list[tuple[str, str | bytes | None]] = [
            *letter.headers,
            ("coop.error", action.error.encode()),
            ("coop.attempts", str(action.attempts).encode()),
            ("coop.topic", letter.tp.topic.encode()),
            ("coop.partition", str(letter.tp.partition).encode()),
            ("coop.offset", str(letter.offset).encode()),
            ("coop.group", self._group.encode()),
        ]
        self._writer.produce(
            self._config.dead_letter_topic_for(letter.tp.topic),
            letter.key,
            letter.value,
            headers,
            lambda error: self._tell(events.DeadLettered(record, error)),
        )

    def close(self, timeout_s: float, *, lost: bool = False) -> None:
        """See `Committer`; a flush that runs, and what waits for one, comes first."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
        self._writer.close(timeout_s, lost=lost)

    # ---- the thread that flushes ---------------------------------------------------------------

    def _run(self) -> None:
        error: CoopConsumerError | None = None
        while calls := self._next():
            # After a failure never again: a producer that has lost a message once says so once, and
            # its next flush ends well. To commit after that would be to lose what was in it.
            error = error or self._made_durable([it for effects, _ in calls for it in effects])
            for _, told in calls:
                told(error)

    def _next(self) -> list[tuple[Sequence[Effect], Told]]:
        """All that waits, as soon as something does; nothing: the end."""
        calls = []
        call = self._waiting.get()
        while call is not None:
            calls.append(call)
            try:
                call = self._waiting.get_nowait()
            except Empty:
                return calls
        if calls:
            self._waiting.put(None)  # the end comes behind them
        return calls

    def _made_durable(self, effects: Sequence[Effect]) -> CoopConsumerError | None:
        try:
            if self._flush is not None:
                self._flush()
            if self._effects is not None:
                self._effects.write(effects)
        except MemberLostError as lost:  # what it was to make safe is others' to do
            return lost
        # Whatever it is, sys.exit() too: this thread must not end while commits wait for it.
        except BaseException as cause:
            with whatever_a_log_does():
                log.exception("group %s: flush failed", self._group)
            return WorkerFlushError(self._group, describe(cause))
        return None
