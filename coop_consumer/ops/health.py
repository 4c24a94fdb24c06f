"""Health: whether a member is alive, and whether it is ready, or else why not. Pure.

In: a `Health`, as `WorkerPool.health()` and `CooperativeConsumer.health()` make it. Out: verdicts
with their reasons as data. A member is alive while its own threads take steps. No broker is asked,
and a slow handler is no illness. A member is ready once all that it was assigned has begun, or if
it was rightly assigned nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

STEP_MAX_S = 10.0
"""A thread that takes no step for so long stands still. A healthy one takes one each second."""


class HealthPhase(StrEnum):
    """Where a member is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


class NotReady(StrEnum):
    """Why a member is not alive (`FROZEN`), or not ready; `UNKNOWN`: nobody says how it is."""

    FROZEN = "frozen"
    STARTING = "starting"
    RESTARTING = "restarting"
    JOINING = "joining"
    WAITS = "waits"
    DRAINING = "draining"
    NO_BROKER = "no_broker"
    CIRCUIT_OPEN = "circuit_open"
    STOPPED = "stopped"
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class WaitingFor:
    """Ranges of one partition that have not begun.

    Attributes:
        partition: As in `orders-3`.
        for_s: For how long they have waited.
        why: What they wait for, in words.
        members: Who has not released them; none if they do not wait for that.
    """

    partition: str
    for_s: float
    why: str
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Health:
    """How a member is at one moment.

    Attributes:
        group: The group's id.
        member: The member's name.
        phase: Where it is in its life.
        idle_s: For how long each of its threads has taken no step, by the thread's name. A thread
            that has nothing to do is not in it.
        is_member: It holds an assignment, be it an empty one.
        is_draining: It finishes what runs, commits and leaves.
        partitions: Of how many partitions it was assigned something.
        waits: What of that has not begun.
        silent_s: For how long no broker has answered, once that is an outage; None: it is none.
        circuit_open_s: For how long its circuit has been open; None: it is closed.
        stopped_at: The record by which the group stopped, as in `orders-1@43`; "": it did not.
        error: What ended it; "": nothing has, or it was asked to end.
    """

    group: str
    member: str
    phase: HealthPhase
    idle_s: Mapping[str, float] = field(default_factory=dict)
    is_member: bool = False
    is_draining: bool = False
    partitions: int = 0
    waits: Sequence[WaitingFor] = ()
    silent_s: float | None = None
    circuit_open_s: float | None = None
    stopped_at: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason of a verdict.

    Attributes:
        kind: Which one it is.
        text: The same for people.
        for_s: For how long that has been so; None: that is not known.
        subject: The thread, partition or record that it is about; "": it is about the member.
        members: Which other members it waits for.
    """

    kind: NotReady
    text: str
    for_s: float | None = None
    subject: str = ""
    members: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """As probes print it; what is not known is left out."""
        found: dict[str, object] = {"reason": self.kind.value, "text": self.text}
        if self.for_s is not None:
            found["for_s"] = round(self.for_s, 1)
        if self.subject:
            found["subject"] = self.subject
        if self.members:
            found["members"] = [*self.members]
        return found


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """An answer to a probe.

    Attributes:
        reasons: Why it is no; none: it is yes.
    """

    reasons: tuple[Reason, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the answer is yes."""
        return not self.reasons

    def __bool__(self) -> bool:
        return self.ok

    def as_json(self) -> dict[str, object]:
        """As `/livez` and `/readyz` answer, and as the file of `run --health-file` has it."""
        return {"ok": self.ok, "reasons": [reason.as_json() for reason in self.reasons]}


def live(health: Health) -> Diagnosis:
    """Whether each thread of a member has taken a step in the last 10 s.

    A member that has not begun, or has ended, has no threads that could stand still.

    >>> live(Health("billing", "m-1", HealthPhase.RUNNING, idle_s={"coop-member-billing": 0.4})).ok
    True
    """
    return Diagnosis(
        tuple(
            Reason(NotReady.FROZEN, f"{thread} stands still for {idle_s:.0f} s", idle_s, thread)
            for thread, idle_s in sorted(health.idle_s.items())
            if idle_s > STEP_MAX_S
        )
    )


def ready(health: Health) -> Diagnosis:
    """Whether a member works on all that it was assigned; what is frozen is not ready either.

    >>> ready(Health("billing", "m-1", HealthPhase.RUNNING, is_member=True)).ok
    True
    >>> ready(Health("billing", "m-1", HealthPhase.RUNNING)).reasons[0].text
    'joining the group'
    """
    return Diagnosis((*live(health).reasons, *_hindrances(health)))


def restarting(pause_s: float) -> Diagnosis:
    """The answer of a parent whose worker process has fallen, or has not begun."""
    when = f"is started in {pause_s:.0f} s" if pause_s >= 1 else "starts"
    return Diagnosis((Reason(NotReady.RESTARTING, f"the worker process {when}"),))


def _hindrances(health: Health) -> Iterator[Reason]:
    """What keeps a member from work, the most lasting first."""
    if health.stopped_at:
        text = f"stopped at {health.stopped_at}"
        yield Reason(NotReady.STOPPED, text, subject=health.stopped_at)
        return
    match health.phase:
        case HealthPhase.STARTING:
            yield Reason(NotReady.STARTING, "starting")
            return
        case HealthPhase.ENDED:
            yield Reason(NotReady.ENDED, f"ended: {health.error}" if health.error else "ended")
            return
        case HealthPhase.RUNNING:
            pass
    if health.silent_s is not None:
        told = f"no broker for {health.silent_s:.0f} s"
        yield Reason(NotReady.NO_BROKER, told, health.silent_s)
    if health.circuit_open_s is not None:
        told = f"circuit open for {health.circuit_open_s:.0f} s"
        yield Reason(NotReady.CIRCUIT_OPEN, told, health.circuit_open_s)
    if health.is_draining:
        yield Reason(NotReady.DRAINING, "draining")
    elif not health.is_member:
        yield Reason(NotReady.JOINING, "joining the group")
    else:
        yield from map(_wait, health.waits)


def _wait(it: WaitingFor) -> Reason:
    told = f"{it.partition}: waits {it.for_s:.0f} s for "
    if it.members:
        word = "member" if len(it.members) == 1 else "members"
        told = f"{told}{word} {', '.join(it.members)}: {it.why}"
    else:
        told = f"{it.partition}: for {it.for_s:.0f} s {it.why}"
    return Reason(NotReady.WAITS, told, it.for_s, it.partition, it.members)
