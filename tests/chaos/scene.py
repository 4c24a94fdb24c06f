"""One run: a group at work under a load, to which a fault does its worst.

In: an arena, a name, a seed's chance. Out: the hands of a fault (members, brokers, topics, pauses),
the story of what it did, and at the end everything that the judge needs. Whatever a fault chooses,
it chooses by `rng`, so its seed repeats the choices; when exactly they strike is the machine's.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self
from uuid import uuid4

from confluent_kafka import KafkaException, Producer

from assignors import key_hash
from tests.chaos.arena import COMPACTED_SETTINGS, Arena
from tests.chaos.checker import Verdict, judge
from tests.chaos.fleet import STEP_TIMEOUT_S, Fleet, StuckError
from tests.chaos.load import Load, weighted_keys
from tests.chaos.outputs import OutputsVerdict
from tests.chaos.witness import Witness, first_told_ns
from tests.support import stock
from tests.support.journal import Place
from tests.support.stock import ANSWER_TIMEOUT_S, eventually

PARTITIONS = 4
LOG_PARTITIONS = 3
RATE = 400
SMALL_WALL = {"max.num.ranges.held": 200, "max.num.ranges.to.commit": 100}
LAG_POLL_MS = 100
LAG_TRIES = 50
SESSION_TIMEOUT_MS = 6_000
QUICK_SHARE = 0.4  # of the runs
CALLS = ("BEGIN", "EFFECTS", "PROGRESS", "OFFSETS", "COMMIT")
"""Of a transaction, by the names of `TransactionCall`; a renewal or an abort may never come."""


@dataclass(frozen=True, slots=True)
class Made:
    """A record of the topic: when it was made, by the monotonic clock, and its key."""

    at_ns: int
    key: bytes


class Scene:
    """A topic, a group, its members and its load, for the length of a block.

    Attributes:
        rng: The seed's chance.
        story: What happened, a line each.
        kills: How many processes a fault has ended by kill -9.
    """

    def __init__(
        self,
        arena: Arena,
        name: str,
        rng: Random,
        folder: Path,
        *,
        spared: Collection[str] = (),
        mutant: str = "",
        executor: str = "thread",
        hot: bool = False,
    ) -> None:
        self.arena = arena
        self.rng = rng
        self._spared = spared
        self._names = count(1)
        self.story: list[str] = []
        self.kills = 0
        self.topic = f"{name}-{uuid4().hex[:8]}"
        self.group = f"{self.topic}-group"
        self.progress_topic = f"{self.topic}-progress"
        keys = weighted_keys(Random(rng.random()), hot=hot)
        self.load = Load(arena.quiet_client, self.topic, RATE, keys)
        self.topics: dict[str, tuple[int, Mapping[str, str]]] = {
            self.topic: (PARTITIONS, {}),
            self.progress_topic: (LOG_PARTITIONS, COMPACTED_SETTINGS),
        }
        own = self._own_settings(folder)
        self.witness = Witness(arena.quiet_client, self._log, LOG_PARTITIONS)
        self._started_s = time.monotonic()
        quick = rng.random() < QUICK_SHARE
        self.tell(f"handlers are {'quick, but for a few' if quick else 'at it for a while'}")
        self.fleet = Fleet(
            {
                **arena.client,
                "group.id": self.group,
                "progress.topic": self.progress_topic,
                "progress.topic.partitions": LOG_PARTITIONS,
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                **(SMALL_WALL if hot else {}),
                **own,
            },
            self.topic,
            folder,
            quick=quick,
            mutant=mutant,
            worker=self._worker(executor),
            executor=executor,
        )

    # ---- what another guarantee has otherwise --------------------------------------------------

    @property
    def _log(self) -> str:
        """The topic that has the group's progress."""
        return self.progress_topic

    def _own_settings(self, folder: Path) -> dict[str, object]:
        """What members are told besides; topics for it are added to `topics`."""
        del folder
        return {}

    def warm_up(self) -> None:
        """Let the group come to work before a fault strikes."""
        self.go_on(1, 800)

    def _worker(self, executor: str) -> str:
        """What handles records, see `Fleet`."""
        del executor
        return ""

    def _judge_outputs(self, made: Mapping[Place, Made]) -> OutputsVerdict | None:
        """What handlers have left behind; None: nothing."""
        del made
        return None

    def __enter__(self) -> Self:
        for name, (partitions, config) in self.topics.items():
            self.arena.create_topic(name, partitions, config)
        self.fleet.__enter__()
        self.load.start()
        self.witness.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.load.abandon()
        self.witness.leave()
        self.fleet.__exit__(kind, error, traceback)
        with contextlib.suppress(KafkaException, TimeoutError):  # the broker did not come back
            self.arena.remove(*self.topics)

    # ---- a fault's hands -----------------------------------------------------------------------

    def at_s(self, moment_ns: int) -> float:
        """A moment of the monotonic clock as the story's times are."""
        return moment_ns / 1e9 - self._started_s

    def tell(self, text: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{time.monotonic() - self._started_s:6.2f} s  {text}")

    def pick(self) -> str:
        """Any member that may be killed."""
        return self.rng.choice([name for name in self.fleet.names if name not in self._spared])

    def pause_ms(self, low: int, high: int) -> None:
        """Let an outage last; how long, the seed chooses."""
        threading.Event().wait(self.rng.randint(low, high) / 1_000)

    def go_on(self, low: int, high: int) -> None:
        """Let the group process records; how many, the seed chooses."""
        self.fleet.wait_for_more(self.rng.randint(low, high))

    def kill(self, name: str) -> None:
        self.tell_kill(name)
        self.fleet.kill(name)

    def tell_kill(self, whom: str) -> None:
        """Count a kill, and add it to the story."""
        self.kills += 1
        self.tell(f"kill -9 of {whom}")

    def start(self) -> str:
        """Start one more member, which has a name of its own; returns that."""
        name = f"m{next(self._names)}"
        self.tell(f"start {name}")
        self.fleet.start(name)
        return name

    def halt(self, name: str, *before: str) -> None:
        """Stop a member by SIGSTOP at a call of a transaction; which and when, the seed chooses.

        Args:
            name: Whom.
            before: The calls to choose from, to stop before it begins; none: at any moment of any.
        """
        call = self.rng.choice(before or CALLS)
        later_ms = 0 if before else self.rng.choice((0, 0, 1, 2, 4))
        self.tell(f"SIGSTOP {name} {f'{later_ms} ms into' if later_ms else 'before'} {call}")
        self.fleet.halt(name, call, later_ms)

    def fence(self, name: str) -> None:
        """Be a rival of a member: take its transactional.id, and leave."""
        own = self.fleet.transactional_id(name)
        self.tell(f"a rival of {name}")
        rival = Producer({**self.arena.quiet_client, "transactional.id": own})
        eventually(lambda: has_begun(rival))

    # ---- the end -------------------------------------------------------------------------------

    def finish(self, *, loses_progress: bool) -> Verdict:
        """End the load, let everything be processed, let all members leave, and judge.

        Args:
            loses_progress: Members leave once the committed offsets tell that all is done, and
                whatever came again had to. Otherwise they leave at once, and what they commit in
                the end must tell it.

        Raises:
            StuckError: Something of that does not happen.
        """
        acknowledged = self.load.finish()
        self.tell(f"the load has ended, {len(acknowledged)} records")
        self.fleet.wait_for(acknowledged)
        self.tell("everything is processed")
        if loses_progress:
            self._wait_for_no_lag()
        self.fleet.stop(*self.fleet.names)
        self.tell("everybody has left")
        if self._lag() and self.fleet.put_out:
            # A member that is put out while it leaves has appended to the log, and the log counts.
            # It may not commit offsets any more. The next member to come makes up for it.
            self.tell(f"committed offsets are behind; put out were {self.fleet.put_out}")
            self.start()
            self._wait_for_no_lag()
            self.fleet.stop(*self.fleet.names)
        self._wait_for_no_lag()
        self.witness.leave()
        made = self._read_topic()
        assert acknowledged <= made.keys(), "the brokers have lost records: no fair run"
        absences, told = self.fleet.absences, self.witness.told
        hashes = {place: key_hash(one.key) for place, one in made.items()}
        live = [it for it in told if not any(away.told(it) for away in absences)]
        verdict = judge(
            self.fleet.rows,
            {place: one.at_ns for place, one in made.items()},
            absences,
            first_told_ns(told, hashes),
            {} if loses_progress else first_told_ns(live, hashes),
        )
        return replace(verdict, outputs=self._judge_outputs(made))

    def _lag(self) -> int:
        """What stock tools see as not done yet."""
        for _ in range(LAG_TRIES):
            with contextlib.suppress(KafkaException):  # a coordinator that is busy moves elsewhere
                return self.arena.lag_of(self.group, self.topic, PARTITIONS)
            self.pause_ms(LAG_POLL_MS, LAG_POLL_MS)
        return self.arena.lag_of(self.group, self.topic, PARTITIONS)

    def _wait_for_no_lag(self) -> None:
        """Stock tools come to see a group that has done everything."""
        deadline_s = time.monotonic() + STEP_TIMEOUT_S
        while lag := self._lag():
            if time.monotonic() > deadline_s:
                raise StuckError(f"the committed offsets stay {lag} records behind")
            self.pause_ms(LAG_POLL_MS, LAG_POLL_MS)
        self.tell("the committed offsets have reached the end")

    def _read_topic(self) -> dict[Place, Made]:
        return {
            (number, message.offset() or 0): Made(int(message.value() or b""), message.key() or b"")
            for number in range(PARTITIONS)
            for message in stock.records_of(self.arena.quiet_client, self.topic, number)
        }


def has_begun(rival: Producer) -> bool:
    """Whether a Producer has its epoch now."""
    with contextlib.suppress(KafkaException):
        rival.init_transactions(ANSWER_TIMEOUT_S)
        return True
    return False
