"""Commits: what has changed in the tenures goes to the log, one commit under way at a time. Pure.

In: trackers that changed, acknowledgements. Out: `Commit`s. A commit is due by interval, by the
number of finished records, and at once for a release; within a budget of records a second that all
members of the group share. One record a changed tenure. Upholds I2, I3, I5.

With at least once each view of the log has commits of its own. With exactly once a commit is a
transaction of the whole member: all results, and a record of each changed tenure. What a refused
one held goes along with the next one, before all else. What became of a transaction in doubt is
read in the log. Upholds I9.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from assignors import TopicPartition
from coop_consumer.core.actions import Answer, CommitLate, DoubtEnded, Level
from coop_consumer.core.events import NO_MEMBER, CommitDone, CommitRefused, Refusal
from coop_consumer.core.state import tenures_of
from coop_consumer.core.transaction import TransactionCall
from coop_consumer.errors import TransactionAbortedError
from coop_consumer.log_events import LogEvent
from offsets import TenureKey, TenureRecord, encode_key, encode_value, split_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coop_consumer.core.effects import Result
    from coop_consumer.core.events import GroupMetadata
    from coop_consumer.core.log_reading import LogReading
    from coop_consumer.core.outbox import Entries, Outbox
    from coop_consumer.core.state import LogView, MemberState
    from coop_consumer.core.tenure import Tenure
    from coop_consumer.errors import CoopConsumerError

_RETRY_MS = 200
_IDLE_INTERVAL_MS = 100
"""An idle member commits at once, but not again so soon: it may become idle after each record."""
_LATE_MS = 10_000


def entries_of(key: TenureKey, record: TenureRecord, max_bytes: int) -> Entries:
    """The log entries of one tenure's record, or of its parts: part 0, which vouches, last."""
    first, *others = split_record(record, max_bytes)
    entries = [
        (encode_key(replace(key, part=number)), encode_value(part))
        for number, part in enumerate(others, record.others)
    ]
    return [*reversed(entries), (encode_key(key), encode_value(first))]


def next_entries(tenure: Tenure, record: TenureRecord, max_bytes: int) -> Entries:
    """The entries of a tenure's next record, and tombstones for parts that are of no use now."""
    entries = entries_of(tenure.key, record, max_bytes)
    logged = tenure.logged
    logged.parts_end += len(entries) - 1
    needless = range(logged.parts_gone, logged.parts_kept)
    return [(encode_key(replace(tenure.key, part=n)), None) for n in needless] + entries


class _Committed(NamedTuple):
    """A tenure's record in a commit: which entry it is, and whose last record follows it.

    `last` is the last entry of both, `last_key` its key. `finished` records are done by it for the
    first time. Parts below `parts_gone` get a tombstone in the same commit, or have had one.
    """

    tenure: Tenure
    record: TenureRecord
    view: LogView
    entry: int
    retired: tuple[TenureKey, TenureRecord] | None
    last: int
    last_key: TenureKey
    stable: int
    parts_gone: int
    finished: int


def _recorded_stable(tenure: Tenure, record: TenureRecord) -> int:
    """The stable offset of the tenure's ranges, once the log has this record of it."""
    # The record omits foreign hashes, but the stable offset includes what is inherited of them.
    facts = tenure.facts() if tenure.blocked.foreign and not tenure.is_void else record.facts
    # A record has released ranges, too, whose facts never change.
    held = [f.stable for f in facts if any(map(f.range.overlaps, tenure.ranges))]
    return min(held, default=0)


@dataclass(frozen=True, slots=True)
class _Commit:
    """A commit under way: since when, by which assignment, and what is in it."""

    sent_ms: int
    metadata: GroupMetadata
    records: list[_Committed]
    results: Sequence[Result]

    def views(self) -> Mapping[int, LogView]:
        """Where its records go, by log partition."""
        return {it.view.log_partition: it.view for it in self.records}


class _Doubt(NamedTuple):
    """A commit in doubt: where its entries would lie, and which read of the log tells."""

    token: int
    offsets: Sequence[int]
    witness: _Committed
    read: int


