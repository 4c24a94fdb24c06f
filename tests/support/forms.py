"""The form by which a page asks to confirm something, looked at and sent as a browser does.

In: where a page answers, the path of what is asked for. Out: what is shown before, and said after.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from tests.support.journal import WAIT_S


@dataclass(frozen=True, slots=True)
class Form:
    """A form that was shown, and is not sent yet.

    Attributes:
        shown: The page with it, its text without escapes.
    """

    shown: str
    _origin: str
    _path: str
    _fields: tuple[tuple[str, str], ...]

    def send(self) -> str:
        """Send it, as its button does; returns the page that comes back."""
        body, origin = urlencode(self._fields).encode(), {"Origin": self._origin}
        asked = Request(f"{self._origin}{self._path}", body, origin)  # noqa: S310 - it is http
        with urlopen(asked, timeout=WAIT_S) as answer:  # noqa: S310
            return unescape(answer.read().decode())


def form_at(address: str, path: str) -> Form:
    """The form at `http://ADDRESS/PATH`; nothing is done yet."""
    origin = f"http://{address}"
    with urlopen(f"{origin}{path}", timeout=WAIT_S) as answer:  # noqa: S310
        html = answer.read().decode()
    [target] = re.findall(r'<form method="post" action="([^"]*)">', html)
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', html)
    found = tuple((name, unescape(value)) for name, value in fields)
    return Form(unescape(html), origin, unescape(target), found)
