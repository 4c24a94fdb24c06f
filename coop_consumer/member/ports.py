"""What a member asks of the room `kafka`: a seat in a group, or what stands for it without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from coop_consumer.errors import CoopConsumerError
    from coop_consumer.kafka.membership import Offsets, OffsetsFound

    Told = Callable[[CoopConsumerError | None], None]


class GroupMembership(Protocol):
    """A membership by Kafka's classic group protocol, or none (`Alone`). Nothing here blocks."""

    def start(self) -> None:
        """Join."""

    def leave(self) -> None:
        """Leave; the one call that blocks."""

    def alive(self, now_ms: float) -> bool:
        """Whether the group surely counts on us yet, by the monotonic clock."""

    def answered(self) -> tuple[float | None, bool]:
        """When the coordinator answered last (monotonic seconds; None: never), and if it joins."""

    def request_rejoin(self) -> None:
        """Ask for another generation."""

    def look_at_topics(self) -> None:
        """Topics have changed: whoever leads looks at them anew."""

    def committed(self, partitions: Iterable[tuple[str, int]]) -> Future[OffsetsFound]:
        """Look up what the group has committed."""

    def confirm(self, generation: int, done: Told) -> None:
        """Ask whether we are a member in this generation; `done` hears None if so."""

    def commit(self, offsets: Offsets, generation: int, done: Told) -> None:
        """Commit offsets as a member of this generation; `done` hears None once they are."""
