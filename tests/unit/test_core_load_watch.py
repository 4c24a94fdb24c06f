"""The lead's watch: what it makes of reports, and when the group hears of it."""

from __future__ import annotations

import pytest

from assignors import WHOLE, KeyRange
from coop_consumer.core import actions, events
from coop_consumer.core.load_watch import reports_of
from coop_consumer.core.rebalancing import PAUSE_MS, MemberReport
from offsets import HeavyKey, LoadKey, LoadRecord, PartitionLoad, encode_key, encode_value
from tests.unit.core_member import GROUP, LOW, TOPIC_ID, TableMember, keys_in

ROUND_S = 30


def record(
    weight: int,
    *,
    busy: int = 900,
    pace: int = 1_000,
    workers: int = 1,
    heavy: int = 0,
    capacity: int = 0,
) -> LoadRecord:
    """What a member says that holds some of `t-0`."""
    return LoadRecord(
        incarnation=1,
        at_ms=1,
        workers=workers,
        busy=busy,
        handler_us=0,
        finished=0,
        partitions=(PartitionLoad(TOPIC_ID, 0, weight, pace),),
        heavy=(HeavyKey(TOPIC_ID, 0, 7, heavy, None),) if heavy else (),
        capacity=capacity,
    )


UNEVEN = {"m1": record(90), "m2": record(30)}


class Leading(TableMember):
    """A member that leads `t-0`, which it shares with m2."""

    def __init__(
        self,
        lead: str = "m1",
        live: tuple[str, ...] = ("m1", "m2"),
        held: KeyRange = LOW,
        **settings: object,
    ) -> None:
        super().__init__(**settings)
        self.assign(held, lead=lead, live=live)

    def report(self, records: dict[str, LoadRecord]) -> None:
        """Members report, and this one reads it."""
        for name, told in records.items():
            self.log.append(encode_key(LoadKey(GROUP, name)), encode_value(told))
        self.hear_log()

    def asks(self, seconds: int) -> list[str]:
        """What it asks for in so much time."""
        first = len(self.told(actions.Rejoin))
        for _ in range(seconds):
            self.after(1_000)
        return [action.reason for action in self.told(actions.Rejoin)[first:]]


# ---- reports -------------------------------------------------------------------------------------


def test_a_report_is_work_a_second_at_the_pace_that_most_members_see() -> None:
    reports = reports_of(
        {"a": record(5, pace=10), "b": record(7, pace=20), "c": record(9, pace=90)}
    )
    assert {name: report.load for name, report in reports.items()} == {"a": 100, "b": 140, "c": 180}


def test_a_heavy_key_is_a_share_of_its_partition() -> None:
    assert reports_of({"a": record(500, pace=2, workers=4, heavy=610)}) == {
        "a": MemberReport(4, 900, 1_000, (610,))
    }


def test_numbers_that_make_no_sense_are_no_error() -> None:
    wild = record(2**63, pace=2**63, workers=0, busy=2**31, heavy=2**31)
    assert reports_of({"a": wild})["a"].capacity == 1
    assert reports_of({}) == {}


# ---- the lead ------------------------------------------------------------------------------------


def test_an_uneven_load_makes_the_group_join_again_once() -> None:
    member = Leading()
    member.report(UNEVEN)
    asked = "m1 has 1.50 x the load that members have on average; 1.00 x is possible"
    assert member.asks(PAUSE_MS // 1_000) == [f"the load is uneven: {asked}"]


def test_an_even_load_does_not() -> None:
    member = Leading()
    member.report({"m1": record(55), "m2": record(50)})
    assert member.asks(600) == []


def test_a_load_by_capacity_is_even_whatever_workers_do_it() -> None:
    member = Leading()
    member.report(
        {"m1": record(30, workers=4, capacity=1), "m2": record(90, workers=4, capacity=3)}
    )
    assert member.asks(600) == []


def test_a_plan_begins_the_count_of_rounds_anew() -> None:
    member = Leading()
    member.report(UNEVEN)
    member.asks(60 + ROUND_S - 5)
    member.assign(LOW, live=("m1", "m2"))
    assert member.asks(60 + ROUND_S - 5) == []


@pytest.mark.parametrize(
    "member",
    [
        lambda: Leading(lead="m2", live=()),
        lambda: Leading(balance="hash"),
        lambda: Leading(live=("m1",)),
        lambda: Leading(held=WHOLE),
    ],
    ids=["another one leads", "balance=hash", "m2 has left", "nothing is split"],
)
def test_nobody_asks_who_does_not_lead_or_balances_by_hash_or_is_alone(member) -> None:
    leading = member()
    leading.report(UNEVEN)
    assert leading.asks(600) == []


def test_a_member_that_leaves_asks_for_nothing_any_more() -> None:
    member = Leading()
    member.produce(*keys_in(LOW, 1))
    member.start()  # a handler that keeps it from being gone at once
    member.report(UNEVEN)
    member.tell(events.Close())
    assert member.asks(600) == ["leaving, but 1 key still runs here"]
