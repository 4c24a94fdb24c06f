"""How many members a group wants, and why: worked examples, no broker."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from assignors import TopicPartition
from coop_consumer.status.demand import PartitionNeed
from coop_consumer.status.load import GroupLoad, load_of
from coop_consumer.status.scale import MembersNow, ScaleAdvice, ScaleRules, advise
from offsets import HeavyKey, LoadKey, LoadRecord, PartitionLoad
from tests.support.written_log import WrittenLog

ORDERS, OTHERS = TopicPartition("orders", 0), TopicPartition("others", 0)
TOPIC_ID, OTHER_ID = b"0123456789abcdef", b"fedcba9876543210"
TOPICS = {ORDERS: TOPIC_ID, OTHERS: OTHER_ID}
RULES = ScaleRules(target_s=60, workers=64)
HUGE = 2**64 - 1


def report(**changed: object) -> LoadRecord:
    """A member of 4 workers whose handlers take 5 ms, with the whole of orders-0."""
    parts = (PartitionLoad(TOPIC_ID, 0, 5_000_000_000, 400),)
    usual = LoadRecord(1, 1_000, 4, 900, 5_000, 720, parts)
    return replace(usual, **changed)  # type: ignore[arg-type]


def load(*records: LoadRecord, here: int | None = None) -> GroupLoad:
    """What members m0, m1, ... say in the log; the first `here` of them are in the group."""
    log = WrittenLog()
    for number, record in enumerate(records):
        log.put(LoadKey("g", f"m{number}"), record)
    named = {name: record for name, (_, record) in log.store.loads.items()}
    return load_of(named, list(named)[:here], TOPICS)


def hot(share: int, key: bytes | None = b"N725MQ") -> HeavyKey:
    return HeavyKey(TOPIC_ID, 0, 7, share, key)


def orders(left: int = 0, arrivals: float = 0.0, **more: object) -> PartitionNeed:
    return replace(PartitionNeed(ORDERS, left, arrivals), **more)  # type: ignore[arg-type]


def asked(
    need: PartitionNeed | list[PartitionNeed],
    said: GroupLoad,
    count: int = 1,
    rules: ScaleRules = RULES,
    **now: object,
) -> ScaleAdvice:
    needs = need if isinstance(need, list) else [need]
    members = replace(MembersNow(count), **now)  # type: ignore[arg-type]
    return advise(needs, said, members, rules)


# -- how many --------------------------------------------------------------------------------------


def test_what_arrives_and_what_is_left_are_done_within_the_target() -> None:
    # 2,000/s arrive, 45,000 are left and planned for 45 s: 3,000 x 5 ms = 15 workers, of 4 x 0.9.
    advice = asked(orders(45_000, 2_000.0), load(report()))
    assert (advice.members, advice.wanted, advice.useful) == (1, 5, None)
    assert advice.reason == "45,000 left at 2,000/s: 5 members"
    assert advice.busy_workers == pytest.approx(15.0)


def test_a_longer_target_wants_fewer() -> None:
    need, said = orders(450_000, 100.0), load(report())
    wanted = [
        asked(need, said, rules=replace(RULES, target_s=target_s)).wanted
        for target_s in (30, 60, 600, 3_600)
    ]
    assert wanted == sorted(wanted, reverse=True)
    assert wanted[0] > wanted[-1] == 1


def test_nothing_left_and_nothing_arriving_wants_nobody() -> None:
    advice = asked(orders(), load(report()), count=3)
    assert (advice.wanted, advice.useful) == (0, 0)
    assert advice.reason == "nothing is left and nothing arrives"


@pytest.mark.parametrize("need", [orders(1), orders(0, 0.001)], ids=str)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_while_anything_is_left_or_arrives_at_least_one_is_wanted(
    need: PartitionNeed, count: int
) -> None:
    advice = asked(need, load(report()), count)
    assert advice.wanted == 1
    assert "1 member" in advice.reason


@pytest.mark.parametrize("target_s", [10, 60, 86_400])
def test_more_left_never_wants_fewer(target_s: int) -> None:
    rules, said = replace(RULES, target_s=target_s), load(report())
    wanted = [asked(orders(10**n, 10.0), said, rules=rules).wanted for n in range(12)]
    assert wanted == sorted(wanted)


@pytest.mark.parametrize("handler_us", [0, 1])
def test_trivial_handlers_want_a_member_for_what_one_process_takes_through(
    handler_us: int,
) -> None:
    parts = (PartitionLoad(TOPIC_ID, 0, 10**6, 0),)
    advice = asked(orders(45 * 450_000), load(report(handler_us=handler_us, partitions=parts)))
    assert (advice.wanted, advice.is_assumed) == (5, False)


# -- no flapping -----------------------------------------------------------------------------------


def test_within_the_band_the_number_stays_as_it_is() -> None:
    said = load(report())
    # 12.5 workers: 4 members of 4 would be full to 0.78, and 5 to 0.62.
    need = orders(0, 2_500.0)
    assert [asked(need, said, count).wanted for count in (1, 3, 4, 5, 6, 9)] == [4, 4, 4, 5, 5, 5]


def test_members_that_are_on_their_way_are_not_forgotten() -> None:
    said, need = load(report()), orders(0, 2_500.0)
    assert asked(need, said, count=1, asked_for=5).wanted == 5


def test_a_rebalance_in_which_two_members_report_the_same_part_changes_nothing() -> None:
    need = orders(9_000, 2_000.0)
    before = asked(need, load(report()), count=2)
    during = asked(need, load(report(), report(at_ms=2_000)), count=2)
    after = asked(need, load(report(at_ms=3_000, partitions=()), report(at_ms=2_000)), count=2)
    assert before.wanted == during.wanted == after.wanted
    assert before.busy_workers == during.busy_workers == after.busy_workers


# -- what limits it --------------------------------------------------------------------------------


def test_a_key_of_most_of_the_work_counts_as_one_worker() -> None:
    said = load(report(heavy=(hot(610),)))
    # Of 15 workers 9.15 would be the key's: it has 1, and the others have 5.85.
    advice = asked(orders(0, 3_000.0), said)
    assert advice.busy_workers == pytest.approx(6.85)
    assert (advice.wanted, advice.useful) == (2, 2)
    assert advice.reason == (
        "0 left at 3,000/s: 2 members; more members won't help: "
        "key N725MQ is 61 % of the work of orders-0"
    )


def test_keys_whose_parts_are_more_than_the_whole_have_a_worker_each_nevertheless() -> None:
    """While ranges move, members report of different moments."""
    one, other = hot(700), replace(hot(700), key_hash=8)
    said = load(report(heavy=(one,)), report(heavy=(other,)))
    assert asked(orders(0, 3_000.0), said).busy_workers == pytest.approx(2.0)


def test_where_more_members_would_help_other_work_the_reason_does_not_deny_it() -> None:
    heavy = replace(report(), heavy=(hot(1_000),), finished=200)
    needs = [orders(arrivals=2_000.0), PartitionNeed(OTHERS, 0, 2_000.0)]
    advice = asked(needs, load(heavy))
    assert advice.useful is None
    assert advice.reason == (
        f"0 left at 4,000/s: {advice.wanted} members; more members help other work only: "
        "key N725MQ is 100 % of the work of orders-0"
    )
    alone = asked(needs[:1], load(heavy))
    assert alone.useful == alone.wanted
    assert "more members won't help: key N725MQ" in alone.reason


def test_the_one_key_of_a_partition_wants_one_member_whatever_is_left() -> None:
    said = load(report(heavy=(hot(1_000),)))
    advice = asked(orders(10**9, 3_000.0), said)
    assert (advice.wanted, advice.useful) == (1, 1)
    assert "key N725MQ is 100 % of the work" in advice.reason


def test_what_is_left_of_a_key_with_a_stream_of_its_own_is_no_work_for_others() -> None:
    said = load(report(heavy=(hot(610),)))
    alone = asked(orders(1_000_000, 3_000.0, alone=1_000_000), said)
    assert alone.wanted == asked(orders(0, 3_000.0), said).wanted


def test_at_the_wall_everything_goes_at_the_pace_of_the_heaviest_key() -> None:
    said = load(report(heavy=(hot(250),)))
    advice = asked(orders(10**6, 3_000.0, is_walled=True), said)
    assert advice.busy_workers == pytest.approx(4.0)
    assert (advice.wanted, advice.useful) == (1, 1)


def test_a_moderate_key_limits_how_many_are_useful_and_not_how_many_are_wanted() -> None:
    said = load(report(heavy=(hot(80),)))
    advice = asked(orders(0, 800.0), said)  # 4 workers, of which at most 12.5 could be busy
    assert (advice.wanted, advice.useful) == (2, 4)
    assert "won't help" not in advice.reason


def test_a_key_that_logs_may_not_show_is_named_by_its_hash() -> None:
    advice = asked(orders(0, 3_000.0), load(report(heavy=(hot(610, key=None),))))
    assert "the key of hash 7 is 61 % of the work of orders-0" in advice.reason


def test_the_share_of_a_key_is_of_the_whole_partition_not_of_its_members_part() -> None:
    # Its member has a quarter of the offsets, and 80 % of that is the key's: 20 % of all.
    quarter = (PartitionLoad(TOPIC_ID, 0, 1_250_000_000, 400),)
    [key] = load(report(partitions=quarter, heavy=(hot(800),))).keys
    assert key.share == pytest.approx(0.2)


def test_partitions_that_may_not_be_shared_have_one_member_each() -> None:
    needs = [orders(10**6, is_shared=False), replace(orders(10**6, is_shared=False), tp=OTHERS)]
    advice = asked(needs, load(report()))
    assert (advice.wanted, advice.useful) == (2, 2)
    assert re.search("more members won't help: (orders|others)-0 may not be shared", advice.reason)


def test_with_the_order_of_partitions_each_partition_has_one_worker() -> None:
    rules = replace(RULES, is_serial=True)
    advice = asked(orders(10**6), load(report()), rules=rules)
    assert (advice.wanted, advice.useful) == (1, 1)
    assert "orders-0 keeps its order as a whole" in advice.reason


def test_idle_members_beside_an_old_backlog_are_no_reason_for_more() -> None:
    idle = load(report(busy=40, finished=3))
    need = orders(10**6, 10.0)
    advice = asked(need, idle, settled_s=90.0)
    assert (advice.wanted, advice.useful) == (1, 1)
    assert "workers are busy for 4 % of their time at most" in advice.reason
    assert asked(need, idle, settled_s=30.0).wanted > 1, "they may not have reported since"
    assert asked(orders(500, 10.0), idle, settled_s=90.0).wanted == 1
    assert asked(orders(10**5, 10**4), idle, settled_s=90.0).wanted > 1, "it has just come"


@pytest.mark.parametrize(
    ("busy", "reported", "more"), [(590, 2, False), (610, 2, True), (590, 1, True)]
)
def test_they_are_idle_only_if_all_have_said_that_they_are(
    busy: int, reported: int, *, more: bool
) -> None:
    said = load(*[replace(report(), busy=busy)] * reported)
    advice = asked(orders(90_000, 10.0), said, count=2, settled_s=100.0)
    assert (advice.wanted > 2) is more


def test_topics_that_cost_differently_are_told_apart() -> None:
    parts = (
        PartitionLoad(TOPIC_ID, 0, 1_000_000_000, 100),
        PartitionLoad(OTHER_ID, 0, 9_000_000_000, 100),
    )
    said = load(report(partitions=parts))
    dear = asked([orders(0, 1_000.0), replace(orders(90_000, 1_000.0), tp=OTHERS)], said)
    cheap = asked([orders(90_000, 1_000.0), replace(orders(0, 1_000.0), tp=OTHERS)], said)
    # 2,000 more a second, of 9 ms or of 1 ms each, beside 1,000/s of both.
    assert (dear.busy_workers, cheap.busy_workers) == (pytest.approx(28.0), pytest.approx(12.0))


# -- what is not known -----------------------------------------------------------------------------


def test_from_zero_the_last_reports_count() -> None:
    advice = asked(orders(45_000, 2_000.0), load(report(), here=0), count=0)
    assert (advice.wanted, advice.is_assumed) == (5, False)


def test_from_zero_without_reports_the_handler_time_is_assumed_and_told() -> None:
    advice = asked(orders(9_400, 210.0), GroupLoad(), count=0)
    assert (advice.wanted, advice.is_assumed, advice.handler_us) == (1, True, 10_000)
    assert advice.reason == (
        "9,400 left at 210/s: 1 member (if a record takes 10 ms and a member has 64 workers: "
        "no member has reported)"
    )
    alone = asked(orders(10), GroupLoad(), count=0, rules=replace(RULES, workers=1))
    assert "and a member has 1 worker: " in alone.reason


def test_members_that_have_not_reported_have_as_many_workers_as_they_weigh() -> None:
    assert asked(orders(0, 100.0), GroupLoad(), count=2, capacities=(1, 3)).workers == 2.0


@pytest.mark.parametrize("count", [0, 3])
def test_while_no_partition_is_known_the_number_stays(count: int) -> None:
    advice = asked([], GroupLoad(), count=count)
    assert (advice.wanted, advice.useful) == (count, None)
    assert advice.reason.startswith("no topic of the group is known yet")


HOSTILE = [
    report(busy=0, handler_us=0, finished=0, workers=0, partitions=()),
    report(busy=HUGE, handler_us=HUGE, finished=HUGE, workers=HUGE, at_ms=-(2**63)),
    report(partitions=(PartitionLoad(TOPIC_ID, 0, HUGE, HUGE),) * 3, heavy=(hot(HUGE),) * 4),
    report(partitions=(PartitionLoad(TOPIC_ID, 0, 0, 0),), heavy=(hot(0),)),
    report(partitions=(PartitionLoad(b"gone" * 4, 9, 5, 5),)),
    report(heavy=(HeavyKey(TOPIC_ID, 0, 3, 500, b"\xff\x1b[31m"),)),
]


@pytest.mark.parametrize("said", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("need", [orders(), orders(10**15, 10.0**9), orders(-5, -1.0)], ids=str)
@pytest.mark.parametrize("beside", [True, False])
def test_whatever_members_say_the_answer_is_a_number(
    said: LoadRecord, need: PartitionNeed, beside: bool
) -> None:
    advice = asked(need, load(said, report()) if beside else load(said), count=2)
    assert advice.wanted >= 0
    assert advice.useful is None or advice.useful >= advice.wanted
    assert "\x1b" not in advice.reason
    numbers = [advice.busy_workers, advice.workers, advice.arrivals, advice.handler_us]
    json.dumps(numbers, allow_nan=False)
