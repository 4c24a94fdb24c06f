"""A public method that is given something of another type says so, whatever state it is in."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from assignors import WHOLE
from coop_consumer import CooperativeConsumer, Worker, WorkerPool
from coop_consumer.arguments import seconds
from coop_consumer.errors import ConfigError, MisuseError
from coop_consumer.owners import owner_of
from tests.support.hostile import HOSTILE, T0

CONFIG = {"bootstrap.servers": "localhost:1", "group.id": "billing"}


class Idle(Worker):
    """Processes what never comes."""

    def process(self, record: Any) -> None:
        """Nothing to do."""


CALLS: dict[str, Callable[[CooperativeConsumer, Any], object]] = {
    "subscribe": lambda c, x: c.subscribe(x),
    "subscribe, listener": lambda c, x: c.subscribe(["orders"], x or 1),
    "assign": lambda c, x: c.assign(x),
    "assign, listener": lambda c, x: c.assign({T0: [WHOLE]}, x or 1),
    "poll": lambda c, x: c.poll(x),
    "consume": lambda c, x: c.consume(1 if x == -1 else x),  # of none there is nothing to say
    "consume, timeout": lambda c, x: c.consume(1, x),
    "done": lambda c, x: c.done(x),
    "failed": lambda c, x: c.failed(x, ValueError()),
    "commit": lambda c, x: c.commit(x),
    "committed": lambda c, x: c.committed(x),
    "committed, timeout": lambda c, x: c.committed([T0], x),
    "position": lambda c, x: c.position(x),
    "pause": lambda c, x: c.pause(x),
    "resume": lambda c, x: c.resume(x),
    "seek": lambda c, x: c.seek(x, 0),
    "seek, offset": lambda c, x: c.seek(T0, x),
    "owner_of": lambda c, x: c.owner_of(x, b"k"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_consumer_refuses_what_it_cannot_use(name: str) -> None:
    consumer = CooperativeConsumer(CONFIG)
    call = CALLS[name]
    if name in ("subscribe", "assign") or "listener" in name:
        # A right value would go on to ask the broker, which is not tried here.
        consumer.close()
    for value in HOSTILE:
        with pytest.raises((MisuseError, ConfigError)) as caught:
            call(consumer, value)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize("value", [v for v in HOSTILE if not isinstance(v, BaseException)])
def test_what_is_no_exception_is_no_reason_for_a_failure(value: Any) -> None:
    from coop_consumer.arguments import an_error

    with pytest.raises(MisuseError, match="is no exception"):
        an_error("failed()", value)


def test_done_of_nothing_says_what_it_wants() -> None:
    with pytest.raises(MisuseError) as caught:
        CooperativeConsumer(CONFIG).done(None)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "done(): None is no record. Nothing was changed. Give it the record itself that poll or "
        "consume returned."
    )


@pytest.mark.parametrize("key", [None, "k", 5, [b"k"]])
def test_a_key_is_bytes(key: Any) -> None:
    with pytest.raises(MisuseError, match="Give the key as bytes"):
        owner_of(CooperativeConsumer(CONFIG).config, None, "orders", key, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["wait", "resize", "owner_of"])
def test_a_pool_refuses_what_it_cannot_use(name: str) -> None:
    pool = WorkerPool(Idle, CONFIG, ["orders"])
    calls: dict[str, Callable[[Any], object]] = {
        "wait": pool.wait,
        "resize": pool.resize,
        "owner_of": lambda x: pool.owner_of(x, b"k"),
    }
    for value in HOSTILE:
        with pytest.raises((MisuseError, ConfigError)):
            calls[name](value)


@pytest.mark.parametrize(
    ("value", "taken"), [(None, None), (0, 0.0), (1.5, 1.5), (math.inf, 1e8), (10**400, 1e8)]
)
def test_a_time_is_bounded_by_what_locks_take(value: Any, taken: float | None) -> None:
    assert seconds("wait()", value) == taken
