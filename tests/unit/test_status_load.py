"""The load in the status of a group: what is taken from reports, the bars, the JSON."""

from __future__ import annotations

from dataclasses import replace

from assignors import WHOLE, KeyRange, key_hash
from coop_consumer.core.policies import Policies
from coop_consumer.status.arrivals import Arrivals
from coop_consumer.status.as_json import as_json
from coop_consumer.status.load import load_of, with_names
from coop_consumer.status.model import GroupStatus, group_status
from coop_consumer.status.needs import members_of, needs_of
from coop_consumer.status.seen import MemberSeen
from offsets import (
    Committed,
    HeavyKey,
    LoadKey,
    LoadRecord,
    PartitionLoad,
    TenureId,
    TenureRecord,
)
from tests.support.written_log import NOW_MS, ORDERS, TOPIC_ID, WrittenLog, facts, seen
from tests.unit.test_status_picture import draw

HOT = key_hash(b"N725MQ")
ALONE = KeyRange(HOT, HOT)
REST = (KeyRange(0, HOT - 1), KeyRange(HOT + 1, WHOLE.hi))
ALPHA = MemberSeen("alpha", "host-1", 16, {ORDERS: (WHOLE,)}, assigned_at_ms=NOW_MS - 90_000)
PLAIN = MemberSeen("plain-1", "host-2", 0, {ORDERS: (WHOLE,)})


def report(**changed: object) -> LoadRecord:
    usual = LoadRecord(
        incarnation=1,
        at_ms=NOW_MS - 10_000,
        workers=16,
        busy=620,
        handler_us=4_980,
        finished=1_210,
        partitions=(PartitionLoad(TOPIC_ID, 0, 4_980_000_000, 330),),
        heavy=(HeavyKey(TOPIC_ID, 0, HOT, 610, b"N725MQ"),),
    )
    return replace(usual, **changed)  # type: ignore[arg-type]


def status(*members: MemberSeen, log: WrittenLog | None = None, **loads: LoadRecord) -> GroupStatus:
    found = seen(log or WrittenLog(), *members, committed=Committed(50, ""))
    return group_status(replace(found, loads=loads))


def lines(of: GroupStatus, **how: object) -> list[str]:
    return [line.rstrip() for line in draw(of, **how)]  # type: ignore[arg-type]


# -- what is taken from reports --------------------------------------------------------------------


def test_a_report_in_the_log_is_the_members_until_it_is_cleared() -> None:
    log = WrittenLog().put(LoadKey("g", "alpha"), report())
    assert [record for _, record in log.store.loads.values()] == [report()]
    assert log.put(LoadKey("g", "alpha"), None).store.loads == {}


def test_only_members_of_the_group_are_at_work_and_others_count_if_none_is() -> None:
    records = {"alpha": report(), "gone": report(busy=1_000)}
    here = load_of(records, ["alpha"], {ORDERS: TOPIC_ID})
    assert [work.member for work in here.measured] == ["alpha"]
    assert [work.member for work in here.left] == ["gone"]
    nobody = load_of(records, [], {ORDERS: TOPIC_ID})
    assert [work.member for work in nobody.measured] == ["alpha", "gone"]
    assert nobody.keys[0].key == b"N725MQ"


def test_the_first_report_of_a_member_that_has_done_nothing_hides_no_other() -> None:
    fresh = report(busy=0, handler_us=0, finished=0, partitions=(), heavy=())
    found = load_of({"new": fresh, "gone": report()}, ["new"], {ORDERS: TOPIC_ID})
    assert [work.member for work in found.works] == ["new"]
    assert [work.member for work in found.measured] == ["gone"]
    assert found.keys[0].key == b"N725MQ"


def test_a_topic_that_was_made_again_has_no_load_yet() -> None:
    found = load_of({"alpha": report()}, ["alpha"], {ORDERS: b"another topic id"})
    assert (found.keys, found.weights, found.paces) == ((), {}, {})


