"""A topic that was deleted and made again under its name inherits nothing."""

from __future__ import annotations

import pytest

from assignors import WHOLE
from coop_consumer.core import actions, events
from coop_consumer.errors import TopicRecreatedError
from offsets import BaseKey, BaseRecord, Committed, encode_key, encode_value
from tests.unit.core_member import GROUP, T0, TOPIC_ID, TableMember, tag

NEW_ID = b"id-of-the-new-t-"


def recreate(member: TableMember) -> None:
    """The topic is made again, empty; Kafka forgets the offsets of the old one."""
    member.messages.clear()
    member.committed = None
    member.tell(events.TopicsKnown({"t": (NEW_ID, 1)}))


def test_an_end_that_was_asked_of_the_old_topic_begins_nothing_in_the_new_one() -> None:
    """Its first records were passed over: a member slept while it asked for the end."""
    member = TableMember(auto_offset_reset="latest", kept_back=[actions.ResolveOffset])
    member.assign(WHOLE)
    (asked,) = member.told(actions.ResolveOffset)
    assert asked.policy == "latest"
    recreate(member)
    member.after(200)
    member.tell(events.OffsetResolved(T0, 8))
    assert member.store.epoch is None
    assert member.told(actions.ResolveOffset)[-1].policy == "earliest", (
        "it is asked again, by another rule"
    )


@pytest.fixture
def member() -> TableMember:
    """Has finished three records and committed them."""
    member = TableMember()
    member.assign(WHOLE)
    member.produce(b"a", b"b", b"c")
    member.finish_all()
    member.after(10_000)
    assert member.committed == Committed(3, tag(1))
    return member


def test_its_records_are_processed_from_the_first_one_on(member: TableMember) -> None:
    recreate(member)
    member.after(200)
    member.produce(b"a", b"b", b"c", b"d")
    assert member.finish_all() == [0, 1, 2, 3]
    member.after(10_000)
    assert member.committed == Committed.mirror(4, 1, NEW_ID)
    assert (member.store.epoch, member.store.progress().stable) == (1, 4)


def test_it_is_said_and_counts_as_a_loss(member: TableMember) -> None:
    recreate(member)
    (report,) = [r for r in member.told(actions.LogLine) if r.level is actions.Level.ERROR]
    assert "topic t was deleted and made again" in report.text


def test_it_stops_a_member_whose_policy_says_so() -> None:
    member = TableMember(on_data_loss="stop")
    member.assign(WHOLE)
    recreate(member)
    member.after(200)
    (left,) = member.told(actions.Leave)
    assert isinstance(left.error, TopicRecreatedError)


def test_a_late_commit_for_the_old_topic_is_no_decision_about_the_new_one() -> None:
    late = Committed(41, tag(3))
    member = TableMember(committed=late)
    member.tell(events.TopicsKnown({"t": (NEW_ID, 1)}))
    member.assign(WHOLE)
    assert member.committed == Committed.mirror(0, 1, NEW_ID)
    member.produce(b"a", b"b")
    assert member.finish_all() == [0, 1]


def test_what_a_handler_finishes_of_the_old_topic_says_nothing_of_the_new_one(
    member: TableMember,
) -> None:
    member.produce(b"a")
    member.start()
    recreate(member)
    member.after(200)
    member.produce(b"a", b"b", b"b", b"a", b"a")
    assert 0 not in member.start(), "the handler of the old record runs: its key waits"
    member.finish(3)  # offset 3 of the old topic; the new one has another
    assert sorted(member.finish_all()) == [0, 1, 2, 3, 4]


def test_the_same_topic_told_again_changes_nothing(member: TableMember) -> None:
    streams = len(member.told(actions.StartStream))
    member.tell(events.TopicsKnown({"t": (TOPIC_ID, 1)}))
    member.after(200)
    assert len(member.told(actions.StartStream)) == streams
    assert T0 in member.core.state.partitions


def test_a_lead_that_holds_nothing_of_it_begins_its_first_epoch(member: TableMember) -> None:
    member.assign()
    recreate(member)
    member.after(200)
    assert member.committed == Committed.mirror(0, 1, NEW_ID)


def test_an_offset_of_the_old_topic_that_kafka_takes_late_is_none_of_the_new_one(
    member: TableMember,
) -> None:
    """It has the tag of epoch 1, as the new topic has: what lies below would count as done."""
    member.kept_back = {actions.CommitOffsets}
    member.produce(b"d")
    member.finish_all()
    member.after(10_000)
    recreate(member)
    key = BaseKey(GROUP, NEW_ID, 0, 1, "another lead")
    member.log.append(encode_key(key), encode_value(BaseRecord(1, 0)))
    member.let_go()
    member.after(1_000)
    assert member.committed == Committed.mirror(0, 1, NEW_ID)
    member.produce(b"a", b"b", b"c", b"d", b"e")
    assert member.start() == [0, 1, 2, 3, 4]


# -- topics that the member had left ---------------------------------------------------------------


def test_a_topic_that_was_left_and_comes_as_another_one_is_no_loss() -> None:
    member = TableMember(on_data_loss="stop")
    member.assign(WHOLE)
    member.produce(b"a", b"b")
    member.finish_all()
    member.after(10_000)
    member.tell(events.TopicsKnown({}, frozenset({"t"})))
    member.assign()
    member.messages.clear()
    member.committed = None
    member.tell(events.TopicsKnown({"t": (NEW_ID, 1)}))
    assert not [r for r in member.told(actions.LogLine) if r.level is actions.Level.ERROR]
    member.assign(WHOLE)
    member.after(200)
    member.produce(b"a", b"b", b"c")
    assert member.finish_all() == [0, 1, 2]
    assert member.told(actions.Leave) == []


def test_a_topic_that_was_left_once_can_be_lost_later() -> None:
    member = TableMember()
    member.assign(WHOLE)
    member.tell(events.TopicsKnown({}, frozenset({"t"})))
    member.tell(events.TopicsKnown({"t": (TOPIC_ID, 1)}))
    member.tell(events.TopicsKnown({"t": (NEW_ID, 1)}))
    (report,) = [r for r in member.told(actions.LogLine) if r.level is actions.Level.ERROR]
    assert "topic t was deleted and made again" in report.text
