"""The paths of the page: HTML that escapes, events with what changed, files, what is missing."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote

import pytest

from assignors import WHOLE, TopicPartition
from coop_consumer.config import Config
from coop_consumer.core.glimpse import FailedRecord, Glimpse, HeldPartition, RunningRecord
from coop_consumer.core.metrics import MemberMetrics
from coop_consumer.errors import BrokerUnreachableError, MemberSilentError
from coop_consumer.ops.feed import GroupFeed, Listing
from coop_consumer.ops.group_metrics import GroupLook
from coop_consumer.ops.health import Health, HealthPhase
from coop_consumer.ops.page import rendering
from coop_consumer.ops.page.group_page import PARTITIONS_SHOWN
from coop_consumer.ops.page.member_routes import MemberInside, member_routes
from coop_consumer.ops.page.picture import ROWS_SHOWN
from coop_consumer.ops.page.routes import page_routes
from coop_consumer.ops.server import OpsServer
from coop_consumer.status.errors import GroupMissingError
from coop_consumer.status.load import GroupLoad
from coop_consumer.status.model import GroupStatus
from coop_consumer.status.remaining import Remaining
from tests.unit.full_metrics import full_metrics
from tests.unit.page_values import HOSTILE, NOW_MS, OPTIONS, advice, group, record, troubled

WAIT_S = 20.0
PAGE_BYTES_MAX = 150_000


class Feeds:
    """Feeds of these groups."""

    def __init__(self, *statuses: GroupStatus) -> None:
        self.feeds = {it.group: GroupFeed(it.group) for it in statuses}
        for status in statuses:
            self.look(status)

    def look(self, status: GroupStatus) -> None:
        self.feeds[status.group].put(GroupLook(status.group, 0.1, 0.0, status, advice(status)))

    def names(self) -> Sequence[str]:
        return sorted(self.feeds)

    def get(self, group: str) -> GroupFeed | None:
        return self.feeds.get(group)


@contextmanager
def serving(routes: Sequence[Any]) -> Iterator[OpsServer]:
    server = OpsServer(
        "127.0.0.1:0", routes, setting="--address", remedy="give another", group="web"
    )
    server.start()
    try:
        yield server
    finally:
        server.close()


def get(server: OpsServer, path: str) -> tuple[http.client.HTTPResponse, str]:
    host, _, port = server.address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=WAIT_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


@contextmanager
def events(server: OpsServer, path: str) -> Iterator[Iterator[dict[str, Any]]]:
    host, _, port = server.address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=WAIT_S)
    connection.request("GET", path)
    answer = connection.getresponse()

    def told() -> Iterator[dict[str, Any]]:
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))

    try:
        yield told()
    finally:
        answer.close()
        connection.close()


class _Tags(HTMLParser):
    """Which tags and attributes a page has."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def tags_of(html: str) -> _Tags:
    found = _Tags()
    found.feed(html)
    return found


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def table_in(html: str, title: str) -> list[dict[str, str]]:
    """The rows of the table below a heading: the text of each cell, by that of its column."""
    _, _, rest = html.partition(f'id="{title}-title"')
    body = rest.partition("<table")[2].partition("</table>")[0]
    head, *rows = re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.DOTALL)
    columns, *lines = (
        [text_of(cell).strip() for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)]
        for row in (head, *rows)
    )
    return [dict(zip(columns, line, strict=True)) for line in lines]


def test_a_groups_page_says_first_what_needs_a_person_and_escapes_all_of_it() -> None:
    with serving(page_routes(Feeds(troubled()), options=OPTIONS)) as server:
        answer, html = get(server, "/group/billing")

    assert answer.status == 200
    found = tags_of(html)
    assert "img" not in found.tags
    assert found.tags.count("script") == 1
    assert HOSTILE.decode() not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert "&lt;script&gt;alert(2)&lt;/script&gt;: \\x1b[31mred" in html
    assert "key 0xfffe00" in html
    assert html.index('id="needs"') < html.index('id="picture"') < html.index('id="members"')
    assert "6 things need you" in text_of(html)


