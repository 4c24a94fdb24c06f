"""The flusher of a simulated member: the output of its handlers is durable later, or never.

In: calls that wait for a flush, with the results that they take along. Out: those calls, once a
flush that began after them has ended. Buffered output is durable if its effect went along. A crash
loses buffered output. So does a failed flush, which is the member's last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coop_consumer.core import effects

if TYPE_CHECKING:
    from coop_consumer.core.effects import Effect, Result
    from coop_consumer.core.record import Record
    from tests.simulation.checker.history import Execution
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World

Waiting = Callable[[bool], None]
"""Is told whether the flush went well."""


@dataclass(slots=True, eq=False)
class SimEffect:
    """What one attempt at a record leaves behind.

    Attributes:
        has_ended: Its handler has returned or raised.
        is_undone: Its attempt has failed or was abandoned, or its tenure is void.
        key: The key whose state it has put; None: none.
        chain: What it has put.
        is_committed: It is visible, with exactly once.
        together: All effects of its block, which are visible in one transaction; (): it has none.
    """

    world: World
    execution: Execution
    offset: int
    size: int = 10
    has_ended: bool = False
    is_undone: bool = False
    key: bytes | None = None
    chain: bytes = b""
    is_committed: bool = False
    together: Sequence[SimEffect] = ()

    def undo(self) -> None:
        """See `Effect`."""
        self.is_undone = True
        if self.world.exactly_once:
            self.world.checker.buffers.undone(self.execution, self.offset)


@dataclass(slots=True, eq=False)
class SimLetter:
    """A dead letter, which is all that its record leaves behind."""

    world: World
    shell: MemberShell
    record: Record
    size: int = 10

    def undo(self) -> None:
        """See `Effect`."""
        self.world.checker.buffers.letter_undone(self.record, self.shell)


def leave_letter(world: World, shell: MemberShell, record: Record, error: str) -> SimLetter:
    """Leave a dead letter for a record that a member gives up."""
    world.checker.handlers.leaves_letter(shell, record, error)
    return SimLetter(world, shell, record)


def leave_behind(world: World, execution: Execution, record: Record) -> SimEffect:
    """File an effect with a record whose handler is at work."""
    effect = SimEffect(world, execution, record.offset)
    is_filed = effects.file(record, effect)
    assert is_filed or record.tenure.is_void, f"I9: {record} is at work, its effect is refused"
    state = execution.shell.state
    if state is not None and record.key is not None:
        state.pass_on(effect, record)
    return effect


def check_over(record: Record) -> None:
    """Check that a record whose end was taken in is over: nobody would take a late effect."""
    is_taken = effects.file(record, effects.Output("late", None, None))
    assert not is_taken, f"I9: {record} is finished, and takes an effect that no commit will have"


def of_ended(gone: Iterable[Effect]) -> Iterator[SimEffect]:
    """These effects, checked: those of handlers that run, or that failed, must not go."""
    for effect in (it for it in gone if isinstance(it, SimEffect)):
        assert effect.has_ended, f"I9: what offset {effect.offset} leaves behind goes too early"
        assert not effect.is_undone, f"I9: what a failed attempt at {effect.offset} left goes"
        yield effect


class SimFlusher:
    """Flushes what the handlers of one member have buffered.

    Attributes:
        failed: There is no further flush, and no further commit.
    """

    def __init__(self, world: World, shell: MemberShell) -> None:
        self._world = world
        self._shell = shell
        self._waiting: list[tuple[Sequence[Result], Waiting]] = []
        self._under_way = False
        self.failed = False

    def after(self, results: Sequence[Result], call: Waiting) -> None:
        """Flush, then call; False: this flush, or one before it, has failed."""
        self._waiting.append((results, call))
        self._begin()

    def _begin(self) -> None:
        if self._under_way or not self._waiting:
            return
        self._under_way = True
        world, shell, calls, self._waiting = self._world, self._shell, self._waiting, []
        gone_along = {
            (id(it.execution.history), it.offset)
            for it in of_ended(
                effect for results, _ in calls for result in results for effect in result.effects
            )
        }
        buffered = [
            (history, offset)
            for history, offset in world.checker.buffers.buffered(shell)
            if (id(history), offset) in gone_along
        ]

        def end() -> None:
            self._under_way = False
            if world.scheduler.chance(world.weather.flush_fails):
                world.happened("failed flush")
                world.note(shell.title, "fails to flush")
                self.failed = True
            if not self.failed:
                world.checker.buffers.flushed(shell, buffered)
            for _, call in calls:
                call(not self.failed)
            self._begin()

        world.scheduler.after(
            world.scheduler.between(1, world.weather.flush_ms), lambda: shell.receive(end)
        )
