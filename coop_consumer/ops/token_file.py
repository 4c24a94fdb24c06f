"""The secret by which people and programs prove that they may ask an `OpsServer`.

In: a file, what somebody gives. Out: whether that is the secret. The file is read each time, so a
new secret counts at once, as when a Secret of a cluster is changed.
"""

from __future__ import annotations

import hashlib
import hmac
from contextlib import suppress
from pathlib import Path

from coop_consumer.errors import ConfigError

LEAST_CHARACTERS = 16
"""Nothing counts wrong guesses, so the secret must be out of their reach."""

_REMEDY = 'Write one: python -c "import secrets; print(secrets.token_urlsafe(32))" > FILE'
_COOKIE_OF = b"coop-consumer: a browser has signed in"


class TokenFile:
    """A file with one line: the secret.

    Args:
        path: The file.
        setting: The setting or option that names it, for errors.

    Raises:
        ConfigError: The file cannot be read, or has no secret that is long enough.
    """

    def __init__(self, path: str, setting: str) -> None:
        self._path, self._setting = Path(path), setting
        self._token = self._read()

    def is_token(self, given: str) -> bool:
        """Whether this is the secret; takes equally long whatever is given."""
        return _are_same(given, self._now())

    def is_cookie(self, given: str) -> bool:
        """Whether a browser that has signed in has this cookie."""
        return _are_same(given, self.cookie)

    @property
    def cookie(self) -> str:
        """For a browser that has signed in; counts until the secret is another one.

        A browser gives it to all servers of a host, so it does not tell the secret.
        """
        return hmac.new(self._now().encode(), _COOKIE_OF, hashlib.sha256).hexdigest()

    def _now(self) -> str:
        with suppress(ConfigError):  # somebody is writing it: the one before counts
            self._token = self._read()
        return self._token

    def _read(self) -> str:
        try:
            text = self._path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                self._setting, f"={self._path} cannot be read ({error})", _REMEDY
            ) from error
        if len(text) < LEAST_CHARACTERS or not text.isascii() or not text.isprintable():
            what = (
                f"={self._path} holds no secret of {LEAST_CHARACTERS} or more printable characters"
            )
            raise ConfigError(self._setting, what, _REMEDY)
        return text


def _are_same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), token.encode())
