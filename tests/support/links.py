"""The links of a page, and whether they lead somewhere.

In: a page in Markdown. Out: its links to other files and headings; those to other sites are left
out, because tests ask nobody outside. Anchors are made as sites for code make them.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?)\s*$", re.MULTILINE)


def links_of(page: Path) -> list[str]:
    """The links within the project, as they are written."""
    text = _INLINE.sub("", _FENCED.sub("", page.read_text(encoding="utf-8")))
    return [link for link in _LINK.findall(text) if not re.match(r"[a-z]+:", link)]


def leads_somewhere(page: Path, link: str) -> bool:
    """Whether the file of a link is there, and the heading in it."""
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return False
    return not anchor or (target.suffix == ".md" and anchor in _anchors_of(target))


@cache
def _anchors_of(page: Path) -> set[str]:
    return anchors_in(page.read_text(encoding="utf-8"))


def anchors_in(text: str) -> set[str]:
    """The anchors of a page: headings in small letters, without marks, with hyphens for blanks."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCED.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number, name = 0, anchor
        while name in found:
            number += 1
            name = f"{anchor}-{number}"
        found.add(name)
    return found
