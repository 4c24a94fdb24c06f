"""A stream's offsets, as Spark's checkpoint holds them. Pure.

In: JSON, as a dict. Out: a `StreamReached`: for each topic its id, the next offset of each
partition, and into how many key ranges the batch that ends here is split. By these key ranges, a
batch that Spark repeats after a crash has the same tasks again, on whatever cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from assignors import TopicPartition
from streams_adapter.source.errors import CheckpointMismatchError

_VERSION = 1


@dataclass(frozen=True, slots=True)
class TopicReached:
    """How far a stream has come in one topic.

    Attributes:
        id: The topic's, in hex: a topic made again is another one.
        offsets: The next offset of each partition.
        key_ranges: Of the batch that ends here.
    """

    id: str
    offsets: Mapping[int, int]
    key_ranges: int = 1


@dataclass(frozen=True, slots=True)
class StreamReached:
    """How far a stream has come.

    Attributes:
        topics: In each topic.
        began: Where the batch that ends here began, if it is a stream's first: of that alone
            Spark's checkpoint keeps no start.
    """

    topics: Mapping[str, TopicReached] = field(default_factory=dict)
    began: Mapping[str, TopicReached] | None = None

    def before(self, told: StreamReached) -> StreamReached:
        """Where the batch that ends here begins; `told` is what Spark says of it.

        Spark asks a first batch that it repeats for its start anew: `latest` is another one then.
        """
        return told if self.began is None or told == self else StreamReached(self.began)

    def places(self) -> Iterator[tuple[TopicPartition, int]]:
        """Each partition's next offset."""
        for topic, it in self.topics.items():
            for number, offset in it.offsets.items():
                yield TopicPartition(topic, number), offset

    def offset(self, tp: TopicPartition) -> int | None:
        """A partition's next offset; None: it was not there."""
        known = self.topics.get(tp.topic)
        return known.offsets.get(tp.partition) if known else None

    def as_json(self) -> dict[str, Any]:
        """For Spark; equal progress gives equal text."""
        said = {"version": _VERSION, "topics": _as_json(self.topics)}
        return said if self.began is None else {**said, "began": _as_json(self.began)}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> StreamReached:
        """Read what `as_json` wrote.

        Raises:
            CheckpointMismatchError: Something else wrote it.
        """
        try:
            if said["version"] != _VERSION:
                raise CheckpointMismatchError(
                    f"is of version {said['version']}, this library knows {_VERSION}",
                    "Go on with the library that wrote it, or begin with a new checkpoint",
                )
            began = said.get("began")
            return cls(_from_json(said["topics"]), None if began is None else _from_json(began))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CheckpointMismatchError(
                "was not made by a query on this source", "Begin with a new checkpoint"
            ) from error


def _as_json(topics: Mapping[str, TopicReached]) -> dict[str, Any]:
    return {
        topic: {
            "id": it.id,
            "offsets": {str(p): it.offsets[p] for p in sorted(it.offsets)},
            "keyRanges": it.key_ranges,
        }
        for topic, it in sorted(topics.items())
    }


def _from_json(said: Mapping[str, Any]) -> dict[str, TopicReached]:
    return {
        topic: TopicReached(
            it["id"], {int(p): at for p, at in it["offsets"].items()}, it["keyRanges"]
        )
        for topic, it in said.items()
    }


def shared_out(
    pending: Mapping[TopicPartition, int], limit: int | None
) -> dict[TopicPartition, int]:
    """How many of each partition's pending offsets a batch takes: all, or in proportion.

    A partition that has any gets at least one, in as far as the limit allows: who has little waits
    for nobody.

    >>> shared_out({TopicPartition("t", 0): 900, TopicPartition("t", 1): 100}, 10)
    {TopicPartition(topic='t', partition=0): 9, TopicPartition(topic='t', partition=1): 1}
    """
    total = sum(pending.values())
    if limit is None or total <= limit:
        return dict(pending)
    taken = {tp: count * limit // total for tp, count in pending.items()}
    left = limit - sum(taken.values())
    # The rounding's rest goes to who got least of what it has.
    for tp in sorted(pending, key=lambda tp: (taken[tp] > 0, -pending[tp], tp)):
        if left and taken[tp] < pending[tp]:
            taken[tp] += 1
            left -= 1
    return taken
