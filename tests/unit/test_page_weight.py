"""The page of a large group in trouble is as light as docs/page.md says, its files included."""

from __future__ import annotations

import re
import time
from dataclasses import replace

from coop_consumer.ops.actions import PageAction
from coop_consumer.ops.history import GROUP_SERIES, POINTS_MAX, STEP_MS, Series
from coop_consumer.ops.page.needs import NEEDS_SHOWN
from coop_consumer.ops.page.routes import page_routes
from coop_consumer.status.model import GroupStatus, RecordStatus
from coop_consumer.status.standing import RecordState
from tests.support.asking import ask, serving
from tests.unit.page_values import NOW_MS, failing, group, partition, record
from tests.unit.test_unread_streams import OneFeed

PAGE_BYTES_MAX = 150_000
SAME = 8
"""So many needs of one kind are shown."""
MEMBER = "billing-7f9c4d5b8-x2k"
"""The beginning of a member's name, as long as that of a pod."""
ERROR = ("ConnectionError: db-7 refused the connection; " * 20)[:600]


class FullHistory:
    """Half an hour in which all figures are known, and differ from point to point."""

    def note(self, *_: object) -> None:
        """It has all of its figures."""

    def series(self) -> tuple[Series, ...]:
        now_ms = time.time_ns() // 1_000_000
        points = tuple(
            (now_ms - (POINTS_MAX - number) * STEP_MS, float(number * 7919 % 9_973))
            for number in range(POINTS_MAX)
        )
        return tuple(Series(it.name, it.title, it.unit, points) for it in GROUP_SERIES)


def in_trouble() -> GroupStatus:
    """12 members on 50 partitions: as many needs as are shown, each with a text of full length."""
    status = group(12, 50, named=MEMBER)
    names = [it.name for it in status.members]

    def unfinished(state: RecordState, member: str, error: str = "") -> RecordStatus:
        found = record(700, is_parked=False, attempts=0, member=member, error=error)
        return replace(found, standing=state, standing_since_ms=NOW_MS - 2_000)

    up = [
        *(record(700, error=ERROR, member=name) for name in names[:SAME]),
        *(replace(failing(700), error=ERROR, member=name) for name in names[:SAME]),
        *(unfinished(RecordState.HELD_BACK, name, ERROR) for name in names[:SAME]),
        *(unfinished(RecordState.RUNNING, names[-1]) for _ in range(50 - 3 * SAME)),
    ]
    partitions = tuple(
        partition(
            it.tp,
            [(owner.range, owner.member) for owner in it.owners],
            left=12_345_678,
            end=1_234_567_890,
            failed=[what],
        )
        for it, what in zip(status.partitions, up, strict=True)
    )
    return replace(status, partitions=partitions, warnings=(ERROR,))


def test_a_large_group_in_trouble_has_a_light_page() -> None:
    feeds = OneFeed(in_trouble())
    feeds.feed.history = FullHistory()
    with serving(page_routes(feeds, allows=frozenset(PageAction))) as server:
        html = ask(server, "/group/billing").text
        files = [ask(server, f"/static/{it}").text for it in ("page.css", "page.js", "icon.svg")]
    assert html.count('<li class="need ') == html.count(ERROR) == NEEDS_SHOWN
    lines = re.findall(r'<polyline points="([^"]*)"', html)
    assert [len(it.split()) for it in lines] == [90] * len(GROUP_SERIES)
    assert sum(len(it.encode()) for it in (html, *files)) <= PAGE_BYTES_MAX
