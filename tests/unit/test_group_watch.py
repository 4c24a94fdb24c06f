"""A watch over a group goes on, whatever becomes of the group, and says each trouble once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from coop_consumer.admin import group_watch
from coop_consumer.admin.group_watch import GroupWatch, Watches
from coop_consumer.config import Config
from coop_consumer.errors import AuthorizationError, BrokerUnreachableError
from coop_consumer.status.errors import GroupMissingError
from tests.support.journal import WAIT_S
from tests.support.stock import eventually

AWAY = BrokerUnreachableError("b:9092", "timed out")
NO_RIGHT = AuthorizationError("group billing", "describe", "ann")
MISSING = GroupMissingError("billing")
SEEN = (SimpleNamespace(name="status"), SimpleNamespace(name="advice"))


def config(group: str = "billing") -> Config:
    return Config.from_dict({"bootstrap.servers": "b:9092", "group.id": group})


class Course:
    """What looks come to, one after the other; the last one again and again."""

    def __init__(self, *looks: object) -> None:
        self._looks = list(looks)
        self.count = 0
        self.clients = 0  # how often they were made for it

    def then(self, look: object) -> None:
        """From now on they come to this."""
        self._looks = [look]

    def look(self) -> Any:
        self.count += 1
        found = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        if isinstance(found, BaseException):
            raise found
        return found


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[[Course], Any]:
    """A watch whose looks take this course."""

    @contextmanager
    def watching(course: Course, **how: Any) -> Iterator[GroupWatch]:
        @contextmanager
        def inspector(_: Config) -> Iterator[None]:
            course.clients += 1
            yield

        monkeypatch.setattr(group_watch, "Inspector", inspector)
        monkeypatch.setattr(group_watch, "Advisor", lambda *_, **__: course)
        watch = GroupWatch(config(), (), **{"every_s": 0.001, **how})
        watch.start()
        try:
            yield watch
        finally:
            watch.stop()
            watch.join(WAIT_S)

    return watching


@pytest.mark.parametrize("error", [AWAY, NO_RIGHT, MISSING], ids=["away", "no right", "missing"])
def test_a_group_that_cannot_be_seen_ends_nothing(
    watched: Callable[[Course], Any], error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    course = Course(error)
    with caplog.at_level(logging.INFO), watched(course) as watch:
        eventually(lambda: course.count > 5)
        assert watch.look is not None
        assert watch.look.status is None

    told = [it for it in caplog.records if "cannot be seen" in it.getMessage()]
    assert len(told) == 1
    assert str(error) in told[0].getMessage()


def test_a_group_that_comes_back_is_seen_again(
    watched: Callable[[Course], Any], caplog: pytest.LogCaptureFixture
) -> None:
    course = Course(AWAY, AWAY, SEEN)
    with caplog.at_level(logging.INFO), watched(course) as watch:
        eventually(lambda: watch.look is not None and watch.look.status is not None)
        assert watch.look.advice is SEEN[1]

    assert "group billing is seen again" in caplog.text


def test_a_second_trouble_is_told_beside_the_first(
    watched: Callable[[Course], Any], caplog: pytest.LogCaptureFixture
) -> None:
    course = Course(AWAY, AWAY, NO_RIGHT)
    with caplog.at_level(logging.INFO), watched(course):
        eventually(lambda: course.count > 5)

    assert len([it for it in caplog.records if "cannot be seen" in it.getMessage()]) == 2


def test_a_defect_in_a_look_is_no_end_either(
    watched: Callable[[Course], Any], caplog: pytest.LogCaptureFixture
) -> None:
    course = Course(ZeroDivisionError("no members"), SEEN)
    with watched(course) as watch:
        eventually(lambda: watch.look is not None and watch.look.status is not None)

    assert "it is looked at anew" in caplog.text
    caplog.clear()


def test_a_defect_in_each_look_is_told_once_and_makes_clients_anew_once(
    watched: Callable[[Course], Any], caplog: pytest.LogCaptureFixture
) -> None:
    course = Course(ZeroDivisionError("no members"))
    with caplog.at_level(logging.INFO), watched(course) as watch:
        eventually(lambda: course.count > 5)
        assert watch.look is not None
        assert watch.look.status is None
        assert course.clients == 2
        course.then(SEEN)
        eventually(lambda: watch.look is not None and watch.look.status is not None)
        course.then(ZeroDivisionError("again"))
        eventually(lambda: course.clients == 3)

    told = [it.getMessage() for it in caplog.records]
    assert told == [
        "group billing: it is looked at anew",
        "group billing is seen again",
        "group billing: it is looked at anew",
    ]
    assert all(it.exc_info for it in caplog.records if it.levelno == logging.ERROR)
    caplog.clear()


def test_each_look_is_noticed_with_its_error(watched: Callable[..., Any]) -> None:
    noticed: list[Any] = []
    with watched(Course(AWAY, SEEN), noticed=noticed.append):
        eventually(lambda: len(noticed) > 2)

    assert [(it.error, it.status) for it in noticed[:2]] == [(AWAY, None), (None, SEEN[0])]


def test_a_look_that_is_far_away_comes_at_once_if_somebody_asks(
    watched: Callable[..., Any],
) -> None:
    course = Course(SEEN)
    with watched(course, every_s=lambda: 3_600.0) as watch:
        assert watch.looked.wait(WAIT_S)
        before = course.count
        watch.look_soon()
        eventually(lambda: course.count > before)


class Idle:
    """A watch that only notes that it was started and ended."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.look = SimpleNamespace(group=group)
        self.told: list[str] = []

    def start(self) -> None:
        self.told.append("start")

    def stop(self) -> None:
        self.told.append("stop")

    def join(self, _: float) -> None:
        self.told.append("join")


def test_each_group_is_watched_once_and_all_end() -> None:
    made: list[Idle] = []

    def make(group: str) -> GroupWatch:
        made.append(Idle(group))
        return made[-1]  # type: ignore[return-value]

    watches = Watches(make)
    watches.begin(["a", "b"])
    watches.begin(["b", "c"])

    assert [it.group for it in made] == ["a", "b", "c"]
    assert [it.group for it in watches.looks] == ["a", "b", "c"]
    watches.close()
    assert all(it.told == ["start", "stop", "join"] for it in made)
    watches.begin(["d"])
    assert len(made) == 3


def test_groups_are_found_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[frozenset[str] | Exception] = [AWAY, frozenset({"a"}), frozenset({"a", "b"})]

    def ours(_: Config) -> frozenset[str]:
        it = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(it, Exception):
            raise it
        return it

    monkeypatch.setattr(group_watch, "groups_of_ours", ours)
    monkeypatch.setattr(group_watch, "_FIND_S", 0.001)
    watches = Watches(Idle)  # type: ignore[arg-type]
    watches.find(config())
    eventually(lambda: {it.group for it in watches.looks} == {"a", "b"})
    watches.close()
