"""A watch over a group goes on, whatever becomes of the group, and says each trouble once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from coop_consumer.admin import group_watch
from coop_consumer.admin.group_search import FoundGroups
from coop_consumer.admin.group_watch import EMPTY_MAX, GroupWatch, Watches
from coop_consumer.admin.look_clients import ClientsClosedError, SharedClients
from coop_consumer.config import Config
from coop_consumer.errors import AuthorizationError, BrokerUnreachableError, OutOfThreadsError
from coop_consumer.ops.feed import Listing
from coop_consumer.status.errors import GroupMissingError
from tests.support.journal import WAIT_S
from tests.support.stock import eventually

AWAY = BrokerUnreachableError("b:9092", "timed out")
NO_RIGHT = AuthorizationError("group billing", "describe", "ann")
MISSING = GroupMissingError("billing")
SEEN = (SimpleNamespace(name="status", state="Empty"), SimpleNamespace(name="advice"))
FORGOTTEN = (SimpleNamespace(name="status", state="Dead"), SimpleNamespace(name="advice"))


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
        def inspector(*_: Any) -> Iterator[None]:
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

    assert "group billing: a look at it has failed, and is repeated" in caplog.text
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

    told = [it.getMessage().partition(",")[0] for it in caplog.records]
    assert told == [
        "group billing: a look at it has failed",
        "group billing is seen again",
        "group billing: a look at it has failed",
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


def test_looks_running_that_find_no_group_are_counted(watched: Callable[..., Any]) -> None:
    counts: list[int] = []
    is_there = threading.Event()

    def notice(_: object) -> None:
        assert is_there.wait(WAIT_S)
        counts.append(watch.gone_looks)

    course = Course(SEEN, MISSING, FORGOTTEN, AWAY, MISSING, SEEN, MISSING)
    with watched(course, noticed=notice) as watch:
        is_there.set()
        eventually(lambda: len(counts) >= 7)

    assert counts[:7] == [0, 1, 2, 0, 1, 0, 1]


def test_a_watch_whose_clients_are_closed_ends_without_a_word(
    watched: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    with watched(Course(ClientsClosedError())) as watch:
        watch.join(WAIT_S)
        assert not watch._thread.is_alive()
        assert watch.look is None
    assert not caplog.records


class Idle:
    """A watch that only notes that it was started and ended."""

    def __init__(self, group: str, clients: SharedClients) -> None:
        self.group = group
        self.clients = clients
        self.gone_looks = 0
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

    def make(group: str, clients: SharedClients) -> GroupWatch:
        made.append(Idle(group, clients))
        return made[-1]  # type: ignore[return-value]

    watches = Watches(make)
    watches.begin(["a", "b"])
    watches.begin(["b", "c"])

    assert [it.group for it in made] == ["a", "b", "c"]
    assert [it.group for it in watches.looks] == ["a", "b", "c"]
    assert len({id(it.clients) for it in made}) == 1, "they share clients"
    watches.close()
    assert all(it.told == ["start", "stop", "join"] for it in made)
    watches.begin(["d"])
    assert len(made) == 3


# -- groups that are not named ---------------------------------------------------------------------


class Search:
    """What searches for groups come to, one after the other; the last one again and again."""

    def __init__(self, *found: object) -> None:
        self._found = list(found)
        self.count = 0
        self.watches: dict[str, Idle] = {}  # those over what was found, also of former ones

    def then(self, found: object) -> None:
        """From now on they come to this."""
        self._found = [found]

    def find(self) -> FoundGroups:
        self.count += 1
        it = self._found.pop(0) if len(self._found) > 1 else self._found[0]
        if isinstance(it, BaseException):
            raise it
        assert isinstance(it, FoundGroups)
        return it


def found(*at_work: str, empty: Sequence[str] = (), hidden: int = 0) -> FoundGroups:
    return FoundGroups(frozenset(at_work), frozenset(empty), hidden)


@pytest.fixture
def sought(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Watches over what these searches find."""

    @contextmanager
    def seeking(search: Search, **how: Any) -> Iterator[Watches]:
        monkeypatch.setattr(group_watch, "GroupSearch", lambda _: search)
        monkeypatch.setattr(group_watch, "_FIND_S", 0.001)
        made: dict[str, Idle] = {}

        def make(group: str, clients: SharedClients) -> Any:
            made[group] = Idle(group, clients)
            return made[group]

        watches = Watches(make, how.pop("dropped", bool))
        search.watches = made
        watches.find(config(), **how)
        try:
            yield watches
        finally:
            watches.close()

    return seeking


def names(watches: Watches) -> set[str]:
    return {it.group for it in watches.looks}


def test_groups_are_found_as_they_come(sought: Callable[..., Any]) -> None:
    with sought(Search(AWAY, found("a"), found("a", "b", empty=["dead"]))) as watches:
        eventually(lambda: names(watches) == {"a", "b", "dead"})
        eventually(lambda: watches.listing == Listing(is_over=True))


def test_where_groups_are_named_none_is_sought() -> None:
    watches = Watches(Idle)  # type: ignore[arg-type]
    watches.begin(["a"])
    assert watches.listing is None


