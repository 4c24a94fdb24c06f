"""In which order records of several inputs were taken: a record of the merge log. Pure.

In: records of several inputs, in the order of their arrival. Out: an `Order` as bytes, and back;
where each input goes on after it. An order holds places, no records.

    orders-0 0   payments-0 0   payments-0 1   orders-0 1     arrived in this order
    [orders-0 0-0] [payments-0 0-1] [orders-0 1-1]            runs
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from assignors import TopicPartition
from coop_consumer.plain_text import counted


@dataclass(frozen=True, slots=True)
class InputRun:
    """Records of one input that were taken one after the other, `count` of them."""

    tp: TopicPartition
    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True)
class Order:
    """A batch of the merge.

    Attributes:
        begin: The next offset of each input, before the batch.
        runs: What was taken, in this order.
        ids: Of the inputs' topics, in hex, by name.
    """

    begin: Mapping[TopicPartition, int]
    runs: tuple[InputRun, ...]
    ids: Mapping[str, str]

    def after(self) -> dict[TopicPartition, int]:
        """The next offset of each input, after the batch."""
        return {**self.begin, **{run.tp: run.last + 1 for run in self.runs}}

    def encode(self) -> bytes:
        """For `decode`."""
        inputs = list(self.begin)
        number = {tp: at for at, tp in enumerate(inputs)}
        told = {
            "inputs": [[tp.topic, tp.partition, self.begin[tp]] for tp in inputs],
            "runs": [[number[run.tp], run.first, run.last, run.count] for run in self.runs],
            "ids": dict(self.ids),
        }
        return json.dumps(told, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> Order:
        """Raises ValueError for what is no order."""
        try:
            told: dict[str, Any] = json.loads(value or b"")
            begin = {
                TopicPartition(str(topic), int(number)): int(offset)
                for topic, number, offset in told["inputs"]
            }
            inputs = list(begin)
            runs = tuple(
                InputRun(inputs[int(at)], int(first), int(last), int(count))
                for at, first, last, count in told["runs"]
            )
            ids = {str(name): str(topic_id) for name, topic_id in told["ids"].items()}
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{value!r:.100} is no order") from error
        return cls(begin, runs, ids)


def runs_of(places: Iterable[tuple[TopicPartition, int]]) -> tuple[InputRun, ...]:
    """The runs of records, given as (input, offset) in the order of their arrival.

    >>> a, b = TopicPartition("a", 0), TopicPartition("b", 0)
    >>> [(run.tp.topic, run.first, run.last) for run in runs_of([(a, 0), (b, 0), (b, 1), (a, 2)])]
    [('a', 0, 0), ('b', 0, 1), ('a', 2, 2)]
    """
    found = []
    for tp, group in groupby(places, key=itemgetter(0)):
        offsets = [offset for _, offset in group]
        found.append(InputRun(tp, offsets[0], offsets[-1], len(offsets)))
    return tuple(found)


def differences(run: InputRun, offsets: Iterable[int]) -> str:
    """In which way an input is not any more what it was; "" if it is.

    Args:
        run: As recorded.
        offsets: Of the records that the input has now, from where the run begins to where it ends.
    """
    found = list(offsets)
    if len(found) == run.count and found[0] == run.first and found[-1] == run.last:
        return ""
    return (
        f"{run.tp} had {counted(run.count, 'record')} at offsets [{run.first}-{run.last}] when the "
        f"order was recorded, and has {len(found)} there now"
    )
