"""What a fault is: how the group is set up, and what befalls it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from tests.chaos.scene import Scene


class Fault(ABC):
    """One kind of trouble. To add one: a subclass in a file of this folder, and a line in FAULTS.

    Attributes:
        name: As the table calls it.
        nodes: How many brokers it needs; see `nodes_for`.
        ends_broker: Whether it ends a broker.
        quick: Whether it is part of `make test`.
        loses_progress: Whether progress is lost, so that what nobody tells again is repeated.
        soaks: Whether it is part of the soak: it strikes any group, and spares whom it must.
        at_least_once, exactly_once: Whether it strikes groups of this guarantee. Whoever loses the
            progress of exactly once has to stop, so there is nothing to be judged.
        executor: What runs handlers, see `WorkerPool`.
        hot: Whether more of one key comes than one worker does.
    """

    name: ClassVar[str]
    nodes: ClassVar[int] = 1
    ends_broker: ClassVar[bool] = False
    quick: ClassVar[bool] = False
    loses_progress: ClassVar[bool] = False
    soaks: ClassVar[bool] = False
    at_least_once: ClassVar[bool] = True
    exactly_once: ClassVar[bool] = True
    executor: ClassVar[str] = "thread"
    hot: ClassVar[bool] = False

    @classmethod
    def nodes_for(cls, *, once: bool) -> int:
        """How many brokers a run needs.

        Transactions need replicas. A broker that is alone and comes back sends markers before its
        partitions have leaders. It takes them for deleted, and counts the transaction as ended.
        What was committed may so be lost, though it was answered (Kafka 4.3.1).
        """
        return max(cls.nodes, 3) if once and cls.ends_broker else cls.nodes

    @classmethod
    def soaks_with(cls, *, once: bool) -> bool:
        """Whether it is part of the soak of a group of this guarantee, which has one broker."""
        fits = cls.exactly_once if once else cls.at_least_once
        return cls.soaks and fits and cls.nodes_for(once=once) == 1

    def muster(self, scene: Scene) -> None:
        """Start the group: three to five members."""
        for _ in range(scene.rng.randint(3, 5)):
            scene.start()

    @abstractmethod
    def strike(self, scene: Scene) -> None:
        """Do it, while the group is at work; what was stopped runs again when this returns."""
