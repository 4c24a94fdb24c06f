r"""Key names: how a line of the log names a key, as far as `log.keys` allows it. Pure.

In: keys, which are of strangers, and hashes. Out: short text that any terminal shows as it is.
"""

from __future__ import annotations

from coop_consumer.config import LogKeys
from coop_consumer.plain_text import CUT, printable
from offsets import KEY_BYTES_MAX


def key_text(key: bytes) -> str:
    r"""A key as text: 64 bytes of it at most, with an escape for what is not printable.

    >>> key_text(b"N14228"), key_text(b"\x1b[31m\xff")
    ('N14228', '\\x1b[31m\\xff')
    """
    cut = CUT if len(key) > KEY_BYTES_MAX else ""
    return printable(key[:KEY_BYTES_MAX].decode("utf-8", "backslashreplace")) + cut


def shown(keys: LogKeys, key: bytes | None, key_hash: int, *, known: bool = True) -> str | None:
    """The key's text, or its hash; None: neither is to be shown, or there is no key.

    Args:
        keys: `log.keys`.
        key: The key.
        key_hash: Its hash.
        known: Whether that is the key; else only its hash is known.

    >>> shown(LogKeys.TEXT, b"N14228", 5), shown(LogKeys.HASH, b"N14228", 5)
    ('N14228', 'hash 5')
    """
    if keys is LogKeys.NONE:
        return None
    if keys is LogKeys.HASH or not known:
        return f"hash {key_hash}"
    return None if key is None else key_text(key)


def named(keys: LogKeys, key: bytes | None, key_hash: int, *, known: bool = True) -> str:
    """The same in brackets, behind a space; nothing if the key is not to be shown."""
    text = shown(keys, key, key_hash, known=known)
    if text is None:
        return " (no key)" if keys is LogKeys.TEXT else ""
    return f" ({text})"
