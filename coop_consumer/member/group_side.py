"""What a member hears of its group, and what it answers (see `MembershipListener`).

In: calls of the membership, on kafka-python's thread. Out: events in the inbox, subscriptions, and
plans where the member leads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import starmap
from typing import TYPE_CHECKING

from assignors import (
    WHOLE,
    AssignmentData,
    PlainMember,
    TopicPartition,
    UnknownVersionError,
    UserDataError,
    assign_plain,
    decode_assignment,
)
from coop_consumer.config import Balance, Config
from coop_consumer.core import events
from coop_consumer.core.leader import GroupMemberData, plan
from coop_consumer.core.member import MemberCore
from coop_consumer.errors import CoopConsumerError, VersionMismatchError
from coop_consumer.kafka.alone import dealt_by_broker
from coop_consumer.kafka.membership import AssignmentSnapshot, GroupMember, MemberAssignment
from coop_consumer.kafka.policies import PolicyWatch
from coop_consumer.log_events import LogEvent
from coop_consumer.member.inbox import Inbox
from coop_consumer.planning import assignor_of

if TYPE_CHECKING:
    from coop_consumer.member.ports import Say

_JOINING_TIMEOUT_S = 5.0


@dataclass(slots=True, eq=False, repr=False, kw_only=True)
class GroupSide:
    """Listens to one membership.

    Args:
        config: The member's.
        inbox: The member's.
        core: Its subscription is read on the member's thread.
        policies: What topics and groups allow, for plans.
        say: Reports a line that names the member: its level and text.
        now_ms: Unix time that never jumps.
        doubt_topics: Requests a look at the topics soon.
        accepted: Whether the group has ever given this member an assignment by its contract.
    """

    config: Config
    inbox: Inbox
    core: MemberCore
    policies: PolicyWatch
    say: Say
    now_ms: Callable[[], int]
    doubt_topics: Callable[[], None]
    accepted: bool = False
    _remarked: set[tuple[str, str]] = field(default_factory=set)
    _is_over: bool = False
    _owned: Collection[tuple[str, int]] = ()

    def end(self) -> None:
        """Stop asking the inbox, which nobody reads now: answer joins by the last subscription."""
        self._is_over = True
        self.inbox.answer_joins()

    def on_joining(self) -> bytes:
        """The next subscription. Waits for the member's thread, which never blocks for long.

        Raises:
            TimeoutError: It has not answered in 5 s.
        """
        self.policies.joining()
        if self._is_over:
            self._owned = ()
            return self.core.subscription()
        answer: Future[bytes] = Future()

        def told() -> None:
            self._owned = [(tp.topic, tp.partition) for tp in self.core.withdrawal.kept()]
            answer.set_result(self.core.subscription())

        self.inbox.tell(events.Joining(), told)
        return answer.result(_JOINING_TIMEOUT_S)

    def on_revoking(self) -> Future[object]:
        """Release everything, as a plain member may get it; done when the release is complete."""
        return self.inbox.ask(events.Withdraw)

    def owned(self) -> Collection[tuple[str, int]]:
        """The whole partitions that this member keeps through the rebalance."""
        return self._owned

    def on_assigned(self, snapshot: AssignmentSnapshot) -> None:
        """Take in an assignment."""
        if not snapshot.plain and not snapshot.user_data and snapshot.partitions:
            self.on_fatal(dealt_by_broker(self.config.group_id))
            return
        try:
            data = self._data_of(snapshot)
        except UnknownVersionError as error:  # nobody would process the ranges assigned to us
            self.on_fatal(VersionMismatchError(self.core.state.name, str(error)))
            return
        self.accepted |= not (snapshot.plain or data.refused)
        metadata = events.GroupMetadata(
            snapshot.generation, snapshot.member_id, snapshot.group_instance_id
        )
        self.inbox.tell(events.Assigned(metadata, data, plain=snapshot.plain))
        self.doubt_topics()  # the leader may have assigned anew because of a topic

    def _data_of(self, snapshot: AssignmentSnapshot) -> AssignmentData:
        if snapshot.user_data is None:
            whole = {
                TopicPartition(topic, number): (WHOLE,)
                for topic, numbers in snapshot.partitions.items()
                for number in numbers
            }
            return AssignmentData(ranges=whole)
        try:
            return decode_assignment(snapshot.user_data)
        except UnknownVersionError:
            raise
        except UserDataError as error:
            status = self.config.command("status", self.config.group_id)
            told = (
                f"its assignment cannot be read, it holds nothing ({error}). Nothing is lost. Look "
                f"for a stranger in the group, or a member of a newer version: `{status}`"
            )
            self.say(logging.ERROR, LogEvent.ASSIGNMENT_UNREADABLE, told, error=error)
            return AssignmentData()

    def on_lost(self, reason: str) -> None:
        """Note that the member lost its place in the group."""
        self.inbox.tell(events.Lost(reason))

    def on_fatal(self, error: CoopConsumerError) -> None:
        """Note that the membership has ended for good."""
        self.inbox.tell(events.Fatal(error))

    def lead_assign(
        self, partitions: Mapping[str, int], members: Sequence[GroupMember]
    ) -> Mapping[str, MemberAssignment]:
        """Plan the group's next generation, as its leader."""
        policies = self.policies.for_plan()
        made = plan(
            assignor_of(self.config),
            partitions,
            [GroupMemberData(m.member_id, m.topics, m.user_data) for m in members],
            topic_allows_sharing=policies.topic_allows_sharing(partitions),
            group_allows_sharing=self.config.accept_individual_commit and not policies.group,
            now_ms=self.now_ms(),
        )
        for note in made.notes:
            self.say(logging.WARNING, LogEvent.PLAN_LEAVES_OUT, note)
            self.doubt_topics()  # another contract may name a progress topic newer than ours
        self._remarked = {it for it in self._remarked if it[0] in made.names}
        for remark in made.remarks if self.config.balance is Balance.LOAD else ():
            if (remark.member, remark.about) not in self._remarked:
                self._remarked.add((remark.member, remark.about))
                self.say(remark.level, LogEvent.PLAN_REMARK, remark.text)
        return {
            member_id: MemberAssignment(planned.partitions, planned.user_data)
            for member_id, planned in made.members.items()
        }

    def lead_plain(
        self, partitions: Mapping[str, int], members: Sequence[GroupMember]
    ) -> Mapping[str, MemberAssignment]:
        """Plan, as leader, for a group in which some members are plain ones."""
        plain = [
            PlainMember(
                m.member_id, m.topics, m.instance_id, tuple(starmap(TopicPartition, m.owned))
            )
            for m in members
        ]
        planned = assign_plain(self.config.upgrade_from, partitions, plain)
        return {member_id: MemberAssignment(own, b"") for member_id, own in planned.items()}
