"""The pages beside that of a group at work: the list, why nothing is seen, a member, a stack.

Server, guard and browser are real. What the pages show is made up, so no broker runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from starlette.routing import BaseRoute

from assignors import WHOLE, TopicPartition
from coop_consumer.config import Config
from coop_consumer.core.glimpse import FailedRecord, Glimpse, HeldPartition, RunningRecord
from coop_consumer.errors import (
    AuthorizationError,
    BrokerUnreachableError,
    CoopConsumerError,
    TopicMissingError,
)
from coop_consumer.ops.actions import PageAction
from coop_consumer.ops.feed import GroupFeed
from coop_consumer.ops.group_metrics import GroupLook
from coop_consumer.ops.guard import Door, guarded_by
from coop_consumer.ops.health import Health, HealthPhase
from coop_consumer.ops.page.member_routes import MemberInside, member_routes
from coop_consumer.ops.page.routes import page_routes
from coop_consumer.status.errors import GroupMissingError
from tests.browser.chrome import Browser, browsing, missing
from tests.support.asking import serving
from tests.unit.full_metrics import full_metrics
from tests.unit.page_values import advice, troubled

pytestmark = pytest.mark.browser

LONG = "orders-" + "x" * 240
"""A name of nearly the longest kind, without a place to break."""
NARROW = 320
PLACE = TopicPartition("orders", 0)
ERRORS: dict[str, CoopConsumerError] = {
    "missing": GroupMissingError("missing"),
    "denied": AuthorizationError(f"topic {LONG}", "read", "ann"),
    "away": BrokerUnreachableError(f"{LONG}:9092", "timed out"),
    "unseen": TopicMissingError(LONG),
}


class Feeds(dict[str, GroupFeed]):
    """Groups by name."""

    def names(self) -> Sequence[str]:
        return sorted(self)


def groups() -> list[BaseRoute]:
    """A group in trouble, one that nobody has seen yet, and one of each error."""
    feeds = Feeds({name: GroupFeed(name) for name in (LONG, "new", "billing", *ERRORS)})
    status = troubled()
    feeds["billing"].put(GroupLook("billing", 0.1, 0.0, status, advice(status)))
    for name, error in ERRORS.items():
        feeds[name].put(GroupLook(name, 0.1, 0.0, error=error))
    return page_routes(feeds, allows=frozenset(PageAction))


def member() -> list[BaseRoute]:
    """A member at which something runs, and something has failed."""
    config = Config.from_dict({"bootstrap.servers": "kafka:9092", "group.id": LONG})
    glimpse = Glimpse(
        at_ms=90_000,
        held=(HeldPartition(PLACE, (WHOLE,), 7, 900, 40, is_paused=True, is_walled=True),),
        running=(RunningRecord(PLACE, 7, LONG.encode(), 1, 1_000, 1, is_given_up=True),),
        running_count=1,
        failed=(
            FailedRecord(
                PLACE, 8, LONG.encode(), 2, True, 5, is_parked=True, error=LONG, since_ms=1_000
            ),
        ),
        failed_count=1,
    )

    def stack(tp: TopicPartition, offset: int) -> str:
        del tp
        return f'  File "/app/{LONG}.py", line 3, in process\n    charge()\n' if offset == 7 else ""

    inside = MemberInside(
        config,
        full_metrics,
        lambda: Health(LONG, "m1", HealthPhase.RUNNING, is_member=True),
        lambda: glimpse,
        stack,
    )
    return member_routes(inside, allows=frozenset(PageAction))


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    if absent := missing():
        pytest.skip(absent)
    with browsing() as browser:
        yield browser


@pytest.mark.parametrize(
    ("routes", "pages"),
    [
        (
            groups,
            {
                "/": "No broker answers",
                "/group/new": "Looking at group new",
                "/group/missing": "There is no group missing",
                "/group/denied": f"User ann may not read topic {LONG}",
                "/group/away": "No broker answers",
                "/group/unseen": "Group unseen cannot be seen",
                "/group/elsewhere": "Group elsewhere is not shown here",
            },
        ),
        (
            member,
            {
                "/": "stack of orders-0@7",
                "/running/orders/0/7": "charge()",
                "/running/orders/0/9": "No handler runs this record now",
            },
        ),
    ],
    ids=["groups", "member"],
)
def test_each_page_fits_a_telephone_and_can_be_read_by_anybody_and_without_scripts(
    window: Browser, routes: Callable[[], list[BaseRoute]], pages: dict[str, str]
) -> None:
    window.resize(NARROW)
    window.errors()  # of a test before
    with serving(routes(), guarded_by(Door(host="127.0.0.1"))) as server:
        for path, words in pages.items():
            for off in (False, True):
                window.without_scripts(off=off)
                window.open(f"http://{server.address}{path}")
                seen = window.js("return document.querySelector('main').innerText")
                assert words in seen, path
                assert window.overflow <= 0, path
                assert off or window.violations() == [], path  # axe is a script
        told = [it for it in window.errors() if "404" not in it]
    assert told == []