def test_no_page_has_a_script_or_style_of_its_own_or_anything_from_elsewhere() -> None:
    """So `default-src 'self'` is enough."""
    with serving(page_routes(Feeds(troubled(), replace(group(1, 1), group="b")))) as server:
        pages = [get(server, path)[1] for path in ("/", "/group/billing", "/group/none")]

    for html in pages:
        found = tags_of(html)
        names = {name for name, _ in found.attributes}
        assert not [it for it in names if it.startswith("on")]
        assert not {"style", "srcdoc"} & names
        assert "style" not in found.tags
        links = [value or "" for name, value in found.attributes if name in {"src", "href"}]
        assert links
        assert all(it.startswith(("/", "#", "?")) for it in links), links


def test_the_page_of_12_members_and_50_partitions_is_light() -> None:
    with serving(page_routes(Feeds(group(12, 50)))) as server:
        html = get(server, "/group/billing")[1]
        weight = len(html.encode())
        for name in ("page.css", "page.js", "icon.svg"):
            weight += len(get(server, f"/static/{name}")[1].encode())
    assert weight <= PAGE_BYTES_MAX


class Known(Feeds):
    """A group whose rates are known, too: two looks at its partitions, ten seconds apart."""

    def __init__(self, status: GroupStatus) -> None:
        first = status.partitions[0]
        before = replace(
            first, end=first.end - 100, remaining=Remaining(first_left(status) + 200, 0)
        )
        partitions = (before, *status.partitions[1:])
        super().__init__(replace(status, at_ms=NOW_MS - 10_000, partitions=partitions))
        self.look(status)


def first_left(status: GroupStatus) -> int:
    return status.partitions[0].remaining.records


def test_each_table_of_a_groups_page_has_its_figures_below_their_names() -> None:
    status = troubled()
    with serving(page_routes(Known(status), options=OPTIONS)) as server:
        html = get(server, "/group/billing")[1]
    text = text_of(html)
    assert table_in(html, "partitions")[0] == {
        "partition": "orders-0",
        "left": "~1,200",
        "lag": "9,957",
        "done/s": "30",
        "arrive/s": "10",
        "outlook": "done in about 1 min",
        "stable": "43",
        "end": "10,000",
        "gap ranges": "1",
        "epoch": "2",
    }
    members = table_in(html, "members")
    assert members[1] == {
        "member": "B m-01",
        "host": "host-1",
        "state": "waits for ranges",
        "busy": "45%",
        "done/s": "211",
        "handler p50": "3.9 ms",
        "p99": "48 ms",
        "memory": "70 MB",
        "workers": "16",
        "ranges": "1",
        "of all keys": "17%",
    }
    assert [it["member"] for it in members] == ["A m-00 lead", "B m-01", "C m-02", "D m-03"]
    assert table_in(html, "running") == [
        {
            "record": "orders-1@9000",
            "key": "N3CXAA",
            "at": "A",
            "what it does": "its handler runs for 6 min 40 s",
            "produced": "2 h 5 min ago",
        },
        {
            "record": "orders-0@43",
            "key": "&lt;img src=x onerror=alert(1)&gt;",
            "at": "A",
            "what it does": "parked after 5 attempts",
            "produced": "2 h 5 min ago",
        },
    ]
    assert table_in(html, "keys") == [
        {
            "key": "N14228",
            "partition": "orders-0",
            "of its partition's work": "61 % one worker, at most 1.6 busy there",
            "at": "A",
        },
        {
            "key": "the key of hash 9",
            "partition": "orders-0",
            "of its partition's work": "12 %",
            "at": "A",
        },
    ]
    assert "Members wanted 6 wanted, 4 there. Useful at most: 8." in text
    assert "1,200 left at 210/s: 6 members coop-consumer scale billing --bootstrap" in text
    for what in ("topic orders: accept.range.fetch", "group billing: accept.individual.commit"):
        name, _, policy = what.partition(": ")
        kind, _, name = name.partition(" ")
        assert f"{what}=false, so its partitions are not shared. To allow it" in text
        assert f"coop-consumer policy set {policy}=true --{kind} {name} --bootstrap" in text


def test_what_members_do_not_report_is_not_made_up() -> None:
    bare = replace(group(1, 1), load=GroupLoad())
    [first] = bare.partitions
    untimed = replace(first, holder=record(9_000, timestamp_ms=-1))
    with serving(page_routes(Feeds(replace(bare, partitions=(untimed,))))) as server:
        html = get(server, "/group/billing")[1]
    [member] = table_in(html, "members")
    assert (member["busy"], member["done/s"], member["handler"]) == ("?", "?", "?")
    assert "p99" not in member
    assert "memory" not in member
    [running] = table_in(html, "running")
    assert running["produced"] == "?"
    assert 'id="keys-title"' not in html


