"""Status and advice as dicts for JSON: stable field names, documented in docs/cli.md. Pure.

In: a `GroupStatus`, a `ScaleAdvice`. Out: dicts, lists, text, numbers. Key hashes are whole numbers
up to 2**63 - 1, beyond what a double holds exactly. Keys of records are text; bytes that are not
UTF-8 are escaped. Control characters are escaped, too: they would act on the reader's terminal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from assignors import KeyRange
from coop_consumer.core.policies import NAMES
from coop_consumer.plain_text import all_printable
from coop_consumer.status.load import GroupLoad, KeyWork, MemberWork
from coop_consumer.status.model import GroupStatus, PartitionStatus, RecordStatus
from coop_consumer.status.open_transaction import OpenTransaction
from coop_consumer.status.remaining import Remaining
from coop_consumer.status.scale import ScaleAdvice
from coop_consumer.status.seen import MemberSeen
from coop_consumer.status.standing import commands_for
from offsets import OffsetRange


def as_json(status: GroupStatus) -> dict[str, Any]:
    """The whole status."""
    told: dict[str, Any] = all_printable(_status(status))
    return told


def scale_as_json(status: GroupStatus, advice: ScaleAdvice) -> dict[str, Any]:
    """How many members a group wants, and why."""
    told: dict[str, Any] = all_printable(
        {
            "members": advice.members,
            "wanted_members": advice.wanted,
            "useful_members": advice.useful,
            "reason": advice.reason,
            "group": status.group,
            "at_ms": status.at_ms,
            "left": advice.left,
            "arrivals": round(advice.arrivals, 3),
            "busy_workers": round(advice.busy_workers, 3),
            "workers": round(advice.workers, 3),
            "handler_us": advice.handler_us,
            "is_assumed": advice.is_assumed,
        }
    )
    return told


def _status(status: GroupStatus) -> dict[str, Any]:
    return {
        "group": status.group,
        "state": status.state,
        "protocol": status.protocol,
        "guarantee": status.guarantee,
        "at_ms": status.at_ms,
        "members": [_member(member, status.load) for member in status.members],
        "patterns": list(status.patterns),
        "partitions": [_partition(partition, status) for partition in status.partitions],
        "policies": [
            {"scope": key.scope, "name": key.name, "policy": NAMES[key.scope], "accept": False}
            for key in status.policies.refusals(status.group)
        ],
        "heavy_keys": [_heavy_key(key) for key in status.load.keys],
        "open_transactions": [_open_transaction(it) for it in status.open_transactions],
        "unreadable": dict(status.unreadable),
        "warnings": list(status.warnings),
    }


def _open_transaction(found: OpenTransaction) -> dict[str, Any]:
    return {
        "topic": found.tp.topic,
        "partition": found.tp.partition,
        "offset": found.offset,
        "end": found.end,
        "since_ms": found.since_ms or None,
        "transactional_id": found.transactional_id,
        "members": list(found.members),
        "timeout_ms": found.timeout_ms or None,
        "is_hanging": found.is_hanging,
        "command": found.command,
    }


def _heavy_key(key: KeyWork) -> dict[str, Any]:
    return {
        "topic": key.tp.topic,
        "partition": key.tp.partition,
        "key": None if key.key is None else key.key.decode("utf-8", "backslashreplace"),
        "key_hash": key.key_hash,
        "share": round(key.share, 3),
        "member": key.member,
        "is_busy": key.is_busy,
        "workers_at_most": round(key.workers_at_most, 1),
    }


def _load(work: MemberWork) -> dict[str, Any]:
    return {
        "at_ms": work.at_ms,
        "workers": work.workers,
        "busy": work.busy,
        "handler_us": work.handler_us or None,
        "finished": work.finished,
        "p50_us": work.p50_us or None,
        "p99_us": work.p99_us or None,
        "memory_bytes": work.memory_bytes or None,
    }


def _member(member: MemberSeen, load: GroupLoad) -> dict[str, Any]:
    work = load.of(member.name)
    return {
        "name": member.name,
        "host": member.host,
        "capacity": member.capacity,
        "leads": member.leads,
        "note": member.note,
        "load": None if work is None else _load(work),
        "ranges": [
            {"topic": tp.topic, "partition": tp.partition, **_range(key_range)}
            for tp, ranges in sorted(member.ranges.items())
            for key_range in ranges
        ],
    }


def _partition(partition: PartitionStatus, status: GroupStatus) -> dict[str, Any]:
    holder = partition.holder
    return {
        "topic": partition.tp.topic,
        "partition": partition.tp.partition,
        "epoch": partition.epoch,
        "begin": partition.begin,
        "end": partition.end,
        "readable": partition.end - partition.hidden,
        "stable": partition.stable,
        "committed": partition.committed,
        "metadata": partition.metadata,
        "lag": partition.lag,
        "remaining": _remaining(partition.remaining),
        "gap_ranges": _pairs(partition.gaps),
        "progress": [
            {**_range(piece.range), "stable": piece.stable, "gap_ranges": _pairs(piece.gaps)}
            for piece in partition.progress
        ],
        "owners": [
            {
                **_range(owner.range),
                "member": owner.member,
                "host": owner.host,
                "stable": owner.stable,
                "remaining": _remaining(owner.remaining),
            }
            for owner in partition.owners
        ],
        "handovers": [
            {
                "ranges": [_range(key_range) for key_range in handover.ranges],
                "waiting": handover.waiting,
                "holder": handover.holder,
                "since_ms": handover.since_ms or None,
            }
            for handover in partition.handovers
        ],
        "is_forgotten": partition.is_forgotten,
        "holder": None if holder is None else _record(holder, partition, status),
        "failed": [_record(record, partition, status) for record in partition.failed],
    }


def _record(
    record: RecordStatus, partition: PartitionStatus, status: GroupStatus
) -> dict[str, Any]:
    age_ms = max(status.at_ms - record.timestamp_ms, 0)
    commands = commands_for(status.group, partition.tp, record, status.options)
    return {
        "offset": record.offset,
        "key": None if record.key is None else record.key.decode("utf-8", "backslashreplace"),
        "is_read": record.is_read,
        "key_hash": record.key_hash,
        "age_ms": None if record.timestamp_ms < 0 else age_ms,
        "attempts": record.attempts,
        "parked": record.is_parked,
        "error": record.error,
        "failing_since_ms": record.since_ms or None,
        "member": record.member,
        "host": record.host,
        "standing": record.standing.value,
        "standing_since_ms": record.standing_since_ms or None,
        "behind": record.behind,
        "overdue": record.is_overdue,
        "commands": [{"purpose": it.purpose, "command": it.line} for it in commands],
    }


def _remaining(left: Remaining) -> dict[str, Any]:
    return {"records": left.records, "known": left.known, "is_exact": left.is_exact}


def _range(key_range: KeyRange) -> dict[str, int]:
    return {"lo": key_range.lo, "hi": key_range.hi}


def _pairs(ranges: Iterable[OffsetRange]) -> list[list[int]]:
    return [[found.first, found.last] for found in ranges]
