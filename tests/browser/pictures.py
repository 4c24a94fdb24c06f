"""Pictures of the page for docs/images: `python -m tests.browser.pictures FOLDER`.

The group in them is made up (`tests.unit.page_values`), so nothing runs but a browser.
"""

from __future__ import annotations

import sys
from pathlib import Path

from assignors import TopicPartition
from coop_consumer.ops.action_routes import action_routes, confirm_url
from coop_consumer.ops.actions import Asked, Intent, PageAction
from coop_consumer.ops.guard import Door, guarded_by
from coop_consumer.ops.page.rendering import environment
from coop_consumer.ops.page.routes import page_routes
from tests.browser.chrome import browsing, missing
from tests.support.asking import serving
from tests.unit.page_values import troubled
from tests.unit.test_unread_streams import OneFeed

PLACE = TopicPartition("orders", 1)


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
            feeds.look(status)  # else the page says that it is old
            browser.prefer(scheme)
            browser.resize(width, height)
            browser.open(f"http://{server.address}{path}")
            browser.driver.save_screenshot(str(folder / f"page-{name}.png"))

        page = f"/group/{status.group}"
        take("dark", page, 1_200, 760, "dark")
        take("narrow", page, 320, 720, "light")
        skip = confirm_url(Asked(PageAction.SKIP, status.group, PLACE, 43))
        take("confirm", skip, 720, 470, "light")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