def test_of_a_key_that_moved_the_newer_report_counts() -> None:
    newer = report(at_ms=NOW_MS, heavy=(HeavyKey(TOPIC_ID, 0, HOT, 200, b"N725MQ"),))
    [key] = load_of({"a": newer, "b": report()}, ["a", "b"], {ORDERS: TOPIC_ID}).keys
    assert (key.member, key.share) == ("a", 0.2)


# -- the picture -----------------------------------------------------------------------------------


def test_each_member_that_reports_has_a_bar_and_heavy_keys_are_named() -> None:
    told = lines(status(ALPHA, replace(ALPHA, name="beta", ranges={}), alpha=report()))
    [bar] = [line for line in told if line.startswith("A") and "█" in line and "ms" in line]
    assert bar.split() == ["A", "████████████········", "62", "%", "1,210", "5.0", "ms"]
    assert "orders-0: key N725MQ is 61 % of the work (at A), and runs on one worker" in told
    assert max(map(len, told)) <= 80


def test_of_a_key_that_keeps_a_worker_busy_it_says_what_can_be_busy_at_most() -> None:
    heavy = (HeavyKey(TOPIC_ID, 0, HOT, 610, b"N725MQ", is_busy=True),)
    found = status(ALPHA, alpha=report(heavy=heavy))
    told = lines(found)
    at = told.index("orders-0: key N725MQ is 61 % of the work (at A), and keeps one worker busy")
    assert " ".join(" ".join(told[at + 1 : at + 3]).split()).startswith(
        "at most 1.6 workers can be busy there: make its handler quicker, or split the key"
    )
    [key] = as_json(found)["heavy_keys"]
    assert (key["is_busy"], key["workers_at_most"]) == (True, 1.6)


def test_without_reports_nothing_is_drawn_of_load() -> None:
    text = "\n".join(lines(status(ALPHA)))
    assert "workers busy" not in text
    assert "of the work" not in text


def test_a_light_key_is_no_news_and_a_strange_one_is_shown_escaped() -> None:
    heavy = (
        HeavyKey(TOPIC_ID, 0, HOT, 300, b"\x1b[2J\xff"),
        HeavyKey(TOPIC_ID, 0, 5, 20, b"light"),
    )
    text = "\n".join(lines(status(ALPHA, alpha=report(heavy=heavy)), width=200))
    assert r"key \x1b[2J\xff is 30 % of the work" in text
    assert "light" not in text
    assert "\x1b" not in text


def test_a_terminal_without_unicode_gets_plain_bars() -> None:
    told = lines(status(ALPHA, alpha=report()), encoding="ascii")
    assert any("############" in line for line in told)
    assert all(line.isascii() for line in told)


# -- JSON ------------------------------------------------------------------------------------------


def test_json_has_the_load_of_each_member_and_the_heavy_keys() -> None:
    told = as_json(status(ALPHA, replace(ALPHA, name="beta"), alpha=report()))
    assert [member["load"] for member in told["members"]] == [
        {
            "at_ms": NOW_MS - 10_000,
            "workers": 16,
            "busy": 0.62,
            "handler_us": 4_980,
            "finished": 1_210,
            "p50_us": None,
            "p99_us": None,
            "memory_bytes": None,
        },
        None,
    ]
    assert told["heavy_keys"] == [
        {
            "topic": "orders",
            "partition": 0,
            "key": "N725MQ",
            "key_hash": HOT,
            "share": 0.61,
            "member": "alpha",
            "is_busy": False,
            "workers_at_most": 1.6,
        }
    ]


# -- what `scale` asks -----------------------------------------------------------------------------


def test_what_is_left_arrives_and_is_known_of_members_is_asked_of_the_status() -> None:
    found = status(ALPHA, alpha=report())
    [need] = needs_of(found, Arrivals())
    assert (need.tp, need.left, need.alone, need.is_shared, need.is_walled) == (
        ORDERS, 10, 0, True, False,
    )  # fmt: skip
    assert need.arrivals == 330 - 10 / 60  # the pace of the report, less what it has for the rest
    members = members_of(found, 3)
    assert (members.count, members.capacities) == (1, (16,))
    assert (members.settled_s, members.asked_for) == (90.0, 3)


