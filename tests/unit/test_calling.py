"""Who waits for an answer counts from the server's waking to the answer's beginning, no longer."""

from __future__ import annotations

import asyncio
import selectors
import socket
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from coop_consumer.member.breath import Breath
from coop_consumer.ops.calling import Awake, Calling

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


async def nothing() -> Message:
    raise AssertionError("nobody asks")


async def unheard(message: Message) -> None:
    del message


def called(app: ASGIApp, calls: Breath, method: str = "GET") -> None:
    scope = {"type": "http", "method": method}
    asyncio.run(Calling(app, calls)(scope, nothing, unheard))


def test_a_call_counts_until_its_answer_begins() -> None:
    calls, seen = Breath(), []

    async def app(_: Scope, __: Receive, send: Send) -> None:
        seen.append(calls.callers)
        await send({"type": "http.response.start", "status": 200})
        seen.append(calls.callers)
        await send({"type": "http.response.body"})
        seen.append(calls.callers)

    called(app, calls)
    assert seen == [1, 0, 0]
    assert calls.callers == 0


def test_a_call_that_fails_counts_no_more() -> None:
    calls = Breath()

    async def app(_: Scope, __: Receive, ___: Send) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        called(app, calls)
    assert calls.callers == 0


def test_a_form_never_counts() -> None:
    calls, seen = Breath(), []

    async def app(_: Scope, __: Receive, ___: Send) -> None:
        seen.append(calls.callers)

    called(app, calls, "POST")
    assert seen == [0]


def test_an_event_loop_counts_while_what_woke_it_is_done() -> None:
    calls, seen = Breath(), []

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        theirs, ours = socket.socketpair()
        with theirs, ours:
            ours.setblocking(False)
            seen.append(calls.callers)  # nothing has woken it
            loop.call_soon(theirs.send, b"?")
            await loop.sock_recv(ours, 1)
            seen.append(calls.callers)
            await asyncio.sleep(0)  # it has something left to do
            seen.append(calls.callers)
            await asyncio.sleep(0.001)
            seen.append(calls.callers)  # time has woken it, and nobody waits

    loop = asyncio.SelectorEventLoop(Awake(calls))
    try:
        loop.run_until_complete(serve())
    finally:
        loop.close()
    assert seen == [0, 1, 1, 0]


def test_an_event_loop_that_ends_at_work_counts_no_more() -> None:
    calls = Breath()
    theirs, ours = socket.socketpair()
    with theirs, ours, closing(Awake(calls)) as selector:
        selector.register(ours, selectors.EVENT_READ)
        theirs.send(b"?")
        assert selector.select(None)
        assert calls.callers == 1
    assert calls.callers == 0
