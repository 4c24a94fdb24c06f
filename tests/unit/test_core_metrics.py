"""What a member says of itself: counted by topic, sampled once a chunk, standing as of now."""

from __future__ import annotations

import pytest

from assignors import WHOLE
from coop_consumer.core import actions, events
from coop_consumer.core.metrics import MemberMetrics, MemberPhase, TopicMetrics
from tests.simulation.data_log import SimMessage
from tests.unit.core_member import HIGH, LOW, T0, TableMember, keys_in


def figures(member: TableMember) -> MemberMetrics:
    return member.core.metrics()


def topic(member: TableMember) -> TopicMetrics:
    return figures(member).topics["t"]


def worker(**settings: object) -> TableMember:
    member = TableMember(**settings)  # type: ignore[arg-type]
    member.assign(WHOLE)
    return member


def test_records_are_counted_by_topic() -> None:
    member = worker()
    member.produce(b"a", b"b", b"a")
    member.start()
    member.finish(0)

    assert topic(member).fetched == 3
    assert topic(member).finished == 1


def test_age_and_queue_stand_for_all_that_was_finished() -> None:
    member = worker()
    member.produce(b"a", b"b")
    member.start()
    member.after(2_000)
    member.finish(0)
    member.finish(1)

    queue = topic(member).queue
    assert queue.count == 2
    assert queue.sum_s == pytest.approx(4.0)


class Stamped(SimMessage):
    """A message with a timestamp; None: it has none."""

    __slots__ = ("_timestamp_ms",)

    def __init__(self, offset: int, timestamp_ms: int | None) -> None:
        super().__init__(0, offset, b"k%d" % offset)
        self._timestamp_ms = timestamp_ms

    def timestamp(self) -> tuple[int, int]:
        return (0, 0) if self._timestamp_ms is None else (1, self._timestamp_ms)


@pytest.mark.parametrize(
    ("stamps_ms", "count", "sum_s"),
    [
        ([8_000, 7_000, 6_000], 3, 12.0),
        ([None, None, 9_000], 3, 3.0),
        ([9_000, 9_000, None], 0, 0.0),
        ([None, None, None], 0, 0.0),
        ([7_000, 7_000, 11_000], 3, 0.0),
    ],
    ids=["all", "only the last", "not the last", "none", "a clock that is ahead"],
)
def test_the_last_record_of_those_done_at_once_gives_all_of_them_its_age_or_none(
    stamps_ms: list[int | None], count: int, sum_s: float
) -> None:
    member = worker()
    member.messages += [Stamped(offset, stamp) for offset, stamp in enumerate(stamps_ms)]
    member.fetch()
    lanes = member.core.lanes
    for offset in member.start():
        entry, record, _ = member._of(offset)
        lanes.finished.append(record)
        lanes.ended.append(entry)
    member.after(10_000 - member.now_ms)

    assert topic(member).finished == 3
    age = topic(member).age
    assert (age.count, age.sum_s) == (count, pytest.approx(sum_s))


def test_a_failure_has_its_reason_and_is_retried() -> None:
    member = worker(max_attempts=2)
    member.produce(b"a")
    member.start()
    member.fail(0)

    assert topic(member).failed == {"raised": 1}
    assert topic(member).retried == 1
    assert figures(member).keys_backing_off == 1
    assert figures(member).keys_parked == 0


def test_a_parked_key_waits_and_is_counted_once() -> None:
    member = worker(max_attempts=1)
    member.produce(b"a", b"a", b"b")
    member.start()
    member.fail(0)

    found = figures(member)
    assert found.keys_parked == 1
    assert found.keys_backing_off == 0
    assert found.lane_keys == 2
    assert found.lane_records == 3
    assert found.workers_busy == 1, "b runs, a waits"


def test_a_skipped_record_says_why() -> None:
    member = worker(max_attempts=1, on_failure="skip")
    member.produce(b"a")
    member.start()
    member.fail(0)
    member.after(1)

    assert topic(member).skipped == {"policy": 1}
    assert topic(member).finished == 1


