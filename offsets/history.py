"""What a committed offset and a progress log together mean. Pure; upholds I2, I3.

In: what a group has committed for a partition, and the partition's part of the log. Out: the epoch
that counts, or the one that begins next. Members, `status`, resets and plans all decide by this.

An offset that we mirror into `__consumer_offsets` has the metadata `coop:<epoch>:<topic>`: our tag,
in which `<topic>` is the first 4 bytes of the topic's id in hex. With exactly once it begins with
`coop-eo`. An offset without the tag of the group's guarantee is a decision: of a plain group before
us, of a reset tool, or of the group itself before its guarantee was changed. An offset with the tag
of another topic id belongs to a deleted topic; a topic made again under the same name does not
inherit it. (Kafka drops the offsets of a deleted topic, but a commit may have been under way.)

`coop-consumer gc` commits a *retirement* before it clears what a forgotten group has in the log.
Whoever starts behind it begins the next epoch there, so nobody builds on records that go. The
coordinator takes a commit from outside only while the group has no members: no member that was
there before can be overruled. A member may have come and gone since `gc` read the log. Then the log
has more of the epoch than the retirement knows, and the retirement is void (decision 067).
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from offsets.store import PartitionStore


class Tag(StrEnum):
    """How the metadata of offsets that we commit begin, by the group's guarantee."""

    AT_LEAST_ONCE = "coop"
    EXACTLY_ONCE = "coop-eo"


RETIRED = "coop-retired"
"""How the metadata of a retirement begin."""
_TOPIC_BYTES = 4
"""So much of a topic's id is in metadata."""


class Retirement(NamedTuple):
    """What `gc` had read of a partition when it ended the partition's history.

    Attributes:
        tag: Of the guarantee in whose log it has read.
        epoch: The newest epoch there.
        log_end: The end of the log partition up to which it had read.
        topic: The beginning of the topic's id, in hex.
    """

    tag: Tag
    epoch: int
    log_end: int
    topic: str

    def is_void(self, store: PartitionStore) -> bool:
        """Whether it says nothing about this part of the log: the log is another, or has more."""
        return self.tag is not store.tag or store.is_newer_than(self.log_end)


class Committed(NamedTuple):
    """What a group has committed for a partition.

    Attributes:
        offset: The next one to process.
        metadata: The tag, if we have committed it.
    """

    offset: int
    metadata: str = ""

    @classmethod
    def mirror(
        cls, offset: int, epoch: int, topic_id: bytes, tag: Tag = Tag.AT_LEAST_ONCE
    ) -> Committed:
        """The stable offset of an epoch, as lag tools see it.

        >>> Committed.mirror(7, 3, bytes(16))
        Committed(offset=7, metadata='coop:3:00000000')
        """
        return cls(offset, f"{tag}:{epoch}:{topic_id[:_TOPIC_BYTES].hex()}")

    @classmethod
    def retired(cls, offset: int, epoch: int, topic_id: bytes, tag: Tag, log_end: int) -> Committed:
        """The end of a forgotten group's history: its stable offset.

        >>> Committed.retired(7, 3, bytes(16), Tag.AT_LEAST_ONCE, 812)
        Committed(offset=7, metadata='coop-retired:coop:3:812:00000000')
        """
        topic = topic_id[:_TOPIC_BYTES].hex()
        return cls(offset, f"{RETIRED}:{tag}:{epoch}:{log_end}:{topic}")

    @property
    def retirement(self) -> Retirement | None:
        """What a retirement says; None: it is none.

        >>> Committed(7, "coop-retired:coop:3:812:00000000").retirement.log_end
        812
        """
        kind, *rest = self.metadata.split(":")
        if kind != RETIRED or len(rest) != len(Retirement._fields):
            return None
        tag, epoch, log_end, topic = rest
        if tag not in set(Tag) or not (epoch.isdecimal() and log_end.isdecimal()):
            return None
        return Retirement(Tag(tag), int(epoch), int(log_end), topic)

    @property
    def tagged(self) -> tuple[Tag | None, int]:
        """Its tag, and the epoch that this names; None and 0: somebody else has committed it.

        >>> Committed(7, "coop-eo:3:00000000").tagged, Committed(7, "set by a reset tool").tagged
        ((<Tag.EXACTLY_ONCE: 'coop-eo'>, 3), (None, 0))
        """
        return _tagged(self.metadata)

    def is_of(self, topic_id: bytes) -> bool:
        """Whether it speaks of this topic, and not of a deleted one of its name."""
        tag, epoch = self.tagged
        if retirement := self.retirement:
            return retirement.topic == topic_id[:_TOPIC_BYTES].hex()
        return tag is None or self == self.mirror(self.offset, epoch, topic_id, tag)


