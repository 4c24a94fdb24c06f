"""What every `GroupView` shows: of a group with members, of one that `assign` serves, of none.

Another one joins by a subclass of `ViewContract`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from assignors import TopicPartition, Wait
from coop_consumer.config import Config
from coop_consumer.kafka.group_view import CoordinatorView
from coop_consumer.kafka.topics import Topics
from coop_consumer.member.ports import GroupView
from coop_consumer.status.seen import MemberSeen
from offsets import Committed
from tests.support.seated import LOW, Seated, SeatedAlone, SeatedInGroup, SeatedTests

pytestmark = pytest.mark.integration


def view_of(config: Config) -> GroupView:
    """A stranger's view of the group."""
    topics = Topics(config)
    return CoordinatorView(config, lambda: topics.admin)


class ViewContract(SeatedTests):
    """The promises."""

    def test_all_committed_offsets_are_shown_with_their_metadata(self, seated: Seated) -> None:
        view = view_of(seated.config)
        assert view.committed() == {}
        assert seated.commit({1: Committed(42, "coop:1:t")}, seated.generation()) is None
        assert view.committed() == {TopicPartition(seated.topic, 1): (42, "coop:1:t")}


class TestGroupWithMembers(ViewContract):
    """Members by the classic protocol."""

    kind = SeatedInGroup

    def test_a_member_is_shown_with_its_ranges_and_what_they_wait_for(
        self, seated: SeatedInGroup
    ) -> None:
        seated.waits = (Wait("m0", 1, 2, TopicPartition(seated.topic, 0), (LOW,)),)
        seated.rejoin()
        shown = view_of(seated.config).described()
        assert (shown.state, shown.protocol, shown.exists) == ("Stable", "keyrange", True)
        expected = MemberSeen(
            name="m1",
            host="host-1",
            capacity=3,
            ranges=seated.ranges,
            waits=seated.waits,
            leads=True,
            contract="ordering=key",
            incarnation=7,
            topics=(seated.topic,),
        )
        (member,) = shown.members
        assert replace(member, member_id="") == expected
        assert member.member_id, "by which it can be put out"

    def test_who_has_left_is_not_shown(self, seated: SeatedInGroup) -> None:
        seated.membership.leave()
        shown = view_of(seated.config).described()
        assert (shown.state, shown.members) == ("Empty", ())


class TestGroupOfNobody(ViewContract):
    """What `assign` serves has no member."""

    kind = SeatedAlone

    def test_a_group_exists_once_something_is_committed_and_has_no_member(
        self, seated: Seated
    ) -> None:
        view = view_of(seated.config)
        assert not view.described().exists
        assert seated.commit({0: Committed(1, "")}, seated.generation()) is None
        assert (view.described().exists, view.described().members) == (True, ())
