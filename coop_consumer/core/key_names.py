r"""Key names: how a line of the log names a key, as far as `log.keys` allows it. Pure.

In: keys, which are of strangers, and hashes. Out: short text that any terminal shows as it is.
"""

from __future__ import annotations

from coop_consumer.config import LogKeys
from coop_consumer.plain_text import printable
from offsets import KEY_BYTES_MAX

_CUT = ".."


def key_text(key: bytes) -> str:
    r"""A key as text: 64 bytes of it at most, with an escape for what is not printable.

    >>> key_text(b"N14228"), key_text(b"\x1b[31m\xff")
    ('N14228', '\\x1b[31m\\xff')
    """
    cut = _CUT if len(key) > KEY_BYTES_MAX else ""
    return printable(key[:KEY_BYTES_MAX].decode("utf-8", "backslashreplace")) + cut


def named(keys: LogKeys, key: bytes | None, key_hash: int, *, known: bool = True) -> str:
    """The key in brackets, behind a space; its hash, or nothing, if the key is not to be shown.

    Args:
        keys: `log.keys`.
        key: The key.
        key_hash: Its hash.
        known: Whether that is the key; else only its hash is known.
    """
    if keys is LogKeys.NONE:
        return ""
    if keys is LogKeys.HASH or not known:
        return f" (hash {key_hash})"
    return " (no key)" if key is None else f" ({key_text(key)})"
