"""From values to HTML: the templates, and the static files beside them. Needs the extra `web`.

In: the values of a page. Out: HTML. A page is made of parts, and the same parts are sent to
browsers that look: so there is one way to make each. All text is escaped. A name that a template
misspells is an error, and no empty text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from coop_consumer import __version__
from coop_consumer.plain_text import command, counted, printable

TEMPLATES = Path(__file__).parent / "templates"
STATIC = Path(__file__).parent / "static"

GROUP_SECTIONS = (
    ("head", ""),
    ("trouble", ""),
    ("needs", "what needs you"),
    ("figures", "figures of the group"),
    ("picture", "who has what"),
    ("partitions", "partitions"),
    ("running", "records at stable offsets"),
    ("members", "members"),
    ("keys", "top keys"),
    ("scale", "members wanted"),
    ("history", "the last half hour"),
    ("policies", "policies"),
)
"""The sections of a group's page, in their order, and their names for whoever hears the page."""

MEMBER_SECTIONS = (
    ("head", ""),
    ("needs", "what needs you"),
    ("figures", "figures of the member"),
    ("running", "what runs now"),
    ("held", "what the member has"),
    ("topics", "topics"),
    ("history", "the last half hour"),
    ("more", "commits, rebalances and bounds"),
)
GROUPS_SECTIONS = (("groups", ""),)

_MEMBER_FILES = {"head": "member_head", "running": "member_running", "held": "member_held"}


@cache
def environment() -> Environment:
    """The templates, for pages of others, too: they extend `base.html`."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals["static"] = _static
    made.filters["counted"] = counted
    made.filters["shown"] = printable
    return made


@cache
def static_file(name: str) -> bytes:
    """A static file of this page's."""
    return (STATIC / name).read_bytes()


@cache
def static_hash(name: str) -> str:
    """What changes with the contents of a static file."""
    return hashlib.sha256(static_file(name)).hexdigest()[:12]


def _static(name: str) -> str:
    return f"/static/{name}?v={static_hash(name)}"


def warm() -> None:
    """Compile all templates: the first page then takes some milliseconds, and not 200."""
    made = environment()
    for name in made.list_templates(extensions=["html"]):
        made.get_template(name)


def group_parts(page: object, *, has_view: bool, allows: frozenset[str]) -> dict[str, str]:
    """The parts of a group's page, as HTML by section."""
    without = {"head", "trouble", "history"}
    return {
        section: _part(section, page, allows) if has_view or section in without else ""
        for section, _ in GROUP_SECTIONS
    }


def member_parts(page: object, *, allows: frozenset[str]) -> dict[str, str]:
    """The parts of a member's page."""
    return {
        section: _part(_MEMBER_FILES.get(section, section), page, allows)
        for section, _ in MEMBER_SECTIONS
    }


def groups_parts(page: object) -> dict[str, str]:
    """The parts of the list of groups."""
    return {section: _part(section, page, frozenset()) for section, _ in GROUPS_SECTIONS}


def _part(name: str, page: object, allows: frozenset[str]) -> str:
    found = environment().get_template(f"parts/{name}.html")
    return found.render(page=page, allows=allows).strip()


def live_page(
    page: object,
    parts: Mapping[str, str],
    sections: tuple[tuple[str, str], ...],
    *,
    events: str,
    every_s: int,
    up: str = "",
) -> str:
    """A whole page.

    Args:
        page: Its values: `title` and `version` of it.
        parts: Its parts, as HTML, and `stale`, as text.
        sections: Their order.
        events: Where its events come from.
        every_s: After so many seconds a browser without scripts looks again; 0: it does not.
        up: What the link to `/` is called; "": there is none.
    """
    safe = {name: Markup(html) for name, html in parts.items() if name != "stale"}  # noqa: S704 - ours
    return (
        environment()
        .get_template("live.html")
        .render(
            page=page,
            parts={**safe, "stale": parts["stale"]},
            sections=sections,
            events=events,
            every=every_s,
            up=up,
            footer=f"coop-consumer {__version__}",
        )
    )


def stack_page(place: str, stack: str) -> str:
    """The page of one handler's stack."""
    return environment().get_template("stack.html").render(place=place, stack=stack)


def missing_page(group: str) -> str:
    """The page for a group that is not shown here."""
    return (
        environment()
        .get_template("missing.html")
        .render(group=group, command=command("web", group))
    )
