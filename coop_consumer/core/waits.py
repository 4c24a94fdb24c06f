"""Waits: why ranges of this member have not begun for long, in words. Pure.

In: the partitions with ranges that wait, and time. Out: a line after ten seconds, and every minute
from then on, that names the cause; and at any moment all that waits, for whoever asks. Of a
thousand partitions that wait, ten have a line, and one tells of the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from assignors import intersect
from coop_consumer.core.actions import Level
from coop_consumer.core.claims import tenure_of
from coop_consumer.core.log_reading import told_of
from coop_consumer.log_events import Facts, LogEvent
from coop_consumer.plain_text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assignors import KeyRange, TopicPartition, Wait
    from coop_consumer.core.notices import Notices
    from coop_consumer.core.state import MemberState, Partition

_FIRST_MS = 10_000
_AGAIN_MS = 60_000
_LINES_MAX = 10


@dataclass(frozen=True, slots=True)
class RangesWait:
    """Ranges of one partition that wait.

    Attributes:
        since_ms: Since when, by the member's clock.
        why: What they wait for, in words.
        members: Who has not released them; none if they do not wait for that.
    """

    tp: TopicPartition
    since_ms: int
    why: str
    members: tuple[str, ...] = ()


class _Cause(NamedTuple):
    """What something waits for, in words, and whose tenures that are, if any."""

    text: str
    members: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Waits:
    """Reports ranges that wait for long."""

    state: MemberState
    notices: Notices
    # since when, next reported when
    _waits: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)

    def report_due(self) -> None:
        """Report what waits, if it is time."""
        late = []
        for tp, partition in self.state.partitions.items():
            why = self._why(partition)
            if why is None:
                self._waits.pop(tp, None)
            elif (since_ms := self._late_since_ms(tp)) is not None:
                late.append((since_ms, tp, why))
        late.sort()
        for since_ms, tp, why in late[:_LINES_MAX]:
            facts = Facts(tp=tp)
            if why.members:
                facts["holder"] = ", ".join(why.members)
            self._report(f"{tp}: for {self._seconds(since_ms)} s {why.text}", facts)
        if others := late[_LINES_MAX:]:
            longest_s = self._seconds(others[0][0])
            more = counted(len(others), "more partition")
            told = f"ranges of {more} wait, for {longest_s} s at most"
            self._report(told, Facts())

    def present(self) -> tuple[RangesWait, ...]:
        """What waits now, by partition. O(what waits)."""
        found = []
        for tp, partition in sorted(self.state.partitions.items()):
            if (why := self._why(partition)) is not None:
                seen_ms, _ = self._waits.get(tp, (self.state.now_ms, 0))
                since_ms = min([seen_ms, *(it.since_ms for it in partition.waiting)])
                found.append(RangesWait(tp, since_ms, why.text, why.members))
        return tuple(found)

    def _late_since_ms(self, tp: TopicPartition) -> int | None:
        """Since when it has waited, if that is to be told now."""
        now_ms = self.state.now_ms
        since_ms, due_ms = self._waits.setdefault(tp, (now_ms, now_ms + _FIRST_MS))
        if now_ms < due_ms:
            return None
        self._waits[tp] = since_ms, now_ms + _AGAIN_MS
        return since_ms

    def _seconds(self, since_ms: int) -> int:
        return (self.state.now_ms - since_ms) // 1_000

    def _report(self, told: str, facts: Facts) -> None:
        status = self.state.config.command("status", self.state.group)
        told = f"{told}. `{status}` shows who holds what"
        self.state.report(Level.WARNING, LogEvent.RANGE_WAITS, told, **facts)

    def count(self) -> int:
        """How many ranges wait; a key that a handler blocks is one. 0: `present` has nothing."""
        return sum(map(self._count, self.state.partitions.values()))

    def _count(self, partition: Partition) -> int:
        found = sum(len(it.ranges) for it in partition.waiting)
        for tenure in partition.tenures:
            waits = not tenure.begun or self.notices.is_loading(tenure)
            found += len(tenure.ranges) if waits else len(tenure.blocked.hashes)
        return found

    def _why(self, partition: Partition) -> _Cause | None:
        if not self._count(partition):
            return None
        if partition.waiting:
            ranges = [r for item in partition.waiting for r in item.ranges]
            cause = self._cause(partition)
            return cause._replace(text=f"keys {_text(ranges)} wait for {cause.text}")
        for tenure in partition.tenures:
            if self.notices.is_loading(tenure):
                return _Cause(
                    f"keys {_text(tenure.ranges)} wait for on_ranges_assigned to return, or for "
                    "their keyed state, which is read before"
                )
            if not tenure.begun:
                return _Cause(
                    f"keys {_text(tenure.ranges)} wait for their first record in the progress log"
                )
        blocked = sum(len(tenure.blocked.hashes) for tenure in partition.tenures)
        if blocked:
            waits = [wait for tenure in partition.tenures for wait in tenure.blocked.waits]
            holders = self._holders(partition, waits)
            text = (
                f"{counted(blocked, 'key waits', 'keys wait')} for handlers that run {holders.text}"
            )
            return holders._replace(text=text)
        return None

    def _cause(self, partition: Partition) -> _Cause:
        """What ranges wait for in which nothing of ours has begun."""
        view = partition.view
        if self.state.membership.joining:
            return _Cause("the group's next assignment")
        if not (view.current and view.has_own_releases):
            number = f"partition {view.log_partition}"
            return _Cause(
                f"the progress log: {number} is not read far enough yet"
                if view.blocked is None
                else told_of(view.blocked)
            )
        if not view.announcement.is_in_log:
            name = view.announcement.state.name
            return _Cause(f"our announcement in the progress log ({name})")
        agreement = partition.agreement
        if not agreement.epoch:
            if agreement.is_asked:
                return _Cause("the group coordinator to tell the committed offset")
            return _Cause(
                f"the lead: the log is in epoch {partition.store.epoch or 0}, the committed offset "
                f"is {agreement.committed or 'none'}"
            )
        waits = [wait for item in partition.waiting for wait in item.waits]
        holders = self._holders(partition, waits)
        return holders._replace(text=f"their last owner to release them {holders.text}")

    def _holders(self, partition: Partition, waits: Iterable[Wait]) -> _Cause:
        """Whose tenures still hold something of ours, in brackets."""
        found, members = [], set[str]()
        for wait in waits:
            tenure = tenure_of(wait)
            held = partition.store.unreleased(tenure, wait.ranges)
            ours = [r for item in partition.waiting for r in item.ranges]
            ours += [r for own in partition.tenures for r in own.ranges]
            if common := intersect(held, tuple(sorted(ours))):
                found.append(f"{tenure}: {_text(common)}")
                members.add(tenure.member)
        text = f"({'; '.join(found)})" if found else "(in this process)"
        return _Cause(text, tuple(sorted(members)))


def _text(ranges: Iterable[KeyRange]) -> str:
    told = [str(key_range) for key_range in ranges]
    return " ".join(told[:3]) + (f" and {len(told) - 3} more" if len(told) > 3 else "")
