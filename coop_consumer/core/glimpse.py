"""A glimpse of a member: what runs, what failed, what it holds, at one moment. Plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assignors import KeyRange, TopicPartition

RUNNING_MAX = 100
"""Of thousands of records that run, those that run for longest are shown."""
FAILED_MAX = 100


@dataclass(frozen=True, slots=True)
class RunningRecord:
    """A record whose handler runs.

    Attributes:
        tp: Its partition.
        offset: Its offset.
        key: Its key; None: it has none.
        key_hash: The hash of that.
        since_ms: When it was first seen to run, Unix time.
        attempt: Which attempt it is, from 1.
        is_given_up: Its range is another member's, who waits for the end of this handler; or it is
            abandoned, and counts for nothing.
    """

    tp: TopicPartition
    offset: int
    key: object
    key_hash: int
    since_ms: int
    attempt: int
    is_given_up: bool


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A record that has failed and is not done.

    Attributes:
        tp: Its partition.
        offset: Its offset.
        key: Its key; None: it has none, or it is not known.
        key_hash: The hash of that.
        is_key_known: Whether `key` says it.
        attempts: How often it was tried.
        is_parked: It waits for a decision.
        error: Its last failure.
        since_ms: When it first failed, Unix time.
        behind: Members that still hold its key, as a handler of theirs runs; none: it does not wait
            for that.
    """

    tp: TopicPartition
    offset: int
    key: object
    key_hash: int
    is_key_known: bool
    attempts: int
    is_parked: bool
    error: str
    since_ms: int
    behind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """A partition of which a member processes something.

    Attributes:
        tp: The partition.
        ranges: What is processed here.
        stable: The first offset of these ranges that is not done.
        end: The offset its next record will get, as last seen; -1: not known.
        pending: Records taken in and not done.
        is_paused: The user has paused it.
        is_walled: It is fetched no further, as too many of its records are unfinished here.
    """

    tp: TopicPartition
    ranges: tuple[KeyRange, ...]
    stable: int
    end: int
    pending: int
    is_paused: bool
    is_walled: bool


@dataclass(frozen=True, slots=True)
class Glimpse:
    """A member at one moment.

    Attributes:
        at_ms: When that was, Unix time.
        held: What it processes, by partition.
        running: What runs, the longest first; not more than `RUNNING_MAX`.
        running_count: How many run.
        failed: What failed, those that wait for a decision first; not more than `FAILED_MAX`.
        failed_count: How many did.
    """

    at_ms: int = 0
    held: tuple[HeldPartition, ...] = ()
    running: tuple[RunningRecord, ...] = ()
    running_count: int = 0
    failed: tuple[FailedRecord, ...] = ()
    failed_count: int = 0