@pytest.mark.parametrize(("more", "told"), [(1, "1 more partition"), (2, "2 more partitions")])
def test_what_is_left_out_is_counted(more: int, told: str) -> None:
    htmls = []
    for shown in (ROWS_SHOWN, PARTITIONS_SHOWN):
        with serving(page_routes(Feeds(group(1, shown + more)))) as server:
            htmls.append(get(server, "/group/billing")[1])
    assert f"{told} {'is' if more == 1 else 'are'} not drawn: " in htmls[0]
    assert f"{told}: <code" in htmls[1]


def test_files_are_kept_by_browsers_as_long_as_they_are_the_same() -> None:
    with serving(page_routes(Feeds(group(1, 1)))) as server:
        html = get(server, "/")[1]
        [path] = re.findall(r'href="(/static/page\.css\?v=[^"]*)"', html)
        assert "immutable" in (get(server, path)[0].getheader("cache-control") or "")
        assert get(server, "/static/page.css?v=other")[0].getheader("cache-control") == "no-cache"
        assert get(server, "/static/secrets.txt")[0].status == 404
        assert get(server, "/static/..%2Frendering.py")[0].status == 404


@pytest.mark.parametrize("name", ["a/b c", "ä?x=1#y", "../etc", "%2e%2e"])
def test_a_groups_name_may_have_any_character(name: str) -> None:
    with serving(page_routes(Feeds(replace(group(1, 1), group=name)))) as server:
        listed = get(server, "/")[1]
        path = f"/group/{quote(name, safe='')}"
        assert f'href="{path}"' in listed
        answer, html = get(server, path)
        assert answer.status == 200
        assert f'data-events="/events/{quote(name, safe="")}"' in html


def test_a_group_that_is_not_shown_is_told_with_the_command_that_shows_it() -> None:
    with serving(page_routes(Feeds(group(1, 1)))) as server:
        answer, html = get(server, "/group/%3Cb%3Eold")
        assert answer.status == 404
        assert "coop-consumer web &#39;&lt;b&gt;old&#39;" in html
        assert get(server, "/events/none")[0].status == 404


def test_one_named_group_is_the_start_page() -> None:
    with serving(page_routes(Feeds(group(1, 1)), has_list=False)) as server:
        answer, _ = get(server, "/")
        assert answer.status == 307
        assert answer.getheader("location") == "/group/billing"


def test_without_scripts_a_page_can_be_looked_at_again_and_again() -> None:
    with serving(page_routes(Feeds(group(1, 1)))) as server:
        assert 'http-equiv="refresh"' not in get(server, "/group/billing")[1]
        assert 'http-equiv="refresh" content="5"' in get(server, "/group/billing?every=5")[1]
        assert 'content="2"' in get(server, "/group/billing?every=0")[1]
        assert 'http-equiv="refresh"' not in get(server, "/group/billing?every=-1%22")[1]


def test_a_browser_that_looks_gets_what_has_changed() -> None:
    feeds = Feeds(group(2, 2))
    with serving(page_routes(feeds)) as server, events(server, "/events/billing") as told:
        first = next(told)
        assert set(first["parts"]) == {name for name, _ in rendering.GROUP_SECTIONS} | {"stale"}
        trouble = replace(troubled(), at_ms=group(2, 2).at_ms)
        feeds.look(trouble)
        second = next(it for it in told if it["version"] == 2)

    assert second["title"] == "(6) billing | coop-consumer"
    assert 'data-kind="parked"' in second["parts"]["needs"]
    assert "policies" in second["parts"]
    assert "stale" not in second["parts"]


def test_browsers_share_what_is_made_and_those_that_go_are_forgotten() -> None:
    feeds = Feeds(group(1, 1))
    feed = feeds.feeds["billing"]
    with (
        serving(page_routes(feeds)) as server,
        events(server, "/events/billing") as one,
        events(server, "/events/billing") as other,
    ):
        next(one)
        next(other)
        feeds.look(group(1, 1))
        assert next(it for it in one if it["version"] == 2)
        assert next(it for it in other if it["version"] == 2)
    assert not feed._listeners


