"""The hands of a member: they carry out what the core decides, one method an action.

In: actions, on the member's thread. Out: calls of clients, executor and user. Their answers come to
the inbox as events. The hands decide nothing, and never block.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from assignors import TopicPartition
from coop_consumer.config import Config
from coop_consumer.core import actions, events
from coop_consumer.core.blocked_read import Blockage, RunId
from coop_consumer.errors import CoopConsumerError, Told
from coop_consumer.kafka.client_figures import with_figures
from coop_consumer.kafka.committer import Committer
from coop_consumer.kafka.fetcher import Fetcher
from coop_consumer.kafka.progress_log import ProgressReader
from coop_consumer.kafka.topics import Topics
from coop_consumer.kafka.transaction_check import id_of
from coop_consumer.kafka.translate import fetched_from, translated, words_of
from coop_consumer.log_events import Facts, LogEvent
from coop_consumer.member.committed_reads import CommittedReads
from coop_consumer.member.inbox import Inbox
from coop_consumer.member.offset_commits import OffsetCommits
from coop_consumer.member.range_calls import RangeCalls
from coop_consumer.member.topic_side import TopicSide
from coop_consumer.tracebacks import traceback_of
from offsets import Committed

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from coop_consumer.executors import Executor
    from coop_consumer.member.ports import GroupMembership, Say

_REPORT_S = 60.0


@dataclass(eq=False, repr=False, kw_only=True)
class Hands:
    """The clients of one member that is at work.

    Args:
        config: The member's.
        inbox: Where answers go.
        topics: Its admin client asks for ends and offsets.
        side: Hears of anything strange that the clients find in topics.
        membership: Its seat in the group.
        executor: Runs its handlers.
        range_calls: Calls the user about ranges.
        committer: Takes what goes to the progress log, and the effects that must come first.
        say: Reports a line that names the member: its level and text.
        leave: Ends the member; it gets the error, or None.
    """

    config: Config
    inbox: Inbox
    topics: Topics
    side: TopicSide
    membership: GroupMembership
    executor: Executor
    range_calls: RangeCalls
    committer: Committer
    say: Say
    leave: Told

    def __post_init__(self) -> None:
        self._reader = self._new_reader()
        self._fetcher = Fetcher(
            self.config.data_plane(),
            self.side.fetched,
            self._fetch_failed,
            self.inbox.fail,
            missing=self.side.doubt,
            blocked=self.inbox.tell,
            name=f"coop-fetch-{self.config.group_id}",
            figures=self._with_figures,
            command=self.config.command,
        )
        self._fencing = threading.Lock()  # guards the next four fields
        self._to_fence: set[RunId] = set()
        self._is_fencing = False
        self._fenced: set[RunId] = set()
        self._told: set[RunId] = set()  # each run counts once
        self._committed_reads = CommittedReads(self.committed, self._committed_read)
        self._offset_commits = OffsetCommits(
            self._commit_offsets,
            lambda asked, error: self.inbox.tell(events.OffsetsCommitted(asked.token, error)),
        )
        self._unresolved_due_s = 0.0
        self._perform = self._performers()
        self.range_calls.start(self.committer)

    def _with_figures(self, settings: dict[str, Any], role: str) -> dict[str, Any]:
        return with_figures(self.config, settings, role, self.inbox.tell)

    def _new_reader(self) -> ProgressReader:
        return ProgressReader(
            self._with_figures(
                self.config.progress_reader(committed=self.config.exactly_once), "progress"
            ),
            self.config.progress_log,
            self.side.log_read,
            self.inbox.fail,
            name=f"coop-progress-{self.config.group_id}",
            refused=lambda error: self.inbox.tell(events.Fatal(error)),
            blocked=self._blocked,
            command=self.config.command,
        )

    def perform(self, action: actions.Action) -> None:
        """Carry out an action."""
        self._perform[type(action)](action)

    def stepped_s(self) -> dict[str, float]:
        """When each fetch thread took a step last. Any thread."""
        return self._fetcher.stepped_s()

    def look(self) -> None:
        """Check that the progress log still begins where it did."""
        self._reader.look()

    def close(self, *, log_lost: bool) -> None:
        """Close all clients but the membership; wait for pending appends, up to the time-out.

        Args:
            log_lost: The progress log is gone, or nobody is there to hear: pending appends are
                dropped.
        """
        self._fetcher.close()
        self._reader.close()
        self.committer.close(self.config.shutdown_timeout_ms / 1_000, lost=log_lost)
        self.range_calls.end()

    def _performers(self) -> Mapping[type, Callable[..., None]]:
        return {
            actions.StartStream: self._fetcher.start_stream,
            actions.StopStream: lambda a: self._fetcher.stop_stream(a.tp, a.stream),
            actions.HoldFetch: lambda a: self._fetcher.hold(a.hold),
            actions.HoldApart: self._fetcher.hold_apart,
            actions.RenewFetch: lambda a: self._fetcher.renew(a.consumer),
            actions.ReadLog: lambda a: self._reader.read(a.log_partition, a.read),
            actions.FollowLog: lambda a: self._reader.follow(a.log_partition, a.follow),
            actions.RenewLogReader: lambda _: self._renew_reader(),
            actions.Append: self.committer.append,
            actions.Commit: self.committer.commit,
            actions.DoubtEnded: self.committer.doubt_ended,
            actions.Fence: lambda a: self._fence_once(a.runs),
            actions.DeadLetter: self.committer.dead_letter,
            actions.FetchCommitted: lambda a: self._committed_reads.ask(a.partitions),
            actions.CommitOffsets: self._offset_commits.add,
            actions.ResolveOffset: self._resolve_offset,
            actions.ConfirmMembership: self._confirm,
            actions.AskEnds: self._ask_ends,
            actions.Rejoin: lambda a: self.rejoin(a.reason),
            actions.RangesAssigned: self._ranges_assigned,
            actions.RangesRevoked: lambda a: self.range_calls.revoked(a.tp, a.ranges),
            actions.RangesLost: lambda a: self.range_calls.lost(a.tp, a.ranges),
            actions.Answer: self.inbox.answer,
            actions.LogLine: self._report,
            actions.HandlerOverdue: self._report_overdue,
            actions.CommitLate: self._report_late,
            actions.AbandonLane: lambda a: self.executor.abandon(a.lane),
            actions.EndProcess: self._end_process,
            actions.Leave: lambda a: self.leave(a.error),
        }

    # ---- the progress log ----------------------------------------------------------------------

    def _blocked(self, blocked: Blockage) -> None:
        """A transaction holds up a read: end it, unless its member is there to do so."""
        self.inbox.tell(events.ReadBlocked(blocked))
        self.fence(blocked.runs)

    def fence(self, undecided: Collection[RunId]) -> None:
        """End the transactions of those of these runs that are not in the group. Any thread."""
        with self._fencing:
            self._to_fence |= set(undecided)
            if self._is_fencing or not self._to_fence:
                return
            runs, self._to_fence, self._is_fencing = self._to_fence, set(), True

        def told(fenced: Future[Sequence[RunId]]) -> None:
            error = fenced.exception()
            over = fenced.result() or () if error is None else ()
            with self._fencing:  # of the others the next range that begins asks once more
                self._fenced -= runs - set(over)
                self._to_fence -= set(over)  # a read that waits has asked again meanwhile
                news = [run for run in over if run not in self._told]
                self._told.update(over)
                self._is_fencing = False
            if isinstance(error, CoopConsumerError):
                self.inbox.tell(events.Fenced((), error))
            elif news:
                self.inbox.tell(events.Fenced(news))
            self.fence(())

        future = self.membership.fence(runs, lambda run: id_of(self.config, run))
        future.add_done_callback(told)

    def _fence_once(self, runs: Collection[RunId]) -> None:
        """As `fence`, but for those that were fenced before."""
        with self._fencing:
            news = set(runs) - self._fenced
            self._fenced |= news
        self.fence(news)

    def _renew_reader(self) -> None:
        self._reader.abandon()
        self._reader = self._new_reader()

    # ---- the group and its offsets -------------------------------------------------------------

    def rejoin(self, reason: str) -> None:
        """Request another generation."""
        self.say(logging.INFO, LogEvent.MEMBER_REJOINS, f"rejoining: {reason}")
        self.membership.request_rejoin()

    def _confirm(self, action: actions.ConfirmMembership) -> None:
        def seen(log_ends: Mapping[int, int]) -> None:
            def told(error: CoopConsumerError | None) -> None:
                confirmed = error is None
                self.inbox.tell(events.MembershipConfirmed(action.token, confirmed, log_ends))

            self.membership.confirm(action.generation, told)

        self._log_ends_later(action.log_partitions, seen)

    def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> Future[dict[TopicPartition, Committed | None]]:
        """Ask for the group's committed offsets and their metadata. Any thread."""
        asked = list(partitions)
        answer: Future[dict[TopicPartition, Committed | None]] = Future()

        def told(done: Future[dict[tuple[str, int], Committed | None]]) -> None:
            error = done.exception()
            if error is not None:
                answer.set_exception(error)
                return
            found = done.result()
            answer.set_result({tp: found[tp.topic, tp.partition] for tp in asked})

        future = self.membership.committed((tp.topic, tp.partition) for tp in asked)
        future.add_done_callback(told)
        return answer

    def _committed_read(
        self,
        partitions: list[TopicPartition],
        done: Future[dict[TopicPartition, Committed | None]],
    ) -> None:
        error = done.exception()
        if error is not None:
            unknown = f"committed offsets cannot be read yet: {error}"
            self.say(logging.INFO, LogEvent.OFFSETS_UNKNOWN, unknown, error=error)
            self.inbox.tell(events.CommittedUnknown(partitions))
            return
        self.inbox.tell(events.CommittedRead(done.result()))

    def _commit_offsets(
        self, offsets: Mapping[TopicPartition, Committed], generation: int, done: Told
    ) -> None:
        places = {(tp.topic, tp.partition): value for tp, value in offsets.items()}
        self.membership.commit(places, generation, done)

    # ---- ends ----------------------------------------------------------------------------------

    def _ask_ends(self, action: actions.AskEnds) -> None:
        def found(ends: Mapping[TopicPartition, int]) -> None:
            self._log_ends_later(
                action.log_partitions,
                lambda log_ends: self.inbox.tell(events.EndsTold(ends, log_ends)),
            )

        committed = self.config.isolation_level == "read_committed"
        self.topics.ends_later(action.partitions, found, committed=committed)

    def _log_ends_later(
        self, log_partitions: Iterable[int], done: Callable[[dict[int, int]], None]
    ) -> None:
        topic = self.config.progress_log
        places = {TopicPartition(topic, number): number for number in log_partitions}
        self.topics.ends_later(
            places,
            lambda ends: done({places[tp]: end for tp, end in ends.items()}),
            committed=False,
        )

    def _resolve_offset(self, action: actions.ResolveOffset) -> None:
        def told(answer: int | Exception) -> None:
            if isinstance(answer, int):
                self.inbox.tell(events.OffsetResolved(action.tp, answer))
            else:
                self._report_unresolved(action, answer)
                self.inbox.tell(events.OffsetResolved(action.tp, -1))

        self.topics.resolve_later(action.tp, action.policy, told)

    def _report_unresolved(self, action: actions.ResolveOffset, error: Exception) -> None:
        """Say so once a minute: each partition is asked ten times a second while brokers fail."""
        now_s = monotonic()
        if now_s < self._unresolved_due_s:
            return
        self._unresolved_due_s = now_s + _REPORT_S
        told = (
            f"{action.tp}: its {action.policy} offset cannot be asked ({words_of(error)}), perhaps "
            "like that of other partitions. It is asked again until it can; its records wait, and "
            "nothing is lost. Look at brokers and topic: "
            f"`{self.config.command('topic', 'describe', action.tp.topic)}`"
        )
        facts = Facts(tp=action.tp, error=error)
        self.say(logging.WARNING, LogEvent.OFFSETS_UNRESOLVED, told, **facts)

    def _fetch_failed(self, error: KafkaError, topic: str) -> None:
        where = fetched_from(error, topic, self.config.group_id)
        self.inbox.tell(events.Fatal(translated(error, where, self.config.user, "read")))

    # ---- users and operators -------------------------------------------------------------------

    def _ranges_assigned(self, action: actions.RangesAssigned) -> None:
        def told(error: CoopConsumerError | None) -> None:
            self.inbox.tell(events.RangesReady(action.token, error))

        self.range_calls.assigned(action.tp, action.ranges, after=action.after, told=told)

    def _report(self, action: actions.LogLine) -> None:
        lines_max, text = self.config.failure_traceback_lines, action.text
        if action.failure is not None and (told := traceback_of(action.failure, lines_max)):
            text = f"{text}\n{told}"
        self.say(action.level, action.event, text, **action.facts)

    def _report_overdue(self, action: actions.HandlerOverdue) -> None:
        stack = self.executor.stack(action.lane)
        doing = f"\nIt is here:\n{stack}" if stack else ""
        status = self.config.command("status", self.config.group_id)
        told = f"{action.error} `{status}` shows how the record stands.{doing}"
        self.say(logging.ERROR, LogEvent.HANDLER_OVERDUE, told, **action.facts)

    def _report_late(self, action: actions.CommitLate) -> None:
        self.say(
            logging.WARNING,
            LogEvent.COMMIT_LATE,
            f"progress log, partition {action.log_partition}: a commit has not been acknowledged "
            f"for {action.waits_ms // 1_000} s. Work goes on and nothing is lost, but a crash "
            "would repeat what was finished since. It waits for "
            f"{self.committer.waits_for(action.token)}.",
            tp=TopicPartition(self.config.progress_log, action.log_partition),
        )

    def _end_process(self, action: actions.EndProcess) -> None:
        """End the process: a thread that hangs would survive any orderly end."""
        told = f"ending the process: {action.error}"
        self.say(logging.CRITICAL, LogEvent.PROCESS_ENDS, told, error=action.error)
        logging.shutdown()
        os._exit(action.error.exit_code)
