"""Closing: a member releases everything, and leaves. Pure.

In: the wish to close, with or without an error; whether brokers are away. Out: `Leave`, once its
withdrawal is done. Upholds I2, I4: nobody leaves before its last handler has ended and what that
did is in the log. Whose log has all of that leaves brokers that are away unasked: what it would
still tell them only lets others begin sooner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.config import UpgradeFrom
from coop_consumer.core.actions import Leave, Level
from coop_consumer.core.lane import hash_of
from coop_consumer.core.record import Record, key_of
from coop_consumer.errors import (
    LogLostForGoodError,
    LogWriterBrokenError,
    ProgressLogLostError,
)
from coop_consumer.log_events import LogEvent
from coop_consumer.plain_text import counted

if TYPE_CHECKING:
    from assignors import TopicPartition
    from coop_consumer.config import LogKeys
    from coop_consumer.core.commits import Commits
    from coop_consumer.core.state import MemberState
    from coop_consumer.core.withdrawal import Withdrawal
    from coop_consumer.errors import CoopConsumerError

_PATIENCE_MS = 500
"""Most handlers end sooner: then to leave is one rebalance, not two."""
_REPORT_MS = 10_000
_NAMED_MAX = 10


@dataclass(slots=True, eq=False)
class Closing:
    """Ends a member in order.

    Attributes:
        error: Why it ends; None: it was asked to, or does not end.
        log_lost: The progress log takes no more records: there is nothing left to commit to.
        unheard: It leaves while brokers are away: what it would tell them is dropped.
    """

    state: MemberState
    withdrawal: Withdrawal
    commits: Commits
    _began_ms: int = 0
    _report_at_ms: int = 0
    _has_rejoined: bool = False
    error: CoopConsumerError | None = None
    log_lost: bool = False
    unheard: bool = False
    _away_since_ms: int | None = None

    def begin(self, error: CoopConsumerError | None) -> None:
        """Stop admitting; what runs ends, what is queued is given up."""
        state = self.state
        if state.membership.closing:
            return
        state.membership.closing = True
        self.error = error
        self._began_ms = state.now_ms
        is_away = self._away_since_ms is not None
        self._report_at_ms = state.now_ms + (0 if is_away else state.config.shutdown_timeout_ms)
        self.withdrawal.begin()

    def brokers_away(self, *, is_away: bool) -> None:
        """No broker answers from now on, or one answers again."""
        now_ms = self.state.now_ms
        self._away_since_ms = now_ms if is_away else None
        if is_away and self.state.membership.closing:
            self._report_at_ms = now_ms

    def lose_log(self, error: CoopConsumerError) -> None:
        """Close because no commit will ever be taken: to go on would only pile up repeats."""
        self.log_lost, config = True, self.state.config
        if (
            config.exactly_once
            and isinstance(error, ProgressLogLostError)
            and not isinstance(error, LogWriterBrokenError)
        ):
            remedy = (
                "Nobody can tell what became visible beyond the committed offsets, so the group "
                "stops. Decide where it goes on once all members have ended: "
                f"`{config.command('reset', config.group_id, '--to', 'committed', '--dry-run')}` "
                "says what that would repeat"
            )
            error = LogLostForGoodError(error.topic, error.problem, remedy)
        self.begin(error)
        self.error = self.error or error  # also if we were about to end in order

    def step(self) -> None:
        """Do the next step, if what it waits for is done."""
        self._rejoin_if_slow()
        is_done = not self.still_running() if self.log_lost else self.withdrawal.step()
        self.unheard = self._waits_in_vain()
        if is_done or self.unheard:
            self._leave()
        elif self.state.now_ms >= self._report_at_ms:
            self._report_late()

    def _waits_in_vain(self) -> bool:
        """Whether brokers are away that would hear nothing but that our ranges are free.

        It is worth a wait while the session lasts: others could begin at once. After that the group
        counts on us no more.
        """
        left_ms = self._away_ends_ms()
        if left_ms is None or left_ms > self.state.now_ms:
            return False
        return not self.still_running() and not self.commits.holds_results()

    def _away_ends_ms(self) -> int | None:
        """Until when it waits for brokers that are away, if all it did is in the log."""
        if self._away_since_ms is None:
            return None
        config = self.state.config
        session_ends_ms = self._away_since_ms + config.session_timeout_ms
        return min(session_ends_ms, self._began_ms + config.shutdown_timeout_ms)

    def _rejoin_if_slow(self) -> None:
        """If the last handlers take long, join once more, so that others get the rest.

        Otherwise one handler would hold up everything that was ours until it ends.
        """
        state = self.state
        is_early = state.now_ms < self._began_ms + _PATIENCE_MS
        if self._has_rejoined or is_early or not state.membership.is_member:
            return
        self._has_rejoined = True
        running = self.still_running()
        if (
            running and state.config.upgrade_from is UpgradeFrom.NONE
        ):  # plain members cannot say that they leave
            state.rejoin(
                f"leaving, but {counted(len(running), 'key still runs', 'keys still run')} here"
            )

    def _report_late(self) -> None:
        """Report what the end waits for. Nothing is abandoned."""
        state, running = self.state, self.still_running()
        self._report_at_ms = state.now_ms + max(_REPORT_MS, state.config.shutdown_timeout_ms)
        if running:
            named = ", ".join(running[:_NAMED_MAX])
            count = counted(len(running), "running record")
            text = (
                f"{count}, not abandoning them: {named}. If the process must go now, end it by a "
                "second signal: what runs comes again elsewhere, and nothing is lost"
            )
        elif self.commits.holds_results() or (ends_ms := self._away_ends_ms()) is None:
            text = "the brokers to take what is done"
        else:
            left_s = max(ends_ms - state.now_ms, 0) / 1_000
            text = (
                f"brokers, which are away, for {left_s:.0f} s more: what is done is in the log, "
                "and others could begin at once"
            )
        told = f"about to leave, still waiting for {text}"
        state.report(Level.WARNING, LogEvent.MEMBER_LEAVES_LATE, told)

    def _leave(self) -> None:
        self.state.membership.left = True
        self.state.actions.append(Leave(self.error))

    def still_running(self) -> list[str]:
        """What a close waits for: one line for each key with a running handler."""
        state = self.state
        with state.lock:  # executors end lanes meanwhile
            given_up = list(state.lanes.given_up)
        at = {
            (entry.tenure.tp, hash_of(entry)): entry if isinstance(entry, Record) else entry.at
            for entry in given_up
        }
        draining = [
            (tenure.tp, key_hash)
            for partition in state.partitions.values()
            for tenure in partition.all_tenures()
            for key_hash in sorted(tenure.draining)
        ]
        keys = state.config.log_keys
        return [_named(tp, at.get((tp, key_hash)), keys) for tp, key_hash in draining]


def _named(tp: TopicPartition, record: Record | None, keys: LogKeys) -> str:
    if record is None:  # it has just ended
        return f"{tp} a record that is about to be settled"
    return f"{tp} offset {record._offset}{key_of(record, keys)}"
