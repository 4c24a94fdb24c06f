"""Arguments that no public method can use: of another type, or of no use as this one."""

from __future__ import annotations

import math
from typing import Any

from assignors import TopicPartition
from coop_consumer import Worker

T0 = TopicPartition("orders", 0)
HOSTILE: list[Any] = [
    None, 5, -1, 1.5, math.nan, True, "x", "", b"x", "\ud800", [], {}, [None], [5], ["a"], object(),
    object, ("orders", 0), [("orders", 0)], {T0: None}, {T0: 5}, {T0: [5]}, {None: []}, {"a": []},
    TopicPartition("a\ud800", 0), [TopicPartition("", 0)], [TopicPartition("t", "0")],  # type: ignore[arg-type]
    [TopicPartition(None, 0)], 10**400, Worker, ValueError("x"),  # type: ignore[arg-type]
]  # fmt: skip


def other_than(*kinds: type) -> list[Any]:
    """Those that are of none of these kinds; a bool is no int here."""
    kept = [] if bool in kinds else [True]
    return kept + [it for it in HOSTILE if it is not True and not isinstance(it, kinds)]


def no_functions() -> list[Any]:
    """Those that nobody can call."""
    return [it for it in HOSTILE if not callable(it)]
