"""What people change by the page: shown first, confirmed by a form, done once, logged."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape

import pytest
from jinja2 import DictLoader, Environment, PackageLoader, StrictUndefined
from jinja2.loaders import ChoiceLoader

from assignors import TopicPartition
from coop_consumer.errors import BrokerUnreachableError, CoopConsumerError
from coop_consumer.log_events import LogEvent
from coop_consumer.ops.action_routes import action_routes, confirm_url, refusing_routes
from coop_consumer.ops.actions import Asked, Intent, PageAction, UnclearError, asked_in
from coop_consumer.ops.confirmations import LIFE_S, Confirmations
from coop_consumer.ops.guard import Door, guarded_by
from coop_consumer.ops.refusals import Refusals
from coop_consumer.ops.server import OpsServer
from coop_consumer.status.errors import GroupMissingError, NotParkedError
from tests.support.asking import Answer, ask, serving

ORDERS = TopicPartition("orders", 3)
SKIP = Asked(PageAction.SKIP, "billing", ORDERS, 43)
PLACE = {"topic": "orders", "partition": "3", "offset": "43"}
EVIL = "<img src=x onerror=alert(1)>"


@dataclass
class Noting:
    """An operator that notes what it is asked for, and fails if a test says so."""

    error: CoopConsumerError | None = None
    allows: frozenset[PageAction] = frozenset(
        {PageAction.RETRY, PageAction.SKIP, PageAction.RELEASE}
    )
    looks: list[Asked] = field(default_factory=list)
    done: list[Asked] = field(default_factory=list)

    def look(self, asked: Asked) -> Intent:
        if self.error is not None:
            raise self.error
        self.looks.append(asked)
        return Intent(
            f"Skip {asked.tp}?", (f"key {EVIL}",), ("It is lost.",), "Skip it", "coop-consumer skip"
        )

    def carry_out(self, asked: Asked) -> str:
        if self.error is not None:
            raise self.error
        self.done.append(asked)
        return f"key {EVIL} is skipped."


@pytest.fixture
def operator() -> Noting:
    return Noting()


@pytest.fixture
def server(operator: Noting) -> Iterator[OpsServer]:
    base = (
        "<title>{% block title %}{% endblock %}</title><main>{% block main %}{% endblock %}</main>"
    )
    pages = Environment(
        loader=ChoiceLoader(
            [DictLoader({"base.html": base}), PackageLoader("coop_consumer.ops.page")]
        ),
        autoescape=True,
        undefined=StrictUndefined,
    )
    with serving(action_routes(operator, pages), guarded_by(Door(host="127.0.0.1"))) as server:
        yield server


def fields_of(page: str) -> dict[str, str]:
    """The hidden fields of its form."""
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page)
    return {name: unescape(value) for name, value in found}


def post(server: OpsServer, path: str, fields: Mapping[str, str], **headers: str) -> Answer:
    return ask(server, path, "POST", fields=fields, Origin=f"http://{server.address}", **headers)


def test_a_look_changes_nothing_and_says_what_may_break(
    server: OpsServer, operator: Noting
) -> None:
    page = ask(server, confirm_url(SKIP))
    assert page.status == 200
    assert operator.looks == [SKIP]
    assert operator.done == []
    assert "It is lost." in page.text
    assert "coop-consumer skip" in page.text
    assert 'action="/do/skip/billing"' in page.text
    assert "<script" not in page.text


def test_what_was_confirmed_is_done_and_logged_with_who_asked(
    server: OpsServer, operator: Noting, caplog: pytest.LogCaptureFixture
) -> None:
    fields = fields_of(ask(server, confirm_url(SKIP)).text)
    with caplog.at_level(logging.WARNING):  # the level of those who keep little
        done = post(server, "/do/skip/billing", {**fields, "by": "ann, INC-7\x1b[31m"})
    assert done.status == 200
    assert operator.done == [SKIP]
    lines = [vars(it) for it in caplog.records if "event" in vars(it)]
    assert [it["event"] for it in lines] == [LogEvent.OPS_ACTION_ASKED, LogEvent.OPS_ACTION_DONE]
    for facts in lines:
        assert facts["who"] == "ann, INC-7\\x1b[31m at 127.0.0.1"
        assert (facts["group"], facts["topic"], facts["partition"], facts["offset"]) == (
            *("billing", "orders"),
            *(3, 43),
        )


def test_who_asked_is_in_the_log_before_anything_is_done(
    server: OpsServer,
    operator: Noting,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A process that ends in the middle has told who."""
    before: list[list[str]] = []

    def carry_out(asked: Asked) -> str:
        before.append([it.getMessage() for it in caplog.records])
        return f"{asked.action} is done."

    monkeypatch.setattr(operator, "carry_out", carry_out)
    fields = fields_of(ask(server, confirm_url(SKIP)).text)
    post(server, "/do/skip/billing", {**fields, "by": "ann"})
    [told] = before
    assert told == ["group billing: ann at 127.0.0.1 asks by the page to skip orders-3 offset 43"]