class Commits:
    """Decides when to commit, and keeps each view of the log to one commit at a time.

    Attributes:
        under_way: Commits that await an acknowledgement, by token, the oldest first.
    """

    def __init__(self, state: MemberState, outbox: Outbox, reading: LogReading) -> None:
        self._state = state
        self._outbox = outbox
        self._reading = reading
        self.under_way: dict[int, _Commit] = {}
        self._report_late_at_ms = 0
        self._report_failed_at_ms = 0
        self._finished_since = 0
        self._uncommitted_since_ms = 0  # since when something finished is not in the log
        self._doubt: _Doubt | None = None
        self._refused_by = NO_MEMBER  # the group has left the generation of this assignment
        self._asked: dict[int, dict[int, int]] = {}  # request → log partition → commit awaited
        config = state.config  # a finished record makes at most one gap range
        self._finished_max = min(config.commit_at_records, config.max_num_ranges_to_commit)

    def finished(self, count: int) -> None:
        """So many records were finished."""
        self._finished_since += count
        if count and not self._uncommitted_since_ms:
            self._uncommitted_since_ms = self._state.now_ms

    def age_ms(self) -> int:
        """How long what is finished has waited for its commit; 0: all of it is in the log."""
        sent = [it.sent_ms for it in self.under_way.values()]
        if not sent and not self._has_finished():
            return 0
        since_ms = self._uncommitted_since_ms or self._state.now_ms
        return max(self._state.now_ms - min([since_ms, *sent]), 0)

    def holds_results(self) -> bool:
        """Whether anything is finished, or has failed, that the log is not known to have."""
        sent = (it.finished for commit in self.under_way.values() for it in commit.records)
        tenures = tenures_of(self._state.partitions.values())
        is_told = not any(sent) and not self._has_finished()
        return not is_told or any(tenure.has_untold_failures for tenure in tenures)

    def _has_finished(self) -> bool:
        """Whether anything is finished that no commit has taken along."""
        return any(tenure.finished for tenure in tenures_of(self._state.partitions.values()))

    def next_due_ms(self) -> int | None:
        """When something may have to be committed; None: nothing has changed. O(views), mostly."""
        if not self._may_commit():
            return None
        now_ms, views = self._state.now_ms, self._state.views.values()
        dues = [self._due_ms(view) for view in views if not view.schedule.appending]
        if dues and min(dues) <= now_ms:  # those where nothing has changed have been due for long
            changed = self._changed().values()
            dues = [self._due_ms(view) for view, _ in changed if not view.schedule.appending]
        return min(dues, default=None)

    def _due_ms(self, view: LogView) -> int:
        """By interval; sooner once everything is finished: nothing is worth waiting for then."""
        due = view.schedule
        return due.due_ms if self._state.pending() else min(due.due_ms, due.idle_due_ms)

    def commit_due(self, *, now: bool = False) -> None:
        """Append what is due; `now`: whatever has changed."""
        state = self._state
        self._report_late()
        if not self._may_commit():
            return
        many = self._finished_since >= self._finished_max or self._outbox.effects.fills(0.5)
        if many:
            self._finished_since = 0
        elif not now and not any(self._may_be_due(view) for view in state.views.values()):
            return
        changed, due = self._changed(), []
        for view, tenures in changed.values():
            view.schedule.is_large |= many
            if self._is_due(view, now=now):
                due.append((view, tenures))
        if not state.config.exactly_once:
            for one in due:
                self._commit([one])
        elif due:
            self._commit(list(changed.values()))

    def _is_due(self, view: LogView, *, now: bool) -> bool:
        """Whether what has changed is to be committed."""
        due, now_ms = view.schedule, self._state.now_ms
        return not due.appending and (
            now
            or due.is_urgent
            or now_ms >= self._due_ms(view)
            or (due.is_large and now_ms >= due.earliest_ms)
        )

    def _may_commit(self) -> bool:
        """Whether a commit could be taken: with exactly once one at a time, by an assignment."""
        if not self._state.config.exactly_once:
            return True
        membership = self._state.membership
        is_fresh = membership.is_member and membership.metadata != self._refused_by
        return is_fresh and not self.under_way

    def _may_be_due(self, view: LogView) -> bool:
        """Whether it is due if anything has changed."""
        due, now_ms = view.schedule, self._state.now_ms
        is_late = now_ms >= due.due_ms or now_ms >= due.idle_due_ms
        return not due.appending and (is_late or due.is_urgent or due.is_large)

    def _report_late(self) -> None:
        """Say that nobody acknowledges a commit: the producer tries for minutes without a word."""
        now_ms = self._state.now_ms
        if not self.under_way or now_ms < self._report_late_at_ms:
            return
        token, oldest = next(iter(self.under_way.items()))
        waits_ms = now_ms - oldest.sent_ms
        self._report_late_at_ms = oldest.sent_ms + _LATE_MS
        if waits_ms >= _LATE_MS:
            self._report_late_at_ms = now_ms + _LATE_MS
            log_partition = next(iter(oldest.views()))
            self._state.actions.append(CommitLate(log_partition, token, waits_ms))

    # ---- commits that the user waits for -------------------------------------------------------

    def commit_now(self, token: int) -> None:
        """Commit what is finished at once; `answer_due` answers once all of it is in the log."""
        awaited, changed = {}, self._changed()
        for view in self._state.views.values():
            if view.log_partition in changed:
                view.hurry()
                awaited[view.log_partition] = self._state.token()  # a commit not yet built
            elif view.schedule.appending:
                awaited[view.log_partition] = view.schedule.appending
        self._asked[token] = awaited

    def answer_due(self) -> None:
        """Answer those whose commits are acknowledged, with the stable offsets of our ranges."""
        if not self._asked:
            return
        for token in [token for token, awaited in self._asked.items() if not awaited]:
            del self._asked[token]
            self._state.actions.append(Answer(token, self._stable()))

    def _stable(self) -> dict[TopicPartition, int]:
        return {
            tp: min(tenure.logged.stable for tenure in partition.tenures)
            for tp, partition in self._state.partitions.items()
            if partition.tenures and all(tenure.begun for tenure in partition.tenures)
        }

    # ---- how it is done ------------------------------------------------------------------------

    def _changed(self) -> dict[int, tuple[LogView, list[Tenure]]]:
        """Tenures whose records have changed, by log partition."""
        changed: dict[int, tuple[LogView, list[Tenure]]] = {}
        tenures = tenures_of(self._state.partitions.values())
        for tenure in [it for it in tenures if it.dirty and it.begun]:
            view = self._state.partitions[tenure.tp].view
            changed.setdefault(view.log_partition, (view, []))[1].append(tenure)
        return changed

    def _commit(self, changed: Sequence[tuple[LogView, list[Tenure]]]) -> None:
        state, config = self._state, self._state.config
        entries: dict[int, Entries] = {}
        records: list[_Committed] = []
        count = 0
        for view, tenures in changed:
            view.schedule.is_urgent = view.schedule.is_large = False
            of_view = entries[view.log_partition] = []
            records += [self._record(view, tenure, of_view, count) for tenure in tenures]
            count += len(of_view)
        results = self._outbox.effects.take()
        token = self._outbox.commit(entries, results, self)
        self.under_way[token] = _Commit(state.now_ms, state.membership.metadata, records, results)
        spacing_ms = state.spacing_ms(count)
        is_idle = not state.pending()
        for view, _ in changed:
            due = view.schedule
            due.appending = token
            due.earliest_ms = state.now_ms + spacing_ms
            due.due_ms = state.now_ms + max(config.commit_interval_ms, spacing_ms)
            due.idle_due_ms = state.now_ms + max(_IDLE_INTERVAL_MS if is_idle else 0, spacing_ms)
        state.counters.commits += 1
        state.counters.commit_bytes += sum(len(v or b"") for it in entries.values() for _, v in it)

    def _record(self, view: LogView, tenure: Tenure, entries: Entries, before: int) -> _Committed:
        """Add a tenure's record to the entries of a view, with so many entries before them."""
        state, retired, max_bytes = self._state, tenure.logged.retired, self._max_bytes
        state.breathe()
        record = tenure.record()
        state.breathe()
        entries += next_entries(tenure, record, max_bytes)
        entry = before + len(entries) - 1
        if retired is not None:  # behind the new name's record: never nobody's
            entries += entries_of(*retired, max_bytes)
        told = _Committed(
            tenure,
            record,
            view,
            entry,
            retired,
            before + len(entries) - 1,
            retired[0] if retired is not None else tenure.key,
            _recorded_stable(tenure, record),
            tenure.logged.parts_kept,
            tenure.finished,
        )
        tenure.dirty, tenure.finished = False, 0
        return told

    @property
    def _max_bytes(self) -> int:
        return self._state.record_size.max_bytes

    # ---- what became of it ---------------------------------------------------------------------

    def appended(self, token: int, offsets: Sequence[int]) -> None:
        """The log has a commit, at these offsets: what it contains is safe."""
        commit = self.under_way.pop(token)
        self._outbox.effects.settled(commit.results)
        if finished := sum(it.finished for it in commit.records):
            self._state.counters.committed += finished
            self._state.counters.committed_at_ms = self._state.now_ms
        self._state.tally.commit.observe((self._state.now_ms - commit.sent_ms) / 1_000)
        # What was finished before it was decided is in the log, but for what others have.
        self._uncommitted_since_ms = commit.sent_ms if self._has_finished() else 0
        for it in commit.records:
            tenure, record, logged = it.tenure, it.record, it.tenure.logged
            if logged.first_offset < 0:
                logged.first_offset = offsets[it.entry]
            if record.released != logged.released or it.retired is not None:
                it.view.schedule.release_offset = offsets[it.last]
            if logged.retired is it.retired:
                logged.retired = None
            logged.parts_gone, logged.parts_kept = it.parts_gone, record.others
            logged.stable = it.stable
            logged.released = record.released
            tenure.appended(record)
            if tenure.falls.suspicion is None:
                tenure.falls.grace -= it.finished
        for number, view in commit.views().items():
            view.schedule.appending = 0
            for awaited in self._asked.values():
                # Tokens ascend, and a commit contains everything finished before it was built.
                if awaited.get(number, token + 1) <= token:
                    del awaited[number]

    def timed(self, event: CommitDone) -> None:
        """A transaction is committed: count it, and the time that its calls took."""
        counters, steps = self._state.counters, event.steps_ms
        counters.transactions += 1
        counters.outputs += sum(it.effects.outputs for it in self.under_way[event.token].results)
        counters.effects_ms += steps.get(TransactionCall.EFFECTS, 0.0)
        counters.progress_ms += steps.get(TransactionCall.PROGRESS, 0.0)
        counters.check_ms += steps.get(TransactionCall.OFFSETS, 0.0)
        counters.commit_ms += steps.get(TransactionCall.COMMIT, 0.0)

    def refused_by_group(self, token: int) -> None:
        """The group has left the generation of a commit: another assignment comes, or none."""
        self._state.counters.transactions_refused += 1
        self._refused_by = self.under_way[token].metadata

    def taken_back(self, token: int) -> _Commit:
        """The outcome of a commit is unknown or bad: the facts stay true, commit them again."""
        commit, now_ms = self.under_way.pop(token), self._state.now_ms
        for view in commit.views().values():
            due = view.schedule
            due.appending = 0
            due.is_urgent = False
            due.due_ms = due.idle_due_ms = due.earliest_ms = now_ms + _RETRY_MS
        for it in commit.records:
            it.tenure.dirty = True
            it.tenure.finished += it.finished
        if self._state.config.exactly_once:
            self._outbox.effects.put_back(commit.results)
        else:  # they came before the log, or their writer has them still
            self._outbox.effects.settled(commit.results)
        return commit

    def append_failed(self, token: int, error: CoopConsumerError) -> None:
        """See `taken_back`; say so."""
        commit, now_ms = self.taken_back(token), self._state.now_ms
        if commit.metadata == self._refused_by:
            return  # in a rebalance that is what happens
        if self._state.config.exactly_once:
            self._state.counters.transactions_aborted += 1
        if now_ms >= self._report_failed_at_ms:
            self._report_failed_at_ms = now_ms + _LATE_MS
            log_partition = next(iter(commit.views()))
            check = self._state.config.command("doctor", "--group", self._state.group)
            self._state.report(
                Level.WARNING,
                LogEvent.COMMIT_FAILED,
                f"commit to the progress log, partition {log_partition}, failed: {error} "
                f"Again every {_RETRY_MS} ms; nothing is lost, at worst records repeat after a "
                f"crash. `{check}` checks topic, brokers and rights.",
                tp=TopicPartition(self._state.config.progress_log, log_partition),
                error=error,
            )

    # ---- in doubt ------------------------------------------------------------------------------

    def in_doubt(self, token: int, offsets: Sequence[int]) -> None:
        """Nobody says whether a commit was taken: the log does, read to its end from now on."""
        self._state.counters.transactions_in_doubt += 1
        records = self.under_way[token].records
        witness = next((it for it in records if not it.tenure.is_void), records[0])
        self._reading.read(witness.view)
        self._doubt = _Doubt(token, offsets, witness, witness.view.asked)

    def decided(self) -> CommitDone | CommitRefused | None:
        """What became of the commit in doubt, once a read of the log has told."""
        if self._doubt is None:
            return None
        token, offsets, it, read = self._doubt
        if it.view.complete < read:
            return None
        self._doubt = None
        key = it.last_key
        told = it.view.store.partition(key.topic_id, key.partition).tenures()
        found = next((tenure for tenure in told if tenure.id == key.tenure), None)
        # The lead clears a tenure that it has seen to be over, or whose member is gone.
        is_in = not it.tenure.is_void if found is None else found.last_offset >= offsets[it.last]
        self._state.actions.append(DoubtEnded(token, is_in))
        if is_in:
            return CommitDone(token, offsets)
        error = TransactionAbortedError(self._state.group, "the log has nothing of it")
        return CommitRefused(token, error, Refusal.RETRY)
