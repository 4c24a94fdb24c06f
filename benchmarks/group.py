"""Twelve members at work: processes of their own on six partitions, under an even, steady load.

In: a broker, and how many processes shall wait to join. Out: the hands to change the group, every
row that a member wrote, and a judgement of all of them. The load leaves two cores room, so that a
key that stands still waits for the group and not for a core. The judge of the order is that of the
integration tests.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from tempfile import mkdtemp
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from confluent_kafka.admin import AdminClient

from tests.chaos.fleet import WORK_MS, WORKERS, Fleet
from tests.chaos.load import Load
from tests.support import stock
from tests.support.journal import Place, Row, lost, out_of_order, repeated
from tests.support.topics import create_topic

MEMBERS, PARTITIONS = 12, 6
RATE, KEYS = 600, 60
SIZE = f"{MEMBERS} members of {WORKERS} workers, {PARTITIONS} partitions"
LOAD = f"{RATE} records/s of {KEYS} keys in turn, {WORK_MS} ms of sleep each"
_AT_WORK = 2 * RATE
"""All keys have been seen twenty times: the group has settled."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of a group.

    Attributes:
        rows: Of all handlers that ended.
        made_ns: When each record of the topic was made.
        lost: How many records nobody handled.
        out_of_order: How many handlers broke the order of their key.
        repeated: How many records came again.
        ended: How many members ended that nobody had asked to.
    """

    rows: Sequence[Row]
    made_ns: Mapping[Place, int]
    lost: int
    out_of_order: int
    repeated: int
    ended: int

    @property
    def is_clean(self) -> bool:
        """Whether nothing was lost, out of order, or ended."""
        return not (self.lost or self.out_of_order or self.ended)

    def __str__(self) -> str:
        return (
            f"{len(self.made_ns)} records, {self.lost} lost, {self.out_of_order} out of order, "
            f"{self.repeated} repeated; {self.ended} members ended"
        )


def promises(findings: Iterable[Finding]) -> dict[str, int]:
    """What must be nought in every row that is printed, and the repeats."""
    found = list(findings)
    return {
        "records": sum(len(it.made_ns) for it in found),
        "lost": sum(it.lost for it in found),
        "out_of_order": sum(it.out_of_order for it in found),
        "repeated": sum(it.repeated for it in found),
        "ended": sum(it.ended for it in found),
    }


def show(row: Mapping[str, object], *, as_json: bool) -> None:
    """Print a row: a JSON line, or a line for each of its names."""
    if as_json:
        print(json.dumps(row))
    else:
        print(*(f"{name}: {value}" for name, value in row.items()), sep="\n")


class Group:
    """Members and their load.

    Attributes:
        fleet: The member processes.
        load: What they work on.
        members: Those that are in the group, by name.
        is_clean: Whether `finish` found that every promise was kept.
    """

    def __init__(
        self,
        bootstrap: str,
        folder: Path,
        waiting: Sequence[str],
        own: Mapping[str, object],
        *,
        static: bool,
    ) -> None:
        self._client: dict[str, Any] = {"bootstrap.servers": bootstrap}
        self._static = static
        self._topic = f"bench-{uuid4().hex[:8]}"
        self._waiting = waiting
        self._folder = folder
        self.members = [f"m{number}" for number in range(MEMBERS)]
        self.is_clean = False
        create_topic(AdminClient(self._client), self._topic, PARTITIONS)
        settings = {**self._client, "group.id": f"{self._topic}-group", **own}
        self.fleet = Fleet(settings, self._topic, folder, slow_ms=WORK_MS)
        keys = cycle([f"key-{number}" for number in range(KEYS)])
        self.load = Load(self._client, self._topic, RATE, keys)

    def assemble(self) -> None:
        """Start all processes; return when all members are in one generation."""
        for name in self.members:
            self.start(name)
        for name in self._waiting:
            self.fleet.start(name, waits=True)
        self.fleet.wait_until_ready(self._waiting)
        self.fleet.wait(lambda: self.fleet.size == MEMBERS, f"a generation of {MEMBERS}")

    def start(self, name: str) -> None:
        """Start a member, or start it again after its end."""
        self.fleet.start(name, {"group.instance.id": name} if self._static else {})

    def exchange(self, newcomer: str, leaver: str) -> None:
        """Let a waiting process join while a member is asked to leave; return when it has left."""
        self.fleet.let_join(newcomer)
        self.members.append(newcomer)
        self.members.remove(leaver)
        self.fleet.stop(leaver)

    def finish(self) -> Finding:
        """End the load, let everything be processed and all members leave, and judge."""
        acknowledged = self.load.finish()
        self.fleet.wait_for(acknowledged)
        self.fleet.stop(*self.fleet.names)
        made_ns = {
            (number, message.offset() or 0): int(message.value() or b"")
            for number in range(PARTITIONS)
            for message in stock.records_of(self._client, self._topic, number)
        }
        rows = self.fleet.rows
        missing = lost(rows, made_ns.keys() | acknowledged)
        breaches = out_of_order(rows)
        told = [
            *(f"lost: {place}" for place in sorted(missing)),
            *breaches,
            *(f"{it.name} ended by itself: {it.error}" for it in self.fleet.ended),
        ]
        (self._folder / "broken.txt").write_text("\n".join(told))
        self.is_clean = not told
        return Finding(
            rows=rows,
            made_ns=made_ns,
            lost=len(missing),
            out_of_order=len(breaches),
            repeated=repeated(rows),
            ended=len(self.fleet.ended),
        )


@contextmanager
def at_work(
    bootstrap: str,
    waiting: Sequence[str] = (),
    own: Mapping[str, object] = MappingProxyType({}),
    *,
    static: bool = False,
) -> Iterator[Group]:
    """Twelve members that share the work, and processes that wait to join.

    What the members said and logged is kept if the block fails, or a promise was broken.

    Args:
        bootstrap: The broker.
        waiting: The names of those that wait.
        own: What the members' configuration has besides.
        static: Whether members are known to the group by their names (`group.instance.id`).
    """
    folder = Path(mkdtemp(prefix="coop-bench-"))
    group = Group(bootstrap, folder, waiting, own, static=static)
    try:
        with group.fleet:
            group.assemble()
            group.load.start()
            try:
                group.fleet.wait_for_more(_AT_WORK)
                yield group
            finally:
                group.load.abandon()
    finally:
        if group.is_clean:
            shutil.rmtree(folder)
        else:
            print(f"what the members said and logged: {folder}", file=sys.stderr)