def test_a_form_that_is_refused_is_told_once_a_second_and_the_others_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_s = [0.0]
    refusals = Refusals(lambda: now_s[0])
    for at_s in (0.0, 0.1, 0.9, 1.0, 5.0):
        now_s[0] = at_s
        refusals.report("ann at 10.0.0.7", "to skip orders-3 offset 43\n", "The form is old.")
    first, *_ = told = [it.getMessage() for it in caplog.records]
    assert first == "ann at 10.0.0.7 was refused to skip orders-3 offset 43\\n: The form is old."
    assert told == [first, f"{first} 2 more were refused since the line before.", first]
    assert {vars(it)["event"] for it in caplog.records} == {LogEvent.OPS_REQUEST_REFUSED}


def test_forged_and_stale_forms_are_in_the_log_with_who_sent_them(
    server: OpsServer, caplog: pytest.LogCaptureFixture
) -> None:
    stale = post(server, "/do/skip/billing", {**PLACE, "confirmed": "0.ab", "by": "ann"})
    forged = ask(server, "/do/skip/billing", "POST", fields=PLACE, Origin="http://evil.example")
    assert (stale.status, forged.status) == (403, 403)
    lines = [it.getMessage() for it in caplog.records]
    assert any(
        it.startswith("ann at 127.0.0.1 was refused to skip orders-3 offset 43 of group billing:")
        for it in lines
    )
    assert any(
        it.startswith("127.0.0.1 was refused POST /do/skip/billing: Origin: another site")
        for it in lines
    )


def test_text_of_records_is_no_markup(server: OpsServer) -> None:
    page = ask(server, confirm_url(SKIP))
    done = post(server, "/do/skip/billing", fields_of(page.text))
    for it in (page, done):
        assert EVIL not in it.text
        assert "&lt;img src=x" in it.text


@pytest.mark.parametrize(
    "change",
    [
        {"offset": "44"},
        {"partition": "4"},
        {"topic": "others"},
        {"confirmed": ""},
        {"confirmed": "é"},
    ],
    ids=["another record", "another partition", "another topic", "no token", "no ASCII"],
)
def test_a_form_that_was_not_shown_so_does_nothing(
    server: OpsServer, operator: Noting, change: dict[str, str]
) -> None:
    fields = fields_of(ask(server, confirm_url(SKIP)).text)
    answer = post(server, "/do/skip/billing", {**fields, **change})
    assert answer.status == 403
    assert "Nothing was changed" in answer.text
    assert operator.done == []


def test_a_form_for_one_group_and_action_is_none_for_another(
    server: OpsServer, operator: Noting
) -> None:
    fields = fields_of(ask(server, confirm_url(SKIP)).text)
    assert post(server, "/do/retry/billing", fields).status == 403
    assert post(server, "/do/skip/shipping", fields).status == 403
    assert operator.done == []


def test_a_form_of_another_site_does_nothing(server: OpsServer, operator: Noting) -> None:
    fields = fields_of(ask(server, confirm_url(SKIP)).text)
    answer = ask(server, "/do/skip/billing", "POST", fields=fields, Origin="https://evil.example")
    assert answer.status == 403
    assert operator.done == []


def test_a_link_alone_does_nothing(server: OpsServer, operator: Noting) -> None:
    assert ask(server, "/do/skip/billing?topic=orders&partition=3&offset=43").status == 405
    assert operator.done == []


