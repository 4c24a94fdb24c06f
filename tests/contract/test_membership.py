"""What every `GroupMembership` promises, with and without a group.

Another one joins by a `Seated` of its own, and by a subclass of the contract that it keeps.
"""

from __future__ import annotations

from time import monotonic
from typing import ClassVar

import pytest

from coop_consumer.errors import ForeignProtocolError, MemberLostError
from coop_consumer.kafka.membership import GroupMember
from offsets import Committed
from tests.support.seated import PARTITIONS, WAIT_S, Seated, SeatedAlone, SeatedInGroup, SeatedTests
from tests.support.stock import eventually

pytestmark = pytest.mark.integration

MANY = {0: Committed(42, "coop:1:t"), 1: Committed(7, "")}


class MembershipContract(SeatedTests):
    """The promises."""

    def test_who_holds_an_assignment_is_alive_and_waits_for_nobody(self, seated: Seated) -> None:
        _, is_joining = seated.membership.answered()
        assert (seated.membership.alive(monotonic() * 1_000), is_joining) == (True, False)

    def test_its_threads_take_steps_and_none_is_told_of_once_it_has_left(
        self, seated: Seated
    ) -> None:
        began_s = monotonic()
        eventually(lambda: all(at > began_s for at in seated.membership.stepped_s().values()))
        seated.membership.leave()
        assert seated.membership.stepped_s() == {}

    def test_what_nobody_has_committed_is_told_as_none(self, seated: Seated) -> None:
        assert seated.committed() == {0: None, 1: None}

    def test_a_commit_is_found_with_its_metadata(self, seated: Seated) -> None:
        assert seated.commit(MANY, seated.generation()) is None
        assert seated.committed() == MANY

    def test_a_later_commit_replaces_the_one_before(self, seated: Seated) -> None:
        assert seated.commit(MANY, seated.generation()) is None
        assert seated.commit({1: Committed(9, "")}, seated.generation()) is None
        assert seated.committed() == {**MANY, 1: (9, "")}

    @pytest.mark.parametrize("off", [-1, 1])
    def test_a_commit_of_another_generation_stores_nothing(self, seated: Seated, off: int) -> None:
        refused = seated.commit(MANY, seated.generation() + off)
        assert isinstance(refused, MemberLostError)
        assert seated.committed() == {0: None, 1: None}

    def test_the_generation_held_is_confirmed_and_no_other(self, seated: Seated) -> None:
        generation = seated.generation()
        assert seated.confirm(generation) is None
        assert isinstance(seated.confirm(generation - 1), MemberLostError)

    def test_commits_go_on_after_a_rejoin_and_a_look_at_topics(self, seated: Seated) -> None:
        seated.rejoin()
        seated.membership.look_at_topics()
        assert seated.commit(MANY, seated.generation()) is None
        assert seated.committed() == MANY

    def test_who_has_left_gets_an_error_for_each_request_and_may_leave_again(
        self, seated: Seated
    ) -> None:
        generation = seated.generation()
        seated.membership.leave()
        seated.membership.leave()
        assert isinstance(seated.commit(MANY, generation), MemberLostError)
        assert isinstance(seated.confirm(generation), MemberLostError)
        looked_up = seated.membership.committed([(seated.topic, 0)])
        assert isinstance(looked_up.exception(WAIT_S), MemberLostError)
        assert not seated.membership.alive(monotonic() * 1_000)
        seated.membership.request_rejoin()
        seated.membership.look_at_topics()


class GroupContract(MembershipContract):
    """What a membership with other members promises besides."""

    kind: ClassVar[type[SeatedInGroup]]

    def test_a_member_is_told_its_generation_with_the_bytes_that_its_leader_made(
        self, seated: SeatedInGroup
    ) -> None:
        held = seated.wait_for("assigned")
        [plan] = seated.lead_assign({seated.topic: PARTITIONS}, [_member(held.member_id)]).values()
        assert held.user_data == plan.user_data
        assert held.partitions == {seated.topic: (0, 1)}
        assert held.generation > 0

    def test_a_rejoin_brings_a_new_generation_that_fences_the_one_before(
        self, seated: SeatedInGroup
    ) -> None:
        old = seated.generation()
        seated.rejoin()
        new = seated.generation()
        assert new > old
        assert isinstance(seated.commit({0: Committed(5, "")}, old), MemberLostError)
        assert seated.commit(MANY, new) is None
        assert seated.committed() == MANY
        assert [kind for kind, _ in seated.heard] == ["assigned"] * 2, "a rejoin loses nothing"

    def test_who_is_removed_is_told_of_the_loss_and_joins_again(
        self, seated: SeatedInGroup
    ) -> None:
        old, heard = seated.generation(), len(seated.heard)
        seated.be_removed()
        assert isinstance(seated.wait_for("lost", after=heard), str)
        assert isinstance(seated.commit(MANY, old), MemberLostError)
        new = seated.wait_for("assigned", after=heard).generation
        assert seated.confirm(new) is None
        assert [kind for kind, _ in seated.heard] == ["assigned", "lost", "assigned"]

    def test_who_leaves_is_told_nothing_more(self, seated: SeatedInGroup) -> None:
        seated.membership.leave()
        assert [kind for kind, _ in seated.heard] == ["assigned"]


def _member(member_id: str) -> GroupMember:
    return GroupMember(member_id, None, (), b"")


class TestClassicProtocol(GroupContract):
    """Kafka's classic group protocol."""

    kind = SeatedInGroup


class TestAlone(MembershipContract):
    """No group: the user assigns."""

    kind = SeatedAlone

    def test_no_offset_goes_back_but_with_another_tag(self, seated: Seated) -> None:
        """Another process with other ranges of the partition may have committed meanwhile."""
        assert seated.commit({0: Committed(42, "coop:1:t")}, seated.generation()) is None
        assert seated.commit({0: Committed(41, "coop:1:t")}, seated.generation()) is None
        assert seated.committed()[0] == (42, "coop:1:t")
        assert seated.commit({0: Committed(3, "coop:2:t")}, seated.generation()) is None
        assert seated.committed()[0] == (3, "coop:2:t")

    def test_a_group_that_has_members_refuses_the_commit(self, seated: Seated) -> None:
        other = SeatedInGroup(seated.config, seated.topic)
        other.take_place()
        try:
            assert isinstance(seated.commit(MANY, seated.generation()), ForeignProtocolError)
            assert other.committed() == {0: None, 1: None}
        finally:
            other.membership.leave()