def test_groups_that_cannot_be_listed_are_told_until_they_can(
    sought: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    search = Search(found("a", hidden=3), NO_RIGHT)
    with caplog.at_level(logging.INFO), sought(search) as watches:
        eventually(lambda: watches.listing.has_failed)
        assert watches.listing == Listing(is_over=True, has_failed=True, error=NO_RIGHT, hidden=3)
        assert names(watches) == {"a"}, "it is watched as before"
        search.then(AWAY)
        eventually(lambda: watches.listing.error is AWAY)
        search.then(found("a"))
        eventually(lambda: watches.listing == Listing(is_over=True))

    told = [it.getMessage() for it in caplog.records if "cannot be listed" in it.getMessage()]
    assert [str(it) in line for it, line in zip((NO_RIGHT, AWAY), told, strict=True)] == [True] * 2


def test_a_defect_ends_no_search_and_is_told_once(
    sought: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    search = Search(found("a"), ZeroDivisionError("no groups"))
    with sought(search) as watches:
        eventually(lambda: search.count > 5)
        assert watches.listing == Listing(is_over=True, has_failed=True)
        search.then(found("a", "b"))
        eventually(lambda: names(watches) == {"a", "b"})
        eventually(lambda: not watches.listing.has_failed)

    [line] = [it for it in caplog.records if it.levelno == logging.ERROR]
    assert line.exc_info
    assert line.getMessage().startswith("the search for groups has failed, and is tried again. ")
    caplog.clear()


def test_of_very_many_groups_without_members_some_are_watched_and_the_rest_is_counted(
    sought: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    dead = [f"dead-{number:03}" for number in range(EMPTY_MAX + 7)]
    search = Search(found("a", empty=dead))
    with caplog.at_level(logging.INFO), sought(search) as watches:
        eventually(lambda: watches.listing == Listing(is_over=True, left_out=7))
        assert names(watches) == {"a", *dead[:EMPTY_MAX]}
        search.then(found("a", dead[-1], empty=dead[:-1]))
        eventually(lambda: dead[-1] in names(watches))
        eventually(lambda: watches.listing == Listing(is_over=True, left_out=6))

    told = [it.getMessage() for it in caplog.records if it.levelno == logging.WARNING]
    assert told == ["7 groups without members are left out: 50 are watched. Name those that matter"]


def test_groups_that_may_not_be_described_are_told_once(
    sought: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    search = Search(found(hidden=2))
    with caplog.at_level(logging.INFO), sought(search) as watches:
        eventually(lambda: search.count > 5)
        assert watches.listing == Listing(is_over=True, hidden=2)

    [line] = [it for it in caplog.records if it.levelno == logging.WARNING]
    assert line.getMessage().startswith("2 groups of this cluster may not be described")


def test_a_found_group_that_is_gone_for_good_is_watched_no_more(
    sought: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    search, dropped = Search(found("a", "b")), list[str]()
    with caplog.at_level(logging.INFO), sought(search, dropped=dropped.append) as watches:
        eventually(lambda: names(watches) == {"a", "b"})
        former = search.watches["b"]
        former.gone_looks = 2
        search.then(found("a"))
        eventually(lambda: search.count > 5)
        assert names(watches) == {"a", "b"}, "twice may be an accident"
        former.gone_looks = 3
        eventually(lambda: names(watches) == {"a"})
        assert dropped == ["b"]
        assert former.told == ["start", "stop"]
        search.then(found("a", "b"))
        eventually(lambda: names(watches) == {"a", "b"})
        assert search.watches["b"] is not former, "it has come back"

    told = "group b does not exist any more, and is watched no more"
    assert [it.getMessage() for it in caplog.records].count(told) == 1


def test_a_group_that_the_search_still_finds_is_not_dropped(sought: Callable[..., Any]) -> None:
    search = Search(found("a", empty=["dead"]))
    with sought(search) as watches:
        eventually(lambda: names(watches) == {"a", "dead"})
        for it in search.watches.values():
            it.gone_looks = 3
        before = search.count
        eventually(lambda: search.count > before + 5)
        assert names(watches) == {"a", "dead"}


def test_what_is_dropped_makes_room_for_groups_without_members(
    sought: Callable[..., Any],
) -> None:
    dead = [f"dead-{number:03}" for number in range(EMPTY_MAX + 1)]
    search = Search(found(empty=dead))
    with sought(search) as watches:
        eventually(lambda: watches.listing == Listing(is_over=True, left_out=1))
        search.watches[dead[0]].gone_looks = 3
        search.then(found(empty=dead[1:]))
        eventually(lambda: names(watches) == set(dead[1:]))
        eventually(lambda: watches.listing == Listing(is_over=True))


def test_where_this_machine_gives_no_more_threads_no_more_groups_are_watched(
    sought: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    left = [None, None]

    def refuse() -> None:
        if not left:
            raise OutOfThreadsError("can't start new thread; 80 of 81 could be started")
        left.pop()

    search = Search(found("a", "b", "c", empty=["dead"]))
    with caplog.at_level(logging.INFO), sought(search, refuse=refuse) as watches:
        eventually(lambda: search.count > 5)
        assert names(watches) == {"a", "b"}
        left += [None] * 2
        eventually(lambda: names(watches) == {"a", "b", "c", "dead"})

    [told] = [it.getMessage() for it in caplog.records if it.levelno == logging.WARNING]
    assert told.startswith("2 groups are watched, and no more that are found: no further thread")