def test_a_server_without_actions_says_why_an_address_of_one_leads_nowhere() -> None:
    with serving(refusing_routes(), guarded_by(Door(host="127.0.0.1"))) as server:
        asks = ask(server, "/confirm/skip/billing?topic=orders&partition=3&offset=43")
        acts = post(server, "/do/skip/a%2Fgroup", {"offset": "43"})
    assert asks.status == acts.status == 403
    assert asks.text == acts.text
    assert "--allow-actions" in asks.text
    assert "ops.allow.actions" in asks.text


def test_an_action_that_is_not_offered_is_not_found(server: OpsServer, operator: Noting) -> None:
    pause = Asked(PageAction.PAUSE, "billing", ORDERS)
    assert ask(server, confirm_url(pause)).status == 404
    assert ask(server, "/confirm/explode/billing").status == 400


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotParkedError("orders", 3, 43, "is done already"), 409),
        (GroupMissingError("billing"), 404),
        (BrokerUnreachableError("b:9092", "nobody answers"), 503),
    ],
    ids=["not parked", "no group", "no broker"],
)
def test_an_error_is_told_in_words_with_a_way_back(
    server: OpsServer, operator: Noting, error: CoopConsumerError, status: int,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    fields = fields_of(ask(server, confirm_url(SKIP)).text)
    operator.error = error
    with caplog.at_level(logging.WARNING):
        found = [ask(server, confirm_url(SKIP)), post(server, "/do/skip/billing", fields)]
    for it in found:
        assert it.status == status
        assert str(error).partition(":")[0] in unescape(it.text)
        assert 'href="/group/billing"' in it.text
    lines = [it for it in caplog.records if vars(it).get("event") == LogEvent.OPS_ACTION_FAILED]
    assert len(lines) == 1, "a look is no action"


def test_a_group_may_have_any_name(server: OpsServer, operator: Noting) -> None:
    odd = Asked(PageAction.RETRY, "a/b ?%ü\"'", ORDERS, 7)
    page = ask(server, confirm_url(odd))
    assert operator.looks == [odd]
    action = unescape(re.findall(r'action="([^"]+)"', page.text)[0])
    assert post(server, action, fields_of(page.text)).status == 200
    assert operator.done == [odd]


# ---- what is asked for ---------------------------------------------------------------------------


def test_all_parked_records_are_retried_only_if_that_is_said() -> None:
    assert asked_in("retry", "billing", {"all": "1"}) == Asked(PageAction.RETRY, "billing")
    for fields in ({}, {"topic": "orders", "partition": "3"}, {"offset": "3"}):
        with pytest.raises(UnclearError):
            asked_in("retry", "billing", fields)


@pytest.mark.parametrize("action", ["skip", "release", "pause", "resume"])
def test_no_other_action_is_for_all(action: str) -> None:
    with pytest.raises(UnclearError):
        asked_in(action, "billing", {"all": "1"})


@pytest.mark.parametrize(
    "change",
    [
        {"partition": "-1"},
        {"partition": "3.0"},
        {"partition": "٣"},
        {"partition": "9" * 11},
        {"offset": ""},
        {"offset": "9" * 30},
        {"topic": "a b"},
        {"topic": ""},
    ],
    ids=str,
)
def test_what_is_no_place_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(UnclearError):
        asked_in("skip", "billing", {**PLACE, **change})


@pytest.mark.parametrize("group", ["", " ", "a\0b"], ids=["empty", "blank", "unsendable"])
def test_what_is_no_group_is_refused(group: str) -> None:
    with pytest.raises(UnclearError):
        asked_in("skip", group, PLACE)


def test_fields_and_what_is_asked_are_the_same() -> None:
    for asked in (
        SKIP,
        Asked(PageAction.RETRY, "g"),
        Asked(PageAction.RELEASE, "g", ORDERS, holder="m 1"),
        Asked(PageAction.PAUSE, "g", ORDERS),
    ):
        assert asked_in(asked.action, asked.group, asked.fields) == asked


# ---- confirmations -------------------------------------------------------------------------------


def test_a_confirmation_counts_for_ten_minutes_and_at_its_own_server() -> None:
    now_s = 1_000.0
    ours = Confirmations(lambda: now_s)
    token = ours.token(SKIP)
    assert ours.is_confirmed(SKIP, token)
    assert not Confirmations(lambda: now_s).is_confirmed(SKIP, token)
    now_s += LIFE_S
    assert ours.is_confirmed(SKIP, token)
    now_s += 1
    assert not ours.is_confirmed(SKIP, token)
