"""`auto.offset.reset=latest` is for a topic that is new to the group, and for nothing else.

The story: a living group read a topic with `latest`, and the topic got a partition. The first
hundred records of that partition were written before the group had noticed it, and never processed.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from assignors import WHOLE, AssignmentData, TopicPartition
from coop_consumer.core import actions, events
from coop_consumer.errors import BrokerUnreachableError
from coop_consumer.status.history import beginning
from coop_consumer.status.seen import GroupSeen, PartitionSeen
from offsets import (
    Committed,
    MemoryLog,
    ProgressStore,
    TopicStartKey,
    TopicStartRecord,
    decode_key,
    encode_key,
    encode_value,
)
from tests.unit.core_member import GROUP, T0, TO_LOG, TOPIC_ID, TableMember, tag

T1 = TopicPartition("t", 1)
NEW_ID = b"id-made-again---"
END = 70
LOST = BrokerUnreachableError("table:9092", "no answer")


def member(
    name: str = "m1",
    *,
    log: MemoryLog | None = None,
    partitions: int = 1,
    topic_id: bytes = TOPIC_ID,
    committed: Committed | None = None,
    beside: Committed | None = None,
    kept_back: Iterable[type] = (),
) -> TableMember:
    """One with `latest`, of a topic whose partitions end at 70; `beside` is committed of `t-1`."""
    found = TableMember(
        name, log=log, committed=committed, kept_back=kept_back, auto_offset_reset="latest"
    )
    found.tell(events.TopicsKnown({"t": (topic_id, partitions)}))
    found.committed_beside = {T1: beside} if beside else {}
    found.end = END
    return found


def give(a_member: TableMember, *partitions: TopicPartition) -> None:
    """A generation gives it these partitions, whole."""
    generation = max(a_member.core.state.membership.generation, 0) + 1
    a_member.tell(events.Joining())
    data = AssignmentData(ranges=dict.fromkeys(partitions, (WHOLE,)), lead=a_member.name)
    a_member.tell(events.Assigned(events.GroupMetadata(generation), data))


def begun(a_member: TableMember) -> dict[TopicPartition, int]:
    """Where it began with each partition."""
    return {start.tp: start.offset for start in a_member.told(actions.StartStream)}


def starts(log: MemoryLog) -> list[tuple[bytes, int]]:
    """The records of topics' starts: topic id, number of partitions."""
    found, store = [], ProgressStore(GROUP)
    for record in log.read(0, 1_000).records:
        store.apply(record)
        if isinstance(decode_key(record.key), TopicStartKey):
            assert record.value is not None
            one = ProgressStore(GROUP)
            one.apply(record)
            start = one.topic_start("t")
            assert start is not None
            found.append((start.topic_id, start.partitions))
    return found


def append_start(log: MemoryLog, topic_id: bytes, partitions: int, writer: str = "other") -> None:
    key = encode_key(TopicStartKey(GROUP, "t", writer))
    log.append(key, encode_value(TopicStartRecord(topic_id, partitions)))


def test_a_topic_that_is_new_to_the_group_begins_at_its_end() -> None:
    first = member(partitions=2)
    give(first, T0, T1)
    assert begun(first) == {T0: END, T1: END}
    assert starts(first.log) == [(TOPIC_ID, 2)]
    assert first.committed == Committed(END, tag(1))


def test_a_partition_that_is_added_later_begins_at_its_first_record() -> None:
    first = member()
    give(first, T0)
    first.tell(events.TopicsKnown({"t": (TOPIC_ID, 2)}))
    give(first, T0, T1)
    assert begun(first) == {T0: END, T1: 0}
    assert starts(first.log) == [(TOPIC_ID, 1)]


def test_a_partition_that_was_added_while_the_group_was_stopped_begins_at_its_first_record() -> (
    None
):
    first = member()
    give(first, T0)
    first.tell(events.Close())
    second = member("m2", log=first.log, partitions=2, committed=first.committed)
    give(second, T0, T1)
    assert begun(second) == {T0: END, T1: 0}


def test_a_topic_that_is_made_again_under_a_living_group_begins_at_its_first_record() -> None:
    first = member()
    give(first, T0)
    first.committed = None  # deleted with the topic
    first.tell(events.TopicsKnown({"t": (NEW_ID, 1)}))
    first.after(200)
    assert begun(first) == {T0: 0}
    assert first.committed == Committed.mirror(0, 1, NEW_ID)


def test_a_topic_that_was_made_again_while_the_group_was_stopped_begins_at_its_first_record() -> (
    None
):
    first = member()
    give(first, T0)
    first.tell(events.Close())
    second = member("m2", log=first.log, topic_id=NEW_ID, partitions=2)
    give(second, T0, T1)
    assert begun(second) == {T0: 0, T1: 0}


def test_a_late_commit_of_the_topic_before_shows_that_the_group_has_read_it() -> None:
    only = member(topic_id=NEW_ID, committed=Committed(9, tag(1)))
    give(only, T0)
    assert begun(only) == {T0: 0}


