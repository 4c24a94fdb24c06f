"""Pictures of the page for docs/images: `python -m tests.browser.pictures FOLDER`.

The group in them is made up (`tests.unit.page_values`), so nothing runs but a browser. It has two
states: one in which keys and errors are of strangers, and one of every day, with its last half
hour.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import sin
from pathlib import Path

from assignors import TopicPartition, key_hash
from coop_consumer.core.policies import Policies
from coop_consumer.ops.action_routes import action_routes, confirm_url
from coop_consumer.ops.actions import Asked, Intent, PageAction
from coop_consumer.ops.group_metrics import GroupLook
from coop_consumer.ops.guard import Door, guarded_by
from coop_consumer.ops.history import GROUP_SERIES, SPAN_MS, STEP_MS, Series
from coop_consumer.ops.page.rendering import environment
from coop_consumer.ops.page.routes import page_routes
from coop_consumer.status.model import GroupStatus, RecordStatus
from tests.browser.chrome import browsing, missing
from tests.support.asking import serving
from tests.unit.page_values import troubled
from tests.unit.test_unread_streams import OneFeed

PLACE = TopicPartition("orders", 1)
WHOLE = 1
"""A height for a picture of the whole page, however high it is."""
STUCK_AT = 0.8
"""When in the last half hour a record was parked: 0 is its beginning, 1 is now."""
LINES: Mapping[str, Callable[[float], float | None]] = {
    "left": lambda at: 8_000 + 1_200 * sin(8 * at),
    "finished": lambda at: None if 0.45 < at < 0.5 else 200 + 20 * sin(60 * at),
    "members": lambda at: 3 if at < 0.4 else 4,
    "busy": lambda at: 0.5 + 0.3 * sin(11 * at),
    "parked": lambda at: float(at >= STUCK_AT),
    "blocked_s": lambda at: max(0.0, at - STUCK_AT) * SPAN_MS / 1_000,
}
"""Figures over the last half hour, from 0 to 1. A figure that is not known is a hole."""


class HalfHour:
    """The last half hour of a group, made up."""

    def note(self, look: GroupLook, at_ms: int) -> None:
        """It has all of its figures."""

    def series(self) -> tuple[Series, ...]:
        now_ms = time.time_ns() // 1_000_000
        moments = range(now_ms - SPAN_MS + STEP_MS, now_ms + 1, STEP_MS)

        def points(line: Callable[[float], float | None]) -> tuple[tuple[int, float | None], ...]:
            return tuple((at, line(1 - (now_ms - at) / SPAN_MS)) for at in moments)

        return tuple(
            Series(it.name, it.title, it.unit, points(LINES[it.name]))
            for it in GROUP_SERIES
            if it.name in LINES
        )


def of_customer(record: RecordStatus, key: bytes, **changed: str) -> RecordStatus:
    return replace(record, key=key, key_hash=key_hash(key), **changed)  # type: ignore[arg-type]


def everyday() -> GroupStatus:
    """The troubled group with keys and errors as people have them, and with fewer troubles."""
    status = troubled()
    first, second, third = status.partitions
    parked, failing = first.failed
    failed = (
        of_customer(parked, b"customer-7", error="ValueError: no route from FRA to XYZ"),
        of_customer(failing, b"customer-31"),
    )
    partitions = (
        replace(first, failed=failed, holder=failed[0]),
        replace(second, walled=()),
        third,
    )
    works = tuple(replace(it, ops_address="0.0.0.0:9464") for it in status.load.works)
    load = replace(status.load, works=works)
    return replace(status, partitions=partitions, load=load, warnings=(), policies=Policies())


class Shown:
    """An operator that shows what it would do."""

    allows = frozenset({PageAction.RETRY, PageAction.SKIP, PageAction.RELEASE})

    def look(self, asked: Asked) -> Intent:
        return Intent(
            f"Skip {asked.tp} offset {asked.offset}?",
            ("key customer-7", "failed 5 times: ValueError: no route", "at member b-1 on host-2"),
            (
                "The record is lost to this group: it counts as done, and no handler has done it.",
                "The next record of its key runs as if this one had succeeded.",
                "It cannot be taken back.",
            ),
            "Skip it",
            f"coop-consumer skip {asked.group} {asked.tp} {asked.offset}",
        )

    def carry_out(self, asked: Asked) -> str:
        return str(asked)


def main(folder: Path) -> None:
    if absent := missing():
        sys.exit(absent)
    status, operator = troubled(), Shown()
    feeds = OneFeed(status)
    routes = [
        *page_routes(feeds, allows=frozenset(operator.allows)),
        *action_routes(operator, environment()),
    ]
    with serving(routes, guarded_by(Door(host="127.0.0.1"))) as server, browsing() as browser:

        def take(name: str, path: str, width: int, height: int, scheme: str) -> None:
            feeds.look(shown)  # else the page says that it is old
            browser.prefer(scheme)
            browser.resize(width, height)
            browser.open(f"http://{server.address}{path}")
            if height == WHOLE:
                browser.resize(width, browser.js("return document.documentElement.scrollHeight"))
            browser.driver.save_screenshot(str(folder / f"page-{name}.png"))

        page, shown = f"/group/{status.group}", status
        take("dark", page, 1_200, 760, "dark")
        take("narrow", page, 320, 720, "light")
        skip = confirm_url(Asked(PageAction.SKIP, status.group, PLACE, 43))
        take("confirm", skip, 720, 470, "light")
        shown, feeds.feed.history = everyday(), HalfHour()
        browser.hide_scrollbars()
        take("light", page, 1_440, 1_160, "light")
        take("whole", page, 1_440, WHOLE, "dark")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
