"""A consumer's member at work: what is closed although it ended by a defect."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coop_consumer.consumer.consumption import Consumption


def test_the_server_and_the_figures_end_though_a_defect_has_ended_the_member() -> None:
    closed: list[str] = []
    ended: Future[None] = Future()
    ended.set_exception(ZeroDivisionError("a defect"))
    consumption = cast(Any, Consumption.__new__(Consumption))
    consumption._ops = SimpleNamespace(close=lambda: closed.append("server"))
    consumption._shown = SimpleNamespace(end=lambda: closed.append("figures"))
    consumption._runs = SimpleNamespace(close=lambda: None, ended=ended)
    consumption.executor = SimpleNamespace(
        stop=lambda: None,
        await_empty_hands=lambda _: None,
        give_back=lambda: 0,
        make_calls=lambda: None,
    )
    with pytest.raises(ZeroDivisionError):
        consumption.close(1.0)
    assert closed == ["server", "figures"]