def test_the_list_hears_of_every_group() -> None:
    feeds = Feeds(group(1, 1), replace(group(1, 1), group="b"))
    with serving(page_routes(feeds)) as server, events(server, "/events") as told:
        next(told)
        feeds.look(replace(troubled(), group="b"))
        listed = next(it for it in told if "groups" in it["parts"])["parts"]["groups"]
    assert "6 things to look at" in listed


def test_the_list_says_first_that_groups_cannot_be_listed() -> None:
    error = BrokerUnreachableError("kafka:9092", "<b>timed out")
    failed = Listing(is_over=True, has_failed=True, error=error, hidden=2)
    for feeds in (Feeds(), Feeds(group(1, 1))):
        with serving(page_routes(feeds, options=OPTIONS, listing=lambda: failed)) as server:
            html = get(server, "/")[1]
        said = text_of(html)
        assert "The groups of this cluster cannot be listed" in said
        assert "&lt;b&gt;timed out" in html
        assert "coop-consumer doctor --bootstrap kafka:9092" in said
        assert "2 groups of this cluster may not be described by this user" in said
        assert "sees no group" not in said
        assert ('data-group="billing"' in html) == bool(feeds.names())
        if feeds.names():
            assert html.index("cannot be listed") < html.index('data-group="billing"')


def test_the_list_says_that_it_looks_and_then_that_there_is_no_group() -> None:
    listing = [Listing()]
    with serving(page_routes(Feeds(), listing=lambda: listing[0])) as server:
        assert "Looking for groups" in (before := text_of(get(server, "/")[1]))
        assert "sees no group" not in before
        listing[0] = Listing(is_over=True)
        assert "This user sees no group of this library" in text_of(get(server, "/")[1])


def test_a_group_that_goes_missing_keeps_its_picture_and_says_so() -> None:
    feeds = Feeds(group(1, 1))
    feeds.feeds["billing"].put(GroupLook("billing", 0.1, 0.0, error=GroupMissingError("billing")))
    with serving(page_routes(feeds)) as server:
        html = get(server, "/group/billing")[1]
    assert "Since then nothing can be seen: group billing: does not exist" in html
    assert 'data-member="m-00"' in html


def test_actions_are_offered_only_where_they_are_allowed() -> None:
    feeds = Feeds(troubled())
    with serving(page_routes(feeds)) as server:
        assert 'class="action"' not in get(server, "/group/billing")[1]
    allows = frozenset({"retry"})
    with serving(page_routes(feeds, allows=allows)) as server:
        html = get(server, "/group/billing")[1]
    assert 'data-action="retry" href="/confirm/retry/billing?topic=orders&amp;' in html
    assert 'data-action="skip"' not in html


