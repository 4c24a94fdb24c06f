"""What the page's buttons do: the same as the commands, and pauses at a member."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from assignors import WHOLE, TopicPartition, Wait, key_hash
from coop_consumer.admin import deciding, operator, releasing
from coop_consumer.admin.operator import GroupOperator, MemberOperator
from coop_consumer.config import Config, Guarantee
from coop_consumer.errors import MisuseError
from coop_consumer.ops.actions import Asked, PageAction
from coop_consumer.status.errors import NotParkedError
from coop_consumer.status.seen import GroupSeen, MemberSeen, RecordSeen
from offsets import Act, Attempt, Committed, Doing, TenureRecord
from tests.support.written_log import NOW_MS, OLD, ORDERS, WrittenLog, facts, seen

CONFIG = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "g"})
HASH = key_hash(b"customer-7")
Done = list[tuple[Any, ...]]


def a_group_with_a_parked_record() -> GroupSeen:
    attempt = Attempt(43, HASH, 5, parked=True, error="ValueError: no plane", since_ms=1)
    record = TenureRecord(1, 0, (facts(WHOLE, 43),), attempts=(attempt,))
    log = WrittenLog().base(1, 0).tenure(OLD, record)
    member = MemberSeen("old", "db-7", 4, {ORDERS: (WHOLE,)}, incarnation=1)
    at = RecordSeen(43, b"customer-7", HASH, 1)
    return seen(log, member, committed=Committed(43, "coop:1:orders"), records=(at,))


def a_group_that_waits() -> GroupSeen:
    log = WrittenLog().base(1, 0).tenure(OLD, TenureRecord(1, 0, (facts(WHOLE, 43),)))
    waits = (Wait(OLD.member, OLD.incarnation, OLD.number, ORDERS, (WHOLE,)),)
    new = MemberSeen("new", "h", 4, {ORDERS: (WHOLE,)}, waits=waits)
    old = MemberSeen("old", "db-7", 4, incarnation=1)
    return seen(log, new, old, committed=Committed(43, "coop:1:orders"))


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> Done:
    """What was written, instead of written."""
    noted: Done = []

    class Amender:
        def __init__(self, inspector: object) -> None:
            del inspector

        def decide(self, parked: Iterable[tuple[Any, Sequence[int]]], decision: str) -> None:
            noted.extend((decision, it.tp, list(offsets)) for it, offsets in parked)

        def release(self, partition: Any, handovers: Sequence[Any]) -> None:
            noted.append(("release", partition.tp, [it.holder for it in handovers]))

        def put_out(self, member: MemberSeen) -> None:
            noted.append(("put out", member.name))

    for module in (deciding, releasing):
        monkeypatch.setattr(module, "Amender", Amender)
    return noted


def shows(monkeypatch: pytest.MonkeyPatch, group: GroupSeen) -> None:
    """Every look at a group sees this."""

    class Inspector:
        def __init__(self, config: Config) -> None:
            assert config is CONFIG

        def __enter__(self) -> Any:
            return SimpleNamespace(see=lambda *_, **__: group)

        def __exit__(self, *_: object) -> None:
            return

    monkeypatch.setattr(operator, "Inspector", Inspector)


def test_a_parked_record_is_shown_and_then_decided_about(
    monkeypatch: pytest.MonkeyPatch, done: Done
) -> None:
    shows(monkeypatch, a_group_with_a_parked_record())
    asked = Asked(PageAction.SKIP, "g", ORDERS, 43)
    of_groups = GroupOperator(lambda _: CONFIG, ["--bootstrap", "b:9092"])
    intent = of_groups.look(asked)
    assert done == []
    assert "key customer-7" in intent.facts
    assert any("lost" in risk for risk in intent.risks)
    assert intent.command == "coop-consumer skip g orders-0 43 --bootstrap b:9092"
    told = of_groups.carry_out(asked)
    assert done == [("skip", ORDERS, [43])]
    assert "customer-7" in told
    assert "at member old on db-7" in told


def test_what_is_not_parked_any_more_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, done: Done
) -> None:
    shows(monkeypatch, a_group_with_a_parked_record())
    of_groups = GroupOperator(lambda _: CONFIG)
    for call in (of_groups.look, of_groups.carry_out):
        with pytest.raises(NotParkedError):
            call(Asked(PageAction.RETRY, "g", ORDERS, 12))
    assert done == []


@pytest.mark.parametrize(
    ("act", "error", "told"),
    [
        (Act.RUNS, "HandlerOverdueError: it runs", "its handler runs for 4 s"),
        (Act.BACKS_OFF, "ValueError: no plane", "backs off after 1 attempt"),
        (None, "ValueError: no plane", "failed 1 time, is tried again"),
        (Act.PARKED, "ValueError: no plane", "failed 1 time, is tried again"),  # told before it
    ],
)
def test_a_record_that_is_not_parked_is_said_to_stand_as_it_does(
    monkeypatch: pytest.MonkeyPatch, done: Done, act: Act | None, error: str, told: str
) -> None:
    attempt = Attempt(43, HASH, 1, parked=False, error=error, since_ms=1)
    doings = () if act is None else (Doing(43, HASH, act, NOW_MS - 4_000),)
    record = TenureRecord(1, 0, (facts(WHOLE, 43),), attempts=(attempt,), doings=doings)
    log = WrittenLog().base(1, 0).tenure(OLD, record)
    member = MemberSeen("old", "db-7", 4, {ORDERS: (WHOLE,)}, incarnation=1)
    at = RecordSeen(43, b"customer-7", HASH, 1)
    group = seen(log, member, committed=Committed(43, "coop:1:orders"), records=(at,))
    shows(monkeypatch, group)
    with pytest.raises(NotParkedError, match=f"is not parked: {told}\\. Nothing was decided"):
        GroupOperator(lambda _: CONFIG).look(Asked(PageAction.RETRY, "g", ORDERS, 43))
    assert done == []


def test_all_parked_records_are_counted_and_then_tried_again(
    monkeypatch: pytest.MonkeyPatch, done: Done
) -> None:
    shows(monkeypatch, a_group_with_a_parked_record())
    asked, of_groups = Asked(PageAction.RETRY, "g"), GroupOperator(lambda _: CONFIG)
    intent = of_groups.look(asked)
    assert intent.title == "Retry all parked records: 1 record now?"
    assert "also for those that are parked after this page was made" in " ".join(intent.risks)
    assert intent.command == "coop-consumer retry g --all"
    assert "1 parked record" in of_groups.carry_out(asked)
    assert done == [("retry", ORDERS, [43])]


def test_a_wait_is_released_at_the_risk_of_the_order(
    monkeypatch: pytest.MonkeyPatch, done: Done
) -> None:
    shows(monkeypatch, a_group_that_waits())
    asked, of_groups = Asked(PageAction.RELEASE, "g", ORDERS), GroupOperator(lambda _: CONFIG)
    intent = of_groups.look(asked)
    assert any("order" in risk and "breaks" in risk for risk in intent.risks)
    assert any("new waits" in fact for fact in intent.facts)
    of_groups.carry_out(asked)
    assert done == [("release", ORDERS, ["old"])]


def test_with_exactly_once_the_stuck_member_is_put_out_first_and_the_page_says_so(
    monkeypatch: pytest.MonkeyPatch, done: Done
) -> None:
    shows(monkeypatch, replace(a_group_that_waits(), guarantee=Guarantee.EXACTLY_ONCE.value))
    asked, of_groups = Asked(PageAction.RELEASE, "g", ORDERS), GroupOperator(lambda _: CONFIG)
    intent = of_groups.look(asked)
    assert any("put out" in risk for risk in intent.risks)
    assert any("old on db-7" in fact for fact in intent.facts)
    of_groups.carry_out(asked)
    assert [it[0] for it in done] == ["put out", "release"]


def test_nobody_waits_any_more(monkeypatch: pytest.MonkeyPatch, done: Done) -> None:
    shows(monkeypatch, a_group_that_waits())
    gone = Asked(PageAction.RELEASE, "g", ORDERS, holder="somebody")
    with pytest.raises(MisuseError, match="nobody waits for somebody any more"):
        GroupOperator(lambda _: CONFIG).carry_out(gone)
    assert done == []


def test_a_members_commands_find_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    shows(monkeypatch, a_group_with_a_parked_record())
    config = replace(CONFIG, progress_topic="billing.progress")
    monkeypatch.setitem(globals(), "CONFIG", config)
    line = MemberOperator(config, Paused()).look(Asked(PageAction.SKIP, "g", ORDERS, 43)).command
    options = "--bootstrap b:9092 --config progress.topic=billing.progress"
    assert line == f"coop-consumer skip g {ORDERS} 43 {options}"


class Paused:
    """A member whose pauses a test sees."""

    def __init__(self) -> None:
        self.partitions: set[TopicPartition] = set()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions |= set(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions -= set(partitions)


def test_only_a_member_itself_pauses() -> None:
    member = Paused()
    of_member = MemberOperator(CONFIG, member)
    assert of_member.allows == set(PageAction)
    assert not GroupOperator(lambda _: CONFIG).allows & {PageAction.PAUSE, PageAction.RESUME}
    pause, resume = (Asked(it, "g", ORDERS) for it in (PageAction.PAUSE, PageAction.RESUME))
    assert any("deletes" in risk for risk in of_member.look(pause).risks)
    assert member.partitions == set()
    of_member.carry_out(pause)
    assert member.partitions == {ORDERS}
    of_member.look(resume)
    of_member.carry_out(resume)
    assert member.partitions == set()


def test_a_member_acts_for_its_own_group_alone(monkeypatch: pytest.MonkeyPatch, done: Done) -> None:
    shows(monkeypatch, a_group_with_a_parked_record())
    of_member = MemberOperator(CONFIG, Paused())
    for call in (of_member.look, of_member.carry_out):
        with pytest.raises(MisuseError, match="this is a member of group g"):
            call(Asked(PageAction.SKIP, "shipping", ORDERS, 43))
    of_member.carry_out(Asked(PageAction.SKIP, "g", ORDERS, 43))
    assert done == [("skip", ORDERS, [43])]
