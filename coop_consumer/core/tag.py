"""The tag on committed offsets: whose they are, and of which history. Pure.

What we mirror into `__consumer_offsets` carries the metadata `coop:<epoch>:<topic>`, the latter
being the first 4 bytes of the topic's id in hex. Without a tag of ours it is somebody's decision: a
plain group's before us, or a reset tool's. With the tag of another topic id it speaks of a topic
that was deleted: one made again under the same name does not inherit it (Kafka drops the offsets of
a deleted topic, but a commit may have been under way).
"""

from __future__ import annotations

_TAG = "coop"


def tagged(epoch: int, topic_id: bytes) -> str:
    """The metadata of a committed offset that mirrors an epoch's stable offset.

    >>> tagged(3, bytes(16))
    'coop:3:00000000'
    """
    return f"{_TAG}:{epoch}:{_short(topic_id)}"


def epoch_of(metadata: str) -> int:
    """The epoch in a committed offset's metadata; 0: someone else's commit.

    >>> epoch_of("coop:3:00000000"), epoch_of("set by a reset tool")
    (3, 0)
    """
    tag, _, rest = metadata.partition(":")
    number, _, topic = rest.partition(":")
    return int(number) if tag == _TAG and number.isdecimal() and topic else 0


def of_topic(committed: tuple[int, str] | None, topic_id: bytes) -> tuple[int, str] | None:
    """A committed offset as it counts for this topic: None if it speaks of a deleted one.

    >>> of_topic((7, "coop:3:00000000"), bytes(16))
    (7, 'coop:3:00000000')
    >>> of_topic((7, "coop:3:ffffffff"), bytes(16)) is None
    True
    """
    if committed is None:
        return None
    epoch = epoch_of(committed[1])
    return committed if not epoch or committed[1] == tagged(epoch, topic_id) else None


def _short(topic_id: bytes) -> str:
    return topic_id[:4].hex()
