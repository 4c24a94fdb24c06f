"""A member watches its group only while somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from coop_consumer.admin import group_watch
from coop_consumer.admin.own_group import OwnGroup
from coop_consumer.config import Config
from coop_consumer.errors import BrokerUnreachableError
from tests.support.stock import eventually


class Looks:
    """Counts looks, and the clients that are open for them."""

    def __init__(self) -> None:
        self.count = self.open = 0

    @contextmanager
    def inspector(self, *_: Any) -> Iterator[None]:
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    def advisor(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(look=self._look)

    def _look(self) -> Any:
        self.count += 1
        raise BrokerUnreachableError("b:9092", "timed out")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    made = Looks()
    monkeypatch.setattr(group_watch, "Inspector", made.inspector)
    monkeypatch.setattr(group_watch, "Advisor", made.advisor)
    return made


@pytest.fixture
def group(looks: Looks) -> Iterator[Callable[..., OwnGroup]]:
    made = []

    def make(**how: Any) -> OwnGroup:
        config = Config.from_dict({"bootstrap.servers": "b:9092", "group.id": "billing"})
        made.append(OwnGroup(config, **how))
        return made[-1]

    yield make
    for it in made:
        it.close()
    eventually(lambda: looks.open == 0)


def test_nobody_looks_before_somebody_asks(group: Callable[..., OwnGroup], looks: Looks) -> None:
    it = group()
    assert it.names() == ("billing",)
    assert it.get("other") is None
    assert not it.is_watching

    feed = it.get("billing")
    assert feed is not None
    eventually(lambda: feed.now.version > 0)
    assert it.is_watching
    assert it.get("billing") is feed


def test_the_watch_ends_when_nobody_asks_any_more_and_begins_anew(
    group: Callable[..., OwnGroup], looks: Looks
) -> None:
    it = group(idle_s=0.0)
    for _ in range(2):
        before = looks.count
        assert it.get("billing") is not None
        eventually(lambda: not it.is_watching and looks.open == 0)
        assert looks.count == before + 1


def test_while_somebody_has_the_page_open_it_goes_on(
    group: Callable[..., OwnGroup], looks: Looks
) -> None:
    it = group(idle_s=0.0)
    feed = it.get("billing")
    assert feed is not None

    def goes_on() -> bool:
        it.get("billing")  # the first watch may have ended before somebody listened
        feed.hurry()
        return looks.count > 2

    with feed.listening(bool):
        eventually(goes_on)
        assert it.is_watching


def test_behind_its_end_nothing_begins(group: Callable[..., OwnGroup], looks: Looks) -> None:
    it = group()
    it.get("billing")
    it.close()
    eventually(lambda: looks.open == 0)
    assert it.get("billing") is not None
    assert not it.is_watching