@pytest.mark.parametrize("reads_first", [False, True])
def test_members_that_start_at_once_all_begin_at_the_end(*, reads_first: bool) -> None:
    """The second one looks when the first has already committed its partition."""
    log = MemoryLog()
    kept_back = [actions.FetchCommitted] if reads_first else [actions.ReadLog]
    second = member("m2", log=log, partitions=2, kept_back=kept_back)
    give(second, T1)
    first = member("m1", log=log, partitions=2)
    give(first, T0)
    assert begun(first) == {T0: END}
    second.committed = first.committed
    second.let_go()
    second.after(200)
    assert begun(second) == {T1: END}


def test_of_a_group_that_was_taken_over_what_it_has_not_committed_begins_at_its_first_record() -> (
    None
):
    """A plain group has committed one partition; the other may be younger than the group."""
    only = member(partitions=2, committed=Committed(7, ""))
    give(only, T0, T1)
    assert begun(only) == {T0: 7, T1: 0}
    assert starts(only.log) == [(TOPIC_ID, 0)]


def test_a_group_that_began_without_the_record_gets_it_before_its_topic_is_made_again() -> None:
    first = member(committed=Committed(7, ""))
    give(first, T0)
    first.after(10_000)
    assert starts(first.log) == [(TOPIC_ID, 0)]
    first.after(10_000)
    assert len(starts(first.log)) == 1
    second = member("m2", log=first.log, topic_id=NEW_ID)
    give(second, T0)
    assert begun(second) == {T0: 0}


def test_the_first_record_in_the_log_counts_for_everybody() -> None:
    log = MemoryLog()
    append_start(log, TOPIC_ID, 1, "first")
    append_start(log, TOPIC_ID, 2, "second")
    log.append(b"", b"")  # the end of the log is never compacted
    log.compact()
    only = member(log=log, partitions=2)
    give(only, T0, T1)
    assert begun(only) == {T0: END, T1: 0}


def test_a_record_whose_acknowledgement_is_lost_is_found_in_the_log() -> None:
    only = member(kept_back=TO_LOG)
    give(only, T0)
    for append in [a for a in only.unanswered if isinstance(a, TO_LOG)]:
        only.unanswered.remove(append)
        for key, value in append.entries:
            only.log.append(key, value)
        only.tell(events.AppendFailed(append.token, LOST))
    only.let_go()
    only.after(1_000)
    assert begun(only) == {T0: END}
    assert starts(only.log) == [(TOPIC_ID, 1)]


def test_committed_offsets_that_cannot_be_read_are_asked_for_again() -> None:
    only = member(partitions=2, kept_back=[actions.FetchCommitted])
    give(only, T1)
    for _ in range(3):
        asked = [a for a in only.unanswered if isinstance(a, actions.FetchCommitted)]
        only.unanswered.clear()
        assert asked
        for fetch in asked:
            only.tell(events.CommittedUnknown(fetch.partitions))
        only.after(200)
    only.let_go()
    only.after(200)
    assert begun(only) == {T1: END}


def test_ranges_that_are_assigned_by_hand_keep_to_the_same() -> None:
    log = MemoryLog()
    append_start(log, TOPIC_ID, 1)
    only = member(log=log, partitions=2)
    only.tell(events.AssignAlone({T0: (WHOLE,), T1: (WHOLE,)}))
    assert begun(only) == {T0: END, T1: 0}


def test_the_record_stays_when_the_log_is_cleared() -> None:
    old = member()
    give(old, T0)
    old.tell(events.Close())
    lead = member("m2", log=old.log, committed=old.committed)
    lead.assign(WHOLE, live=("m2",))
    for _ in range(5):
        lead.hear_log()
        lead.after(10_000)
    deleted = [
        decode_key(key)
        for append in lead.to_log()
        for key, value in append.entries
        if value is None
    ]
    assert deleted, "the tenure of the member that left"
    assert not [key for key in deleted if isinstance(key, TopicStartKey)]


def seen_group(
    *, partitions: int, committed: bool = False, start: TopicStartRecord | None = None
) -> GroupSeen:
    """A group without progress in `t`."""
    store = ProgressStore(GROUP)
    places = [TopicPartition("t", number) for number in range(partitions)]
    return GroupSeen(
        GROUP,
        "Empty",
        "",
        (),
        tuple(
            PartitionSeen(tp, TOPIC_ID, 5, END, None, store.partition(TOPIC_ID, tp.partition))
            for tp in places
        ),
        {},
        0,
        topics_committed=frozenset({"t"}) if committed else frozenset(),
        topic_starts={"t": start} if start else {},
    )


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (seen_group(partitions=2), [END, END]),
        (seen_group(partitions=2, committed=True), [5, 5]),
        (seen_group(partitions=2, start=TopicStartRecord(TOPIC_ID, 1)), [END, 5]),
        (seen_group(partitions=2, start=TopicStartRecord(NEW_ID, 2)), [5, 5]),
    ],
    ids=["new to the group", "the group has read it", "it has grown", "it was made again"],
)
def test_a_plan_begins_where_a_member_would(group: GroupSeen, expected: list[int]) -> None:
    assert [beginning(group, seen, "latest") for seen in group.partitions] == expected
    assert [beginning(group, seen, "earliest") for seen in group.partitions] == [5, 5]


def test_with_earliest_nobody_needs_the_record() -> None:
    only = TableMember()
    only.assign(WHOLE)
    only.after(10_000)
    assert starts(only.log) == []