@lru_cache(maxsize=256)  # all partitions of a topic and epoch have the same
def _tagged(metadata: str) -> tuple[Tag | None, int]:
    tag, _, rest = metadata.partition(":")
    number, _, topic = rest.partition(":")
    is_ours = tag in set(Tag) and number.isdecimal() and bool(topic)
    return (Tag(tag), int(number)) if is_ours else (None, 0)


def of_topic(committed: Committed | None, topic_id: bytes) -> Committed | None:
    """What is committed of this topic: None if it speaks of a deleted one of its name.

    >>> of_topic(Committed(7, "coop:3:ffffffff"), bytes(16)) is None
    True
    """
    return committed if committed is not None and committed.is_of(topic_id) else None


class Meaning(StrEnum):
    """What committed offset and log say of a partition's newest epoch."""

    AGREED = "agreed"
    """Both tell of it."""
    UNTAGGED = "untagged"
    """The log has its beginning, and the committed offset lacks its tag: nobody starts before."""
    DECIDED = "decided"
    """Somebody else has committed an offset, or `gc` a retirement: the next epoch begins there."""
    LOST = "lost"
    """The log has lost the epoch of the tag, or its beginning: the next one begins at the committed
    offset."""
    NEW = "new"
    """Nobody has begun: the first epoch begins where `auto.offset.reset` says."""


class Newest(NamedTuple):
    """The newest epoch of a partition, or the one that begins next.

    Attributes:
        meaning: Of what was read.
        epoch: Its number.
        base: Where it begins, all below counts as done; None: where `auto.offset.reset` says.
    """

    meaning: Meaning
    epoch: int
    base: int | None

    @property
    def is_begun(self) -> bool:
        """Whether the log has its beginning."""
        return self.meaning in {Meaning.AGREED, Meaning.UNTAGGED}


def newest_epoch(store: PartitionStore, committed: Committed | None, known: int = 0) -> Newest:
    """Which epoch counts. O(tenures).

    Args:
        store: The partition's part of the log.
        committed: What the group has committed of this topic, if anything.
        known: The newest epoch that the caller knows of from elsewhere.
    """
    if committed is not None and (retirement := committed.retirement):
        if not retirement.is_void(store):
            # Also if it lies at the base of an epoch without tenures: that base is about to go.
            return Newest(Meaning.DECIDED, store.next_epoch(known), committed.offset)
        if store.epoch is not None:
            committed = None
    epoch, tag = store.epoch or 0, store.tagged_epoch(committed)
    # Below the base no offset of the epoch was ever committed: the log has lost the first base, and
    # another one of the same epoch counts now, by which all between would be passed over.
    if epoch and tag == epoch and committed is not None and committed.offset >= store.base_offset:
        return Newest(Meaning.AGREED, epoch, store.base_offset)
    if tag < epoch and (tag or _is_honoured(store, committed)):
        return Newest(Meaning.UNTAGGED, epoch, store.base_offset)
    following = store.next_epoch(known, tag)
    if committed is None:
        return Newest(Meaning.NEW, following, None)
    return Newest(Meaning.LOST if tag else Meaning.DECIDED, following, committed.offset)


def _is_honoured(store: PartitionStore, committed: Committed | None) -> bool:
    """Whether the newest epoch began because of the committed offset, and lacks only its tag.

    Nobody starts before tag and log agree, so an epoch with a tenure had its tag: an offset without
    one was set after that, and is a decision of its own.
    """
    if committed is None:
        return True
    return committed.offset == store.base_offset and not any(
        tenure.record.epoch == store.epoch for tenure in store.tenures()
    )
