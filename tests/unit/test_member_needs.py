"""What needs a person at one member, by its own page: figures, failures, waits. Plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from assignors import WHOLE, TopicPartition
from coop_consumer.config import LogKeys
from coop_consumer.core.glimpse import FailedRecord, Glimpse, HeldPartition, RunningRecord
from coop_consumer.core.metrics import MemberMetrics
from coop_consumer.ops.health import Health, HealthPhase, WaitingFor
from coop_consumer.ops.page.member_page import MemberPage, member_page
from coop_consumer.ops.page.needs import Need, NeedKind, Needs, Urgency
from tests.unit.full_metrics import full_metrics
from tests.unit.page_values import HOSTILE, NOT_TEXT, NOW_MS, OPTIONS

ORDERS = TopicPartition("orders", 3)
WELL = Health("billing", "m1", HealthPhase.RUNNING, is_member=True)
OVERDUE = "HandlerOverdueError: its handler runs for 300 s"
READ = "coop-consumer read orders --partition 3 --from 43 --count 1 --bootstrap kafka:9092"
STATUS = "coop-consumer status billing --bootstrap kafka:9092"
DECIDE = [
    "coop-consumer retry billing orders-3 43 --bootstrap kafka:9092",
    "coop-consumer skip billing orders-3 43 --bootstrap kafka:9092",
]


def failed(offset: int = 43, key: object = b"N14228", **changed: object) -> FailedRecord:
    """A record that is tried again, unless something else is said."""
    found = FailedRecord(
        tp=ORDERS,
        offset=offset,
        key=key,
        key_hash=7,
        is_key_known=True,
        attempts=3,
        is_parked=False,
        error="ConnectionError: db-7 refused the connection",
        since_ms=NOW_MS - 61_000,
    )
    return replace(found, **changed)  # type: ignore[arg-type]


def held(*, walled: bool) -> HeldPartition:
    return HeldPartition(
        ORDERS, (WHOLE,), 43, 9_000, pending=8_000, is_paused=False, is_walled=walled
    )


def glimpse(*records: FailedRecord, running: Sequence[int] = (), walled: bool = False) -> Glimpse:
    runs = [RunningRecord(ORDERS, it, b"N14228", 7, NOW_MS - 400_000, 1, False) for it in running]
    return Glimpse(
        at_ms=NOW_MS,
        held=(held(walled=walled),),
        running=tuple(runs),
        running_count=len(runs),
        failed=records,
        failed_count=len(records),
    )


def metrics(**figures: float) -> MemberMetrics:
    return replace(full_metrics(), **figures)  # type: ignore[arg-type]


def page_of(
    seen: Glimpse,
    health: Health = WELL,
    *,
    keys: LogKeys = LogKeys.TEXT,
    **figures: float,
) -> MemberPage:
    return member_page(health, metrics(**figures), seen, version=1, keys=keys, options=OPTIONS)


def needs(
    seen: Glimpse = Glimpse(at_ms=NOW_MS),  # noqa: B008 - it cannot be changed
    health: Health = WELL,
    *,
    keys: LogKeys = LogKeys.TEXT,
    **figures: float,
) -> Needs:
    return page_of(seen, health, keys=keys, **figures).needs


def lines(need: Need) -> list[str]:
    return [it.line for it in need.commands]


def test_a_member_that_is_well_needs_nobody() -> None:
    page = page_of(glimpse())
    assert (page.needs.total, page.title) == (0, "m1 | billing")


# -- records ---------------------------------------------------------------------------------------


def test_a_record_that_fails_is_told_with_since_when_and_what_becomes_of_it() -> None:
    [need] = needs(glimpse(failed())).shown

    assert (need.kind, need.urgency) == (NeedKind.FAILING, Urgency.WARN)
    assert need.title == "orders-3@43 fails, and is tried again"
    assert need.facts == ("key N14228", "3 attempts so far")
    assert need.error == "ConnectionError: db-7 refused the connection"
    assert need.since == "1 min 1 s"
    assert need.remedy.startswith("m1 tries it again")
    assert "the log of m1 has the traceback" in need.remedy
    assert lines(need) == [READ]
    assert need.actions == ()


def test_a_parked_record_has_its_commands_and_buttons() -> None:
    [need] = needs(glimpse(failed(is_parked=True))).shown

    assert (need.kind, need.urgency) == (NeedKind.PARKED, Urgency.BAD)
    assert lines(need) == [*DECIDE, READ]
    assert [it.action for it in need.actions] == ["retry", "skip"]


def test_more_parked_records_than_are_shown_are_seen_by_a_command() -> None:
    [line] = needs(glimpse(failed(is_parked=True)), keys_parked=2).all_parked
    assert line.line == "coop-consumer retry billing --all --dry-run --bootstrap kafka:9092"
    assert needs(glimpse(failed(is_parked=True)), keys_parked=1).all_parked == ()
    many = replace(glimpse(failed(is_parked=True)), failed_count=101)
    assert needs(many).all_parked != ()


def test_an_overdue_handler_is_told_with_its_record_and_where_its_stack_is() -> None:
    [need] = needs(glimpse(failed(error=OVERDUE), running=[43]), keys_overdue=1).shown

    assert (need.kind, need.urgency) == (NeedKind.OVERDUE, Urgency.BAD)
    assert need.title == "The handler of orders-3@43 runs for longer than it may"
    assert need.error == "", "it says the same"
    assert need.remedy.startswith("See below what runs, and its stack.")
    assert "docs/runbook.md#handleroverdue" in need.remedy
    assert lines(need) == [READ]


def test_a_handler_that_was_overdue_and_has_ended_only_fails() -> None:
    [need] = needs(glimpse(failed(error=OVERDUE))).shown
    assert need.kind is NeedKind.FAILING


def test_a_handler_that_hangs_elsewhere_is_waited_for_and_nothing_is_said_to_be_tried_again() -> (
    None
):
    seen = glimpse(failed(error=OVERDUE, behind=("m2",)))
    [need] = needs(seen).shown

    assert (need.kind, need.urgency) == (NeedKind.WAITS, Urgency.BAD)
    assert need.title == (
        "orders-3@43 waits for its handler at m2, which runs for longer than it may"
    )
    assert need.error == "", "it says the same"
    assert "The log of m2 has the handler's stack" in need.remedy
    assert "tries it again" not in need.remedy
    assert (need.facts[0], need.since, lines(need)) == ("key N14228", "1 min 1 s", [READ])
    own = needs(seen, keys_overdue=1).shown
    assert [it.kind for it in own] == [NeedKind.OVERDUE, NeedKind.WAITS], "one of its own, too"


def test_a_record_that_has_failed_elsewhere_waits_for_its_handler_there() -> None:
    [need] = needs(glimpse(failed(behind=("m2", "m\x1b[2J3")))).shown
    assert (need.kind, need.urgency) == (NeedKind.WAITS, Urgency.NOTE)
    assert need.title == r"orders-3@43 waits for its handler at m2, m\x1b[2J3"
    assert need.error == "ConnectionError: db-7 refused the connection"
    assert need.remedy == "It begins once the handler of that key's last owner has ended."


def test_overdue_handlers_without_a_record_are_counted() -> None:
    one, two = (needs(keys_overdue=number).shown[0] for number in (1, 2))
    assert one.title == "1 handler runs for longer than max.processing.ms allows"
    assert two.title == "2 handlers run for longer than max.processing.ms allows"
    assert (one.kind, one.urgency, lines(one)) == (NeedKind.OVERDUE, Urgency.BAD, [STATUS])
    told = needs(glimpse(failed(error=OVERDUE), running=[43]), keys_overdue=2).shown
    assert sorted(it.title.split()[0] for it in told) == ["1", "The"]


# -- figures ---------------------------------------------------------------------------------------


def test_a_walled_partition_is_named_with_the_record_that_stands_first() -> None:
    [need] = needs(glimpse(walled=True), walled=1).shown

    assert (need.kind, need.urgency) == (NeedKind.WALLED, Urgency.BAD)
    assert need.title == "orders-3 is fetched no further"
    assert need.facts[0] == "holds 8,000 unfinished records, as many as it may"
    assert need.facts[-1] == "orders-3@43 is the first"
    assert "docs/runbook.md#fetchwalled" in need.remedy
    assert lines(need) == [READ]


def test_a_walled_partition_behind_a_parked_record_has_the_commands_of_that() -> None:
    seen = glimpse(failed(is_parked=True), failed(99, is_parked=True), walled=True)
    [need] = [it for it in needs(seen, walled=1).shown if it.kind is NeedKind.WALLED]
    assert need.facts[-1] == "orders-3@43 is the first, and is parked"
    assert lines(need) == [*DECIDE, READ]
    assert [it.action for it in need.actions] == ["retry", "skip"]


def test_walled_partitions_that_no_glimpse_has_are_counted() -> None:
    one, two = (needs(glimpse(), walled=number).shown[0] for number in (1, 2))
    assert one.title == "1 partition is fetched no further"
    assert two.title == "2 partitions are fetched no further"
    assert (one.kind, one.urgency, lines(one)) == (NeedKind.WALLED, Urgency.BAD, [STATUS])


@pytest.mark.parametrize("figure", ["undecided_input_s", "undecided_log_s"])
def test_a_transaction_that_is_undecided_for_long_is_told(figure: str) -> None:
    assert needs(**{figure: 2.0}).total == 0
    [need] = needs(**{figure: 65.0}).shown
    assert (need.kind, need.urgency) == (NeedKind.UNDECIDED, Urgency.WARN)
    assert (need.since, lines(need)) == ("1 min 5 s", [STATUS])


@pytest.mark.parametrize(
    ("age_s", "told"),
    [(5.0, ("what is finished", "")), (5.1, ("what is finished, longer than usual", "warn"))],
)
def test_a_commit_that_waits_for_long_is_told_by_words_and_not_by_colour_alone(
    age_s: float, told: tuple[str, str]
) -> None:
    tiles = page_of(glimpse(), commit_age_s=age_s).tiles
    [(detail, kind)] = [(it.detail, it.kind) for it in tiles if it.name == "Commit waits"]
    assert (detail, kind) == told


# -- how it is -------------------------------------------------------------------------------------


def test_a_range_that_waits_names_who_holds_it_with_what_begins_it() -> None:
    def waiting(for_s: float, *members: str) -> Need:
        wait = WaitingFor("orders-3", for_s, "a handler has not ended", members)
        [need] = needs(health=replace(WELL, waits=(wait,))).shown
        return need

    need = waiting(29.0, "m2", "m 3")
    assert (need.kind, need.urgency, need.since) == (NeedKind.WAITS, Urgency.NOTE, "29 s")
    assert need.title.startswith("orders-3: waits 29 s for members m2, m 3")
    assert need.remedy == "It begins once these handlers have ended."
    assert lines(need) == [
        "coop-consumer release billing orders-3 --holder m2 --bootstrap kafka:9092",
        "coop-consumer release billing orders-3 --holder 'm 3' --bootstrap kafka:9092",
    ]
    assert waiting(30.0, "m2").urgency is Urgency.WARN
    assert lines(waiting(30.0)) == [STATUS], "it waits for no member"


def test_an_open_circuit_is_bad_and_says_what_to_repair() -> None:
    [need] = needs(health=replace(WELL, circuit_open_s=125.0)).shown
    assert (need.kind, need.urgency, need.since) == (NeedKind.HELD_BACK, Urgency.BAD, "2 min 5 s")
    assert "Repair what its handlers need" in need.remedy
    assert lines(need) == [STATUS]


def test_without_a_broker_the_doctor_is_asked() -> None:
    [need] = needs(health=replace(WELL, silent_s=12.0)).shown
    assert (need.urgency, need.title) == (Urgency.BAD, "no broker for 12 s")
    assert lines(need) == ["coop-consumer doctor --bootstrap kafka:9092"]


def test_a_group_that_has_stopped_names_the_record() -> None:
    [need] = needs(health=replace(WELL, stopped_at="orders-3@43")).shown
    assert (need.urgency, need.title) == (Urgency.BAD, "stopped at orders-3@43")
    assert "on.failure=stop" in need.remedy
    assert lines(need) == [STATUS]


def test_a_thread_that_stands_still_is_bad_also_if_the_member_does_not_answer() -> None:
    frozen = replace(WELL, idle_s={"coop-member-billing": 30.0})
    found = member_page(frozen, None, Glimpse(), version=1, keys=LogKeys.TEXT).needs
    [need] = found.shown
    assert (need.urgency, need.title) == (Urgency.BAD, "coop-member-billing stands still for 30 s")


@pytest.mark.parametrize(
    "health",
    [
        replace(WELL, phase=HealthPhase.STARTING),
        replace(WELL, is_member=False),
        replace(WELL, is_draining=True),
    ],
    ids=["starts", "joins", "drains"],
)
def test_what_passes_by_itself_is_only_noted(health: Health) -> None:
    found = needs(health=health)
    assert found.worst is Urgency.NOTE
    assert page_of(glimpse(), health).title == "m1 | billing"


def test_all_of_it_at_once_has_the_worst_first_and_is_counted_in_the_title() -> None:
    wait = WaitingFor("orders-3", 40.0, "a handler has not ended", ("m2",))
    health = replace(WELL, circuit_open_s=9.0, waits=(wait,))
    seen = glimpse(
        failed(7, is_parked=True), failed(), failed(8, error=OVERDUE), running=[8], walled=True
    )
    page = page_of(seen, health, walled=1, undecided_input_s=9.0, keys_overdue=1)

    assert [it.kind for it in page.needs.shown] == [
        NeedKind.PARKED,
        NeedKind.OVERDUE,
        NeedKind.WALLED,
        NeedKind.HELD_BACK,
        NeedKind.UNDECIDED,
        NeedKind.WAITS,
        NeedKind.FAILING,
    ]
    assert page.title == "(7) m1 | billing"
    assert all(it.commands for it in page.needs.shown)


# -- text of strangers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (LogKeys.TEXT, "key <img src=x onerror=alert(1)>"),
        (LogKeys.HASH, "hash 7"),
        (LogKeys.NONE, "key not shown (log.keys=none)"),
    ],
)
def test_keys_are_shown_as_far_as_log_keys_allows(keys: LogKeys, told: str) -> None:
    [need] = needs(glimpse(failed(key=HOSTILE)), keys=keys).shown
    assert need.facts[0] == told
    if keys is not LogKeys.TEXT:
        assert "onerror" not in repr(need)


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (failed(key=NOT_TEXT), "key 0xfffe00"),
        (failed(key=b"\x1b[31mred"), r"key \x1b[31mred"),
        (failed(key="\u202egnillib".encode()), r"key \u202egnillib"),
        (failed(key=b""), 'key ""'),
        (failed(key=None), "no key"),
        (failed(key=None, is_key_known=False), "hash 7"),
    ],
    ids=["no text", "colours", "backwards", "empty", "none", "not known"],
)
def test_keys_of_any_bytes_are_text(record: FailedRecord, told: str) -> None:
    assert needs(glimpse(record)).shown[0].facts[0] == told


def test_errors_and_names_of_strangers_obey_nobody() -> None:
    evil = "<script>alert(2)</script>: \x1b[31mred\u202e" + "x" * 9_000
    health = replace(
        WELL,
        member="m\x1b[2J1",
        waits=(WaitingFor("orders-3", 40.0, "x", ("$(reboot); \x1b[2J",)),),
    )
    waits, fails = needs(glimpse(failed(error=evil)), health).shown

    assert fails.error.startswith(r"<script>alert(2)</script>: \x1b[31mred\u202exxx")
    assert len(fails.error) <= 600
    assert fails.remedy.startswith(r"m\x1b[2J1 tries it again")
    assert waits.title.isprintable()
    [release] = lines(waits)
    assert "--holder '$(reboot); \x1b[2J'" in release, "templates show it as an escape"
