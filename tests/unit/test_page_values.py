"""What a group's page says: what needs a person first, figures, letters, lines. Plain values."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from assignors import WHOLE, KeyRange, TopicPartition
from coop_consumer.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    CoopConsumerError,
    UnexpectedAnswerError,
)
from coop_consumer.ops.feed import FeedState, GroupFeed, Listing
from coop_consumer.ops.group_metrics import GroupLook
from coop_consumer.ops.page.group_page import GroupPage, GroupShown, group_page, outlook
from coop_consumer.ops.page.groups_page import groups_page
from coop_consumer.ops.page.letters import Letters
from coop_consumer.ops.page.needs import WALLED_REMEDY, Need, NeedKind, Urgency, remedy_for
from coop_consumer.ops.page.own_page import PageHost, own_page
from coop_consumer.ops.page.rendering import group_parts
from coop_consumer.ops.page.sparkline import sparkline
from coop_consumer.ops.speed import GroupSpeed, Rate
from coop_consumer.status.errors import GroupMissingError
from coop_consumer.status.model import (
    GroupStatus,
    PendingHandover,
    RecordStatus,
    decided_warning,
)
from coop_consumer.status.open_transaction import OpenTransaction
from coop_consumer.status.remaining import Remaining
from coop_consumer.status.seen import MemberSeen
from coop_consumer.status.standing import RecordState
from coop_consumer.status.words import AHEAD
from offsets import Meaning, TenureId
from tests.support.links import anchors_in
from tests.unit.page_values import (
    HOSTILE,
    NOT_TEXT,
    NOW_MS,
    OPTIONS,
    Line,
    failing,
    group,
    hung_elsewhere,
    overdue,
    partition,
    record,
    seen,
    troubled,
)

ORDERS = TopicPartition("orders", 0)
OPS, POD = PageHost("ops"), PageHost("billing-page-1", is_pod=True)


def page_of(status: GroupStatus, letters: Letters | None = None, **feed: object) -> GroupPage:
    return group_page(seen(status, **feed), letters or Letters(), (), NOW_MS, options=OPTIONS)


def shown(status: GroupStatus, letters: Letters | None = None) -> GroupShown:
    view = page_of(status, letters).view
    assert view is not None
    return view


# -- what needs a person ---------------------------------------------------------------------------


def test_what_needs_a_person_comes_with_why_since_when_and_the_command() -> None:
    [parked] = [it for it in shown(troubled()).needs.shown if it.kind is NeedKind.PARKED]

    assert parked.title == "orders-0@43 is parked: its key waits for your decision"
    assert parked.since == "1 min 1 s"
    assert "key <img src=x onerror=alert(1)>" in parked.facts
    assert parked.error == r"<script>alert(2)</script>: \x1b[31mred"
    assert [it.line for it in parked.commands] == [
        "coop-consumer retry billing orders-0 43 --bootstrap kafka:9092",
        "coop-consumer skip billing orders-0 43 --bootstrap kafka:9092",
        "coop-consumer read orders --partition 0 --from 43 --count 1 --bootstrap kafka:9092",
    ]
    assert [it.href for it in parked.actions] == [
        "/confirm/retry/billing?topic=orders&partition=0&offset=43",
        "/confirm/skip/billing?topic=orders&partition=0&offset=43",
    ]


def test_the_worst_comes_first_and_each_kind_is_told_once() -> None:
    needs = shown(troubled()).needs

    assert [(it.kind, it.urgency) for it in needs.shown] == [
        (NeedKind.PARKED, Urgency.BAD),
        (NeedKind.OVERDUE, Urgency.BAD),
        (NeedKind.WALLED, Urgency.BAD),
        (NeedKind.WAITS, Urgency.WARN),
        (NeedKind.FAILING, Urgency.WARN),
        (NeedKind.WARNING, Urgency.WARN),
    ]
    assert needs.worst is Urgency.BAD
    assert all(it.commands for it in needs.shown)
    assert page_of(troubled()).title == "(6) billing | coop-consumer"


def test_a_group_with_nothing_up_needs_nobody() -> None:
    page = page_of(group(4, 3))
    assert page.needs.total == 0
    assert page.needs.worst is None
    assert page.title == "billing | coop-consumer"


def test_ten_thousand_parked_records_hide_nothing_else_and_are_decided_at_once() -> None:
    status = troubled()
    many = tuple(record(offset) for offset in range(10_000))
    first = replace(status.partitions[0], failed=(*many, failing(20_000)))
    needs = shown(replace(status, partitions=(first, *status.partitions[1:]))).needs

    kinds = {it.kind for it in needs.shown}
    assert {NeedKind.PARKED, NeedKind.OVERDUE, NeedKind.WALLED, NeedKind.FAILING} <= kinds
    assert len(needs.shown) <= 25
    assert dict(needs.more)["parked"] + sum(
        it.kind is NeedKind.PARKED for it in needs.shown
    ) == len(many)
    assert needs.all_parked[1].line == "coop-consumer retry billing --all --bootstrap kafka:9092"


def test_who_waits_for_whom_is_told_once_for_all_partitions_and_not_at_once() -> None:
    def waiting(since_ms: int) -> GroupStatus:
        status = group(2, 3)
        wait = PendingHandover((WHOLE,), "m-01", "gone", TenureId("gone", 1, 1), since_ms)
        return replace(
            status,
            partitions=tuple(replace(it, handovers=(wait,)) for it in status.partitions),
        )

    assert shown(waiting(NOW_MS - 1_000)).needs.total == 0
    [need] = shown(waiting(NOW_MS - 40_000)).needs.shown
    assert need.title == "B waits for gone (gone) to release ranges of 3 partitions"
    assert need.since == "40 s"
    assert need.urgency is Urgency.WARN
    [release] = need.commands
    assert release.line == "coop-consumer release billing --holder gone --bootstrap kafka:9092"
    assert need.actions == ()  # a button releases one partition


def hung(*records: RecordStatus) -> dict[NeedKind, list[Need]]:
    """What needs a person where m-01 waits for keys whose handlers hang at m-00."""
    status = group(2, 1)
    [only] = status.partitions
    ranges = tuple(sorted(KeyRange(it.key_hash, it.key_hash) for it in records))
    wait = PendingHandover(ranges, "m-01", "m-00", TenureId("m-00", 1, 1), NOW_MS - 40_000)
    it = replace(only, failed=records, holder=records[0], handovers=(wait,))
    found: dict[NeedKind, list[Need]] = {}
    for need in shown(replace(status, partitions=(it,))).needs.shown:
        found.setdefault(need.kind, []).append(need)
    return found


def test_a_hung_handler_whose_range_has_moved_is_told_with_where_it_hangs() -> None:
    found = hung(hung_elsewhere(9, b"x"), hung_elsewhere(29, b"y"))
    second, first = found[NeedKind.OVERDUE]

    assert (first.place, second.place) == ("orders-0@9", "orders-0@29")
    assert first.urgency is Urgency.BAD
    assert first.facts[:5] == (
        "key x",
        "waits for 40 s for its handler, which is overdue at A",
        "at A, m-00 on host-0",
        "B waits for it",
        "holds the stable offset",
    )
    assert first.since == "1 min 1 s", "since it is overdue"
    assert first.error == ""
    assert "The log of m-00 on host-0 has the handler's stack" in first.remedy
    assert [it.line for it in first.commands] == [
        "coop-consumer read orders --partition 0 --from 9 --count 1 --bootstrap kafka:9092",
        "coop-consumer release billing orders-0 --holder m-00 --bootstrap kafka:9092",
    ]


def test_a_wait_lists_the_records_that_it_waits_for_and_where_their_stacks_are() -> None:
    [wait] = hung(
        failing_elsewhere := hung_elsewhere(5, None, error="ValueError: no such plane"),
        hung_elsewhere(9, HOSTILE),
        hung_elsewhere(11, NOT_TEXT, is_read=False),
        *(hung_elsewhere(offset) for offset in (12, 13, 14)),
    )[NeedKind.WAITS]

    assert not failing_elsewhere.is_overdue
    assert wait.facts[2:] == (
        "orders-0@9, key <img src=x onerror=alert(1)>, overdue for 1 min 1 s",
        "orders-0@11, key not read, overdue for 1 min 1 s",
        "orders-0@12, key N3CXAA, overdue for 1 min 1 s",
        "orders-0@13, key N3CXAA, overdue for 1 min 1 s",
        "and 2 more records",
    )
    assert "The log of m-00 on host-0 has the handler's stack" in wait.remedy
    assert "docs/runbook.md#handleroverdue" in wait.remedy
    assert wait.remedy.endswith("else two may run for a key.")
    assert [it.line for it in wait.commands] == [
        "coop-consumer read orders --partition 0 --from 9 --count 1 --bootstrap kafka:9092",
        "coop-consumer release billing orders-0 --holder m-00 --bootstrap kafka:9092",
    ]


def test_a_record_that_only_fails_is_listed_by_the_wait_and_has_no_stack() -> None:
    found = hung(hung_elsewhere(5, None, error="ValueError: no such plane"))
    [wait] = found[NeedKind.WAITS]
    assert wait.facts[2:] == ("orders-0@5, no key, failing for 1 min 1 s",)
    assert wait.remedy.startswith("It begins once the handlers there have ended. Release only if")
    assert set(found) == {NeedKind.WAITS}


def test_a_handler_that_hangs_at_a_member_that_is_gone_names_it() -> None:
    [first] = hung(hung_elsewhere(9, behind="gone"))[NeedKind.OVERDUE]
    assert "at gone (gone), gone" in first.facts
    assert "The log of gone has the handler's stack" in first.remedy


def test_a_wait_since_a_clock_that_is_ahead_is_shown_and_its_length_is_not_known() -> None:
    def waiting(ahead_ms: int) -> GroupStatus:
        status = group(2, 1)
        wait = PendingHandover((WHOLE,), "m-01", "gone", TenureId("gone", 1, 1), NOW_MS + ahead_ms)
        [only] = status.partitions
        return replace(status, partitions=(replace(only, handovers=(wait,)),))

    assert shown(waiting(500)).needs.total == 0  # clocks differ by a little
    [need] = shown(waiting(3_600_000)).needs.shown
    assert need.kind is NeedKind.WAITS
    assert need.since == ""
    assert AHEAD in need.facts


def test_a_handler_that_runs_since_a_clock_that_is_ahead_is_shown() -> None:
    def running(since_ms: int) -> GroupStatus:
        status = group(2, 1)
        [only] = status.partitions
        holder = record(
            7,
            is_parked=False,
            attempts=0,
            error="",
            since_ms=0,
            standing=RecordState.RUNNING,
            standing_since_ms=since_ms,
        )
        return replace(status, partitions=(replace(only, holder=holder),))

    assert shown(running(NOW_MS - 5_000)).needs.total == 0
    [need] = shown(running(NOW_MS + 3_600_000)).needs.shown
    assert (need.kind, need.since) == (NeedKind.SLOW, "")
    assert need.title == "The handler of orders-0@7 runs"
    assert any(AHEAD in fact for fact in need.facts)


def test_a_wall_names_the_record_that_stands_first_and_has_its_commands() -> None:
    def walled(*failed: RecordStatus, **changed: object) -> Need:
        it = partition(ORDERS, [(WHOLE, "m-00")], left=300, failed=failed, walled=(("m-00", 9),))
        it = replace(it, **changed)  # type: ignore[arg-type]
        needs = shown(replace(group(2, 1), partitions=(it,))).needs.shown
        [need] = [it for it in needs if it.kind is NeedKind.WALLED]
        assert need.urgency is Urgency.BAD
        return need

    parked = walled(record(43))
    assert parked.facts[-2:] == (
        "orders-0@43 holds the stable offset for 1 min 1 s",
        "parked after 5 attempts",
    )
    assert [it.line for it in parked.commands] == [
        "coop-consumer retry billing orders-0 43 --bootstrap kafka:9092",
        "coop-consumer skip billing orders-0 43 --bootstrap kafka:9092",
        "coop-consumer read orders --partition 0 --from 43 --count 1 --bootstrap kafka:9092",
    ]
    assert [it.action for it in parked.actions] == ["retry", "skip"]

    running = walled(overdue(43))
    assert "its handler runs for 6 min 40 s" in running.facts
    assert [it.line.split()[1] for it in running.commands] == ["read"]
    assert running.actions == ()

    others = walled(record(43, member="m-01"), failing(57))
    assert "orders-0@57 stands first there for 1 min 1 s" in others.facts
    assert [it.line.split()[1] for it in others.commands] == ["read"]

    [unknown] = walled(record(43), failed=(), holder=None).commands
    assert unknown.line == "coop-consumer status billing --bootstrap kafka:9092"


@pytest.mark.parametrize(
    ("it", "kind", "told"),
    [
        (overdue(7), NeedKind.OVERDUE, "The log of m-00 on host-0 has the handler's stack"),
        (failing(7), NeedKind.FAILING, "m-00 tries it again"),
        (
            record(7, is_parked=False, attempts=0, standing=RecordState.PAUSED),
            NeedKind.PAUSED,
            "resumes it at m-00 on host-0: its program by pool.resume",
        ),
        (
            record(7, is_parked=False, attempts=0, standing=RecordState.RUNNING),
            NeedKind.SLOW,
            "The own page of m-00 on host-0 has the handler's stack",
        ),
        (
            record(7, is_parked=False, attempts=0, standing=RecordState.WAITING),
            NeedKind.WAITS,
            "It begins once the handler",
        ),
    ],
    ids=["overdue", "failing", "paused", "slow", "waits"],
)
def test_what_helps_is_told_with_where(it: RecordStatus, kind: NeedKind, told: str) -> None:
    status = group(1, 1)
    [only] = status.partitions
    it = replace(it, since_ms=NOW_MS - 90_000, standing_since_ms=NOW_MS - 90_000)
    [need] = shown(replace(status, partitions=(replace(only, holder=it),))).needs.shown
    assert need.kind is kind
    assert told in need.remedy
    assert [it.line for it in need.commands] == [
        "coop-consumer read orders --partition 0 --from 7 --count 1 --bootstrap kafka:9092"
    ]


def test_pages_that_a_remedy_names_are_there() -> None:
    anchors = anchors_in((Path(__file__).parents[2] / "docs/runbook.md").read_text("utf-8"))
    told = WALLED_REMEDY + remedy_for(NeedKind.OVERDUE, "m-00")
    named = re.findall(r"docs/runbook\.md#([\w-]+)", told)
    assert len(named) == 2
    assert set(named) <= anchors


def test_a_member_that_tries_one_record_a_second_is_told_once() -> None:
    held = [
        record(n, is_parked=False, standing=RecordState.HELD_BACK, error="db away") for n in (1, 2)
    ]
    status = group(1, 1)
    broken = partition(ORDERS, [(WHOLE, "m-00")], left=9, failed=held)
    [need] = shown(replace(status, partitions=(broken,))).needs.shown

    assert need.kind is NeedKind.HELD_BACK
    assert need.error == "db away"


def test_a_group_without_members_and_with_work_is_bad_and_one_without_work_is_not() -> None:
    idle = partition(ORDERS, [])
    empty = replace(group(0, 0), state="Empty", partitions=(idle,))
    assert shown(empty).needs.worst is Urgency.NOTE

    [need] = shown(replace(empty, partitions=(partition(ORDERS, [], left=7),))).needs.shown
    assert (need.kind, need.urgency) == (NeedKind.NO_MEMBERS, Urgency.BAD)
    assert need.commands[0].line == (
        "coop-consumer run MODULE:WORKER --topics orders --group billing --bootstrap kafka:9092"
    )


def test_an_undecided_transaction_is_told_with_what_ends_it() -> None:
    held = OpenTransaction(ORDERS, 7, 9, "kafka:9092", NOW_MS - 9_000, "tx-1", is_hanging=True)
    [need] = shown(replace(group(1, 1), open_transactions=(held,))).needs.shown
    assert (need.kind, need.urgency, need.since) == (NeedKind.UNDECIDED, Urgency.BAD, "9 s")
    assert need.commands[0].line == held.command


def test_a_command_in_a_warning_is_ready_to_paste() -> None:
    warning = "orders-0: its offset has expired. To begin again, run: coop-consumer reset billing"
    [need] = shown(replace(group(1, 1), warnings=(warning,))).needs.shown
    assert need.title == "orders-0: its offset has expired. To begin again, run this"
    assert need.commands[0].line == "coop-consumer reset billing"


# -- nothing to see --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "title", "told"),
    [
        (GroupMissingError("billing"), "There is no group billing", "start its members"),
        (
            AuthorizationError("group billing", "describe", "ann"),
            "User ann may not describe group billing",
            "Grant it: describe on group billing",
        ),
        (BrokerUnreachableError("kafka:9092", "timed out"), "No broker answers", "brokers run"),
        (None, "A look at group billing failed", "The log of this process"),
    ],
    ids=["missing", "no right", "away", "defect"],
)
def test_a_group_that_cannot_be_seen_says_why_and_what_to_do(
    error: CoopConsumerError | None, title: str, told: str
) -> None:
    feed = GroupFeed("billing")
    feed.put(GroupLook("billing", 0.1, 0.0, error=error))
    page = group_page(feed.now, Letters(), (), NOW_MS, options=OPTIONS)

    assert page.view is None
    assert page.trouble is not None
    assert page.trouble.title == title
    assert told in page.trouble.text
    assert page.trouble.commands


def test_before_the_first_look_the_page_says_that_it_looks() -> None:
    page = group_page(FeedState("billing"), Letters(), (), NOW_MS)
    assert page.trouble is not None
    assert page.trouble.is_looking


def test_a_picture_that_is_old_says_since_when_and_why() -> None:
    status, away = group(1, 1), BrokerUnreachableError("kafka:9092", "timed out")
    assert page_of(status).stale == ""
    old = page_of(status, seen_at_ms=NOW_MS - 65_000)
    assert "22:12:15 UTC, 1 min 5 s ago" in old.stale
    assert old.title.startswith("old: ")
    failed = page_of(status, failing_since_ms=NOW_MS - 1_000, error=away)
    assert "kafka:9092: no broker answered" in failed.stale


def test_a_look_that_fails_keeps_what_was_seen() -> None:
    clock = iter(range(1_000, 9_000, 1_000))
    feed = GroupFeed("billing", now_ms=lambda: next(clock))
    told: list[int] = []
    with feed.listening(lambda: told.append(feed.now.version)):
        feed.put(GroupLook("billing", 0.1, 0.0, group(1, 1)))
        feed.put(GroupLook("billing", 0.1, 0.0, error=GroupMissingError("billing")))
        feed.put(GroupLook("billing", 0.1, 0.0, error=GroupMissingError("billing")))
        assert feed.now.look is not None
        assert (feed.now.seen_at_ms, feed.now.failing_since_ms) == (1_000, 2_000)
        feed.put(GroupLook("billing", 0.1, 0.0, group(1, 1)))
        assert (feed.now.seen_at_ms, feed.now.failing_since_ms) == (4_000, 0)
    feed.put(GroupLook("billing", 0.1, 0.0, group(1, 1)))
    assert told == [1, 2, 3, 4]


def test_who_looks_hurries_the_next_look_and_the_list_does_not() -> None:
    feed, hurried = GroupFeed("billing"), []
    feed.hurry = lambda: hurried.append(1)
    with feed.listening(bool, watches=False):
        assert not feed.is_watched
    feed.touch()
    feed.touch()
    assert feed.is_watched
    assert len(hurried) == 1
    with feed.listening(bool):
        assert feed.is_watched


# -- kinds of groups -------------------------------------------------------------------------------


def test_a_plain_group_is_told_to_be_one() -> None:
    status = group(2, 2)
    plain = tuple(replace(it, capacity=0) for it in status.members)
    [notice] = shown(replace(status, members=plain)).notices
    assert "plain consumer group" in notice
    assert "upgrade.from" in notice


def test_offsets_of_others_are_noted_once_and_of_a_plain_group_not_at_all() -> None:
    def decided(capacity: int) -> GroupStatus:
        status = group(1, 2)
        found = [
            replace(it, epoch=0, next_epoch=1, meaning=Meaning.DECIDED) for it in status.partitions
        ]
        return replace(
            status,
            members=tuple(replace(it, capacity=capacity) for it in status.members),
            partitions=tuple(found),
            warnings=tuple(map(decided_warning, found)),
        )

    assert shown(decided(0)).needs.total == 0
    [need] = shown(decided(16)).needs.shown
    assert (need.kind, need.urgency) == (NeedKind.WARNING, Urgency.NOTE)
    assert need.title == "Somebody else has set offsets of 2 partitions"


def test_a_member_that_cannot_be_read_owns_nothing_and_has_its_letter() -> None:
    status = group(1, 1)
    odd = MemberSeen("x", "host-9", note="cannot be read: version 9")
    lines = shown(replace(status, members=(*status.members, odd))).members
    assert [(it.letter, it.state) for it in lines] == [("A", "works"), ("B", "cannot be read")]


def test_of_two_thousand_partitions_those_with_trouble_are_shown() -> None:
    status = group(5, 2_000)
    bad = replace(status.partitions[1_500], failed=(record(3),))
    partitions = (*status.partitions[:1_500], bad, *status.partitions[1_501:])
    view = shown(replace(status, partitions=partitions))

    assert len(view.picture.rows) + view.picture.left_out == 2_000
    assert "orders-1500" in [it.place for it in view.picture.rows]
    assert len(view.partitions) + view.partitions_more == 2_000


@pytest.mark.parametrize(
    ("address", "host", "place", "leads_there"),
    [
        ("10.0.0.7:9464", "host-7", "10.0.0.7:9464", True),
        ("[2001:db8::7]:80", "host-7", "[2001:db8::7]:80", True),
        ("0.0.0.0:9464", "host-7", "host-7:9464", True),
        ("[::]:9464", "a.example.com", "a.example.com:9464", True),
        ("127.0.0.1:9464", "host-7", "127.0.0.1:9464", False),
        ("127.0.0.1:9464", "ops", "127.0.0.1:9464", True),
        ("[::1]:9464", "ops", "[::1]:9464", True),
        ("[::ffff:127.0.0.1]:9464", "host-7", "127.0.0.1:9464", False),
        ("0.0.0.0:9464", "host_7", "host_7:9464", True),
    ],
)
def test_a_members_own_page_is_linked_where_the_link_leads_to_it(
    address: str, host: str, place: str, *, leads_there: bool
) -> None:
    page = own_page(address, host, OPS)
    assert page is not None
    assert page.place == place
    assert page.href == (f"http://{place}/" if leads_there else "")
    assert bool(page.command) is not leads_there


@pytest.mark.parametrize(
    ("address", "host", "here", "command"),
    [
        ("127.0.0.1:9464", "host-7", OPS, "ssh -L 9464:127.0.0.1:9464 host-7"),
        ("[::1]:80", "host-7", OPS, "ssh -L 80:[::1]:80 host-7"),
        ("0.0.0.0:9464", "billing-0", POD, "kubectl port-forward pod/billing-0 9464"),
        ("127.0.0.1:9464", "billing-0", POD, "kubectl port-forward pod/billing-0 9464"),
        ("10.0.0.7:80", "page-1", POD, "kubectl port-forward pod/page-1 80"),
        ("127.0.0.1:9464", "-oProxyCommand=x", OPS, ""),
        ("127.0.0.1:9464", "host-7; rm x", OPS, ""),
        ("10.0.0.7:80", "$(rm x)", POD, ""),
    ],
)
def test_where_no_link_leads_to_a_members_own_page_a_command_brings_it(
    address: str, host: str, here: PageHost, command: str
) -> None:
    page = own_page(address, host, here)
    assert page is not None
    assert page.command == command
    assert page.local == f"http://localhost:{address.rpartition(':')[2]}/"
    assert not (command and page.href)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("", "host-7"),
        ("9464", "host-7"),
        ("host-7:9464", "host-7"),
        ("10.0.0.7:0", "host-7"),
        ("10.0.0.7:65536", "host-7"),
        ("10.0.0.7:٣", "host-7"),
        ("10.0.0.7:9464/x", "host-7"),
        ("10.0.0.7:9464\n", "host-7"),
        ("user@10.0.0.7:9464", "host-7"),
        ("[fe80::1%<script>]:9464", "host-7"),
        ("javascript:alert(1)//:80", "host-7"),
        ("0.0.0.0:9464", "evil.example.com/?x="),
        ("0.0.0.0:9464", "user@evil.example.com"),
        ("0.0.0.0:9464", "host-7\n"),
        ("0.0.0.0:9464", "хост"),
        ("0.0.0.0:9464", ""),
    ],
)
def test_what_is_no_address_is_no_link(address: str, host: str) -> None:
    assert own_page(address, host, OPS) is None
    assert own_page(address, host, POD) is None


def test_the_table_of_members_has_their_own_pages() -> None:
    status = group(3, 1)
    told = ("10.0.0.7:9464", "127.0.0.1:9464", "javascript:alert(1)")
    works = [
        replace(it, ops_address=address)
        for it, address in zip(status.load.works, told, strict=True)
    ]
    page = page_of(replace(status, load=replace(status.load, works=tuple(works))))
    html = group_parts(page, has_view=True, allows=frozenset())["members"]
    assert html.count("<a ") == 1
    assert '<a href="http://10.0.0.7:9464/" rel="noreferrer">own page</a>' in html
    assert '<code class="paste">ssh -L 9464:127.0.0.1:9464 host-1</code>' in html
    assert "<code>http://localhost:9464/</code>" in html
    assert "javascript" not in html


@pytest.mark.parametrize("it", [overdue(7), hung_elsewhere(7)], ids=["here", "elsewhere"])
def test_a_handler_that_hangs_in_a_pod_has_the_command_that_brings_its_stack(
    it: RecordStatus,
) -> None:
    status = group(2, 1)
    works = [replace(work, ops_address="0.0.0.0:9464") for work in status.load.works]
    [only] = status.partitions
    status = replace(
        status,
        partitions=(replace(only, failed=(it,)),),
        load=replace(status.load, works=tuple(works)),
    )
    view = group_page(seen(status), Letters(), (), NOW_MS, here=POD).view
    assert view is not None
    [need] = view.needs.shown
    first = need.commands[0]
    assert first.purpose == "bring its own page to http://localhost:9464/"
    assert first.line == "kubectl port-forward pod/host-0 9464"


@pytest.mark.parametrize(
    ("standing", "behind", "found"),
    [
        (RecordState.RUNNING, "", "http://10.0.0.7:9464/running/orders/0/43"),
        (
            RecordState.WAITING,
            "m-01",
            "ssh -L 9464:127.0.0.1:9464 host-1</code>, then http://localhost:9464/running/orders/0/43",
        ),
        (RecordState.WAITING, "", ""),
        (RecordState.BACKING_OFF, "", ""),
        (RecordState.RUNNING, "gone", "http://10.0.0.7:9464/running/orders/0/43"),
    ],
)
def test_a_record_that_runs_at_the_stable_offset_has_a_link_to_its_stack(
    standing: RecordState, behind: str, found: str
) -> None:
    status = group(3, 1)
    told = ("10.0.0.7:9464", "127.0.0.1:9464", "")
    works = tuple(
        replace(it, ops_address=address)
        for it, address in zip(status.load.works, told, strict=True)
    )
    record = replace(
        RecordStatus(43, b"k", True, 7, NOW_MS, 0, False, "", 0, "m-00", "host-0"),
        standing=standing, behind=behind,
    )  # fmt: skip
    first = replace(status.partitions[0], holder=record)
    status = replace(status, partitions=(first,), load=replace(status.load, works=works))
    html = group_parts(page_of(status), has_view=True, allows=frozenset())["running"]
    if found.startswith("http"):
        assert f'<a href="{found}" rel="noreferrer">stack of orders-0@43</a>' in html
    else:
        assert "<a " not in html
        assert ('class="paste"' in html) is bool(found)
        assert found in html


def test_letters_stay_with_members_though_others_come_and_go() -> None:
    letters = Letters()
    assert [it.letter for it in shown(group(3, 3), letters).members] == ["A", "B", "C"]
    status = group(4, 4)
    left = replace(status, members=status.members[1:])
    found = {it.name: it.letter for it in shown(left, letters).members}
    assert found == {"m-01": "B", "m-02": "C", "m-03": "A"}


def test_neighbours_differ_in_hatching_and_no_two_of_32_members_look_alike() -> None:
    letters = Letters()
    names = [f"m-{i:02}" for i in range(32)]
    letters.meet(names)
    looks = [(letters.look(name), letters.hatch(name)) for name in names]
    assert len(set(looks)) == 32
    assert all(one[1] != other[1] for one, other in pairwise(looks[:8]))


# -- the picture -----------------------------------------------------------------------------------


def test_the_picture_has_levels_owners_and_marks() -> None:
    view = shown(troubled())
    first = view.picture.rows[0]

    assert first.kind == "parked"
    assert [it.letter for it in first.owned] == ["A", "B"]
    assert [it.x for it in first.owned] == [0.0, 50.0]
    assert [it.waits for it in first.owned] == [False, True]
    assert {it.kind for it in first.marks} == {"parked", "failing"}
    assert first.marks[-1].kind == "parked"
    assert first.levels[0].done < first.levels[1].done
    assert first.words == (
        "orders-0: about 1200 left; A 50%, B 50%; 1 parked; 1 failing or overdue"
    )


def test_what_nobody_owns_is_seen() -> None:
    half = WHOLE.parts(2)
    odd = replace(partition(ORDERS, [(half[0], "m-00")]), unowned=(half[1],))
    view = shown(replace(group(1, 1), partitions=(odd,)))
    assert [it.member for it in view.picture.rows[0].owned] == ["m-00", ""]
    assert view.picture.has_unowned
    assert view.needs.shown[0].kind is NeedKind.UNOWNED


# -- rates and lines -------------------------------------------------------------------------------


def at(seconds: int, end: int, left: int) -> GroupStatus:
    it = partition(ORDERS, [(WHOLE, "m-00")], left=left, end=end)
    status = replace(group(1, 1), at_ms=NOW_MS + 1_000 * seconds)
    return replace(status, partitions=(replace(it, remaining=Remaining(left, 0)),))


def test_the_time_to_finish_is_told_while_what_is_left_shrinks() -> None:
    speed = GroupSpeed()
    assert speed.note(at(0, 1_000, 500)).total is None
    now = speed.note(at(10, 1_100, 300))

    assert now.total is not None
    assert (now.total.done, now.total.arrived) == (30.0, 10.0)
    assert outlook(300, 0, now.total) == "done in about 15 s"
    assert outlook(900, 0, speed.note(at(20, 1_500, 900)).total) == "grows by 20/s"
    assert outlook(900, 0, Rate(0.0, 0.0)) == "nothing gets done"
    assert outlook(900, 0, Rate(1e-9, 0.0)) == "nothing gets done"


def test_what_is_stuck_is_not_waited_for() -> None:
    parked = partition(ORDERS, [(WHOLE, "m-00")], left=1, failed=(record(43),))
    view = shown(replace(group(1, 1), partitions=(parked,)))
    assert view.tiles[0].detail == "all that is left is stuck"
    assert view.partitions[0].outlook == "all that is left is stuck"


def test_a_topic_that_was_made_again_begins_anew() -> None:
    speed = GroupSpeed()
    speed.note(at(0, 1_000, 0))
    assert speed.note(at(10, 5, 5)).total is None


def test_a_line_has_holes_where_nothing_is_known_and_says_its_last_value() -> None:
    points = tuple((NOW_MS - 60_000 + 10_000 * i, v) for i, v in enumerate([1.0, 2.0, None, 4.0]))
    line = sparkline(Line("left", "records left", "", points), NOW_MS - 30_000)
    assert len(line.lines) == 2
    assert (line.last, line.highest) == ("4", "4")
    assert line.dot == (300.0, 3.0)
    unknown = sparkline(Line("left", "records left", "", ((NOW_MS, None),)), NOW_MS)
    assert (unknown.last, unknown.lines, unknown.dot) == ("?", (), None)
    assert sparkline(Line("left", "records left", "", ()), NOW_MS).lines == ()


def test_groups_that_need_a_person_are_listed_first() -> None:
    calm = replace(group(1, 1), group="a")
    states = [
        seen(calm),
        seen(troubled()),
        FeedState("new"),
        seen(replace(calm, group="old"), seen_at_ms=NOW_MS - 99_000),
    ]
    page = groups_page(states, NOW_MS, old_ms=30_000)
    assert [(it.group, it.kind) for it in page.lines] == [
        ("billing", "bad"),
        ("old", "warn"),
        ("new", ""),
        ("a", "good"),
    ]
    assert page.title == "(2) groups | coop-consumer"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (AuthorizationError("the brokers", "read", "ann"), "Grant the right to describe"),
        (AuthorizationError("cluster b:9092", "authenticate", "ann"), "refused the login"),
        (BrokerUnreachableError("kafka:9092", "timed out"), "No broker answers."),
        (UnexpectedAnswerError("the brokers", "\x1b[31m"), "It may pass."),
        (None, "The log of this process"),
    ],
    ids=["no right", "login", "away", "odd", "defect"],
)
def test_groups_that_cannot_be_listed_are_told_beside_those_that_are_shown(
    error: CoopConsumerError | None, told: str
) -> None:
    failed = Listing(is_over=True, has_failed=True, error=error)
    for feeds in ([], [seen(group(1, 1))]):
        page = groups_page(feeds, NOW_MS, 30_000, failed, OPTIONS)
        assert page.trouble is not None
        assert page.trouble.title == "The groups of this cluster cannot be listed"
        assert told in page.trouble.text
        assert page.trouble.detail.isprintable()
        assert [it.line for it in page.trouble.commands] == [
            "coop-consumer doctor --bootstrap kafka:9092"
        ]
        assert page.title == "(1) groups | coop-consumer"
        assert page.name_command == "", "nobody knows that there is no group"


def test_an_empty_list_is_told_to_be_one_only_after_a_search() -> None:
    first = groups_page([], NOW_MS, 30_000, Listing(), OPTIONS)
    assert first.trouble is not None
    assert first.trouble.is_looking
    assert (first.name_command, first.title) == ("", "groups | coop-consumer")
    over = groups_page([], NOW_MS, 30_000, Listing(is_over=True), OPTIONS)
    assert over.trouble is None
    assert over.name_command == "coop-consumer web GROUP --bootstrap kafka:9092"


def test_groups_that_are_left_out_are_counted_with_what_shows_them() -> None:
    listing = Listing(is_over=True, hidden=1, left_out=1_200)
    hidden, left_out = groups_page([], NOW_MS, 30_000, listing, OPTIONS).left_out
    assert hidden.text.startswith("1 group of this cluster may not be described by this user")
    assert hidden.command.line.endswith("--operation Describe --group '*'")
    assert left_out.text.startswith("1,200 more groups of this library have no members")
    assert left_out.command.line == "coop-consumer web GROUP GROUP --bootstrap kafka:9092"
    assert groups_page([], NOW_MS, 30_000, Listing(is_over=True)).left_out == ()
    assert groups_page([], NOW_MS, 30_000).left_out == ()


def test_text_of_strangers_is_escaped_where_a_terminal_or_page_would_obey() -> None:
    name = "g\u202egnillib\x1b[2J"
    status = replace(group(1, 1), group=name)
    page = page_of(status)
    assert page.group == r"g\u202egnillib\x1b[2J"
    assert page.group_path == "g%E2%80%AEgnillib%1B%5B2J"
    assert HOSTILE.decode() not in page.title
