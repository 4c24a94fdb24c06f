"""A planned job's task: it processes slices, and notes those that it has processed.

In: slices, the user's function, how often Spark tries a task. Out: notes for the driver, reasons of
failures. Executors load this module, but no module that plans.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import replace
from types import GeneratorType
from typing import Any

from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

from coop_consumer.errors import MisuseError
from coop_consumer.ops.log_format import json_if_asked
from streams_adapter.slices import Slice

_REASON_MAX = 2_000


class Numbers(AccumulatorParam[frozenset[int]]):
    """Numbers of slices, united, for one of Spark's accumulators."""

    def zero(self, value: frozenset[int]) -> frozenset[int]:  # noqa: ARG002 - Spark's
        """None yet."""
        return frozenset()

    def addInPlace(self, value1: frozenset[int], value2: frozenset[int]) -> frozenset[int]:  # noqa: N802
        """Both."""
        return value1 | value2


class _ReadToEnd:
    """Notes that a slice was read to its end."""

    def __init__(self) -> None:
        self.to_end = False

    def add(self, term: frozenset[int], /) -> None:
        self.to_end = bool(term)

    def check(self, piece: Slice) -> None:
        if not self.to_end:
            raise MisuseError(
                "for_each_key_range()",
                f"process() returned before it had read all records of {piece}",
                "Read slice.records() to its end",
            )


def tried(piece: Slice, process: Callable[[Slice], object], tries: int) -> str:
    """Why a slice could not be processed, at the last try; "" if it was.

    If the last try raised, too, Spark would give up the job, and other slices with it.

    Raises:
        Exception: At the tries before: Spark makes the next, elsewhere if it can.
    """
    json_if_asked()
    context = TaskContext.get()
    seen = _ReadToEnd()
    try:
        result: Any = process(replace(piece, noting=seen))
        if isinstance(result, GeneratorType):  # its body has not run yet
            for _ in result:
                pass
        seen.check(piece)
    except MisuseError as error:  # no other try would end otherwise
        return str(error)
    except Exception as error:
        if context is not None and context.attemptNumber() + 1 < tries:
            raise
        text = "".join(traceback.format_exception(error)).strip()
        return text[-_REASON_MAX:]
    return ""
