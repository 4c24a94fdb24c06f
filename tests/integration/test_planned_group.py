"""A group worked off by plans instead of members: each goes on exactly where the other stopped.

A plan is played by hand: what is left is looked up, some of it is called finished, and committed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from assignors import WHOLE, KeyRange, TopicPartition, key_hash
from coop_consumer.admin.planned import Finished, Measured, Pending, PlannedGroup
from coop_consumer.config import Config
from coop_consumer.errors import DataLossError, MisuseError, TopicMissingError
from coop_consumer.status.errors import (
    GroupInUseError,
    GroupJoinedError,
    PartitionMissingError,
    PlanOutdatedError,
)
from offsets import (
    HeavyKey,
    LoadKey,
    LoadRecord,
    OffsetRange,
    PartitionLoad,
    encode_key,
    encode_value,
)
from tests.support import stock
from tests.support.brokers import MakeTopic
from tests.support.job import Job
from tests.support.pools import refuse
from tests.support.stock import keys_of

pytestmark = pytest.mark.integration

MakeJob = Callable[..., Job]
LOW, HIGH = WHOLE.parts(2)
KEYS = keys_of(60, 12)
PARKS_AT_ONCE = {"on.failure": "park", "max.attempts": 1}


def look(orders: Job, *, until: int | None = None) -> Pending:
    ends = {} if until is None else {TopicPartition(orders.topic, 0): until}
    with PlannedGroup(Config.from_dict(orders.settings)) as group:
        [pending] = group.look([orders.topic], ends)
    return pending


def commit(orders: Job, planned: Pending, *ranges: KeyRange, writer: str = "plan-1") -> None:
    assert planned.offsets is not None
    finished = [Finished(key_range, planned.offsets, planned.done) for key_range in ranges]
    with PlannedGroup(Config.from_dict(orders.settings)) as group:
        group.commit(writer, [planned], {planned.tp: finished})


def offsets_in(key_range: KeyRange, first: int = 0) -> list[int]:
    return [i for i, key in enumerate(KEYS) if key_hash(key.encode()) in key_range and i >= first]


def test_a_member_does_exactly_what_a_plan_has_left(job: MakeJob) -> None:
    orders = job()
    orders.produce(KEYS)
    planned = look(orders, until=50)
    assert planned.offsets == OffsetRange(0, 49)
    commit(orders, planned, LOW)
    assert orders.committed() == {0: (0, "coop:1")}
    left = look(orders)
    assert [fact.stable for fact in left.done] == [50, 0]
    rest = set(offsets_in(HIGH)) | set(offsets_in(WHOLE, 50))
    assert orders.run_to_end().offsets == sorted(rest)
    assert orders.committed() == {0: (60, "coop:1")}
    assert look(orders).offsets is None


def test_a_plan_leaves_out_what_members_have_done_above_a_record_that_failed(job: MakeJob) -> None:
    orders = job(**PARKS_AT_ONCE)
    orders.produce(KEYS)
    with orders.running(handler=refuse("key-3")) as pool:
        pool.journal.wait(lambda rows: len(rows) == 55)
    orders.wait_until_empty()
    planned = look(orders)
    hash_ = key_hash(b"key-3")
    [fact] = [fact for fact in planned.done if hash_ in fact.range]
    undone = [i for i in range(60) if not fact.is_done(i)]
    assert undone == [i for i, key in enumerate(KEYS) if key == "key-3"]
    commit(orders, planned, WHOLE)
    assert orders.committed() == {0: (60, "coop:1")}
    assert orders.run_to_end().offsets == []


def test_a_plan_for_less_than_is_there_keeps_what_is_known_of_failures_above(job: MakeJob) -> None:
    orders = job(**PARKS_AT_ONCE)
    orders.produce(KEYS)
    first, later = 9, 11
    with orders.running(handler=refuse(KEYS[first], KEYS[later])) as pool:
        pool.journal.wait(lambda rows: len(rows) == 50)
    orders.wait_until_empty()
    assert sorted(orders.log.partition(orders.topic, 0).attempts()) == [first, later]
    commit(orders, look(orders, until=later), WHOLE)
    assert list(orders.log.partition(orders.topic, 0).attempts()) == [later]


def test_a_plain_groups_offset_is_taken_over_by_a_plan(job: MakeJob) -> None:
    orders = job()
    orders.produce(KEYS)
    orders.plain_visit(20)
    planned = look(orders)
    assert planned.offsets == OffsetRange(20, 59)
    commit(orders, planned, HIGH)
    assert orders.committed() == {0: (20, "coop:1")}
    assert orders.run_to_end().offsets == offsets_in(LOW, 20)


def test_latest_is_where_the_first_plan_found_it(job: MakeJob) -> None:
    orders = job(**{"auto.offset.reset": "latest"})
    orders.produce(KEYS)
    planned = look(orders)
    assert planned.offsets is None
    orders.produce(KEYS)
    with PlannedGroup(Config.from_dict(orders.settings)) as group:
        group.commit("plan-1", [planned], {})
    assert orders.committed() == {0: (60, "coop:1")}
    assert look(orders).offsets == OffsetRange(60, 119)


def test_a_plan_made_before_a_reset_commits_nothing(job: MakeJob) -> None:
    orders = job()
    orders.produce(KEYS)
    commit(orders, look(orders, until=30), WHOLE)
    planned = look(orders)
    orders.alter({0: 0})
    with pytest.raises(PlanOutdatedError, match=rf"{orders.topic}-0.*Plan again"):
        commit(orders, planned, WHOLE)
    assert orders.run_to_end().offsets == list(range(60))


def test_of_a_topic_that_is_gone_nothing_is_committed(job: MakeJob, topic: MakeTopic) -> None:
    orders = job()
    orders.produce(KEYS)
    planned = look(orders)
    gone = replace(planned, tp=TopicPartition(f"{orders.topic}-gone", 0))
    again = replace(planned, tp=TopicPartition(topic(), 0))  # of another id than was planned
    finished = {planned.tp: [Finished(WHOLE, OffsetRange(0, 59))]}
    with (
        PlannedGroup(Config.from_dict(orders.settings)) as group,
        pytest.raises(PlanOutdatedError) as raised,
    ):
        group.commit("plan-1", [planned, gone, again], finished)
    assert raised.value.partitions == tuple(sorted([str(gone.tp), str(again.tp)]))
    assert orders.committed() == {0: (60, "coop:1")}


def test_a_group_with_members_is_refused_before_and_after(job: MakeJob) -> None:
    orders = job()
    orders.produce(KEYS)
    commit(orders, look(orders, until=10), WHOLE)
    planned = look(orders, until=30)
    with orders.running(handler=refuse(*set(KEYS))) as pool:
        pool.wait_for_ranges()
        with pytest.raises(GroupInUseError, match="has 1 member "):
            look(orders)
        with pytest.raises(GroupJoinedError, match="had none when this was planned"):
            commit(orders, planned, LOW)
    orders.wait_until_empty()
    facts = orders.log.partition(orders.topic, 0).progress().clip(LOW)
    assert {fact.stable for fact in facts} == {30}
    commit(orders, planned, WHOLE)
    assert orders.committed() == {0: (30, "coop:1")}


def test_two_plans_for_the_same_are_told_of_each_other(
    job: MakeJob, caplog: pytest.LogCaptureFixture
) -> None:
    orders = job()
    orders.produce(KEYS)
    planned = look(orders)
    commit(orders, planned, LOW)
    commit(orders, planned, LOW)  # the same one again
    assert "somebody else has finished" not in caplog.text
    commit(orders, planned, WHOLE, writer="plan-2")
    assert "somebody else has finished some of them, too" in caplog.text
    assert orders.committed() == {0: (60, "coop:1")}


def test_a_group_that_has_only_plans_keeps_its_log_short(job: MakeJob) -> None:
    orders = job()
    orders.produce(KEYS)
    for end in (20, 40, 60):
        planned = look(orders, until=end)
        commit(orders, planned, LOW, HIGH, writer=f"plan-{end}")
    [tenure] = orders.log.partition(orders.topic, 0).tenures()
    assert tenure.id.member == "plan-60"
    assert orders.run_to_end().offsets == []


def test_what_retention_took_is_left_out_and_counts_as_done(
    job: MakeJob, caplog: pytest.LogCaptureFixture
) -> None:
    orders = job()
    orders.produce(KEYS)
    commit(orders, look(orders, until=10), WHOLE)
    orders.delete_below(30)
    planned = look(orders)
    assert planned.lost == OffsetRange(10, 29)
    assert planned.offsets == OffsetRange(30, 59)
    assert "offsets [10-29]: removed from the log before they were processed" in caplog.text
    commit(orders, planned, LOW)
    assert orders.committed() == {0: (30, "coop:1")}


def test_under_stop_a_plan_with_a_loss_is_not_made(job: MakeJob) -> None:
    orders = job(**{"on.data.loss": "stop"})
    orders.produce(KEYS)
    commit(orders, look(orders, until=10), WHOLE)
    orders.delete_below(30)
    with pytest.raises(DataLossError, match=r"\[10-29\]"):
        look(orders)


def test_samples_measure_keys_and_values(job: MakeJob) -> None:
    orders = job()
    orders.produce(["four"] * 1_000)
    config = Config.from_dict(orders.settings)
    only = {key_hash(b"four"): 1.0}
    with PlannedGroup(config) as group:
        found = group.measure([look(orders)])
    assert found == {TopicPartition(orders.topic, 0): Measured(4 + 5, only)}


def test_what_members_have_reported_of_hashes_counts_before_samples(job: MakeJob) -> None:
    """A member that was killed has left its last report."""
    orders = job()
    orders.produce(["four"])
    orders.run_to_end()
    orders.produce(["four"] * 1_000)
    topic_id = stock.topic_id(orders.admin, orders.topic)
    report = LoadRecord(
        incarnation=1,
        at_ms=1,
        workers=1,
        busy=900,
        handler_us=1_000,
        finished=5,
        partitions=(PartitionLoad(topic_id, 0, 10**9, 5),),
        heavy=(HeavyKey(topic_id, 0, 7, 500, None),),
    )
    place = orders.log.number_of(orders.topic, 0)
    orders.log.write(place, encode_key(LoadKey(orders.group, "gone")), encode_value(report))
    pending = look(orders)
    assert pending.heavy == {7: 0.5}
    with PlannedGroup(Config.from_dict(orders.settings)) as group:
        assert group.measure([pending])[pending.tp] == Measured(4 + 5, {7: 0.5})


@pytest.mark.parametrize(
    ("until", "kind", "told"),
    [
        (("", 0, 61), MisuseError, "records end at 60 now"),
        (("", 0, -1), MisuseError, "until=-1"),
        (("", 1, 5), PartitionMissingError, "no other than 0"),
        (("other", 0, 5), MisuseError, "other, which is not planned"),
    ],
)
def test_an_end_that_cannot_be_meant_is_refused(
    job: MakeJob, until: tuple[str, int, int], kind: type[Exception], told: str
) -> None:
    orders = job()
    orders.produce(KEYS)
    place = TopicPartition(until[0] or orders.topic, until[1])
    with PlannedGroup(Config.from_dict(orders.settings)) as group:
        with pytest.raises(kind, match=told):
            group.look([orders.topic], {place: until[2]})
        with pytest.raises(TopicMissingError):
            group.look([f"{orders.topic}-missing"], {})