def test_a_dead_letter_is_counted_once_it_is_safe() -> None:
    member = worker(max_attempts=1, on_failure="dead_letter")
    member.produce(b"a")
    member.start()
    sent = [it for it in member.fail(0) if isinstance(it, actions.DeadLetter)]
    assert topic(member).dead_lettered == 0
    member.tell(events.DeadLettered(sent[0].record, None))

    assert topic(member).dead_lettered == 1


def test_the_share_of_a_topic_is_what_is_processed_here() -> None:
    member = TableMember()
    assert figures(member).topics == {}
    member.assign(LOW)
    assert topic(member).range_share == pytest.approx(0.5)
    member.assign(LOW, HIGH)
    assert topic(member).range_share == pytest.approx(1.0)


def test_phases_follow_the_member() -> None:
    member = TableMember(kept_back=[actions.ReadLog])
    assert figures(member).phase is MemberPhase.JOINING
    member.assign(WHOLE)
    assert figures(member).phase is MemberPhase.WAITING
    assert figures(member).ranges_waiting == 1
    member.let_go()
    member.after(10)
    assert figures(member).phase is MemberPhase.WORKING
    member.assign()
    assert figures(member).phase is MemberPhase.IDLE
    member.tell(events.Joining())
    assert figures(member).phase is MemberPhase.JOINING


def test_a_close_ends_in_ended() -> None:
    member = worker()
    member.produce(b"a")
    member.start()
    member.tell(events.Close())
    assert figures(member).phase is MemberPhase.CLOSING
    member.finish(0)
    member.after(1_000)
    assert figures(member).phase is MemberPhase.ENDED


def test_a_commit_takes_from_its_decision_to_its_acknowledgement() -> None:
    member = worker()
    member.produce(b"a")
    member.start()
    member.kept_back = {actions.Commit}
    member.finish(0)
    member.after(1_000)
    assert figures(member).commit_age_s >= 1.0
    before = figures(member).commit.count
    member.after(2_000)
    member.let_go()

    found = figures(member)
    assert found.commit.count == before + 1
    assert found.commit.sum_s >= 2.0
    assert found.commit_age_s == 0.0
    assert found.commits >= 1
    assert found.commit_bytes > 0


def test_what_finishes_during_a_commit_waits_for_the_next_one() -> None:
    member = worker()
    member.produce(*keys_in(WHOLE, 2))
    member.start()
    member.kept_back = {actions.Commit}
    member.finish(0)
    member.after(1_000)
    member.finish(1)
    waiting, member.unanswered = member.unanswered, []
    for action in waiting:
        for event in member.answers(action):
            member.tell(event)
    member.after(500)

    assert 0.0 < figures(member).commit_age_s < 2.0


def test_a_handover_lasts_from_the_assignment_to_the_beginning() -> None:
    member = TableMember(kept_back=[actions.ReadLog])
    member.assign(WHOLE)
    member.after(3_000)
    member.let_go()
    member.after(10)

    found = figures(member)
    assert found.handover.count == 1
    assert 3.0 <= found.handover.sum_s < 4.0
    assert found.rebalances == 1


def test_the_fetch_is_held_by_a_bound_that_has_a_name() -> None:
    member = worker(max_records_in_lanes=64)
    assert figures(member).bound == ""
    member.produce(*[b"same"] * 10, *keys_in(WHOLE, 2_000))
    assert figures(member).bound in {"records", "ready"}
    member.after(2_000)
    assert figures(member).fetch_held_s >= 2.0
    member.finish_all()
    member.after(1)
    assert figures(member).bound == ""
    held_s = figures(member).fetch_held_s
    member.after(2_000)
    assert figures(member).fetch_held_s == held_s


