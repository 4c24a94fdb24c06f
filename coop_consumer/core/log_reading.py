"""LogReading: what this member asks of the progress log, and how much of it has come. Pure.

In: parts that need the log's end, `LogRead`s. Out: `ReadLog`, `FollowLog`, views of the log as far
as they are read. Nobody acts on a prefix: a view is current when its newest question is answered in
full. A settled member reads nothing. Only this part writes what a view has read. Upholds I2, I4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignors import TopicPartition
from coop_consumer.core.actions import FollowLog, Level, ReadLog
from coop_consumer.core.announcement import AnnouncementEvent
from coop_consumer.errors import reason_of
from coop_consumer.log_events import LogEvent
from offsets import ProgressStore

if TYPE_CHECKING:
    from collections.abc import Collection

    from coop_consumer.core.blocked_read import Blockage
    from coop_consumer.core.events import Fenced, LogRead
    from coop_consumer.core.state import LogView, MemberState


_SWEEP_MS = 30_000
"""Brokers look every 10 s for transactions that have timed out."""
_AGAIN_MS = 60_000
_UNREADABLE_AGAIN_MS = 3_600_000


def told_of(blocked: Blockage) -> str:
    """Where a read is held up, since when and by whom; for people, without a full stop."""
    whose = " and ".join(sorted({run.member for run in blocked.runs})) or "somebody unknown"
    return (
        f"progress log, partition {blocked.log_partition}: a transaction of {whose} is undecided "
        f"from offset {blocked.offset} on, for {blocked.waited_ms / 1_000:.1f} s"
    )


class LogReading:
    """Reads the progress log."""

    def __init__(self, state: MemberState) -> None:
        self._state = state
        self._report_at_ms = self._refused_at_ms = 0

    def read(self, view: LogView) -> None:
        """Ask for the log's end as it is from now on."""
        asked = ReadLog(view.log_partition, view.asked)
        # An equal action of another kind would be equal, too.
        if any(type(it) is ReadLog and it == asked for it in self._state.actions):
            return  # it was asked for just now
        view.asked += 1
        self._state.actions.append(ReadLog(view.log_partition, view.asked))

    def take(self, event: LogRead) -> LogView | None:
        """Take in what was read; returns the view that has grown, if anybody asked for it."""
        view = self._state.views.get(event.log_partition)
        if view is None:
            return None
        if event.restart:
            self._forget(view)
        for record in event.records:
            view.store.apply(record)
        view.end_offset = event.end_offset
        view.complete = max(view.complete, event.complete)
        if event.complete:
            view.blocked = None
            self._count_waits()
        return view

    def _forget(self, view: LogView) -> None:
        """Records of the log are gone, also ours: read what is left, and append ours again."""
        view.store = ProgressStore(self._state.group, self._state.config.tag)
        view.complete, view.unreadable = 0, {}
        view.schedule.forget_log()
        view.announcement.move(AnnouncementEvent.FORGET)
        for partition in self._state.partitions.values():
            if partition.view is view:
                partition.agreement.forget_log()
                for tenure in partition.all_tenures():
                    tenure.dirty = True

    # ---- undecided transactions ----------------------------------------------------------------

    def blocked(self, blocked: Blockage) -> None:
        """A read waits for undecided transactions; report one that no broker will end."""
        state, view = self._state, self._state.views.get(blocked.log_partition)
        if view is None:
            return
        view.blocked = blocked
        self._count_waits()
        is_hanging = blocked.waited_ms >= state.config.transaction_timeout_ms + _SWEEP_MS
        if is_hanging and state.now_ms >= self._report_at_ms:
            self._report_at_ms = state.now_ms + _AGAIN_MS
            config = state.config
            place = f"--topic {config.progress_log} --partition {blocked.log_partition}"
            state.report(
                Level.ERROR,
                LogEvent.TRANSACTION_HANGS,
                f"{told_of(blocked)}. Brokers end a transaction after transaction.timeout.ms; this "
                "one hangs (KAFKA-12671). Nothing is lost, but no range begins behind it until "
                "somebody ends it: kafka-transactions.sh --bootstrap-server "
                f"{config.bootstrap_servers} abort {place} --start-offset {blocked.offset}",
                tp=TopicPartition(config.progress_log, blocked.log_partition),
                offset=blocked.offset,
            )

    def _count_waits(self) -> None:
        """Note since when the oldest read waits. Between two looks of a read no time counts."""
        waits = [
            it.blocked.waited_ms for it in self._state.views.values() if it.blocked is not None
        ]
        counters, waited_ms = self._state.counters, max(waits, default=0)
        counters.log_undecided_since_ms = self._state.now_ms - waited_ms if waits else 0

    def fenced(self, event: Fenced) -> None:
        """Transactions of runs that are gone were ended, or could not be."""
        state = self._state
        if event.error is None:
            state.counters.fences += len(event.runs)
            named = ", ".join(f"{run.member} ({run.incarnation:x})" for run in event.runs)
            state.report(
                Level.INFO,
                LogEvent.TRANSACTION_FENCED,
                f"fenced {named}, not in the group any more: no transaction of it is open now, "
                "so no reader waits for one",
            )
        elif state.now_ms >= self._refused_at_ms:
            self._refused_at_ms = state.now_ms + _AGAIN_MS
            state.report(
                Level.WARNING,
                LogEvent.TRANSACTION_NOT_FENCED,
                "the open transaction of a member that is gone cannot be ended "
                f"({reason_of(event.error)}). Ranges wait until brokers end it, after "
                "transaction.timeout.ms and 10 s; nothing is lost. If the right is missing, allow "
                "Write on its transactional.id.",
                error=event.error,
            )

    def follow(self, views: Collection[LogView]) -> None:
        """Follow the log in these views, and no longer in others."""
        for view in self._state.views.values():
            follows = view in views
            if follows != view.following:
                view.following = follows
                self._state.actions.append(FollowLog(view.log_partition, follows))

    def begin_anew(self) -> None:
        """The reader has a new client: ask it again for whatever was not answered."""
        for view in self._state.views.values():
            view.following = False  # asked for anew, where it is wanted
            if view.asked != view.complete:
                self.read(view)

    def report_unreadable(self, view: LogView) -> None:
        """Count what the log holds that we cannot read, and so pass over; say it once a reason.

        While more come, it is said again every hour: a stranger may write one with each breath.
        """
        reasons = view.store.unreadable
        news = {why: count - view.unreadable.get(why, 0) for why, count in reasons.items()}
        if not any(news.values()):
            return
        view.unreadable = reasons
        self._state.counters.unreadable += sum(news.values())
        self._state.tally.unreadable.update(news)
        now_ms, dues = self._state.now_ms, view.unreadable_due_ms
        due = [why for why, count in news.items() if count and now_ms >= dues.get(why, 0)]
        if not due:
            return
        dues.update(dict.fromkeys(due, now_ms + _UNREADABLE_AGAIN_MS))
        told = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        meaning = (
            "What they tell of a member's progress ends this group; anything else is passed over."
            if self._state.config.exactly_once
            else "Passed over: what they tell is done again, nothing is lost."
        )
        self._state.report(
            Level.WARNING,
            LogEvent.PROGRESS_LOG_UNREADABLE,
            f"progress log, partition {view.log_partition}: cannot read {told}. {meaning} "
            "If members of a newer version run, upgrade this one; else look for a stranger who "
            "writes to the progress topic.",
            tp=TopicPartition(self._state.config.progress_log, view.log_partition),
        )
