"""A group of members behind an autoscaler, second by second: a model to judge the advice by.

In: a seed, how records arrive, whether a key is hot. Out: replicas, advice and backlog over time.
The group is a queue with workers; its members report late and rarely, start late, and pause at each
rebalance. The autoscaler obeys the published rules of Kubernetes' HorizontalPodAutoscaler, which
KEDA uses, too: a look every 15 s, 10 % tolerance, at most double or 4 more at a time, and down only
to the highest advice of the last 300 s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from assignors import TopicPartition
from coop_consumer.status.arrivals import SPAN_S, Arrivals
from coop_consumer.status.demand import PartitionNeed
from coop_consumer.status.load import load_of
from coop_consumer.status.scale import MembersNow, ScaleAdvice, ScaleRules, advise
from offsets import HeavyKey, LoadRecord, PartitionLoad

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = b"0123456789abcdef"
HANDLER_S = 0.005
TARGET_S = 60
HOT = b"N725MQ"

LOOK_EVERY_S = 5
REPORT_EVERY_S = 30
_SPLIT_AT = 42_000
"""Records of the hot key that wait before it gets a stream of its own."""

_JOINS_AT = 2_000
"""If fewer are left, it goes back to the others."""


class Autoscaler:
    """The rules of a HorizontalPodAutoscaler with an external metric and the target 1."""

    EVERY_S = 15
    TOLERANCE = 0.1
    DOWN_WINDOW_S = 300

    def __init__(self, replicas: int, most: int) -> None:
        self.replicas = replicas
        self._most = most
        self._advices: deque[tuple[int, int]] = deque()

    def sync(self, now_s: int, metric: int) -> None:
        """One round."""
        is_near = abs(metric / self.replicas - 1.0) <= self.TOLERANCE
        desired = self.replicas if is_near else metric
        self._advices.append((now_s, desired))
        while self._advices[0][0] <= now_s - self.DOWN_WINDOW_S:
            self._advices.popleft()
        highest = max(advice for _, advice in self._advices)
        if desired > self.replicas:
            self.replicas = min(desired, max(2 * self.replicas, self.replicas + 4), self._most)
        elif highest < self.replicas:
            self.replicas = max(highest, 1)


@dataclass(slots=True)
class _Member:
    name: str
    ready_s: int
    phase_s: int
    record: LoadRecord | None = None
    done: float = 0.0
    busy: float = 0.0
    since_s: int = 0


@dataclass(slots=True)
class Course:
    """What happened, a value a second."""

    replicas: list[int] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)
    rest: list[float] = field(default_factory=list)
    advices: list[ScaleAdvice] = field(default_factory=list)

    @staticmethod
    def turns(values: list[int]) -> int:
        """How often a number that went up goes down, or the other way round."""
        steps = [b - a for a, b in pairwise(values) if a != b]
        return sum((a > 0) != (b > 0) for a, b in pairwise(steps))

    def gone_at(self, begin_s: int, few: float) -> int:
        """The second from which on, after `begin_s`, no more than `few` are left for a minute."""
        late = [s for s in range(begin_s, len(self.rest)) if self.rest[s] > few]
        ends = [s + 1 for s, after in pairwise([*late, len(self.rest)]) if after - s > 60]
        if not late:
            return begin_s
        return ends[0] if ends else len(self.rest)


class GroupModel:
    """One partition, its group, and the autoscaler.

    Args:
        seed: Of everything that chance decides.
        rate: Records that arrive in a second.
        hot_share: The part of them that has one key.
        workers: Of each member.
        handler_s: How long a handler takes.
    """

    def __init__(
        self,
        seed: int,
        rate: Callable[[int], float],
        *,
        hot_share: float = 0.0,
        workers: int | None = None,
        handler_s: float = HANDLER_S,
    ) -> None:
        self.rng = Random(seed)
        self.rate = rate
        self.hot_share = hot_share
        self.workers = workers or self.rng.choice((4, 8, 16))
        self.course = Course()
        self._pace = self.rng.uniform(0.95, 1.0) / handler_s  # records a second of a worker
        self._scaler = Autoscaler(1, most=50)
        self._scaler_phase_s = self.rng.randrange(Autoscaler.EVERY_S)
        self._arrivals, self._recent = Arrivals(), deque[float](maxlen=REPORT_EVERY_S)
        self._members: list[_Member] = []
        self._made = 0
        self._end = 0.0
        self._rest = self._hot = 0.0
        self._is_alone = False
        self._changed_s = -1_000
        self._advice: ScaleAdvice | None = None

    def run(self, seconds: int) -> Course:
        """Let so many seconds pass."""
        self._resize(-1_000)
        for now_s in range(seconds):
            self._arrive(now_s)
            self._work(now_s)
            for member in self._here(now_s):
                if now_s % REPORT_EVERY_S == member.phase_s:
                    self._report(member, now_s)
            if now_s % LOOK_EVERY_S == 0:
                self._look(now_s)
            assert self._advice is not None
            if now_s % Autoscaler.EVERY_S == self._scaler_phase_s:
                self._scaler.sync(now_s, self._advice.wanted)
                self._resize(now_s)
            self.course.replicas.append(self._scaler.replicas)
            self.course.wanted.append(self._advice.wanted)
            self.course.rest.append(self._rest)
        return self.course

    # ── The group ──

    def _here(self, now_s: int) -> list[_Member]:
        return [member for member in self._members if member.ready_s <= now_s]

    def _arrive(self, now_s: int) -> None:
        rate = self.rate(now_s)
        count = max(round(self.rng.gauss(rate, rate**0.5)), 0)
        self._end += count
        self._recent.append(count)
        self._hot += count * self.hot_share
        self._rest += count * (1 - self.hot_share)

    def _work(self, now_s: int) -> None:
        here = self._here(now_s)
        if any(member.ready_s == now_s for member in here):
            self._changed_s = now_s
        # A range that moves is drained first: for two seconds half of the workers wait.
        share = 0.5 if now_s < self._changed_s + 2 else 1.0
        workers = len(here) * self.workers * share
        hot = min(self._hot, self._pace) if workers >= 1 else 0.0
        rest = min(self._rest, max(workers - (1 if hot else 0), 0) * self._pace)
        self._hot -= hot
        self._rest -= rest
        self._is_alone |= self._hot > _SPLIT_AT
        if self._is_alone and self._hot < _JOINS_AT:
            self._is_alone = False
        for member in here:
            member.done += (hot + rest) / len(here)
            member.busy += (hot + rest) / self._pace / len(here) / self.workers

    def _resize(self, now_s: int) -> None:
        while len(self._members) < self._scaler.replicas:
            self._made += 1
            ready_s = now_s + self.rng.randint(2, 15)
            phase_s = self.rng.randrange(REPORT_EVERY_S)
            self._members.append(_Member(f"m{self._made}", ready_s, phase_s, since_s=ready_s))
        if len(self._members) > self._scaler.replicas:
            del self._members[self._scaler.replicas :]
            self._changed_s = now_s

    # ── What is seen of it ──

    @property
    def _beside(self) -> float:
        """Records of the hot key that wait among the others."""
        return 0.0 if self._is_alone else self._hot

    def _report(self, member: _Member, now_s: int) -> None:
        """Every 30 s, if something has changed by 5 %."""
        span_s = max(now_s - member.since_s, 1)
        arriving = sum(self._recent) / max(len(self._recent), 1)
        handler_us = round(1e6 / self._pace * self.rng.uniform(0.97, 1.03))
        part = (1 - self.hot_share) / len(self._here(now_s))  # of all keys but the hot one
        hot = self.hot_share if member is self._members[0] else 0.0
        share = round(1_000 * hot / (hot + part))
        made = LoadRecord(
            incarnation=1,
            at_ms=now_s * 1_000,
            workers=self.workers,
            busy=min(round(1_000 * member.busy / span_s), 1_000),
            handler_us=handler_us,
            finished=round(member.done / span_s),
            partitions=(
                PartitionLoad(
                    TOPIC_ID,
                    0,
                    weight=round(handler_us * 1e6 * (hot + part)),
                    pace=round(arriving + (self._rest + self._beside) / 60),
                ),
            ),
            heavy=(HeavyKey(TOPIC_ID, 0, 7, share, HOT),) if share else (),
        )
        member.done = member.busy = 0.0
        member.since_s = now_s
        if member.record is None or _differs(member.record, made):
            member.record = made

    def _look(self, now_s: int) -> None:
        here = self._here(now_s)
        records = {it.name: it.record for it in here if it.record is not None}
        load = load_of(records, [it.name for it in here], {ORDERS: TOPIC_ID})
        self._arrivals.note(now_s, {ORDERS: int(self._end)})
        rate, left = self._arrivals.rates()[ORDERS], round(self._rest + self._hot)
        if self._arrivals.span_s < SPAN_S:
            rate = max(rate, load.paces.get(ORDERS, 0) - left / 60)
        alone = round(self._hot) if self._is_alone else 0
        self._advice = advise(
            [PartitionNeed(ORDERS, left, rate, alone)],
            load,
            MembersNow(
                len(here),
                (self.workers,) * len(here),
                settled_s=float(now_s - self._changed_s),
                asked_for=None if self._advice is None else self._advice.wanted,
            ),
            ScaleRules(target_s=TARGET_S, workers=self.workers),
        )
        self.course.advices.append(self._advice)


def _differs(before: LoadRecord, after: LoadRecord) -> bool:
    numbers = [
        (before.busy, after.busy),
        (before.finished, after.finished),
        (before.handler_us, after.handler_us),
        (before.partitions[0].weight, after.partitions[0].weight),
        (before.partitions[0].pace, after.partitions[0].pace),
    ]
    return before.heavy != after.heavy or any(abs(a - b) > 0.05 * a for a, b in numbers)
