"""A member of a later release, as far as its user data shows it.

It reads a version that ours does not know, and writes one more field at the end of each message.
The other members are of this release, so it writes the version that all members read.
"""

from __future__ import annotations

from dataclasses import replace

from assignors import WIRE_VERSION, decode_subscription, encode_subscription
from assignors.wire import Writer

_MORE = b"\x05later"
_HEAD_BYTES = 2  # a message's kind and version; then comes the length of its body


def newer_subscription(data: bytes) -> bytes:
    """Its subscription."""
    ours = decode_subscription(data)
    return with_more(encode_subscription(replace(ours, supported=(1, WIRE_VERSION + 1))))


def with_more(data: bytes) -> bytes:
    """The same message, with a field at its end that this release does not know."""
    at = _HEAD_BYTES
    while data[at] & 0x80:
        at += 1
    body = data[at + 1 :] + _MORE
    length = Writer()
    length.uint(len(body))
    return data[:_HEAD_BYTES] + bytes(length._body) + body
