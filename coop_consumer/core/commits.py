"""Commits: what has changed in the tenures goes to the log, one commit under way at a time. Pure.

In: trackers that changed, acknowledgements. Out: `Commit`s. A commit is due by interval, by the
number of finished records, and at once for a release; within a budget of records a second that all
members of the group share. One record a changed tenure. Upholds I2, I3, I5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from coop_consumer.core.actions import Answer, CommitLate, Level
from offsets import TenureKey, TenureRecord, encode_key, encode_value, split_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assignors import TopicPartition
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

    `finished` records are done by it for the first time. Parts below `parts_gone` get a tombstone
    in the same commit, or have had one.
    """

    tenure: Tenure
    record: TenureRecord
    entry: int
    retired: tuple[TenureKey, TenureRecord] | None
    stable: int
    parts_gone: int
    finished: int


def _recorded_stable(tenure: Tenure, record: TenureRecord) -> int:
    """The stable offset of the tenure's ranges, once the log has this record of it."""
    # The record omits foreign hashes, but the stable offset includes what is inherited of them.
    facts = tenure.facts() if tenure.blocked.foreign else record.facts
    # A record has released ranges, too, whose facts never change.
    held = [f.stable for f in facts if any(map(f.range.overlaps, tenure.ranges))]
    return min(held, default=0)


@dataclass(frozen=True, slots=True)
class _Commit:
    """A commit under way: where to, since when, and the records of tenures in it."""

    view: LogView
    sent_ms: int
    records: list[_Committed]


class Commits:
    """Decides when to commit, and keeps each view of the log to one commit at a time.

    Attributes:
        under_way: Commits that await an acknowledgement, by token, the oldest first.
    """

    def __init__(self, state: MemberState, outbox: Outbox) -> None:
        self._state = state
        self._outbox = outbox
        self.under_way: dict[int, _Commit] = {}
        self._report_late_at_ms = 0
        self._report_failed_at_ms = 0
        self._finished_since = 0
        self._asked: dict[int, dict[int, int]] = {}  # request → log partition → commit awaited
        config = state.config  # a finished record makes at most one gap range
        self._finished_max = min(config.commit_max_records, config.max_num_ranges_to_commit)

    def finished(self, count: int) -> None:
        """So many records were finished."""
        self._finished_since += count

    def next_due_ms(self) -> int | None:
        """When something may have to be committed; None: nothing has changed. O(views), mostly."""
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
        many = self._finished_since >= self._finished_max
        if many:
            self._finished_since = 0
        elif not now and not any(self._may_be_due(view) for view in state.views.values()):
            return
        for view, tenures in self._changed().values():
            due = view.schedule
            due.is_large |= many
            if not due.appending and (
                now
                or due.is_urgent
                or state.now_ms >= self._due_ms(view)
                or (due.is_large and state.now_ms >= due.earliest_ms)
            ):
                self._commit(view, tenures)

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
            self._state.actions.append(CommitLate(oldest.view.log_partition, token, waits_ms))

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
        for partition in self._state.partitions.values():
            for tenure in partition.all_tenures():
                if tenure.begun and tenure.dirty:
                    view = partition.view
                    changed.setdefault(view.log_partition, (view, []))[1].append(tenure)
        return changed

    def _commit(self, view: LogView, tenures: list[Tenure]) -> None:
        state, due = self._state, view.schedule
        due.is_urgent = due.is_large = False
        entries: Entries = []
        records: list[_Committed] = []
        for tenure in tenures:
            state.breathe()
            record = tenure.record()
            state.breathe()
            entries += next_entries(tenure, record, state.record_size.max_bytes)
            stable = _recorded_stable(tenure, record)
            records.append(
                _Committed(
                    tenure,
                    record,
                    len(entries) - 1,
                    tenure.logged.retired,
                    stable,
                    tenure.logged.parts_kept,
                    tenure.finished,
                )
            )
            if tenure.logged.retired is not None:  # behind the new name's record: never nobody's
                entries += entries_of(*tenure.logged.retired, state.record_size.max_bytes)
            tenure.dirty, tenure.finished = False, 0
        due.appending = self._outbox.commit(view, entries, self)
        self.under_way[due.appending] = _Commit(view, state.now_ms, records)
        config = state.config
        spacing_ms = state.membership.members * len(entries) * 1_000 // config.commit_budget_records
        due.earliest_ms = state.now_ms + spacing_ms
        due.due_ms = state.now_ms + max(config.commit_interval_ms, spacing_ms)
        is_idle = not state.pending()
        due.idle_due_ms = state.now_ms + max(_IDLE_INTERVAL_MS if is_idle else 0, spacing_ms)
        state.counters.commits += 1
        state.counters.commit_bytes += sum(len(v or b"") for _, v in entries)

    def appended(self, token: int, offsets: Sequence[int]) -> None:
        """The log has a commit, at these offsets: what it contains is safe."""
        commit = self.under_way.pop(token)
        view, due = commit.view, commit.view.schedule
        due.appending = 0
        if finished := sum(it.finished for it in commit.records):
            self._state.counters.committed += finished
            self._state.counters.committed_at_ms = self._state.now_ms
        for tenure, record, at, retired, stable, parts_gone, done in commit.records:
            logged = tenure.logged
            if logged.first_offset < 0:
                logged.first_offset = offsets[at]
            if record.released != logged.released or retired is not None:
                due.release_offset = max(offsets)
            if logged.retired is retired:
                logged.retired = None
            logged.parts_gone, logged.parts_kept = parts_gone, record.others
            logged.stable = stable
            logged.released = record.released
            tenure.appended(record)
            if tenure.falls.suspicion is None:
                tenure.falls.grace -= done
        for awaited in self._asked.values():
            # Tokens ascend, and a commit contains everything finished before it was built.
            if awaited.get(view.log_partition, token + 1) <= token:
                del awaited[view.log_partition]

    def append_failed(self, token: int, error: CoopConsumerError) -> None:
        """The outcome of a commit is unknown or bad: the facts stay true, commit them again."""
        commit = self.under_way.pop(token)
        view, due = commit.view, commit.view.schedule
        due.appending = 0
        due.is_urgent = False
        due.due_ms = due.idle_due_ms = due.earliest_ms = self._state.now_ms + _RETRY_MS
        for it in commit.records:
            it.tenure.dirty = True
            it.tenure.finished += it.finished
        if self._state.now_ms >= self._report_failed_at_ms:
            self._report_failed_at_ms = self._state.now_ms + _LATE_MS
            self._state.report(
                Level.WARNING,
                f"commit to the progress log, partition {view.log_partition}, failed: {error}. "
                f"Again every {_RETRY_MS} ms; nothing is lost, at worst records repeat after a "
                "crash.",
            )