def test_a_page_that_a_pod_serves_has_a_command_where_no_link_leads_to_a_pod(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status = group(1, 1)
    [work] = status.load.works
    load = replace(status.load, works=(replace(work, ops_address="0.0.0.0:9464"),))
    feeds, link = Feeds(replace(status, load=load)), "http://host-0:9464/"
    with serving(page_routes(feeds)) as server:
        assert link in get(server, "/group/billing")[1]
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    with serving(page_routes(feeds)) as server:
        html = get(server, "/group/billing")[1]
    assert link not in html
    assert "kubectl port-forward pod/host-0 9464" in html


# -- a member's own page ---------------------------------------------------------------------------

CONFIG = Config.from_dict({"bootstrap.servers": "kafka:9092", "group.id": "billing"})
BEGUN = Health("billing", "m1", HealthPhase.RUNNING, is_member=True)


def silent() -> MemberMetrics:
    raise MemberSilentError("billing", "m1", 5.0)


def test_a_members_page_has_its_figures_and_where_its_handlers_are() -> None:
    asked: list[tuple[TopicPartition, int]] = []

    def stack(tp: TopicPartition, offset: int) -> str:
        asked.append((tp, offset))
        return '  File "/app/<b>.py", line 3, in process\n' if offset == 43 else ""

    inside = MemberInside(CONFIG, full_metrics, lambda: BEGUN, Glimpse, stack)
    with serving(member_routes(inside)) as server:
        html = get(server, "/")[1]
        answer, shown = get(server, "/running/orders/3/43")
        gone = get(server, "/running/orders/3/44")[0]
        wrong = [get(server, f"/running/orders/{it}")[0].status for it in ("x/1", "1/-1", "1/9e9")]

    assert "Nothing needs you" in html
    assert answer.status == 200
    assert "/app/&lt;b&gt;.py" in shown
    assert gone.status == 404
    assert wrong == [404, 404, 404]
    assert asked == [(TopicPartition("orders", 3), 43), (TopicPartition("orders", 3), 44)]


def test_each_table_of_a_members_page_has_its_figures_below_their_names() -> None:
    orders = TopicPartition("orders", 3)
    glimpse = Glimpse(
        at_ms=90_000,
        held=(
            HeldPartition(orders, WHOLE.parts(2)[:1], 7, 900, 40, is_paused=True, is_walled=False),
        ),
        running=(RunningRecord(orders, 43, b"N14228", 1, 60_000, 2, is_given_up=False),),
        running_count=1,
    )
    inside = MemberInside(CONFIG, full_metrics, lambda: BEGUN, lambda: glimpse, lambda *_: "")
    with serving(member_routes(inside)) as server:
        html = get(server, "/")[1]
    text = text_of(html)
    assert table_in(html, "running") == [
        {
            "record": "orders-3@43",
            "key": "key N14228",
            "for": "30 s",
            "attempt": "2",
            "its stack": "stack of orders-3@43",
        }
    ]
    assert table_in(html, "held") == [
        {
            "partition": "orders-3 paused",
            "where in the hash space": "",
            "of its keys": "50%",
            "stable": "7",
            "end": "900",
            "in lanes": "40",
        }
    ]
    assert table_in(html, "topics") == [
        {
            "topic": "orders",
            "fetched": "100",
            "done": "90",
            "failed": "6",
            "skipped": "1",
            "dead letters": "1",
            "handler p50": "3.0 ms",
            "p99": "5.0 ms",
            "age p99": "5.0 s",
        }
    ]
    assert "Busy workers 2 of 4 1 record runs" in text
    assert "commits 4" in text
    assert "ranges begun by force 1" in text
    assert "transactions committed 3" in text


@pytest.mark.parametrize("name", ["a/b c", "ä", "esc\x1b[31m"])
def test_a_members_page_leads_to_its_group_whatever_that_is_called(name: str) -> None:
    health = replace(BEGUN, group=name)
    inside = MemberInside(CONFIG, full_metrics, lambda: health, Glimpse, lambda *_: "")
    with serving(member_routes(inside)) as server:
        html = get(server, "/")[1]
    assert set(re.findall(r'href="(/group/[^"]*)"', html)) == {f"/group/{quote(name, safe='')}"}


def test_commands_of_a_members_page_find_its_group() -> None:
    """Also where another topic than the default one has its progress."""
    config = Config.from_dict(
        {
            "bootstrap.servers": "kafka:9092",
            "group.id": "billing",
            "progress.topic": "billing.progress",
        }
    )
    failed = FailedRecord(
        tp=TopicPartition("orders", 3),
        offset=43,
        key=b"k",
        key_hash=1,
        is_key_known=True,
        attempts=5,
        is_parked=True,
        error="ValueError: no such plane",
        since_ms=1,
    )
    glimpse = Glimpse(at_ms=2, failed=(failed,), failed_count=1)
    inside = MemberInside(config, full_metrics, lambda: BEGUN, lambda: glimpse, lambda *_: "")
    with serving(member_routes(inside)) as server:
        html = get(server, "/")[1]
    options = "--bootstrap kafka:9092 --config progress.topic=billing.progress"
    assert f"coop-consumer retry billing orders-3 43 {options}" in html


def test_a_member_that_does_not_answer_says_so_and_shows_how_it_is() -> None:
    frozen = replace(BEGUN, idle_s={"coop-member-billing": 30.0})
    inside = MemberInside(CONFIG, silent, lambda: frozen, Glimpse, lambda *_: "")
    with serving(member_routes(inside)) as server:
        html = get(server, "/")[1]
    assert "coop-member-billing stands still for 30 s" in html
    assert "has not answered" in text_of(html)
