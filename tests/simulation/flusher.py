"""The flusher of a simulated member: what its handlers buffered is durable later, or never.

In: calls that wait for a flush. Out: those calls, once a flush has ended that began after they
came. A crash loses what was buffered, and so does a flush that fails, which is the member's last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.shell import MemberShell
    from tests.simulation.world import World

Waiting = Callable[[bool], None]
"""Is told whether the flush went well."""


class SimFlusher:
    """Flushes what the handlers of one member have buffered.

    Attributes:
        failed: There is no further flush, and no further commit.
    """

    def __init__(self, world: World, shell: MemberShell) -> None:
        self._world = world
        self._shell = shell
        self._waiting: list[Waiting] = []
        self._under_way = False
        self.failed = False

    def after(self, call: Waiting) -> None:
        """Flush, then call; False: this flush, or one before it, has failed."""
        self._waiting.append(call)
        self._begin()

    def _begin(self) -> None:
        if self._under_way or not self._waiting:
            return
        self._under_way = True
        world, shell, calls, self._waiting = self._world, self._shell, self._waiting, []
        buffered = world.checker.buffers.buffered(shell)

        def end() -> None:
            self._under_way = False
            if world.scheduler.chance(world.weather.flush_fails):
                world.happened("failed flush")
                world.note(shell.title, "fails to flush")
                self.failed = True
            if not self.failed:
                world.checker.buffers.flushed(shell, buffered)
            for call in calls:
                call(not self.failed)
            self._begin()

        world.scheduler.after(
            world.scheduler.between(1, world.weather.flush_ms), lambda: shell.receive(end)
        )
