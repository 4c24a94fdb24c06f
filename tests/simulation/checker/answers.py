"""Answers to users: if a member says that all is committed, or that it has caught up, it is so.

In: requests, answers, and each member that says that it has caught up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from assignors import TopicPartition, covers, union
from tests.simulation.checker.history import History, Watched
from tests.simulation.data_log import SimMessage

if TYPE_CHECKING:
    from tests.simulation.checker.truth import Truth
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World


class AnswerCheck:
    """Judges the answers."""

    def __init__(self, world: World, truth: Truth) -> None:
        self._world, self._truth = world, truth

    def finished_by(self, shell: MemberShell) -> list[tuple[Watched, History, SimMessage]]:
        """What this member has finished of its ranges, which must be in the log once it says
        that all is committed.
        """
        held = {id(t) for p in shell.core.state.partitions.values() for t in p.tenures}
        return [
            (watched, history, message)
            for watched in self._truth.watched.values()
            if (history := watched.history.get(watched.merged[0])) is not None
            for message in watched.log.messages
            if (by := history.finished.get(message.offset())) is not None
            and id(by.tenure) in held
            and by.tenure.sought is None
        ]

    def answered(
        self, shell: MemberShell, done: Iterable[tuple[Watched, History, SimMessage]]
    ) -> None:
        """Check a member that says that all of this is committed."""
        if shell.seat is None or shell.seat.lost or not self._truth.is_orderly:
            return  # its records may have been cleared away
        for watched, history, message in done:
            epoch, progress = watched.merged
            if watched.history.get(epoch) is history:
                assert progress.is_done(message.key_hash, message.offset()), (
                    f"answer: {shell.title} says that all is committed, and "
                    f"{watched.log.tp}@{message.offset()} is not in the log"
                )

    def says_caught_up(self, shell: MemberShell) -> None:
        """Check a member that says that its assignment is processed, up to the end that it saw.

        Records that a user skipped do not count. A member that was evicted, or has not heard of a
        new topic, may err.
        """
        is_member = shell.seat is not None and not shell.seat.lost
        if not (is_member and shell.alive) or shell.core.state.membership.closing:
            return
        for tp, ranges in shell.ranges.items():
            watched, partition = self._truth.watched[tp], shell.core.state.partitions[tp]
            if partition.topic_id != watched.topic_id:
                continue
            assert tp in shell.fetcher.seen, (
                f"caught_up: {shell.title} says so, and has not seen the end of {tp}"
            )
            end, leader_epoch = shell.fetcher.seen[tp]
            begun = [tenure for tenure in partition.tenures if tenure.begun]
            held = union(r for tenure in begun for r in tenure.ranges)
            assert covers(held, ranges), (
                f"caught_up: {shell.title} says so, and has {held} of {tp} {ranges}"
            )
            for tenure in begun:
                history = self._truth.history(tenure)
                if history is None or tenure.sought is not None:
                    continue
                left = [
                    offset
                    for offset, message in history.undone.items()
                    if offset < end
                    and (message.leader_epoch() or 0) <= leader_epoch
                    and offset not in watched.lost
                    and any(message.key_hash in r for r in tenure.ranges)
                ]
                assert not left, f"caught_up: {shell.title} says so, and {left} of {tp} are left"
        self._world.happened("caught up")

    def waits_for_decision(self, tp: TopicPartition, offsets: Collection[int]) -> bool:
        """Whether each of these is parked, or behind a parked record of its key."""
        watched = self._truth.watched[tp]
        parked = self._truth.parked_in(tp)
        behind = {
            offset
            for lane in watched.by_lane.values()
            if (first := min((o for o in parked if o in lane), default=-1)) >= 0
            for offset in lane
            if offset >= first
        }
        return behind.issuperset(offsets)