def test_a_handler_that_runs_for_too_long_is_counted_once_and_its_key_as_long_as_it_runs() -> None:
    member = worker(max_processing_ms=1_000)
    member.produce(b"a", b"a", b"b")
    member.start()
    member.finish(2)
    for _ in range(20):
        member.after(100)
    assert (topic(member).expired, figures(member).keys_overdue) == (1, 1)
    member.finish(0)
    member.finish_all()
    member.after(100)
    assert (topic(member).expired, figures(member).keys_overdue) == (1, 0)


def test_a_wall_of_gap_ranges_is_counted_while_it_stands() -> None:
    member = worker(max_num_ranges_held=10, max_num_ranges_to_commit=5, max_attempts=1)
    member.produce(b"stuck", b"too", b"as well")
    for offset in member.start():
        member.fail(offset)
    assert figures(member).walled == 0
    member.produce(*[b"stuck", b"too", b"as well"] * 3)
    assert figures(member).walled == 1


def test_what_lanes_hold_is_counted_in_bytes_and_workers_as_they_are() -> None:
    member = worker()
    assert figures(member).lane_bytes == 0
    member.produce(b"a")
    one = figures(member).lane_bytes
    member.produce(b"b")
    assert figures(member).lane_bytes == member.core.state.bytes_held() == 2 * one > 0
    member.core.lanes.work.workers = 7
    assert figures(member).workers == 7
    member.finish_all()
    member.after(1)
    assert figures(member).lane_bytes == 0


def test_what_waits_for_others_is_told_as_of_now() -> None:
    member = worker()
    counters = member.core.state.counters
    counters.outputs_waiting, counters.output_bytes_waiting = 3, 4
    counters.input_undecided_since_ms = member.now_ms - 5_000
    counters.log_undecided_since_ms = member.now_ms - 6_000
    found = figures(member)
    assert (found.outputs_waiting, found.output_bytes_waiting) == (3, 4)
    assert (found.undecided_input_s, found.undecided_log_s) == (5.0, 6.0)


def test_handlers_are_counted_by_topic_with_the_mean_of_their_chunk() -> None:
    member = worker()
    member.core.lanes.work.spent.append((0.2, 10, "t"))
    member.after(1_000)

    assert topic(member).handler.count == 10
    assert topic(member).handler.sum_s == pytest.approx(0.2)


def test_what_only_the_shell_can_measure_is_told() -> None:
    member = worker()
    member.tell(events.Flushed(0.5))
    member.tell(events.ClientFigures("fetch", {"requests_total": 7.0}))
    member.core.lanes.work.restarts.append(1)
    member.core.lanes.work.spent.append((0.1, 1, "t"))
    member.after(1_000)

    found = figures(member)
    assert found.flush.count == 1
    assert found.clients == {"fetch": {"requests_total": 7.0}}
    assert found.child_restarts == 1


def test_a_question_changes_nothing_that_is_fresh() -> None:
    member = worker()
    member.core.lanes.tables.goes_straight = True
    member.produce(b"a", b"b")
    fresh = list(member.core.lanes.tables.fresh)
    assert fresh, "records of an idle partition stay fresh"

    assert figures(member).lane_keys == 2
    assert member.core.lanes.tables.fresh == fresh


def test_lost_offsets_are_counted_by_topic() -> None:
    member = worker()
    stream = member.core.state.partitions[T0].streams[actions.MAIN]
    member.tell(events.OutOfRange(T0, stream.number, low=40, high=90))

    assert topic(member).lost_to_retention == 40


def test_counters_go_on_in_the_next_run() -> None:
    first = worker()
    first.produce(b"a")
    first.finish_all()
    second = TableMember("m1", incarnation=2)
    second.core.state.tally = first.core.state.tally
    second.core.state.counters = first.core.state.counters
    second.assign(WHOLE)
    second.produce(b"a", b"b")
    second.finish_all()

    assert topic(second).finished == 3
    assert figures(second).rebalances == 2
