"""A person decides by the page's forms, and members of a real group obey.

A parked record is skipped at `web`, by the button that it shows. What a stuck handler holds is
released at the page of the member that waits for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

import pytest

from assignors import TopicPartition
from coop_consumer import Record
from coop_consumer.ops.action_routes import confirm_url
from coop_consumer.ops.actions import Asked, PageAction
from tests.integration.test_exactly_once_commands import (
    handovers,
    one_waits_for_the_other,
    outputs,
)
from tests.integration.test_web import live, page_of
from tests.support.brokers import MakeTopic
from tests.support.forms import form_at
from tests.support.job import Job
from tests.support.pools import RefusedError
from tests.support.stock import eventually

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("logging_as_it_was")]

MakeJob = Callable[..., Job]
ACTS = {"ops.address": "127.0.0.1:0", "ops.allow.actions": True}


def test_a_parked_record_that_is_skipped_by_its_button_counts_as_done_and_the_next_one_follows(
    job: MakeJob,
) -> None:
    its = job(**{"max.attempts": 1})

    def handler(record: Record) -> None:
        if record.offset == 0:
            raise RefusedError("no price")

    with (
        page_of(its, its.group, "--allow-actions") as address,
        live(address, f"/events/{its.group}") as see,
        its.running(handler=handler) as pool,
    ):
        its.produce(["a", "a", "b"])
        needs = see("needs", 'data-action="skip"')
        [path] = re.findall(r'data-action="skip" href="([^"]*)"', needs)
        form = form_at(address, unescape(path))
        assert "RefusedError: no price" in form.shown
        assert "The record is lost to this group" in form.shown
        pool.journal.wait(bool)
        assert its.parked() == [0], "a look decides nothing"
        assert pool.journal.offsets == [2], "the key waits for the decision"
        assert f"{its.topic}-0 offset 0 (key a): counts as done" in form.send()
        pool.journal.wait(lambda rows: len(rows) == 2)
        see("needs", "Nothing needs you")
        its.wait_for_lag(0)
    assert pool.journal.offsets == [1, 2], "no handler has done it"
    assert its.parked() == []


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_what_a_stuck_handler_holds_is_released_by_the_page_of_the_member_that_waits(
    job: MakeJob, topic: MakeTopic, guarantee: str
) -> None:
    is_once = guarantee == "exactly_once"
    its = job(**ACTS, **{"processing.guarantee": guarantee, "output.topics": topic(1)})
    with one_waits_for_the_other(its) as (old, new, stuck, places):
        slow = set(places[:2])
        eventually(lambda: handovers(its), lambda found: len(found) == 1)
        assert new._ops is not None
        asked = Asked(PageAction.RELEASE, its.group, TopicPartition(its.topic, 0), holder=old.name)
        form = form_at(new._ops.address, confirm_url(asked))
        assert f"{new.name} waits" in form.shown
        assert ("is put out of it first" in form.shown) is is_once
        assert ("the order of these keys breaks" in form.shown) is not is_once
        assert not slow & set(outputs(its)), "a look releases nothing"
        assert "Released: " in form.send()
        eventually(lambda: slow & set(outputs(its)))  # of its next owner
        assert is_once or new.counters.forced == 1
        stuck.open()
        eventually(lambda: set(outputs(its)), lambda seen: seen >= set(places))
    if is_once:
        assert sorted(outputs(its)) == sorted(places), "what was put out has left nothing twice"
