"""The inbox: what comes in comes out in order, and whoever asks gets the answer."""

from __future__ import annotations

import threading

import pytest

from coop_consumer.core import actions, events
from coop_consumer.member.inbox import TICK, Inbox


def test_events_come_in_the_order_in_which_they_were_told() -> None:
    inbox, called = Inbox(), list[int]()
    inbox.tell(events.Close())
    inbox.tell(events.Joining(), lambda: called.append(1))
    assert inbox.next(0) == (events.Close(), None)
    event, after = inbox.next(0)
    assert event == events.Joining()
    assert after is not None
    after()
    assert called == [1]


def test_without_an_event_a_tick_comes_in_time() -> None:
    assert Inbox().next(0.001) == (TICK, None)


def test_what_waits_is_taken_without_waiting() -> None:
    inbox = Inbox()
    assert inbox.waiting() is None
    inbox.tell(events.Close())
    seen = inbox.glance(lambda: "seen")
    assert inbox.waiting() == (events.Close(), None)
    assert seen.done(), "a glance comes before what waits"
    assert inbox.waiting() == (TICK, None)
    assert inbox.waiting() is None


def test_many_who_wake_the_member_wake_it_once() -> None:
    inbox = Inbox()
    for _ in range(3):
        inbox.wake()
    inbox.tell(events.Close())
    assert [inbox.next(0)[0] for _ in range(2)] == [TICK, events.Close()]
    inbox.wake()
    inbox.tell(events.Close())
    assert inbox.next(0)[0] is TICK, "it was awake, and is woken anew"


def test_whoever_asks_gets_the_answer_to_his_request() -> None:
    inbox = Inbox()
    asked = [inbox.ask(events.CommitNow) for _ in range(2)]
    requests = [inbox.next(0)[0] for _ in range(2)]
    tokens = [it.token for it in requests if isinstance(it, events.CommitNow)]
    for token in reversed(tokens):
        inbox.answer(actions.Answer(token, f"to {token}"))
    assert [it.result(0) for it in asked] == [f"to {token}" for token in tokens]


def test_what_is_to_be_found_is_read_by_whoever_empties_the_inbox() -> None:
    inbox = Inbox()
    found = inbox.find(threading.get_ident)
    assert not found.done()

    def empty() -> None:
        _, after = inbox.next(0)
        assert after is not None
        after()

    thread = threading.Thread(target=empty)
    thread.start()
    thread.join()
    assert found.result(0) == thread.ident


def test_a_failure_is_raised_where_the_inbox_is_emptied() -> None:
    inbox = Inbox()
    inbox.fail(ValueError("the fetch thread has died"))
    _, after = inbox.next(0)
    assert after is not None
    with pytest.raises(ValueError, match="has died"):
        after()


def test_at_the_end_whoever_waits_for_a_subscription_is_answered_and_the_rest_dropped() -> None:
    inbox, called = Inbox(), list[str]()
    inbox.tell(events.Joining(), lambda: called.append("joining"))
    inbox.call(lambda: called.append("looked"))
    inbox.answer_joins()
    assert called == ["joining"]
    assert inbox.next(0) == (TICK, None)


def test_a_glance_comes_before_the_events_that_wait() -> None:
    inbox, seen = Inbox(), list[str]()
    inbox.tell(events.Close(), lambda: seen.append("close"))
    found = inbox.find(lambda: "found")
    glanced = inbox.glance(lambda: "glanced")

    event, after = inbox.next(0.0)
    assert glanced.result(0) == "glanced"
    assert isinstance(event, events.Close)
    assert after is not None
    assert not found.done()


def test_a_glance_wakes_a_thread_that_waits() -> None:
    inbox = Inbox()
    glanced = inbox.glance(lambda: 7)

    assert inbox.next(60.0)[0] is TICK
    assert glanced.result(0) == 7