def test_a_group_that_rests_says_nothing_of_what_arrives() -> None:
    [need] = needs_of(status(ALPHA, alpha=report(busy=0, finished=0)), Arrivals())
    assert need.arrivals == 0.0


def test_what_a_minute_of_looks_shows_counts_more_than_what_members_said() -> None:
    arrivals = Arrivals()
    arrivals.note(0.0, {ORDERS: 0})
    arrivals.note(60.0, {ORDERS: 60})
    [need] = needs_of(status(ALPHA, alpha=report()), arrivals)
    assert need.arrivals == 1.0


def test_the_records_of_a_hash_with_its_own_tenure_are_counted_apart() -> None:
    log = WrittenLog().base(1, 40)
    log.tenure(TenureId("alpha", 1, 1), TenureRecord(1, -1, tuple(facts(r, 60) for r in REST)))
    log.tenure(TenureId("alpha", 1, 2), TenureRecord(1, -1, (facts(ALONE, 41, (44, 49)),)))
    found = group_status(seen(log, ALPHA, committed=Committed.mirror(41, 1, TOPIC_ID)))
    [need] = needs_of(found, Arrivals())
    # It has left [41-43], and has not seen [50-59], of which as good as none are its own.
    assert (need.alone, need.left) == (4, 4)
    # But members have measured that it has 61 % of the records.
    told = seen(log, ALPHA, committed=Committed.mirror(41, 1, TOPIC_ID))
    hot = group_status(replace(told, loads={"alpha": report()}))
    [need] = needs_of(hot, Arrivals())
    assert (need.alone, need.left) == (10, 10)
    assert not hot.partitions[0].remaining.is_exact


def test_a_hot_key_that_no_member_reports_shows_by_its_progress() -> None:
    log = WrittenLog().base(1, 0)
    log.tenure(TenureId("alpha", 1, 1), TenureRecord(1, -1, tuple(facts(r, 900) for r in REST)))
    # Of the offsets [200-399] that it has seen every second one is its own, and not done.
    done = tuple((offset, offset) for offset in range(201, 400, 2))
    log.tenure(TenureId("alpha", 1, 2), TenureRecord(1, -1, (facts(ALONE, 200, *done),)))
    found = group_status(seen(log, ALPHA, end=1_000, committed=Committed.mirror(200, 1, TOPIC_ID)))
    [key] = found.load.keys
    assert (key.key_hash, key.share, key.key, key.member) == (HOT, 0.5, None, "alpha")
    [key] = with_names(found.load, {(ORDERS, HOT): b"N725MQ", (ORDERS, 1): b"other"}).keys
    assert key.words == "key N725MQ"
    [need] = needs_of(found, Arrivals())
    assert need.alone == 100 + 300  # what it has seen, and half of the 600 offsets behind that
    assert need.left == 100 + 300 + 50  # and half of the 100 that nobody has seen is of others


def test_a_hash_that_was_dealt_by_itself_waits_among_the_others() -> None:
    log = WrittenLog().base(1, 40)
    every = tuple(facts(it, 41, (44, 49)) for it in (*REST, ALONE))
    log.tenure(TenureId("alpha", 1, 1), TenureRecord(1, -1, every))
    told = seen(log, ALPHA, committed=Committed.mirror(41, 1, TOPIC_ID))
    [need] = needs_of(group_status(replace(told, loads={"alpha": report()})), Arrivals())
    assert (need.alone, need.left) == (0, 13)


def test_policies_and_plain_members_keep_partitions_whole() -> None:
    found = status(ALPHA)
    refused = replace(found, policies=Policies(frozenset({"orders"})))
    assert not needs_of(refused, Arrivals())[0].is_shared
    assert not needs_of(replace(found, policies=Policies(group=True)), Arrivals())[0].is_shared
    assert not needs_of(status(ALPHA, PLAIN), Arrivals())[0].is_shared
    # While it rebalances, a group's coordinator shows all members as if they were plain.
    moving = replace(status(PLAIN), state="PreparingRebalance")
    assert needs_of(moving, Arrivals())[0].is_shared
    assert members_of(moving, None).settled_s == 0.0
