"""Who waits for an answer counts from the request to the answer's beginning, and no longer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from coop_consumer.member.breath import Breath
from coop_consumer.ops.calling import Calling

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
