"""A member that gets many partitions at once does not look at all of them after every event."""

from __future__ import annotations

import pytest

from assignors import WHOLE, AssignmentData, TopicPartition
from coop_consumer.core import actions, events
from coop_consumer.core.settling import Settling
from coop_consumer.core.state import Partition
from coop_consumer.log_events import LogEvent
from tests.unit.core_member import TOPIC_ID, TableMember

MANY, FEW = 100, 20


def with_partitions(count: int, *kept_back: type) -> TableMember:
    """A member alone in its group, that has just got all of a topic."""
    member = TableMember(kept_back=kept_back)
    member.tell(events.TopicsKnown({"t": (TOPIC_ID, count)}))
    member.now_ms += 1_000
    member.tell(events.Joining())
    places = [TopicPartition("t", number) for number in range(count)]
    data = AssignmentData(
        ranges=dict.fromkeys(places, (WHOLE,)), lead=member.name, members=1, planned={"t": count}
    )
    member.tell(events.Assigned(events.GroupMetadata(1), data))
    return member


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Partition]:
    """The partitions at which a next step was looked for."""
    seen: list[Partition] = []
    advance = Settling._advance

    def noted(self: Settling, partition: Partition) -> None:
        seen.append(partition)
        advance(self, partition)

    monkeypatch.setattr(Settling, "_advance", noted)
    return seen


def test_many_partitions_are_looked_at_once_for_many_events(looks: list[Partition]) -> None:
    member = with_partitions(MANY, actions.ReadLog)
    looks.clear()
    for _ in range(50):
        member.tell(events.CommittedRead({}))
    assert not looks
    member.after(50)
    assert len(looks) == MANY
    member.after(1)
    assert len(looks) == MANY


def test_few_partitions_are_looked_at_after_each_event(looks: list[Partition]) -> None:
    member = with_partitions(FEW, actions.ReadLog)
    looks.clear()
    for _ in range(50):
        member.tell(events.CommittedRead({}))
    assert len(looks) == 50 * FEW


def test_all_of_many_partitions_begin_soon() -> None:
    member = with_partitions(MANY)
    for _ in range(10):
        member.after(100)
    assert len(member.core.state.assignment()) == MANY
    assert member.core.settling.is_over


def test_of_many_that_wait_ten_have_a_line_and_one_tells_of_the_others() -> None:
    member = with_partitions(MANY, actions.ReadLog)
    for _ in range(11):
        member.after(1_000)
    told = [it for it in member.told(actions.LogLine) if it.event is LogEvent.RANGE_WAITS]
    assert [it.facts.get("tp") for it in told] == [
        *(TopicPartition("t", number) for number in range(10)),
        None,
    ]
    assert told[-1].text == (
        "ranges of 90 more partitions wait, for 10 s at most. "
        "`coop-consumer status billing --bootstrap table:9092` shows who holds what"
    )
