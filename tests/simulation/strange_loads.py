"""Loads that no member has measured: bytes that are none, and numbers beyond all reason."""

from __future__ import annotations

from assignors import KEY_HASH_MAX
from offsets import HeavyKey, LoadKey, LoadRecord, PartitionLoad, encode_key, encode_value

_MOST = 2**64 - 1
_BEYOND = b"\xff" * 9 + b"\x01"  # 2**64 - 1, as a number is written
_NO_TOPIC = bytes(16)
_ABSURD = LoadRecord(
    incarnation=_MOST,
    at_ms=-(2**63),
    workers=0,
    busy=_MOST,
    handler_us=_MOST,
    finished=_MOST,
    partitions=(PartitionLoad(_NO_TOPIC, _MOST, _MOST, _MOST),) * 3,
    heavy=(HeavyKey(_NO_TOPIC, _MOST, KEY_HASH_MAX, _MOST, b"\x1b[2J" * 16),) * 4,
)


def strange_loads(group: str) -> list[tuple[bytes, bytes | None]]:
    """What a stranger may leave in the progress log: also under the name of a member."""
    absurd = encode_value(_ABSURD)  # each number is the largest that is believed
    beyond = encode_value(LoadRecord(1, 1, 101, 1, 1, 1)).replace(bytes([101]), _BEYOND)
    return [
        (encode_key(LoadKey(group, "m1")), absurd[:-1]),
        (encode_key(LoadKey(group, "m2")), absurd),
        (encode_key(LoadKey(group, "nobody")), beyond),
        (encode_key(LoadKey(group, "")), b""),
    ]
